//! Content that knows where it belongs: each 512-byte sector starts with its own offset and the seed, and the
//! rest follows from the two. A lost, torn, misdirected or damaged sector is told apart from what was expected.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

pub(crate) const SECTOR: usize = 512;

/// Fills `buffer` with the content of seed `seed` from byte `offset` on; both whole sectors.
pub(crate) fn fill(buffer: &mut [u8], offset: u64, seed: u64) {
    assert!(offset.is_multiple_of(SECTOR as u64) && buffer.len().is_multiple_of(SECTOR));
    for (sector, at) in buffer.chunks_exact_mut(SECTOR).zip((offset..).step_by(SECTOR)) {
        let mut random = Random(at ^ seed.rotate_left(32));
        for (index, word) in sector.chunks_exact_mut(8).enumerate() {
            let value = match index {
                0 => at,
                1 => seed,
                _ => random.next(),
            };
            word.copy_from_slice(&value.to_le_bytes());
        }
    }
}

/// `length` bytes of content from `offset` on.
pub(crate) fn bytes(offset: u64, length: usize, seed: u64) -> Vec<u8> {
    let mut buffer = vec![0; length];
    fill(&mut buffer, offset, seed);
    buffer
}

/// Panics with what is wrong with the first bad sector.
#[track_caller]
pub(crate) fn check(found: &[u8], offset: u64, seed: u64) {
    let expected = bytes(offset, found.len(), seed);
    let sectors = found.chunks_exact(SECTOR).zip(expected.chunks_exact(SECTOR));
    for ((found, expected), at) in sectors.zip((offset..).step_by(SECTOR)) {
        if found != expected {
            let word = |i: usize| u64::from_le_bytes(found[i * 8..i * 8 + 8].try_into().unwrap());
            let (there, of) = (word(0), word(1));
            panic!("sector at {at} of seed {seed} is wrong; it claims to be {there} of seed {of}");
        }
    }
}

/// Writes an image file of `size` bytes.
pub(crate) fn image(path: &Path, size: u64, seed: u64) {
    const CHUNK: usize = 1 << 20;
    let mut file = BufWriter::new(File::create(path).expect("an image file"));
    for offset in (0..size).step_by(CHUNK) {
        let length = (size - offset).min(CHUNK as u64) as usize;
        file.write_all(&bytes(offset, length, seed)).expect("room for an image");
    }
    file.flush().expect("room for an image");
}

/// splitmix64: small, and the same everywhere.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}
