//! Where copies live: what a policy of cooperative caching is asked, and what it sees.
//!
//! A policy is the four operations of the CARDs paper (section 2): lookup, handle_eviction, keep_consistency and
//! handle_request. Where a read goes it says once, by [`Policy::route`], for a miss of its own node (lookup) as for
//! others' requests (handle_request). That changes nothing, so it can be asked what a read *would* do; what the policy
//! remembers of a read it does in [`Policy::asked`]. The rest of handle_request is [`Policy::offered`] and
//! [`Policy::note`]. By default all are void and the volume is a plain remote disk, and so are the hooks
//! [`Policy::filled`], [`Policy::stored`] and [`Policy::tick`].
//!
//! The core fetches, stores, forwards and invalidates; the policy says where. Its answers are hints: a wrong one costs a
//! hop, never a wrong byte, so a policy may be wild, or supplied by a user. It keeps no clock and no unseeded randomness:
//! both come with its [`View`] or [`Context`]. One that routes at random does so by [`View::draw`].
//!
//! Which block leaves a cache is [`crate::replacement`]'s choice and not the policy's (CARD-8). Policies come from
//! outside, by [`crate::Algorithms`].

mod context;

use alloc::vec::Vec;

pub use context::{Context, Effect, View};

use crate::ids::{BlockId, NodeId};
pub use crate::index::Entry;
use crate::message::{Note, Source};
use crate::time::Duration;

/// A policy at work at one shard of one node, for one volume.
pub trait Policy: Send {
    /// Which node a read goes to that finds no usable copy here: one of this node's clients (CARD-7), or another node's
    /// (CARD-10). None: the primary. It is asked whenever it matters, also of reads that are only thought of.
    fn route(&self, _cx: &View<'_>, _block: BlockId, _asker: Asker) -> Option<NodeId> {
        None
    }

