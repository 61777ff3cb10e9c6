//! Requests: the 28 bytes a client sends for each command.

use thiserror::Error;

use super::MAX_PAYLOAD;
use super::consts::*;
use crate::bytes::Cursor;

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Command {
    /// Read `length` bytes at `offset`.
    Read,
    /// Write the `length` bytes that follow the request.
    Write,
    /// End the session; no reply.
    Disc,
    /// Make every completed write durable.
    Flush,
    /// The range is not needed any more.
    Trim,
    /// Read ahead into the server's cache.
    Cache,
    /// Write zeroes.
    WriteZeroes,
    /// Ask for the extents of the range.
    BlockStatus,
    /// A command this end does not know; answered with `EINVAL`.
    Other(u16),
}

impl Command {
    /// The number on the wire.
    pub fn code(self) -> u16 {
        match self {
            Command::Read => NBD_CMD_READ,
            Command::Write => NBD_CMD_WRITE,
            Command::Disc => NBD_CMD_DISC,
            Command::Flush => NBD_CMD_FLUSH,
            Command::Trim => NBD_CMD_TRIM,
            Command::Cache => NBD_CMD_CACHE,
            Command::WriteZeroes => NBD_CMD_WRITE_ZEROES,
            Command::BlockStatus => NBD_CMD_BLOCK_STATUS,
            Command::Other(code) => code,
        }
    }

    /// The command behind a number.
    pub fn from_code(code: u16) -> Self {
        match code {
            NBD_CMD_READ => Command::Read,
            NBD_CMD_WRITE => Command::Write,
            NBD_CMD_DISC => Command::Disc,
            NBD_CMD_FLUSH => Command::Flush,
            NBD_CMD_TRIM => Command::Trim,
            NBD_CMD_CACHE => Command::Cache,
            NBD_CMD_WRITE_ZEROES => Command::WriteZeroes,
            NBD_CMD_BLOCK_STATUS => Command::BlockStatus,
            other => Command::Other(other),
        }
    }

    /// Whether the command changes the export.
    pub fn writes(self) -> bool {
        matches!(self, Command::Write | Command::Trim | Command::WriteZeroes)
    }
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// `NBD_CMD_FLAG_*`.
    pub flags: u16,
    /// What is asked for.
    pub command: Command,
    /// The client's name for the request; every reply carries it back.
    pub cookie: u64,
    /// First byte of the range.
    pub offset: u64,
    /// Length of the range in bytes.
    pub length: u32,
}

/// A stream of requests that cannot be followed any further; the connection must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BadRequest {
    /// The next bytes are not a request.
    #[error("request magic is {0:#010x}, not {NBD_REQUEST_MAGIC:#010x}: the client is out of step")]
    Magic(u32),
    /// A write too long to receive. It is not skipped: that would mean reading up to 4 GiB for nothing.
    #[error("a write of {0} bytes is over the limit of {MAX_PAYLOAD}; split it")]
    WriteTooLong(u32),
}

impl Request {
    /// Bytes of a request on the wire, without its payload.
    pub const SIZE: usize = 28;

    /// Takes one request off the front of `input`: call it until it gives `None` (fewer bytes than a
    /// request are left, and nothing was taken) to parse a whole receive buffer.
    ///
    /// After a WRITE, [`payload`](Self::payload) bytes of data follow in the stream. They are the caller's to
    /// take, so that what has not arrived yet can be received straight into its place.
    ///
    /// # Errors
    /// The stream cannot be followed: close the connection.
    #[inline]
    pub fn take(input: &mut &[u8]) -> Result<Option<Self>, BadRequest> {
        let mut cursor = Cursor::new(input);
        let Some(header) = cursor.array::<{ Self::SIZE }>() else {
            // A wrong start needs no 28 bytes to be recognised; otherwise it would wait for them forever.
            return match Cursor::new(input).be32() {
                Some(magic) if magic != NBD_REQUEST_MAGIC => Err(BadRequest::Magic(magic)),
                _ => Ok(None),
            };
        };
        let request = Self::parse(&header)?;
        *input = cursor.rest();
        Ok(Some(request))
    }

