//! The register's messages, and what an arbiter keeps on its disk, as bytes.
//!
//! All have one frame (little endian):
//!
//! | bytes | what |
//! |---|---|
//! | 0-3 | `CRDR` |
//! | 4 | the version, [`VERSION`] |
//! | 5 | what it is: 1 a request, 2 a reply, 3 the state of a store |
//! | 6-9 | length of the body |
//! | 10- | the body |
//! | last 4 | CRC-32C of all before |
//!
//! One thing has one encoding: what decodes gives the same bytes when it is encoded. A store is 16 bytes, a ballot
//! three numbers of 8 (round, proposer, step), a set of stores a count of one byte and the stores in ascending order.

mod body;

use cards_register::{AcceptorState, Led, Reply, Request};

use body::{Body, Fields};

/// Version of the frames. A frame of another version is refused.
pub const VERSION: u8 = 1;
/// Longest content of a value, in bytes.
pub const CONTENT_BYTES_MAX: usize = 64 << 20;
/// Longest frame, in bytes: the longest content, and far more than anything else in it.
pub const FRAME_BYTES_MAX: usize = CONTENT_BYTES_MAX + (4 << 10);

/// What an arbiter keeps on its disk.
pub type StoreState = AcceptorState<Led<Vec<u8>>>;

const MAGIC: [u8; 4] = *b"CRDR";
const HEADER_SIZE: usize = 10;
const SUM_SIZE: usize = 4;

/// What a frame has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// A request to an arbiter.
    Request = 1,
    /// The reply of an arbiter.
    Reply = 2,
    /// The state of a store.
    State = 3,
}

/// Why bytes are not what they should be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RegisterError {
    /// They end before the frame does.
    #[error("it has {bytes} bytes, and should have {expected}")]
    Length {
        /// Bytes that there are.
        bytes: usize,
        /// Bytes that the header says, or that a header takes.
        expected: usize,
    },
    /// It is longer than any frame.
    #[error("it has {bytes} bytes; the longest has {FRAME_BYTES_MAX}")]
    TooLong {
        /// Bytes that there are.
        bytes: usize,
    },
    /// It begins with other bytes.
    #[error("it begins with {0:02x?}, which nothing of a register does")]
    Magic([u8; 4]),
    /// It is of another version.
    #[error("it is of version {theirs}, this release knows version {VERSION}")]
    Version {
        /// The version it says.
        theirs: u8,
    },
    /// It is something else of a register.
    #[error("it is of kind {theirs}, not {}", *expected as u8)]
    Kind {
        /// The kind it says.
        theirs: u8,
        /// The kind that was expected.
        expected: Kind,
    },
    /// It is not as it was written.
    #[error("its checksum is {theirs:08x}, that of its bytes {ours:08x}")]
    Checksum {
        /// What it says.
        theirs: u32,
        /// What it should be.
        ours: u32,
    },
    /// A field has a value that it cannot have.
    #[error("its {0} is none")]
    Field(&'static str),
    /// Bytes follow the last field.
    #[error("{0} bytes follow its last field")]
    Rest(usize),
}

/// A frame of this kind around a body.
#[must_use]
pub fn seal(kind: Kind, body: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(HEADER_SIZE + body.len() + SUM_SIZE);
    frame.extend_from_slice(&MAGIC);
    frame.extend_from_slice(&[VERSION, kind as u8]);
    frame.extend_from_slice(&(body.len() as u32).to_le_bytes());
    frame.extend_from_slice(body);
    let sum = crc_fast::crc32_iscsi(&frame);
    frame.extend_from_slice(&sum.to_le_bytes());
    frame
}

/// The body of a whole frame.
fn open(kind: Kind, frame: &[u8]) -> Result<&[u8], RegisterError> {
    let bytes = frame.len();
    if bytes > FRAME_BYTES_MAX {
        return Err(RegisterError::TooLong { bytes });
    }
    let short = RegisterError::Length { bytes, expected: HEADER_SIZE + SUM_SIZE };
    let (header, rest) = frame.split_first_chunk::<HEADER_SIZE>().ok_or(short)?;
    let [m0, m1, m2, m3, version, theirs, l0, l1, l2, l3] = *header;
    if [m0, m1, m2, m3] != MAGIC {
        return Err(RegisterError::Magic([m0, m1, m2, m3]));
    }
    if version != VERSION {
        return Err(RegisterError::Version { theirs: version });
    }
    let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
    let expected = HEADER_SIZE.saturating_add(length).saturating_add(SUM_SIZE);
    let (body, sum) = rest.split_last_chunk::<SUM_SIZE>().ok_or(short)?;
    if bytes != expected {
        return Err(RegisterError::Length { bytes, expected });
    }
    let (theirs_sum, ours) = (u32::from_le_bytes(*sum), crc_fast::crc32_iscsi(&frame[..bytes - SUM_SIZE]));
    if theirs_sum != ours {
        return Err(RegisterError::Checksum { theirs: theirs_sum, ours });
    }
    if theirs != kind as u8 {
        return Err(RegisterError::Kind { theirs, expected: kind });
    }
    Ok(body)
}

/// The frame of a request.
///
/// # Errors
/// The content of the value is longer than [`CONTENT_BYTES_MAX`].
pub fn encode_request(request: &Request<Led<Vec<u8>>>) -> Result<Vec<u8>, RegisterError> {
    encode(Kind::Request, |body| body.request(request))
}

/// The request in a whole frame.
///
/// # Errors
/// It is none.
pub fn decode_request(frame: &[u8]) -> Result<Request<Led<Vec<u8>>>, RegisterError> {
    decode(Kind::Request, frame, Fields::request)
}

/// The frame of a reply.
///
/// # Errors
/// The content of the value is longer than [`CONTENT_BYTES_MAX`].
pub fn encode_reply(reply: &Reply<Led<Vec<u8>>>) -> Result<Vec<u8>, RegisterError> {
    encode(Kind::Reply, |body| body.reply(reply))
}

/// The reply in a whole frame.
///
/// # Errors
/// It is none.
pub fn decode_reply(frame: &[u8]) -> Result<Reply<Led<Vec<u8>>>, RegisterError> {
    decode(Kind::Reply, frame, Fields::reply)
}

/// The frame of a store's state.
///
/// # Errors
/// The content of the value is longer than [`CONTENT_BYTES_MAX`].
pub fn encode_state(state: &StoreState) -> Result<Vec<u8>, RegisterError> {
    encode(Kind::State, |body| body.state(state))
}

/// The state in a whole frame.
///
/// # Errors
/// It is none.
pub fn decode_state(frame: &[u8]) -> Result<StoreState, RegisterError> {
    decode(Kind::State, frame, Fields::state)
}

fn encode(
    kind: Kind,
    fill: impl FnOnce(&mut Body) -> Result<(), RegisterError>,
) -> Result<Vec<u8>, RegisterError> {
    let mut body = Body::default();
    fill(&mut body)?;
    Ok(seal(kind, body.bytes()))
}

fn decode<'a, T>(
    kind: Kind,
    frame: &'a [u8],
    take: impl FnOnce(&mut Fields<'a>) -> Result<T, RegisterError>,
) -> Result<T, RegisterError> {
    let mut fields = Fields::new(open(kind, frame)?);
    let taken = take(&mut fields)?;
    fields.end()?;
    Ok(taken)
}
