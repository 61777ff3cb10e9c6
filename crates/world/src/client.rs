//! What clients ask of a node, and what they get.

use cards_core::{
    Access, BlockId, CommandKind, Extent, Generation, Instant, IoError, NodeId, Origin, PgId, Refusal, Token,
};

use crate::memory::Tags;

/// A client's request to a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request {
    /// Read a block.
    Read {
        /// The block.
        block: BlockId,
        /// By [`cards_core::Shard::read`], as a front end does, or else by [`cards_core::Input::Read`].
        inline: bool,
    },
    /// Read a block of a local device, whose kernel may have it as a page. Fails when the device is closed, not
    /// when the node's process ends.
    ReadDevice {
        /// The block.
        block: BlockId,
    },
    /// Fetch a block ahead of its use. Completes at once.
    ReadAhead {
        /// The block.
        block: BlockId,
    },
    /// Change the disk. The range lies within one stripe and on sector boundaries.
    Command {
        /// The volume.
        volume: PgId,
        /// What to do.
        kind: CommandKind,
        /// First sector.
        sector: u64,
        /// Number of sectors.
        count: u32,
        /// Answer only when it is durable.
        fua: bool,
        /// The new contents of a write.
        tags: Tags,
    },
    /// Attach a volume.
    Attach {
        /// The volume.
        volume: PgId,
        /// The policy insisted on, or empty.
        policy: String,
        /// What the card may do.
        access: Access,
        /// Cards in the way are given up.
        takeover: bool,
    },
    /// Detach it. Completes at once.
    Detach {
        /// The volume.
        volume: PgId,
    },
    /// Ask for the holes of a range.
    Extents {
        /// The volume.
        volume: PgId,
        /// First sector.
        sector: u64,
        /// Number of sectors.
        count: u32,
    },
    /// Drop every copy that is not in use. Completes at once.
    DropCaches,
    /// Blocks whose copies stay, first and last ones, in place of those that were to. Completes at once.
    Retain {
        /// The volume.
        volume: PgId,
        /// The ranges.
        ranges: Vec<(u32, u32)>,
    },
}

/// The end of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Completion {
    /// Which request.
    pub token: Token,
    /// At which node.
    pub node: NodeId,
    /// When.
    pub at: Instant,
    /// How it went.
    pub outcome: Outcome,
}

/// How a request went.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// A block was read.
    Read {
        /// Its contents.
        tags: Tags,
        /// Where it came from; `None`: served inline, from the node's own cache, or by a device from a page.
        origin: Option<Origin>,
    },
    /// Done.
    Done,
    /// A read, a command or a question about extents failed.
    Failed(IoError),
    /// The volume is attached.
    Attached(Generation),
    /// It is not.
    Refused(Refusal),
    /// The extents.
    Extents(Vec<Extent>),
    /// The node died, or the device was closed, before it answered: the outcome is unknown.
    Lost,
}