    fn parse(header: &[u8; Self::SIZE]) -> Result<Self, BadRequest> {
        let [m0, m1, m2, m3, f0, f1, c0, c1, rest @ ..] = *header;
        let magic = u32::from_be_bytes([m0, m1, m2, m3]);
        if magic != NBD_REQUEST_MAGIC {
            return Err(BadRequest::Magic(magic));
        }
        let [k0, k1, k2, k3, k4, k5, k6, k7, o0, o1, o2, o3, o4, o5, o6, o7, l0, l1, l2, l3] = rest;
        let request = Self {
            flags: u16::from_be_bytes([f0, f1]),
            command: Command::from_code(u16::from_be_bytes([c0, c1])),
            cookie: u64::from_be_bytes([k0, k1, k2, k3, k4, k5, k6, k7]),
            offset: u64::from_be_bytes([o0, o1, o2, o3, o4, o5, o6, o7]),
            length: u32::from_be_bytes([l0, l1, l2, l3]),
        };
        if request.payload() > MAX_PAYLOAD {
            return Err(BadRequest::WriteTooLong(request.length));
        }
        Ok(request)
    }

    /// Bytes of data that follow the request in the stream: its length for a WRITE, else 0. They follow
    /// even if the request is answered with an error.
    #[inline]
    pub fn payload(&self) -> u32 {
        if self.command == Command::Write { self.length } else { 0 }
    }

    /// Whether `flag`, one of `NBD_CMD_FLAG_*`, is set.
    #[inline]
    pub fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    /// The bytes to send.
    pub fn encode(&self) -> [u8; Self::SIZE] {
        let mut out = [0; Self::SIZE];
        out[0..4].copy_from_slice(&NBD_REQUEST_MAGIC.to_be_bytes());
        out[4..6].copy_from_slice(&self.flags.to_be_bytes());
        out[6..8].copy_from_slice(&self.command.code().to_be_bytes());
        out[8..16].copy_from_slice(&self.cookie.to_be_bytes());
        out[16..24].copy_from_slice(&self.offset.to_be_bytes());
        out[24..28].copy_from_slice(&self.length.to_be_bytes());
        out
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn request(command: Command, length: u32) -> Request {
        Request { flags: 0, command, cookie: 7, offset: 4096, length }
    }

    #[test]
    fn a_buffer_of_requests_is_taken_in_order_and_the_tail_stays() {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&request(Command::Read, 512).encode());
        bytes.extend_from_slice(&request(Command::Flush, 0).encode());
        bytes.extend_from_slice(&request(Command::Trim, 512).encode()[..10]);
        let mut input = bytes.as_slice();
        assert_eq!(Request::take(&mut input), Ok(Some(request(Command::Read, 512))));
        assert_eq!(Request::take(&mut input), Ok(Some(request(Command::Flush, 0))));
        assert_eq!(Request::take(&mut input), Ok(None));
        assert_eq!(input.len(), 10);
    }

    #[test]
    fn four_wrong_bytes_are_enough_to_close() {
        assert_eq!(Request::take(&mut [0u8; 4].as_slice()), Err(BadRequest::Magic(0)));
    }

    #[test]
    fn a_write_longer_than_the_limit_is_fatal_and_a_read_is_not() {
        let long = MAX_PAYLOAD + 1;
        let write = request(Command::Write, long).encode();
        assert_eq!(Request::take(&mut write.as_slice()), Err(BadRequest::WriteTooLong(long)));
        let read = request(Command::Read, long).encode();
        assert!(matches!(Request::take(&mut read.as_slice()), Ok(Some(_))));
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_taken(flags: u16, code: u16, cookie: u64, offset: u64, length in 0..=MAX_PAYLOAD) {
            let request = Request { flags, command: Command::from_code(code), cookie, offset, length };
            let bytes = request.encode();
            let mut input = bytes.as_slice();
            prop_assert_eq!(Request::take(&mut input), Ok(Some(request)));
            prop_assert!(input.is_empty());
        }

        #[test]
        fn any_bytes_are_taken_or_refused(bytes: Vec<u8>) {
            let mut input = bytes.as_slice();
            while let Ok(Some(_)) = Request::take(&mut input) {}
        }
    }
}
