//! The format of disks: what is written is read back, and what has changed since is refused.

use cards_layout::format::{
    COLUMNS, Column, ColumnPage, DEVICE_MAX, DEVICE_MIN, Owner, PIECES, PageError, PageId, Piece, PiecePage,
    RegionMap, RegionPage, SUMS, Sizes, Slot, Sum, SumPage, Superblock, SuperblockError, UNIT, Uuid, newest,
};
use proptest::prelude::*;

use crate::drive;

const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

fn superblock(sequence: u64) -> Superblock {
    Superblock {
        sequence,
        disk: Uuid::random(*b"0123456789abcdef"),
        cluster: Uuid::random(*b"fedcba9876543210"),
        cluster_name: Some("demo".parse().unwrap()),
        sizes: Sizes::choose(64 << 20).unwrap(),
        closed: true,
        journal_disk: None,
        boot: Uuid::default(),
        opened_us: 0,
        node: Some("n1".parse().unwrap()),
        domain: Some("rack3/n1".parse().unwrap()),
        name: "fast1".parse().unwrap(),
    }
}

const ID: PageId = PageId { disk: 0x0123_4567_89ab_cdef, number: 3 };

fn owner(index: u32) -> Owner {
    Owner { volume: 0xfeed, group: 513, column: 4, index, epoch: 99, filling: index % 2 == 1 }
}

fn piece_page() -> PiecePage {
    let entry = |i: usize| match i % 4 {
        0 => Piece::Free,
        1 => Piece::Retired,
        _ => Piece::Owned(owner(i as u32)),
    };
    PiecePage { sequence: 8, entries: (0..PIECES).map(entry).collect() }
}

fn column_page() -> ColumnPage {
    let column = |i: usize| Column {
        volume: Uuid::random([0xfe; 16]),
        name: format!("v{i}").parse().unwrap(),
        bytes: 5 << 20,
        group: i as u16,
        column: 2,
        forced: i.is_multiple_of(5),
        mirrored: i % 3 == 1,
        lossy: i % 3 == 1 && i.is_multiple_of(2),
        generation: 1,
        sealed_epoch: 7,
        in_sync_epoch: 6,
        applied_through: 5,
        filled_rows: 4,
        scrub_row: u64::MAX,
        life: 8,
    };
    ColumnPage { sequence: 7, entries: (0..COLUMNS).map(|i| (i % 3 != 0).then(|| column(i))).collect() }
}

#[test]
fn sizes_grow_with_the_device() {
    let mut before = Sizes::choose(DEVICE_MIN).unwrap();
    for shift in 26..47 {
        for device in [1 << shift, (1 << shift) + (1 << (shift - 1)) + 12_345] {
            let sizes = Sizes::choose(device).unwrap();
            assert_eq!(sizes.check(), Ok(()));
            assert!(sizes.space() > before.space());
            // Three percent of a disk above a gigabyte are the most that is not data.
            assert!(device < GIB || sizes.space() as f64 > device as f64 * 0.97, "{device}: {sizes:?}");
            let last = sizes.data_at(sizes.pieces - 1) + sizes.piece();
            assert!(last <= device && device - last < 2 * sizes.piece() + (1 << 20), "{device}: {sizes:?}");
            before = sizes;
        }
    }
}

#[test]
fn sizes_are_those_of_the_page() {
    let shifts = |device| {
        let sizes = Sizes::choose(device).unwrap();
        (sizes.piece_shift, sizes.region_shift, sizes.areas.journal_bytes)
    };
    assert_eq!(shifts(64 << 20), (20, 20, 16 << 20));
    assert_eq!(shifts(1_000_000_000_000), (26, 21, GIB));
    assert_eq!(shifts(16 * TIB), (30, 25, GIB));
    assert_eq!(shifts(24_000_000_000_000), (31, 26, GIB));
    assert_eq!(shifts(DEVICE_MAX), (33, 28, GIB));
    for (device, says) in [(DEVICE_MIN - 1, "too little"), (DEVICE_MAX + 1, "too much"), (0, "too little")] {
        let error = Sizes::choose(device).unwrap_err().to_string();
        assert!(error.contains(says) && error.ends_with("it has 32 MiB to 128 TiB"), "{error}");
    }
}

