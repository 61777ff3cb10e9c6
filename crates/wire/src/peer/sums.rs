//! Checksums of frames (CRC-32C): of a header, and of each 4 KiB of what follows it.

use super::versions::SUMS;
use super::{FrameError, HEADER_SIZE, MAGIC};

/// Bytes under one checksum.
const SUMMED: usize = 4096;

/// Bytes of a checksum.
pub(super) const SUM_SIZE: usize = 4;

/// The checksum of `bytes`, as it is sent.
pub(super) fn sum(bytes: &[u8]) -> [u8; SUM_SIZE] {
    crc_fast::crc32_iscsi(bytes).to_le_bytes()
}

/// Bytes of the checksums behind a payload or body of `length` bytes, in that version; none before version 12.
pub const fn sums_size(version: u8, length: usize) -> usize {
    if version >= SUMS { length.div_ceil(SUMMED) * SUM_SIZE } else { 0 }
}

/// The checksums of a payload in that version, [`sums_size`] bytes: of each 4 KiB, and of the rest.
pub fn sums(version: u8, payload: &[u8]) -> impl Iterator<Item = [u8; SUM_SIZE]> {
    let summed = if version >= SUMS { payload } else { &[] };
    summed.chunks(SUMMED).map(sum)
}

/// Whether a payload or body is as it was sent, as far as that version lets one know; `theirs` are its checksums.
pub fn is_intact(version: u8, payload: &[u8], theirs: &[u8]) -> bool {
    version < SUMS || sums(version, payload).eq(theirs.chunks(SUM_SIZE))
}

/// Makes a header and its body a frame of that version: with its number, and since version 12 with the checksum of the header,
/// in the place of the magic, and those of the body, behind it.
pub fn seal(frame: &mut Vec<u8>, version: u8) {
    let end = frame.len();
    let Some((header, _)) = frame.split_first_chunk_mut() else { return };
    seal_header(header, version);
    if version >= SUMS {
        for at in (HEADER_SIZE..end).step_by(SUMMED) {
            let sum = sum(&frame[at..end.min(at + SUMMED)]);
            frame.extend_from_slice(&sum);
        }
    }
}

/// Makes a header one of that version.
pub(super) fn seal_header(header: &mut [u8; HEADER_SIZE], version: u8) {
    let (start, rest) = header.split_at_mut(SUM_SIZE);
    rest[0] = version;
    start.copy_from_slice(&if version >= SUMS { sum(rest) } else { MAGIC });
}

/// Refuses a header that is not as it was sent on a connection of that version.
pub(super) fn check_header(header: &[u8; HEADER_SIZE], version: u8) -> Result<(), FrameError> {
    let [s0, s1, s2, s3, rest @ ..] = header;
    let start = [*s0, *s1, *s2, *s3];
    if version >= SUMS && start != sum(rest) {
        return Err(FrameError::Checksum("header"));
    }
    match rest[0] {
        theirs if theirs != version => Err(FrameError::Version { theirs, who: None }),
        _ if version < SUMS && start != MAGIC => Err(FrameError::Magic(start)),
        _ => Ok(()),
    }
}