    /// A read has been asked for here. `to` is the node that [`Self::route`] has named and that it went to, unless it waits
    /// for a fetch that is under way here. None: it is served here, or went to the primary. A block that is discarded now is
    /// served nevertheless.
    fn asked(&mut self, _cx: &mut Context<'_>, _block: BlockId, _asker: Asker, _to: Option<NodeId>) {}

    /// A block leaves this cache: drop it, or save it at another node. Not asked of what this node has written and nobody
    /// has read since: it is dropped. (CARD-8)
    fn handle_eviction(&mut self, _cx: &mut Context<'_>, _block: BlockId) -> Eviction {
        Eviction::Drop
    }

    /// A client of `writer` has written the block: whom to tell, through [`Context::note`]. Called at the
    /// writer and, if that is another node, at the disk node before. Only for volumes with
    /// [`crate::Coherence::Policy`]; otherwise the disk node has every copy dropped. (CARD-9)
    fn keep_consistency(&mut self, _cx: &mut Context<'_>, _block: BlockId, _writer: NodeId) {}

    /// An evicted block looks for a host. (CARD-10)
    fn offered(&mut self, _cx: &mut Context<'_>, _block: BlockId, _offer: Offer) -> Answer {
        Answer::Drop
    }

    /// Another node tells something about a block. (CARD-10)
    fn note(&mut self, _cx: &mut Context<'_>, _block: BlockId, _from: NodeId, _note: Note) {}

    /// Who has a copy, as this node believes without the index.
    fn believed_holders(&self, _block: BlockId) -> Vec<NodeId> {
        Vec::new()
    }

    /// Whether a block that was missing, and has come, is kept here. If not, those who wait for it get it nevertheless.
    fn keeps(&mut self, _cx: &mut Context<'_>, _block: BlockId, _delivery: Delivery) -> bool {
        true
    }

    /// Whether nodes wait for others as [`Self::fetches_for`] says.
    fn has_fetches_for_others(&self) -> bool {
        false
    }

    /// Whether this node fetches a block that another one asks for and that is not here. The first that asks is sent on to the primary, which
    /// reads the disk for both; the others wait here, so that however many nodes ask, the origin is read once. Asked of a read that comes from its
    /// requester directly and that [`Self::route`] sends nowhere else.
    fn fetches_for(&self, _cx: &View<'_>, _block: BlockId, _asker: Asker) -> bool {
        false
    }

    /// Which other node answers, in this one's place, a read of a block that is here or being fetched: one that has it as well, or is
    /// receiving it. Asked of a read that comes from its requester directly.
    fn relieved(&self, _cx: &View<'_>, _block: BlockId, _asker: Asker) -> Option<NodeId> {
        None
    }

    /// Whether a read that another node has sent on to this one may wait for the fetch that is under way here whatever the nodes' numbers, since
    /// that node sees to it that none waits in a circle.
    fn vouched(&self, _cx: &View<'_>, _block: BlockId, _asker: Asker) -> bool {
        false
    }

    /// A block that was missing has come and is cached.
    fn filled(&mut self, _cx: &mut Context<'_>, _block: BlockId, _delivery: Delivery) {}

    /// A block that was missing has come, whether or not it is kept.
    fn fetched(&mut self, _cx: &mut Context<'_>, _block: BlockId, _fetched: Fetched) {}

    /// An evicted block that another node has sent is kept; `depth` is what it came with.
    fn stored(&mut self, _cx: &mut Context<'_>, _block: BlockId, _depth: u8) {}

    /// The card is attached, or the time of [`Context::wake_at`] has come.
    fn tick(&mut self, _cx: &mut Context<'_>) {}

    /// Percent of the cache, below 100, to set apart for blocks that other nodes send, everywhere but at the disk
    /// node. The part has an LRU queue of its own.
    fn set_apart(&self) -> u8 {
        0
    }

    /// Whether the policy tells replicas from other copies, by [`Context::set_replica`].
    fn has_replicas(&self) -> bool {
        false
    }

    /// Room is needed, and there is a replica: whether the one used longest ago goes. Otherwise the replacement chooses another block.
    fn replica_goes(&self, _cx: &View<'_>, _ages: Ages) -> bool {
        true
    }

    /// Whether the policy uses [`View::tag`] and [`View::age_ms`], which cost eight bytes a block.
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
    /// It was fetched ahead, and nobody waits for it.
    pub ahead: bool,
}

/// How long blocks have been here that compete for room, in blocks that have become resident since. A copy for whose queue order of
/// use counts is as old as its last use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ages {
    /// The oldest replica.
    pub block: BlockId,
    /// How long that has been here.
    pub replica: u32,
    /// That of the block that has been here longest of those that the replacement has found worth keeping; none if there are none.
    pub other: Option<u32>,
    /// Replicas here.
    pub replicas: u32,
    /// Blocks that the cache holds.
    pub capacity: u32,
}

/// What a missing block has cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fetched {
    /// The node that was asked first; this node: its own disk.
    pub asked: NodeId,
    /// Who delivered it, as in a [`Delivery`].
    pub from: NodeId,
    /// Where that node had it from.
    pub source: Source,
    /// The time since it was asked for. None while policies have a clock of their own (see [`crate::Input::PolicyClock`]):
    /// the time of a driver that gives one means nothing.
    pub took: Option<Duration>,
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
        /// What kind of copy it was, in words of the policy.
        class: u8,
        /// Stages it may be passed on at most.
        depth: u8,
    },
}

/// A read on its way, at one node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asker {
    /// Whose client wants the block.
    pub requester: NodeId,
    /// The node that asks: the requester, or the one that has passed the request on. This node: one of its clients.
    pub via: NodeId,
    /// Nodes that the request has passed before this one.
    pub hops: u8,
    /// Cooperation has failed, at `via`: only the disk will do, or what the primary knows besides.
    pub failed: bool,
}

impl Asker {
    /// A client of the node itself.
    #[must_use]
    pub const fn own(me: NodeId, failed: bool) -> Self {
        Self { requester: me, via: me, hops: 0, failed }
    }
}

/// An evicted block that looks for a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Offer {
    /// What kind of copy it was, in words of the policy.
    pub class: u8,
    /// Stages it may still be passed on.
    pub depth: u8,
    /// Who evicted it.
    pub evictor: NodeId,
    /// Who had delivered it there.
    pub previous: NodeId,
    /// Milliseconds since it was last used.
    pub age_ms: u32,
    /// Milliseconds since the sender last used its oldest block.
    pub oldest_ms: u32,
}

/// What a policy answers to an [`Offer`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// Keep the block.
    Keep(Room),
    /// There is a copy here already.
    Present,
    /// Pass the block on.
    Forward(NodeId),
    /// Nobody keeps it.
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
