//! What goes into a cache server and what comes out of it.

use cards_core::{BlockId, NodeId};

use super::Frame;

/// A client's access to one block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// What the driver calls the request; comes back with the actions for it.
    pub token: u32,
    /// The client's node.
    pub client: NodeId,
    /// Which block.
    pub block: BlockId,
    /// What the client does.
    pub kind: AccessKind,
}

/// What a client does with a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AccessKind {
    /// Reads some bytes of it.
    Read,
    /// Writes some bytes of it, so that the others must be there before.
    WritePart,
    /// Writes all of it: the disk need not be read.
    WriteWhole,
}

/// A buffer of a server's partition: the server's own number of it, while it is the owner.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BufferNumber(pub u32);

/// Where the block of an access was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// In its buffer, or on the way there for an access before.
    Cached,
    /// On its disk, from which it was read for this access.
    OnDisk,
    /// Nowhere, and it was not needed: all of it is being written.
    Absent,
}

/// What a cache server wants done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// The bytes that the client reads are copied from the frame to the client; then the access is done (PAFS-4).
    Deliver {
        /// For which access.
        access: Access,
        /// From where.
        frame: Frame,
        /// Where the block was.
        found: Found,
    },
    /// The bytes that the client writes are copied from the client to the frame; then the access is done.
    Accept {
        /// For which access.
        access: Access,
        /// To where.
        frame: Frame,
        /// Where the block was.
        found: Found,
    },
    /// The parity server of the frame's line is told that the buffer will be modified (PAFS-16, step 1). It saves the
    /// buffer ([`super::ParityServer::will_modify`], step 2) and answers: report [`super::CacheServer::ready`].
    Announce {
        /// For which access.
        access: Access,
        /// Where the buffer lies.
        frame: Frame,
        /// Which buffer.
        buffer: BufferNumber,
        /// Where the block was.
        found: Found,
    },
    /// The bytes that the client writes are copied to the frame: report [`super::CacheServer::modified`]. At the same time the
    /// parity server copies them and brings its parity up to date (step 3), and says so (step 4): report
    /// [`super::CacheServer::covered`].
    Modify {
        /// For which access.
        access: Access,
        /// To where.
        frame: Frame,
        /// Which buffer.
        buffer: BufferNumber,
    },
    /// The client is told that its write is done (step 5).
    Acknowledge {
        /// Which access.
        access: Access,
    },
    /// A block is read from its disk into the frame: report [`super::CacheServer::fetched`].
    Fetch {
        /// Which block.
        block: BlockId,
        /// To where.
        frame: Frame,
        /// Which buffer.
        buffer: BufferNumber,
    },
    /// A block is written to its disk: report [`super::CacheServer::flushed`].
    Flush {
        /// Which block.
        block: BlockId,
        /// From where.
        frame: Frame,
        /// Which buffer.
        buffer: BufferNumber,
    },
    /// The block is on its disk: the parity server takes the buffer out of the parity of its line, for which it needs the
    /// buffer's contents as they are now, and answers: report [`super::CacheServer::uncovered`].
    Uncover {
        /// Where the buffer lies.
        frame: Frame,
        /// Which buffer.
        buffer: BufferNumber,
    },
    /// A buffer is asked of another server (PAFS-14): tell it [`super::CacheServer::give`]. It answers with
    /// [`Action::Hand`] or [`Action::Refuse`].
    Ask {
        /// The server.
        donor: u16,
    },
    /// A frame is another server's from now on: tell it [`super::CacheServer::gain`].
    Hand {
        /// The server.
        to: u16,
        /// Which frame. Its contents mean nothing.
        frame: Frame,
    },
    /// No buffer can be given: tell the server that has asked [`super::CacheServer::refused`].
    Refuse {
        /// The server.
        to: u16,
    },
}
