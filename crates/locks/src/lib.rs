//! Locks for the file systems and databases above: multi-reader, single-writer, on ranges of volumes, in
//! groups that are granted and released as a whole (Ho, Hwang and Jin, *Design and analysis of clusters with
//! single I/O space*, section 2: the lock-group table). They are advisory: what a cached block is worth is
//! decided elsewhere.
//!
//! | machine | one per | does |
//! |---|---|---|
//! | [`RangeLocks`] | region | who holds, who waits |
//! | [`LockHome`] | node | looks after the regions whose home it is, keeps copies for others |
//! | [`LockClient`] | session | acquires groups, renews its lease, says what it may believe |
//! | [`FenceGate`] | thing that is stored | refuses those whose lock is gone and who do not know it |
//!
//! All are driven like the machines of [`cards_core`]: one input, then all outputs; the time comes with the input. What
//! the driver of a [`LockHome`] owes besides: a view, in which a node does not appear any more, reaches nobody before
//! that node's membership has ended by its own clock ([`HomeInput::Member`]); a node that starts anew, or was left out
//! of a view, comes back with a new `joined`. `docs/internals/locks.md` says why this is enough.

#![no_std]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod client;
mod error;
mod fence;
mod home;
mod message;
pub mod mistakes;
mod range;
mod request;
mod table;

pub use client::{ClientConfig, ClientInput, ClientOutput, Grant, LockClient, Wait, Want};
pub use error::LockError;
pub use fence::{Fence, FenceGate, StaleFence};
pub use home::{Holding, HoldingState, HomeConfig, HomeInput, HomeLimits, HomeOutput, HomeTimer, LockHome};
pub use message::{Beat, Change, Evidence, GroupKey, LockBody, LockMessage, Part, SessionId};
pub use range::{LockRange, Locked, Mode};
pub use table::{Acquired, RangeLocks, RecordState, TableLimits};
