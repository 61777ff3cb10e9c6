//! Replies: headers only, so that the data itself goes out from where it lies.
//!
//! A header is a small array or is written into the caller's buffer; nothing allocates. The bytes a header
//! announces must follow it on the stream.

use super::consts::*;
use super::{Errno, MAX_STRING};
use crate::bytes::clip;

/// Bytes of a simple reply.
pub const SIMPLE_SIZE: usize = 16;
/// Bytes of the header that starts every chunk.
pub const CHUNK_SIZE: usize = 20;
/// Bytes of a data chunk before its data.
pub const DATA_SIZE: usize = CHUNK_SIZE + 8;
/// Bytes of a hole chunk.
pub const HOLE_SIZE: usize = CHUNK_SIZE + 12;
/// Bytes of an extents chunk before its extents.
pub const EXTENTS_SIZE: usize = CHUNK_SIZE + 4;
/// Bytes of one extent.
pub const EXTENT_SIZE: usize = 8;
/// Bytes of an error chunk without its message; with an offset, 8 more.
pub const ERROR_SIZE: usize = CHUNK_SIZE + 6;

/// A simple reply: `Ok` (for a READ, its data follows) or an error (nothing follows).
#[inline]
pub fn simple(cookie: u64, result: Result<(), Errno>) -> [u8; SIMPLE_SIZE] {
    let error = result.map_or_else(Errno::code, |()| 0);
    let mut out = [0; SIMPLE_SIZE];
    out[0..4].copy_from_slice(&NBD_SIMPLE_REPLY_MAGIC.to_be_bytes());
    out[4..8].copy_from_slice(&error.to_be_bytes());
    out[8..16].copy_from_slice(&cookie.to_be_bytes());
    out
}

/// A last chunk without content: the request succeeded, unless an error chunk came before.
#[inline]
pub fn none(cookie: u64) -> [u8; CHUNK_SIZE] {
    chunk(cookie, NBD_REPLY_FLAG_DONE, NBD_REPLY_TYPE_NONE, 0)
}

/// A data chunk: `length` bytes (1 to [`MAX_PAYLOAD`](super::MAX_PAYLOAD)), which follow, at `offset` of the
/// export. `last` ends the reply.
#[inline]
pub fn offset_data(cookie: u64, offset: u64, length: u32, last: bool) -> [u8; DATA_SIZE] {
    debug_assert!((1..=super::MAX_PAYLOAD).contains(&length), "a data chunk of {length} bytes");
    let mut out = [0; DATA_SIZE];
    out[..CHUNK_SIZE].copy_from_slice(&chunk(cookie, done(last), NBD_REPLY_TYPE_OFFSET_DATA, length + 8));
    out[20..28].copy_from_slice(&offset.to_be_bytes());
    out
}

/// A hole chunk: `length` bytes at `offset` read as zeroes. `last` ends the reply.
pub fn offset_hole(cookie: u64, offset: u64, length: u32, last: bool) -> [u8; HOLE_SIZE] {
    let mut out = [0; HOLE_SIZE];
    out[..CHUNK_SIZE].copy_from_slice(&chunk(cookie, done(last), NBD_REPLY_TYPE_OFFSET_HOLE, 12));
    out[20..28].copy_from_slice(&offset.to_be_bytes());
    out[28..32].copy_from_slice(&length.to_be_bytes());
    out
}

/// The start of an extents chunk of metadata context `context`; `extents` (at least one) times [`extent`]
/// follow. `last` ends the reply.
pub fn block_status(cookie: u64, context: u32, extents: u16, last: bool) -> [u8; EXTENTS_SIZE] {
    let length = 4 + u32::from(extents) * EXTENT_SIZE as u32;
    let mut out = [0; EXTENTS_SIZE];
    out[..CHUNK_SIZE].copy_from_slice(&chunk(cookie, done(last), NBD_REPLY_TYPE_BLOCK_STATUS, length));
    out[20..24].copy_from_slice(&context.to_be_bytes());
    out
}

