//! The node's protocol as a deterministic state machine: no I/O, no clock, no threads, no data.
//!
//! A node is one [`Control`] (its cards, their leases, who may write) and a power of two of
//! [`Shard`]s (cache, index, fetches, writes), which share nothing and never wait for each other.
//! Both are driven alike:
//!
//! ```text
//! loop {
//!     wait for an input, or until next_timeout();
//!     shard.handle(now, input);                     // one input ...
//!     while let Some(output) = shard.poll() { .. }  // ... then drain all outputs, then the next input
//! }
//! ```
//!
//! What a driver owes:
//!
//! 1. `now` never goes back. Randomness comes from the seed given to [`Shard::new`] alone.
//! 2. The bytes: a slot has [`VolumeSpec::block_bytes`] of memory, which the driver fills and sends as the
//!    outputs say and which only an output or [`Shard::landing`] entitles it to touch.
//! 3. Messages may be lost, repeated, delayed and reordered; each arrives whole or not at all.
//! 4. After a restart a node begins with new state and a higher incarnation.
//!
//! Three drivers exist or will: the daemon (sockets and disks), the fault-injecting checker and
//! the performance simulator; all run this same code.

#![no_std]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod algorithms;
mod cache;
mod control;
mod frame_data;
mod ids;
mod index;
mod io;
mod message;
pub mod mistakes;
mod persistence;
mod placement;
pub mod policy;
pub mod rendezvous;
pub mod replacement;
mod rights;
mod shard;
mod stats;
mod table;
mod time;
mod timers;
mod timing;
mod volume;

pub use algorithms::Algorithms;
pub use cache::{Cache, Frames};
pub use control::{
    CardJournal, CardNote, CardStatus, Control, ControlConfig, ControlInput, ControlOutput, ControlTimer,
    DiskJournal, Exclusivity, KnownCards, Term,
};
pub use ids::{
    BlockId, BufferId, Generation, NodeId, OpId, PgId, RequestId, STRIPE_BLOCKS, Slot, Stamp, Token,
    WithdrawalId, mix,
};
pub use io::{CommandOrigin, DiskWork, Input, Landing, Origin, Output, Patch, Payload, Read};
pub use message::{
    Ahead, Body, CommandKind, ControlMessage, Extent, Grant, IoError, Message, Note, Numbered, Refusal,
    Source, StoreOutcome,
};
pub use persistence::{FlushPoint, Loss, Persistence, Unflushed};
pub use placement::{Placement, PlacementKind};
pub use rights::{Allowed, NoLimits, Rights};
pub use shard::{
    Bounds, CardView, Explanation, HolderView, Limit, Limits, Marks, Quiet, Reached, Route, SLOTS_MAX, Shard,
    ShardConfig, UnderWay, judge,
};
pub use stats::Stats;
pub use table::Table;
pub use time::{Duration, Instant};
pub use timers::Timer;
pub use volume::{Access, Coherence, Handover, VolumeSpec};
