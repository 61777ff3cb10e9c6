//! The systems under study.

mod cluster;

pub use cluster::{Cluster, ClusterEvent};

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

    /// When it wants to be called again although nothing is under way (the syncer, a repartition, an epoch). Such events do
    /// not keep a run going that is otherwise at its end.
    fn is_idle(&self) -> bool;

    /// Bytes of memory of all tables, for the cost per cached block.
    fn table_bytes(&self) -> usize;

    /// Blocks cached by all nodes, copies included.
    fn cached_blocks(&self) -> u64;

    /// Panics when an invariant is broken; `now` is a quiet moment.
    fn check(&self, _now: Instant) {}
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
}
