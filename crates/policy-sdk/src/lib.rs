//! Placement policies for CARDs, as WebAssembly modules.
//!
//! A policy decides where copies of blocks live. It answers four questions: where a read goes that finds no copy here
//! ([`Policy::route`]), what becomes of an evicted block ([`Policy::handle_eviction`]), which nodes hear of a write
//! ([`Policy::keep_consistency`]), and whether an evicted block of another node is kept here ([`Policy::offered`]). The other
//! methods are hooks, void by default. Answers are hints: a wrong one costs a hop, never a wrong byte.
//!
//! A call is arithmetic over the module's own memory: no clock, no I/O, no imports, no floating point (its results differ between
//! machines), and a bounded number of instructions. What a policy wants done it writes into its [`Context`]; the node does it after
//! the call, in order. Each shard of each node has its own instance of the policy for each volume.
//!
//! ```
//! use cards_policy_sdk::{Asker, Context, Eviction, Node, Policy, View, export};
//!
//! /// Greedy forwarding: the disk node passes a read on to the node that asked for the block last.
//! struct Greedy;
//!
//! impl Policy for Greedy {
//!     fn route(&self, view: &View, asker: Asker) -> Option<Node> {
//!         view.next().filter(|&next| view.me() == view.disk_node() && next != asker.requester)
//!     }
//!
//!     fn asked(&mut self, cx: &mut Context, asker: Asker, _to: Option<Node>) {
//!         if cx.me() == cx.disk_node() && asker.requester != cx.me() {
//!             cx.set_next(Some(asker.requester));
//!         }
//!     }
//!
//!     fn handle_eviction(&mut self, cx: &mut Context) -> Eviction {
//!         let _ = cx;
//!         Eviction::Drop
//!     }
//! }
//!
//! export!(Greedy, Greedy);
//! # fn main() {}
//! ```
//!
//! | file | noun |
//! |---|---|
//! | `abi` | the record that node and module share, and the codes of answers |
//! | `view` | what a policy sees |
//! | `context` | what it can have done |
//! | `export` | the module's exports |

#![no_std]
#![warn(missing_docs)]

pub mod abi;
mod context;
mod export;
mod view;

pub use context::Context;
pub use export::Instance;
pub use view::View;

/// The number of a node.
pub type Node = u16;

/// A policy at work at one shard of one node, for one volume.
pub trait Policy {
    /// What the policy looks at, of [`abi::needs`]. Each costs the node some time in each call.
    const NEEDS: u16 = abi::needs::HOME | abi::needs::INDEX | abi::needs::RESIDENCE;

    /// Percent of the cache, below 100, that is reserved for blocks which other nodes send, at nodes other than the disk node.
    const RESERVED_PERCENT: u8 = 0;

    /// The node that a read goes to which finds no usable copy here; None: the disk node. Also asked of reads that are only
    /// thought of (`cards why`), so it must change nothing.
    fn route(&self, view: &View, asker: Asker) -> Option<Node>;

    /// A block leaves this cache: it is dropped, or offered to another node.
    fn handle_eviction(&mut self, cx: &mut Context) -> Eviction;

    /// A client of `writer` has written the block. Only called where the policy keeps copies coherent ([`View::invalidates`]).
    fn keep_consistency(&mut self, _cx: &mut Context, _writer: Node) {}

    /// An evicted block of another node looks for a place.
    fn offered(&mut self, _cx: &mut Context, _offer: Offer) -> Answer {
        Answer::Drop
    }

    /// A read has been asked for here; `to` is the node that [`Self::route`] named and that the read went to.
    fn asked(&mut self, _cx: &mut Context, _asker: Asker, _to: Option<Node>) {}

    /// Another node says something about the block.
    fn note(&mut self, _cx: &mut Context, _from: Node, _note: Note) {}

    /// A block that was missing has come and is cached.
    fn filled(&mut self, _cx: &mut Context, _delivery: Delivery) {}

    /// A block that was missing has come, cached or not.
    fn fetched(&mut self, _cx: &mut Context, _fetched: Fetched) {}

    /// An offered block is kept; `depth` is what it came with.
    fn stored(&mut self, _cx: &mut Context, _depth: u8) {}

    /// The volume is attached, or the time of [`Context::wake_at`] has come. No block is at hand.
    fn tick(&mut self, _cx: &mut Context) {}
}

/// A read on its way, at one node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asker {
    /// The node whose client wants the block.
    pub requester: Node,
    /// The node that asks here: the requester, or the one that passed the request on. This node: one of its own clients.
    pub via: Node,
    /// Nodes that the request has passed before this one.
    pub hops: u8,
    /// Cooperation has failed: only the disk will do.
    pub failed: bool,
}

/// An evicted block that looks for a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Offer {
    /// The kind of copy, in words of the policy that sent it.
    pub class: u8,
    /// Stages that the block may still be passed on.
    pub depth: u8,
    /// The node that evicted the block.
    pub evictor: Node,
    /// The node that had delivered the block to the evictor.
    pub previous: Node,
    /// Milliseconds since the block was last used.
    pub age_ms: u32,
    /// Milliseconds since the sender last used its oldest block.
    pub oldest_ms: u32,
}

/// What a node says to another about a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Note {
    /// The kind, in words of the policy.
    pub kind: u8,
    /// The value, in words of the policy.
    pub value: u64,
}

/// Where a delivered block was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// In a cache.
    Cache,
    /// On the disk.
    Disk,
}

/// How a missing block has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delivery {
    /// The node that delivered the block.
    pub from: Node,
    /// Where that node had it.
    pub source: Source,
    /// Milliseconds since that node last used its oldest block.
    pub oldest_ms: u32,
    /// Only other nodes wait for the block.
    pub for_others: bool,
}

/// What a missing block has cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fetched {
    /// The node that was asked first; this node: its own disk.
    pub asked: Node,
    /// The node that delivered the block.
    pub from: Node,
    /// Where that node had it.
    pub source: Source,
    /// Nanoseconds from the question to the block, where that means something.
    pub took_ns: Option<u64>,
}

/// What becomes of an evicted block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Eviction {
    /// It is dropped.
    Drop,
    /// It is offered to another node.
    Send {
        /// The node.
        to: Node,
        /// The kind of copy, in words of the policy.
        class: u8,
        /// Stages that the block may be passed on at most.
        depth: u8,
    },
}

/// The answer to an [`Offer`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// The block is not kept.
    Drop,
    /// A copy is here already.
    Present,
    /// The block is passed on to another node.
    Forward(Node),
    /// The block is kept.
    Keep(Room),
}

/// What a kept block may displace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Room {
    /// Nothing: only a free place will do.
    Free,
    /// A block near eviction that has a newer copy elsewhere.
    Duplicate,
    /// A prefetched block that no client has read.
    Unread,
    /// The block that the replacement chooses.
    Evict,
    /// This block.
    Of(u32),
}
