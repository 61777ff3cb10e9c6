//! Numbers at their places in a page.

use super::UNIT;

/// Reads `N` bytes at `at`.
pub(super) fn bytes<const N: usize>(page: &[u8], at: usize) -> [u8; N] {
    *page[at..].first_chunk().expect("fields are inside of their page")
}

pub(super) fn u16(page: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes(page, at))
}

pub(super) fn u32(page: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes(page, at))
}

pub(super) fn u64(page: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes(page, at))
}

/// Writes `value` at `at`.
pub(super) fn put(page: &mut [u8], at: usize, value: &[u8]) {
    page[at..at + value.len()].copy_from_slice(value);
}

/// The CRC-32C of a page with the four bytes at `at` zero.
pub(super) fn crc(page: &[u8; UNIT], at: usize) -> u32 {
    super::crc32c(&[&page[..at], &[0; 4], &page[at + 4..]])
}

/// Where the first byte is that should be zero and is not.
pub(super) fn not_zero(page: &[u8], from: usize) -> Option<usize> {
    page[from..].iter().position(|byte| *byte != 0).map(|at| from + at)
}
