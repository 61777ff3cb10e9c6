//! The test disk: content that is random, differs in every sector, and can be checked anywhere.
//!
//! Random bytes defeat compression and zero detection. The number of the sector in its first bytes
//! makes every sector unique, so that a server that returns the right kind of data from the wrong
//! place is caught, at the price of one `memcpy` per sector when writing.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::OnceLock;

use crate::rng::Rng;
use crate::{Error, interrupt};

/// The unit of content, in bytes.
pub const SECTOR: usize = 4096;

/// Different sector bodies; a power of two, small enough to stay in the processor's cache.
const BODIES: usize = 64;

fn bodies() -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    BYTES.get_or_init(|| {
        let mut rng = Rng::new(0x0063_6172_6473);
        (0..BODIES * SECTOR / 8).flat_map(|_| rng.next_u64().to_le_bytes()).collect()
    })
}

fn body(sector: u64) -> &'static [u8] {
    let start = (sector as usize % BODIES) * SECTOR;
    &bodies()[start..start + SECTOR]
}

/// Appends the content of `len` bytes at `offset`; both must be multiples of [`SECTOR`].
pub fn append(out: &mut Vec<u8>, offset: u64, len: usize) {
    for index in 0..(len / SECTOR) as u64 {
        let sector = offset / SECTOR as u64 + index;
        out.extend_from_slice(&sector.to_le_bytes());
        out.extend_from_slice(&body(sector)[8..]);
    }
}

/// Whether `bytes`, found at `offset` of the disk, are what belongs there. Any alignment.
pub fn matches(offset: u64, bytes: &[u8]) -> bool {
    let mut offset = offset;
    let mut rest = bytes;
    while !rest.is_empty() {
        let sector = offset / SECTOR as u64;
        let at = (offset % SECTOR as u64) as usize;
        let (here, tail) = rest.split_at(rest.len().min(SECTOR - at));
        let number = sector.to_le_bytes();
        let in_number = 8usize.saturating_sub(at).min(here.len());
        let (stamp, random) = here.split_at(in_number);
        if *stamp != number[at.min(8)..at.min(8) + in_number]
            || *random != body(sector)[at + in_number..at + here.len()]
        {
            return false;
        }
        offset += here.len() as u64;
        rest = tail;
    }
    true
}

/// Creates `path` with `size` bytes of content through 4 KiB writes.
///
/// Small writes on purpose: they give the page cache small folios. With large folios a 4 KiB write into
/// the page cache costs several times more, which would measure the kernel and not the servers.
pub fn create_image(path: &Path, size: u64) -> Result<(), Error> {
    let doing = || format!("writing the test disk {}", path.display());
    let file = File::create(path).map_err(Error::io(doing()))?;
    let mut sector = Vec::with_capacity(SECTOR);
    for offset in (0..size).step_by(SECTOR) {
        sector.clear();
        append(&mut sector, offset, SECTOR);
        file.write_all_at(&sector, offset).map_err(Error::io(doing()))?;
        if offset % (64 << 20) == 0 {
            interrupt::check()?;
        }
    }
    file.sync_all().map_err(Error::io(doing()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_matches_at_any_alignment() {
        let mut disk = Vec::new();
        append(&mut disk, 0, 8 * SECTOR);
        for (from, to) in [(0, 8 * SECTOR), (1, 2), (3, 4099), (4096, 4097), (4100, 12_000), (4104, 4105)] {
            assert!(matches(from as u64, &disk[from..to]), "{from}..{to}");
        }
        assert!(!matches(4096, &disk[..4096]), "another sector's bytes must not match");
        for flip in [0, 7, 8, 4095, 5000] {
            disk[flip] ^= 1;
            assert!(!matches(0, &disk), "flipped byte {flip}");
            disk[flip] ^= 1;
        }
    }

    #[test]
    fn the_image_holds_the_content() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk");
        create_image(&path, 300 << 10).unwrap();
        let bytes = std::fs::read(path).unwrap();
        assert_eq!(bytes.len(), 300 << 10);
        assert!(matches(0, &bytes));
    }
}
