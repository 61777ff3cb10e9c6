//! What is on its way between servers, and what they wait for.

use cards_core::BlockId;
use cards_pafs::{BufferNumber, Frame, Load};

use crate::kernel::IoToken;

/// What happens to PAFS.
#[derive(Debug)]
pub enum PafsEvent {
    /// A message has crossed the network.
    Arrive {
        /// The receiver's node.
        to: u16,
        /// What it says.
        mail: Mail,
    },
    /// A message is acted upon.
    Handle(Mail),
    /// A copy or a disk is done.
    Done(Step),
    /// A server's syncer wakes up.
    Sync {
        /// The server.
        server: u16,
    },
    /// The repartition server wakes up.
    Repartition,
}

/// A buffer of a cache server, for the servers that work on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The cache server.
    pub(super) server: u16,
    /// Its own number of the buffer.
    pub(super) buffer: BufferNumber,
    /// Where it lies.
    pub(super) frame: Frame,
}

/// A message.
#[derive(Debug)]
pub enum Mail {
    /// A client's request, or its part for one server.
    Request {
        /// Which.
        token: IoToken,
        /// The cache server.
        server: u16,
    },
    /// To the client: its request, or a server's part of it, is done.
    Reply {
        /// Which.
        token: IoToken,
    },
    /// To a disk server: read a block.
    Read(Place, BlockId),
    /// To the cache server: it is in its frame.
    Fetched(Place),
    /// To a disk server: write a block.
    Write(Place, BlockId),
    /// To the cache server: it is written.
    Flushed(Place),
    /// To a parity server: a request will modify a buffer.
    Announce(Place, BlockId, IoToken),
    /// To the cache server: it may.
    Ready(Place),
    /// To the cache server: the change is in the parity.
    Covered(Place),
    /// To a parity server: a buffer is on its disk.
    Uncover(Place),
    /// To the cache server: it is out of the parity.
    Uncovered(Place),
    /// To a cache server: how was the interval?
    Poll {
        /// The cache server.
        server: u16,
    },
    /// To the repartition server.
    Answer {
        /// The cache server.
        server: u16,
        /// How its interval was.
        load: Load,
    },
    /// To a cache server: its buffers from now on.
    Plan {
        /// The cache server.
        server: u16,
        /// Lazy: of whom it may ask how many buffers. Eager: to whom it gives how many.
        transfers: Box<[(u16, u32)]>,
    },
    /// To a cache server: another one asks for a buffer.
    Ask {
        /// Who is asked.
        donor: u16,
        /// Who asks.
        from: u16,
    },
    /// To a cache server: frames are its own from now on.
    Hand {
        /// Whose.
        to: u16,
        /// Which.
        frames: Box<[Frame]>,
    },
    /// To a cache server: the one it asked has no buffer to give.
    Refuse {
        /// Who has asked.
        to: u16,
    },
}

/// Something that a server waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// A disk has read a block.
    DiskRead(Place, BlockId),
    /// The disk server has copied it to its frame.
    Filled(Place, BlockId),
    /// A disk server has copied a block from its frame.
    Sent(Place, BlockId),
    /// A disk has written it.
    Written(Place, BlockId),
    /// A parity server has saved a buffer.
    Saved(Place, BlockId, IoToken),
    /// The client's bytes are in the buffer.
    Modified(Place),
    /// A parity server has the client's bytes too.
    Copied(Place),
    /// A parity server has the contents that leave its parity.
    Removed(Place),
    /// All blocks of a request are written: a cache server answers.
    Acknowledge {
        /// Which request.
        token: IoToken,
        /// The cache server.
        server: u16,
    },
}
