//! Feeds bytes to each decoder. Used by the tests and by the fuzz targets in `fuzz/`.

use cards_layout::format::{
    COLUMNS, ColumnPage, PIECES, PageError, PageId, PiecePage, REGIONS, RegionMap, RegionPage, Slot, SumPage,
    Superblock, SuperblockError, UNIT, crc32c,
};

/// A page that begins with `bytes` and ends with zeroes.
fn page(bytes: &[u8]) -> [u8; UNIT] {
    let mut page = [0; UNIT];
    let length = bytes.len().min(UNIT);
    page[..length].copy_from_slice(&bytes[..length]);
    page
}

/// The same page with the right checksum at `at`, so that what is behind it is looked at too.
pub(crate) fn resealed(mut page: [u8; UNIT], at: usize) -> [u8; UNIT] {
    let crc = crc32c(&[&page[..at], &[0; 4], &page[at + 4..]]);
    page[at..at + 4].copy_from_slice(&crc.to_le_bytes());
    page
}

/// A superblock: refused, or encoded to the same bytes, and possible.
pub(crate) fn fuzz_superblock(bytes: &[u8]) {
    let page = page(bytes);
    for page in [page, resealed(page, 12)] {
        for slot in Slot::BOTH {
            match Superblock::decode(&page, slot) {
                Ok(superblock) => {
                    assert_eq!(superblock.encode(), page);
                    assert_eq!(superblock.sizes.check(), Ok(()));
                    assert_eq!(Slot::of(superblock.sequence), slot);
                }
                Err(error) => assert_refusal::<SuperblockError>(&error),
            }
        }
    }
}

/// The pages of tables: refused, or encoded to the same bytes.
pub(crate) fn fuzz_tables(bytes: &[u8]) {
    let page = page(bytes);
    for page in [page, resealed(page, 4)] {
        let number = |at: usize| u32::from_le_bytes(*page[at..].first_chunk().unwrap());
        let disk = u64::from(number(24)) | u64::from(number(28)) << 32;
        // That the header is what it says it is costs a fuzzer nothing to find out.
        let id = PageId { disk, number: number(8) };
        let entries = usize::from(page[16]);
        for slot in Slot::BOTH {
            check(PiecePage::decode(&page, id, slot, entries), &page, |decoded| {
                assert_eq!(decoded.entries.len(), entries.min(PIECES));
                decoded.encode(id)
            });
            check(ColumnPage::decode(&page, id, slot), &page, |decoded| {
                assert_eq!(decoded.entries.len(), COLUMNS);
                decoded.encode(id)
            });
            for map in RegionMap::BOTH {
                let regions = entries * 128;
                check(RegionPage::decode(&page, map, id, slot, regions), &page, |decoded| {
                    assert!(decoded.count() as usize <= regions.min(REGIONS));
                    decoded.encode(map, id)
                });
            }
        }
        let disk = u64::from_le_bytes(*page[8..].first_chunk().unwrap());
        let number = u64::from_le_bytes(*page[16..].first_chunk().unwrap());
        check(SumPage::decode(&page, disk, number), &page, |decoded| decoded.encode(disk, number));
    }
}

fn check<T>(decoded: Result<T, PageError>, page: &[u8; UNIT], encode: impl Fn(&T) -> [u8; UNIT]) {
    match decoded {
        Ok(value) => assert_eq!(encode(&value), *page),
        Err(error) => assert_refusal(&error),
    }
}

/// A refusal has words.
fn assert_refusal<E: std::error::Error>(error: &E) {
    assert!(error.to_string().len() > 5);
}
