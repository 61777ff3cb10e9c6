//! The systems under study.

mod array;
mod bounds;
mod cluster;
mod pafs;
mod remote;
mod xfs;

pub use array::{Array, ArrayEngine, ArrayEvent};
pub use bounds::{Bound, Foresight};
pub use cluster::{Cluster, ClusterEvent};
pub use pafs::{Mail, Pafs, PafsEvent, Place, Step};
pub use remote::{Attachment, Delivery, Ethernet, Heads, RemoteDisk, RemoteEngine, RemoteEvent};
pub use xfs::{Arrival, Xfs, XfsEvent};

use cards_core::Instant;

use crate::kernel::{Io, Kernel};

/// A system that answers the requests of processes.
///
/// It is told of a request and of its own events, uses the parts of the machine ([`Kernel::model`]) for what it
/// does, and says when a request is done ([`Kernel::complete`]).
pub trait Engine {
    /// What it schedules for itself.
    type Event;

    /// A process issues a request, now.
    fn submit(&mut self, kernel: &mut Kernel<Self::Event>, io: Io);

    /// An event it has scheduled happens, now.
    fn event(&mut self, kernel: &mut Kernel<Self::Event>, event: Self::Event);

    /// What it has done so far.
    fn counts(&self) -> Counts;

    /// Evicted blocks that each node has taken in for others; empty if that is not known.
    fn stored_by_node(&self) -> Vec<u64> {
        Vec::new()
    }

    /// When it wants to be called again although nothing is under way (the syncer, a repartition, an epoch). Such events do
    /// not keep a run going that is otherwise at its end.
    fn is_idle(&self) -> bool;

    /// Bytes of memory of all tables, for the cost per cached block.
    fn table_bytes(&self) -> usize;

    /// Blocks cached by all nodes, copies included.
    fn cached_blocks(&self) -> u64;

    /// Why a node does without the module that is the policy, if one does.
    fn policy_failure(&self) -> Option<String> {
        None
    }

    /// The policies that were chosen, in order: with `auto`, the first is what it began with.
    fn choices(&self) -> Vec<Choice> {
        Vec::new()
    }

    /// Panics when an invariant is broken; `now` is a quiet moment.
    fn check(&self, _now: Instant) {}
}

/// A policy that `auto` has chosen.
#[derive(Clone, PartialEq, Debug, serde::Serialize)]
pub struct Choice {
    /// After so many requests of the run.
    pub requests: u64,
    /// The policy in force from then on.
    pub policy: String,
    /// Mean time of a read by the sample, in microseconds: of the policy until then, and of this one. None of what it began with.
    pub expected_us: Option<(f64, f64)>,
}

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What a system has done, in blocks.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct Counts {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counts {
            /// What has been done since an earlier moment.
            #[must_use]
            pub const fn since(&self, earlier: &Self) -> Self {
                Self { $($name: self.$name - earlier.$name,)* }
            }

            /// All counters with their names.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name),)*].into_iter()
            }
        }
    };
}

counts! {
    /// Block reads answered from the memory of the reader's node.
    local_hits,
    /// Block reads answered from the memory of another node.
    remote_hits,
    /// Block reads answered from a disk.
    disk_reads,
    /// Block writes that found the block in a memory.
    write_hits,
    /// Block writes.
    writes,
    /// Evicted blocks sent to another node.
    forwarded,
    /// Evicted blocks that another node has taken in.
    stored_for_others,
    /// Of these, evicted again without having been used.
    stored_in_vain,
    /// Blocks that left a memory for want of room.
    evictions,
    /// Copies dropped because the block was written elsewhere.
    invalidations,
    /// Requests that a hint has led to a node without a copy.
    stale_hints,
    /// Dirty blocks written to a disk because their place was needed.
    dirty_evictions,
    /// xfs: remote hits whose buffer held a block that had to be forwarded first; over all remote hits this is `pf` of
    /// PAFS, equation 4.
    remote_hits_forwarding,
    /// xfs: remote hits whose buffer held a dirty block that had to be cleaned first; over all remote hits this is `pd` of
    /// PAFS, equation 5.
    remote_hits_cleaning,
    /// xfs: block writes that had to ask the block's manager.
    ownership_requests,
    /// Blocks read from a disk because a part of them is written.
    write_fills,
    /// pafs: buffers that one cache server has given to another one.
    reassigned,
    /// pafs, paca: block writes that went through a parity server.
    covered_writes,
    /// opt: block reads that could be answered from the memory of the reader's node alone, if each node kept what is best
    /// for its own references.
    opt_local_hits,
}
