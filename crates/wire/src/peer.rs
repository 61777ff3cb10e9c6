//! The protocol between nodes: bytes to messages and back, without sockets.
//!
//! A connection carries frames in both directions. Each frame starts with a header of [`HEADER_SIZE`] bytes,
//! all numbers little-endian:
//!
//! | at | bytes | field | used by |
//! |---|---|---|---|
//! | 0 | 4 | of a Hello, and before version 12, the magic, "CARD"; else the checksum of the rest of the header | all |
//! | 4 | 1 | version: that of the connection, of a Hello the newest that its sender speaks | all |
//! | 5 | 1 | kind | all |
//! | 6 | 1 | flags: leave copy 1, read ahead 2, FUA 4, no hole 8, from disk 16; class of a copy times 16 | Read, Store, Command |
//! | 7 | 1 | detail: hops, source, error, depth, outcome, note, command or result; regions ahead | block messages, Answer |
//! | 8 | 4 | bytes that follow the header | all |
//! | 12 | 2 | shard | block messages |
//! | 14 | 2 | free blocks | block messages |
//! | 16 | 8 | all writes up to this one are complete | block messages of a primary |
//! | 24 | 8 | placement group: the lower half is zero | block messages |
//! | 32 | 8 | request | Read, Data, Nack, Command, Probe, Void, CommandDone, Question, Answer |
//! | 40 | 8 | stamp; of a grant the last write; bytes granted | Data, Store, Invalidate, InvalidateAck, Granted, CommandDone, Credit |
//! | 48 | 8 | generation; for a Store two ages in milliseconds; bytes wanted | Invalidate, InvalidateAck, Acquire, Granted, Command, Probe, Void, CommandDone, Store, Credit |
//! | 56 | 8 | argument: offset, persistence life of a flush's unflushed writes, count of blocks, previous node and class, value of a note, age in milliseconds, bytes returned, or of a grant the segments written lately | Command, Invalidate, Store, Note, Data, Granted, CommandDone, Credit |
//! | 64 | 8 | of a grant the limit where nothing was written lately | Granted, CommandDone |
//! | 72 | 8 | segments granted or released; for a CommandDone its stamp | Granted, CommandDone, InvalidateAck |
//! | 80 | 8 | turn | Acquire, Granted, Command, Probe, CommandDone, InvalidateAck |
//! | 88 | 8 | persistence life that a write was applied under; of a grant the limit in the regions ahead | CommandDone, Granted |
//! | 96 | 2 | node: requester, evictor; slot of a Command | Read, Store, Command, Probe, Void |
//! | 98 | 2 | blocks after the first of which the same is said, one bit each ([`Run`]) | Read, Data |
//! | 100 | 4 | block; for a Command its length | most block messages |
//!
//! The header of a block message is the whole [`Message`](cards_core::Message): a receiver reads 104 bytes,
//! decodes them, asks its shard where the payload lands, and reads the payload straight there. A
//! [`Hello`], a [`ControlMessage`], a [`LockMessage`] and an [`Inquiry`] have a body instead, which is
//! collected before it is decoded; a [`Credit`] has no more than its header. A [message of a group](encode_group) is of either
//! sort, with a table of its own in `group`. Since version 12 the [checksums](sums) of what
//! follows the header come behind it: of each 4 KiB, and of the rest. The last 4 bytes of a Hello's body are the checksum of all before. Fields that a kind does not use are zero, and a frame in which they are
//! not is refused, so that every message has exactly one encoding.
//!
//! The first frame in each direction is a [`Hello`]; [`Hello::check`] then decides whether the two may talk, and
//! [`Versions::agree`] in which version.
//! Anything before it, and any [`FrameError`] at all, ends the connection: there is no way to find the next
//! frame behind a bad one.

mod body;
mod control;
mod credit;
mod group;
mod header;
mod hello;
mod inquiry;
mod locks;
mod run;
mod sums;
mod versions;

use thiserror::Error;

pub use credit::Credit;
pub use group::{MAX_GROUP_BODY, encode_group};
pub use header::{
    BodyHeader, Header, HelloHeader, decode_header, decode_hello, encode_credit, encode_message, encode_run,
};
pub use hello::{Hello, Mismatch};
pub use inquiry::{Inquiry, MAX_ANSWER, MAX_QUESTION, encode_inquiry};
pub use locks::{MAX_LOCKS_BODY, MAX_PARTS, MAX_RANGES};
pub use run::Run;
pub use sums::{is_intact, seal, sums, sums_size};
pub use versions::{GROUPS, OLDEST, RUNS, VERSION, Versions};