/// Areas that are told apart by all who write them: no two pages at one place.
#[test]
fn no_two_pages_share_a_place() {
    for device in [DEVICE_MIN, GIB, 3 * TIB + 4096] {
        let sizes = Sizes::choose(device).unwrap();
        let mut places: Vec<u64> = vec![0, 65536];
        for slot in Slot::BOTH {
            places.extend((0..sizes.piece_pages()).map(|page| sizes.piece_page_at(page, slot)));
            places.extend((0..sizes.column_pages()).map(|page| sizes.column_page_at(page, slot)));
            for map in RegionMap::BOTH {
                places.extend((0..sizes.region_pages()).map(|page| sizes.region_page_at(map, page, slot)));
            }
        }
        places.extend([sizes.areas.journal, sizes.areas.first_piece]);
        places.extend([0, 1].map(|piece| sizes.data_at(piece)));
        places.push(sizes.sums_at(1));
        places.sort_unstable();
        assert!(places.windows(2).all(|pair| pair[0] + UNIT as u64 <= pair[1]), "{device}");
        assert_eq!(sizes.sums_at(1) - sizes.data_at(0), sizes.piece());
    }
}

#[test]
fn a_superblock_is_read_back() {
    for sequence in [1, 2, u64::MAX] {
        for journal_disk in [None, Some(Uuid::random([7; 16]))] {
            let mut written = Superblock { journal_disk, ..superblock(sequence) };
            if journal_disk.is_some() {
                written.sizes.areas.journal_bytes = 0;
            }
            assert_eq!(Superblock::decode(&written.encode(), Slot::of(sequence)), Ok(written));
        }
    }
    let bare = Superblock { node: None, domain: None, cluster_name: None, closed: false, ..superblock(2) };
    assert_eq!(Superblock::decode(&bare.encode(), Slot::B), Ok(bare));
    let longest = Superblock { name: "x".repeat(64).parse().unwrap(), ..superblock(2) };
    assert_eq!(Superblock::decode(&longest.encode(), Slot::B), Ok(longest));
}

/// Every single bit of a page, one after another.
fn each_bit(page: &[u8; UNIT]) -> impl Iterator<Item = (usize, [u8; UNIT])> + '_ {
    (0..UNIT * 8).map(|bit| {
        let mut flipped = *page;
        flipped[bit / 8] ^= 1 << (bit % 8);
        (bit, flipped)
    })
}

#[test]
fn every_flipped_bit_of_a_superblock_is_refused_and_the_other_slot_serves() {
    let (a, b) = (superblock(3), superblock(2));
    for (bit, flipped) in each_bit(&a.encode()) {
        let decoded = Superblock::decode(&flipped, Slot::A);
        assert!(decoded.is_err(), "bit {bit}");
        let chosen = newest(decoded, Superblock::decode(&b.encode(), Slot::B)).unwrap();
        assert_eq!((chosen.slot, &chosen.value), (Slot::B, &b));
        assert!(chosen.damage.is_some());
    }
}

#[test]
fn every_flipped_bit_of_a_page_is_refused() {
    let (pieces, columns) = (piece_page(), column_page());
    let mut regions = RegionPage::clear(4);
    regions.set(77, true);
    for (bit, page) in each_bit(&pieces.encode(ID)) {
        assert!(PiecePage::decode(&page, ID, Slot::B, PIECES).is_err(), "piece table, bit {bit}");
    }
    for (bit, page) in each_bit(&columns.encode(ID)) {
        assert!(ColumnPage::decode(&page, ID, Slot::A).is_err(), "column table, bit {bit}");
    }
    for (bit, page) in each_bit(&regions.encode(RegionMap::Missed, ID)) {
        assert!(
            RegionPage::decode(&page, RegionMap::Missed, ID, Slot::B, 1000).is_err(),
            "regions, bit {bit}"
        );
    }
    for (bit, page) in each_bit(&SumPage::never_written().encode(1, 2)) {
        assert!(SumPage::decode(&page, 1, 2).is_err(), "checksums, bit {bit}");
    }
}

#[test]
fn the_newer_of_two_slots_is_chosen() {
    let read = |sequence| Superblock::decode(&superblock(sequence).encode(), Slot::of(sequence));
    let newer = |a, b| newest(read(a), read(b)).map(|chosen| (chosen.slot, chosen.value.sequence)).unwrap();
    assert_eq!(newer(3, 2), (Slot::A, 3));
    assert_eq!(newer(3, 4), (Slot::B, 4));
    let none = || Superblock::decode(&[0; UNIT], Slot::A);
    assert_eq!(newest(none(), none()), Err([SuperblockError::Magic([0; 8]), SuperblockError::Magic([0; 8])]));
}