/// One extent: its length in bytes and its `NBD_STATE_*` flags.
pub fn extent(length: u32, flags: u32) -> [u8; EXTENT_SIZE] {
    let mut out = [0; EXTENT_SIZE];
    out[0..4].copy_from_slice(&length.to_be_bytes());
    out[4..8].copy_from_slice(&flags.to_be_bytes());
    out
}

/// Writes a last chunk that says `errno`, with words for people, into `out`, and gives its length. The
/// message is cut, between characters, to what `out` and the protocol allow.
///
/// # Panics
/// If `out` is shorter than [`ERROR_SIZE`].
pub fn error(out: &mut [u8], cookie: u64, errno: Errno, message: &str) -> usize {
    let message = clip(message, MAX_STRING.min(out.len() - ERROR_SIZE));
    let end = ERROR_SIZE + message.len();
    error_body(out, cookie, NBD_REPLY_FLAG_DONE, NBD_REPLY_TYPE_ERROR, errno, message, end);
    end
}

/// Writes a chunk that says `errno` happened at `offset` of the export into `out`, and gives its length, as
/// [`error`] does. `last` ends the reply.
///
/// # Panics
/// If `out` is shorter than [`ERROR_SIZE`] + 8.
pub fn error_offset(
    out: &mut [u8],
    cookie: u64,
    errno: Errno,
    message: &str,
    offset: u64,
    last: bool,
) -> usize {
    let message = clip(message, MAX_STRING.min(out.len() - ERROR_SIZE - 8));
    let end = ERROR_SIZE + message.len() + 8;
    error_body(out, cookie, done(last), NBD_REPLY_TYPE_ERROR_OFFSET, errno, message, end);
    out[end - 8..end].copy_from_slice(&offset.to_be_bytes());
    end
}

fn error_body(out: &mut [u8], cookie: u64, flags: u16, kind: u16, errno: Errno, message: &str, end: usize) {
    // `message` is at most MAX_STRING bytes, so both lengths fit their fields.
    out[..CHUNK_SIZE].copy_from_slice(&chunk(cookie, flags, kind, (end - CHUNK_SIZE) as u32));
    out[20..24].copy_from_slice(&errno.code().to_be_bytes());
    out[24..26].copy_from_slice(&(message.len() as u16).to_be_bytes());
    out[26..26 + message.len()].copy_from_slice(message.as_bytes());
}

#[inline]
fn chunk(cookie: u64, flags: u16, kind: u16, length: u32) -> [u8; CHUNK_SIZE] {
    let mut out = [0; CHUNK_SIZE];
    out[0..4].copy_from_slice(&NBD_STRUCTURED_REPLY_MAGIC.to_be_bytes());
    out[4..6].copy_from_slice(&flags.to_be_bytes());
    out[6..8].copy_from_slice(&kind.to_be_bytes());
    out[8..16].copy_from_slice(&cookie.to_be_bytes());
    out[16..20].copy_from_slice(&length.to_be_bytes());
    out
}

fn done(last: bool) -> u16 {
    if last { NBD_REPLY_FLAG_DONE } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_simple_reply_is_byte_exact() {
        let bytes = simple(0x0102_0304_0506_0708, Err(Errno::NoSpc));
        assert_eq!(bytes, [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 28, 1, 2, 3, 4, 5, 6, 7, 8]);
    }

    #[test]
    fn a_data_chunk_is_byte_exact() {
        let bytes = offset_data(1, 0x1000, 512, true);
        assert_eq!(bytes[..8], [0x66, 0x8e, 0x33, 0xef, 0, 1, 0, 1]);
        assert_eq!(bytes[16..20], 520u32.to_be_bytes());
        assert_eq!(bytes[20..28], 0x1000u64.to_be_bytes());
    }

    #[test]
    fn a_message_is_cut_to_the_buffer() {
        let mut out = [0; ERROR_SIZE + 3];
        assert_eq!(error(&mut out, 1, Errno::Io, "aéé"), ERROR_SIZE + 3);
        assert_eq!(out[24..26], [0, 3]);
        assert_eq!(error(&mut out, 1, Errno::Io, "éé"), ERROR_SIZE + 2);
    }
}
