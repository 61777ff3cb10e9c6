//! Where copies live: what a policy of cooperative caching is asked, and what it sees.
//!
//! A policy is the four operations of the CARDs paper (section 2): [`Policy::lookup`],
//! [`Policy::handle_eviction`], [`Policy::keep_consistency`], [`Policy::handle_request`]. By default they
//! are void and the volume is a plain remote disk. The core fetches, stores, forwards and invalidates; the
//! policy says where. Its answers are hints: a wrong one costs a hop, never a wrong byte, so a policy may
//! be wild, or supplied by a user. It keeps no clock and no unseeded randomness: both come with its [`Context`].
//! Three hooks besides the four operations are void by default as well: [`Policy::filled`], [`Policy::stored`]
//! and [`Policy::tick`].
//!
//! Which block leaves a cache is [`crate::replacement`]'s choice and not the policy's (CARD-8). Policies come from
//! outside, by [`crate::Algorithms`].

mod context;

use alloc::vec::Vec;

pub use context::{Context, Effect};

use crate::ids::{BlockId, NodeId};
pub use crate::index::Entry;
use crate::message::{CopyClass, Note, Source};

/// A policy at work at one shard of one node, for one volume.
pub trait Policy: Send {
    /// A block is missing here: whom to ask. (CARD-7)
    fn lookup(&mut self, _cx: &mut Context<'_>, _block: BlockId) -> Target {
        Target::DiskNode
    }

    /// A block leaves this cache: drop it, or save it at another node. Not asked of what this node has written and nobody
    /// has read since: it is dropped. (CARD-8)
    fn handle_eviction(&mut self, _cx: &mut Context<'_>, _block: BlockId) -> Eviction {
        Eviction::Drop
    }

    /// A client of `writer` has written the block: whom to tell, through [`Context::note`]. Called at the
    /// writer and, if that is another node, at the disk node before. Only for volumes with
    /// [`crate::Coherence::Policy`]; otherwise the disk node has every copy dropped. (CARD-9)
    fn keep_consistency(&mut self, _cx: &mut Context<'_>, _block: BlockId, _writer: NodeId) {}

    /// Another node asks for a block, sends an evicted one, or tells something about one. (CARD-10)
    fn handle_request(&mut self, cx: &mut Context<'_>, block: BlockId, request: Request) -> Answer {
        match request {
            Request::Read { .. } if cx.cached(block) => Answer::Serve,
            Request::Read { .. } => Answer::DiskNode,
            Request::Store { .. } | Request::Note { .. } => Answer::Drop,
        }
    }

    /// What [`Self::lookup`] would say now, with nothing changed.
    fn would_ask(&self, _cx: &Context<'_>, _block: BlockId) -> Target {
        Target::DiskNode
    }

    /// Whom [`Self::handle_request`] would pass a read on to that finds no copy here, with nothing changed; none if
    /// that is the disk node.
    fn would_pass_to(&self, _cx: &Context<'_>, _block: BlockId, _read: Asked) -> Option<NodeId> {
        None
    }

    /// Who has a copy, as this node believes without the index.
    fn believed_holders(&self, _block: BlockId) -> Vec<NodeId> {
        Vec::new()
    }

    /// Whether chance has a say in [`Self::lookup`], so that nobody can tell what it would say.
    fn is_random(&self) -> bool {
        false
    }

    /// A block that was missing has come and is cached.
    fn filled(&mut self, _cx: &mut Context<'_>, _block: BlockId, _delivery: Delivery) {}

    /// An evicted block that another node has sent is kept; `depth` is what it came with.
    fn stored(&mut self, _cx: &mut Context<'_>, _block: BlockId, _depth: u8) {}

    /// The card is attached, or the time of [`Context::wake_at`] has come.
    fn tick(&mut self, _cx: &mut Context<'_>) {}

    /// Percent of the cache, below 100, to set apart for blocks that other nodes send, everywhere but at the disk
    /// node. The part has an LRU queue of its own.
    fn set_apart(&self) -> u8 {
        0
    }

    /// Whether the policy uses [`Context::tag`] and [`Context::age_ms`], which cost eight bytes a block.
    fn needs_frame_data(&self) -> bool {
        false
    }
}

/// How a missing block has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delivery {
    /// Who delivered it: this node, if it is the disk node and has read it.
    pub from: NodeId,
    /// Where that node had it from.
    pub source: Source,
    /// Milliseconds since that node last used its oldest block.
    pub oldest_ms: u32,
    /// Only other nodes wait for it.
    pub for_others: bool,
}

/// Whom to ask for a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// This node: another one, or this one as the block's home, which then handles its own request.
    Node(NodeId),
    /// The disk node.
    DiskNode,
}

/// What becomes of an evicted block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Eviction {
    /// It is dropped.
    Drop,
    /// It is sent to another node, which may keep it.
    Send {
        /// The node.
        to: NodeId,
        /// What kind of copy it was.
        class: CopyClass,
        /// Stages it may be passed on at most.
        depth: u8,
    },
}

/// What another node (or this one, as a home) asks of a policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Request {
    /// A block is wanted.
    Read {
        /// By whom.
        requester: NodeId,
        /// Who passed the request on, if not the requester itself.
        via: NodeId,
        /// Cooperation has failed, at `via`: only the disk will do (at the disk node).
        failed: bool,
    },
    /// An evicted block looks for a host.
    Store {
        /// What kind of copy it was.
        class: CopyClass,
        /// Stages it may still be passed on.
        depth: u8,
        /// Who evicted it.
        evictor: NodeId,
        /// Who had delivered it there.
        previous: NodeId,
        /// Milliseconds since it was last used.
        age_ms: u32,
        /// Milliseconds since the sender last used its oldest block.
        oldest_ms: u32,
    },
    /// Something is said about the block.
    Note {
        /// By whom.
        from: NodeId,
        /// What.
        note: Note,
    },
}

/// A [`Request::Read`] that has not been made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asked {
    /// Who would want the block.
    pub requester: NodeId,
    /// Who would have passed the request on, if not the requester itself.
    pub via: NodeId,
    /// Cooperation would have failed, at `via`.
    pub failed: bool,
}

/// What a policy answers to a [`Request`]. One that does not fit the request counts as [`Answer::Drop`], or
/// [`Answer::DiskNode`] for a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// Read: deliver the copy that is here.
    Serve,
    /// Read: deliver the copy that is here, and keep none.
    Give,
    /// Read: pass the request to this node. Store: pass the block to this node.
    Forward(NodeId),
    /// Read: the disk node shall deliver.
    DiskNode,
    /// Store: keep it.
    Keep(Room),
    /// Store: there is a copy here already.
    Present,
    /// Store: nobody keeps it. Note: done.
    Drop,
}

/// What a kept block may displace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Room {
    /// Nothing: only a free place will do.
    Free,
    /// A block near eviction that has a more recent copy elsewhere.
    Duplicate,
    /// A block fetched ahead that nobody has read: the stand-in for the paper's "non-CARD" block (GAP-8).
    Unread,
    /// Whatever the replacement chooses.
    Evict,
    /// This very block, which is not forwarded.
    Of(BlockId),
}