#[test]
fn a_page_at_a_wrong_place_is_refused() {
    let page = superblock(3).encode();
    let error = Superblock::decode(&page, Slot::B).unwrap_err();
    assert_eq!(error.to_string(), "number 3 is in slot B and belongs in slot A");
    let page = piece_page().encode(ID);
    let place = |id, slot| PiecePage::decode(&page, id, slot, PIECES).unwrap_err();
    assert_eq!(place(ID, Slot::A), PageError::Place { number: 3, sequence: 8 });
    assert_eq!(place(PageId { number: 4, ..ID }, Slot::B), PageError::Place { number: 3, sequence: 8 });
    let stranger = place(PageId { disk: 1, ..ID }, Slot::B);
    assert_eq!(stranger.to_string(), "it is of another disk, whose UUID begins with efcdab8967452301");
    let dirty = RegionPage::clear(2).encode(RegionMap::Dirty, ID);
    assert_eq!(
        RegionPage::decode(&dirty, RegionMap::Missed, ID, Slot::B, 8),
        Err(PageError::Place { number: 3, sequence: 2 })
    );
    let sums = SumPage::never_written().encode(1, 2);
    assert_eq!(SumPage::decode(&sums, 1, 3), Err(PageError::Place { number: 2, sequence: 0 }));
}

/// Bytes with a right checksum that say what cannot be, or what only a later version knows.
#[test]
fn only_copies_have_lost_something() {
    // The second entry is used.
    let at = 32 + 256 + 11;
    let page = column_page().encode(ID);
    assert_eq!(page[at], 1 | 4);
    for (flags, is_possible) in [(1, true), (1 | 4 | 8, true), (1 | 8, false), (4, false), (1 | 16, false)] {
        let mut page = page;
        page[at] = flags;
        let decoded = ColumnPage::decode(&drive::resealed(page, 4), ID, Slot::A);
        let refused = Err(PageError::Value { what: "the flags", entry: 1, value: flags.into() });
        assert!(if is_possible { decoded.is_ok() } else { decoded == refused }, "{flags}");
    }
}