use cards_array::group::MapBytesError;
use cards_core::{ControlMessage, PgId};
use cards_locks::LockMessage;

/// First four bytes of an introduction, and before version 12 of every frame.
pub const MAGIC: [u8; 4] = *b"CARD";

/// Bytes of a frame's header.
pub const HEADER_SIZE: usize = 104;

/// Bytes of a header in earlier versions.
const fn header_size_of(version: u8) -> usize {
    if version < 5 { 64 } else { 96 }
}

/// The longest block in bytes, and so the longest payload of Data and Store.
pub const MAX_BLOCK: u32 = 1 << 20;

/// The longest payload of a Command in bytes.
pub const MAX_WRITE: u32 = MAX_BLOCK;

/// The longest body in bytes, compared before memory is reserved for it. A node's 64 disks with the longest
/// names and policies fit.
pub const MAX_BODY: u32 = 128 << 10;

/// The longest name (of a cluster, node or volume) in bytes.
pub const MAX_NAME: usize = 255;

/// The most lanes for reads that a link has, beside its first lane.
pub const MAX_LANES: u16 = 16;

/// Most lives that a [`Hello`] says are over.
pub const LIVES_MAX: usize = 8;

/// The longest policy, with its parameters, in bytes.
pub const MAX_POLICY: usize = 1023;

/// A frame with a body, decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// A message about a card.
    Control(ControlMessage),
    /// A message of the lock service.
    Locks(LockMessage),
    /// A question or an answer.
    Inquiry(Inquiry),
    /// A message of a group of copies, which has no payload.
    Group {
        /// The group.
        group: PgId,
        /// The message.
        message: cards_array::group::Message<()>,
    },
}

/// The bytes of a whole frame, header and body, in that version.
///
/// # Errors
/// [`FrameError::TooLong`]: a string or list is over its limit.
pub fn encode_control(message: &ControlMessage, version: u8) -> Result<Vec<u8>, FrameError> {
    let mut frame = header::frame(header::KIND_CONTROL, control::encode(message, version)?)?;
    seal(&mut frame, version);
    Ok(frame)
}

/// The bytes of a whole frame, header and body, in the newest version that the hello names.
///
/// # Errors
/// [`FrameError::TooLong`]: a string or list is over its limit.
pub fn encode_hello(hello: &Hello) -> Result<Vec<u8>, FrameError> {
    header::hello_frame(hello.versions.newest, hello.encode()?)
}

/// The bytes of a frame, header and body, to be [sealed](seal).
///
/// # Errors
/// [`FrameError::TooLong`]: a list, or all of them together, are over their limit.
pub fn encode_locks(message: &LockMessage) -> Result<Vec<u8>, FrameError> {
    Ok(header::frame_of(header::KIND_LOCKS, &locks::encode(message)?))
}

/// Why bytes are not a frame, or a message cannot become one.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    /// Not this protocol at all.
    #[error("frame starts with {0:02x?}, not {MAGIC:02x?}: this is not a CARDs node; check the address")]
    Magic([u8; 4]),
    /// Another version of this protocol.
    #[error(
        "{} speaks version {theirs} of the node protocol, this node speaks {OLDEST} to {VERSION}; run releases that follow \
         each other, at best one on all nodes",
        who.as_deref().unwrap_or("the peer")
    )]
    Version {
        /// The peer's version, the newest it speaks.
        theirs: u8,
        /// The peer, if it got as far as introducing itself.
        who: Option<String>,
    },
    /// The bytes are not those that were sent.
    #[error(
        "the checksum of a {0} is wrong: bytes have changed on their way; check the network and the memory of both machines"
    )]
    Checksum(&'static str),
    /// A kind of frame, or of control message, that does not exist.
    #[error("unknown kind of {what}: {kind}")]
    Kind {
        /// Frame or control message.
        what: &'static str,
        /// Its number.
        kind: u8,
    },
    /// Something is longer than its limit.
    #[error("{what} is {length} long, over the limit of {limit}")]
    TooLong {
        /// What.
        what: &'static str,
        /// Its length, in bytes or entries.
        length: u64,
        /// Its limit.
        limit: u64,
    },
    /// A number that means nothing in its field, or is not zero in a field that its kind does not use.
    #[error("{what} cannot be {value}")]
    Field {
        /// The field.
        what: &'static str,
        /// Its value.
        value: u64,
    },
    /// The map of a group is none.
    #[error("the map of a group cannot be read: {0}")]
    Map(MapBytesError),
    /// The body ends within a field.
    #[error("the body ends within {0}")]
    Short(&'static str),
    /// The body goes on behind its last field.
    #[error("{0} bytes follow the last field of a body")]
    Trailing(usize),
}