#[test]
fn impossible_values_are_refused_by_name() {
    let good = superblock(1).encode();
    let with = |at: usize, value: &[u8]| {
        let mut page = good;
        page[at..at + value.len()].copy_from_slice(value);
        Superblock::decode(&drive::resealed(page, 12), Slot::A).unwrap_err().to_string()
    };
    assert_eq!(
        with(8, &[3]),
        "it is of format version 3, and this program knows version 2; use a newer program"
    );
    assert_eq!(
        with(8, &[1]),
        "it is of format version 1, in which no volume could be made, and this program knows version 2; format it again"
    );
    assert_eq!(with(16, &[0; 8]), "number 0 is in slot A and belongs in slot B");
    assert_eq!(with(24, &[0; 16]), "the UUID of the disk is nil");
    assert_eq!(with(64, &[19]), "the piece shift is 19, and can be 20 to 33");
    assert_eq!(with(64, &[64]), "the piece shift is 64, and can be 20 to 33");
    assert_eq!(with(65, &[21]), "the region shift is 21, and can be 20 to 20");
    assert_eq!(with(66, &[8]), "flags 0x0008 are not known; use a newer program");
    assert_eq!(with(66, &[4]), "it does not say consistently where the journal is");
    assert_eq!(with(68, &[0; 4]), "the number of pieces is 0, and can be 1 to 16384");
    assert_eq!(with(68, &[0xff; 4]), "the number of pieces is 4294967295, and can be 1 to 16384");
    assert_eq!(with(68, &[63, 0, 0, 0]), "its pieces end behind the device of 64 MiB");
    assert_eq!(
        with(72, &[1]),
        "the piece table begins at 1048577, which is no multiple of 4096, or before 1048576"
    );
    assert_eq!(
        with(112, &[0xff; 8]),
        "the first piece begins at 18446744073709551615, which is no multiple of 4096, or before 18874368"
    );
    assert_eq!(
        with(112, &[0, 0xf0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
        "its pieces end behind the device of 64 MiB"
    );
    assert_eq!(
        with(160, b"n 1"),
        "the name of the node is \"n 1\\\\x00".to_owned() + &"\\\\x00".repeat(60) + "\", which it cannot be"
    );
    assert!(with(224, b"rack\0/n1").starts_with("the failure domain is"));
    assert!(with(288, &[0; 64]).starts_with("the name of the disk is \"\""));
    assert!(with(352, b"de mo").starts_with("the name of the cluster is"));
    assert_eq!(with(416, &[1]), "byte 416 is not zero");
    assert_eq!(with(4095, &[1]), "byte 4095 is not zero");

    let page = PiecePage { sequence: 1, entries: vec![Piece::Free] }.encode(ID);
    let pieces = |at: usize, value: u8, entries| {
        let mut page = page;
        page[at] = value;
        PiecePage::decode(&drive::resealed(page, 4), ID, Slot::A, entries).unwrap_err().to_string()
    };
    assert_eq!(pieces(32 + 11, 4, 1), "the state of entry 0 is 0x4, which this program does not know");
    assert_eq!(pieces(32 + 11, 1, 1), "the volume of entry 0 is 0x0, which this program does not know");
    assert_eq!(pieces(32, 1, 1), "byte 32 is not zero");
    assert_eq!(pieces(64 + 11, 3, 1), "byte 75 is not zero");

    let mut sums = SumPage::never_written().encode(1, 2);
    sums[64..68].copy_from_slice(&0xffff_fffd_u32.to_le_bytes());
    let error = SumPage::decode(&drive::resealed(sums, 4), 1, 2).unwrap_err().to_string();
    assert_eq!(error, "the checksum of entry 0 is 0xfffffffd, which this program does not know");
}

#[test]
fn tables_are_read_back() {
    let page = piece_page();
    assert_eq!(PiecePage::decode(&page.encode(ID), ID, Slot::B, PIECES), Ok(page));
    let page = column_page();
    assert_eq!(ColumnPage::decode(&page.encode(ID), ID, Slot::A), Ok(page));
    let mut page = RegionPage::clear(5);
    for at in [0, 7, 8, 32_511] {
        page.set(at, true);
    }
    page.set(7, false);
    assert_eq!((page.get(8), page.get(7), page.count()), (true, false, 3));
    assert_eq!(
        RegionPage::decode(&page.encode(RegionMap::Dirty, ID), RegionMap::Dirty, ID, Slot::A, 32_512),
        Ok(page)
    );
    assert_eq!(
        (PiecePage::entries(0, 130), PiecePage::entries(1, 130), PiecePage::entries(2, 130)),
        (127, 3, 0)
    );
    assert_eq!([0, 1, 2].map(|page| RegionPage::regions(page, 32_513)), [32_512, 1, 0]);
}

#[test]
fn the_largest_checksums_share_a_value() {
    assert_eq!(Sum::of_crc(5), Sum::Of(5));
    for crc in 0xffff_fffc..=u32::MAX {
        assert_eq!(Sum::of_crc(crc), Sum::Of(0xffff_fffc));
    }
    let mut page = SumPage::never_written();
    (page.sums[SUMS - 2], page.sums[SUMS - 1]) = (Sum::Lost, Sum::of_crc(u32::MAX));
    assert_eq!(SumPage::decode(&page.encode(9, 8), 9, 8), Ok(page));
}

proptest! {
    #[test]
    fn any_bytes_give_a_value_or_a_refusal(bytes in prop::collection::vec(any::<u8>(), 0..UNIT + 9), magic in 0..6usize) {
        let begin = [&b"CARDSDSK\x01\0\0\0"[..], b"CPTB", b"CCTB", b"CDRL", b"CSUM", b""][magic];
        let bytes = [begin, &bytes].concat();
        drive::fuzz_superblock(&bytes);
        drive::fuzz_tables(&bytes);
    }

    /// Bytes that are nearly right: a few are changed, and the checksum fits.
    #[test]
    fn nearly_right_bytes_give_a_value_or_a_refusal(
        which in 0..5usize, changes in prop::collection::vec((prop_oneof![0..400usize, 0..UNIT], any::<u8>()), 0..4),
    ) {
        let mut regions = RegionPage::clear(9);
        regions.set(3, true);
        let mut page = [
            superblock(1).encode(), piece_page().encode(ID), column_page().encode(ID), regions.encode(RegionMap::Dirty, ID),
            SumPage::never_written().encode(1, 2),
        ][which];
        for (at, value) in changes {
            page[at] = value;
        }
        drive::fuzz_superblock(&page);
        drive::fuzz_tables(&page);
    }
}
