//! Counters of a node and of its disks. The names are an interface: `cards dev --json` and
//! `cards status --json` print them.

use cards_core::Stats;
use serde::{Deserialize, Serialize};

macro_rules! counters {
    ($($(#[doc = $doc:literal])* $name:ident,)*; $($(#[doc = $io_doc:literal])* $io:ident,)*) => {
        /// What a node counted since it started, in blocks unless said otherwise.
        ///
        /// The first part is the core's [`Stats`], summed over the shards; the second part is the driver's.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct Counters {
            $($(#[doc = $doc])* pub $name: u64,)*
            $($(#[doc = $io_doc])* pub $io: u64,)*
        }

        impl From<&Stats> for Counters {
            fn from(stats: &Stats) -> Self {
                Self { $($name: stats.$name,)* $($io: 0,)* }
            }
        }

        impl Counters {
            /// All of them: name, meaning, value.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
                [
                    $((stringify!($name), concat!($($doc),*), self.$name),)*
                    $((stringify!($io), concat!($($io_doc),*), self.$io),)*
                ]
                .into_iter()
            }

            /// The sum of both, for several nodes.
            #[must_use]
            pub const fn plus(&self, other: &Self) -> Self {
                Self {
                    $($name: self.$name.saturating_add(other.$name),)*
                    $($io: self.$io.saturating_add(other.$io),)*
                }
            }

            /// What was counted since `before`, an earlier reading; a daemon that restarted in between
            /// counts from 0.
            #[must_use]
            pub const fn since(&self, before: &Self) -> Self {
                Self {
                    $($name: self.$name.saturating_sub(before.$name),)*
                    $($io: self.$io.saturating_sub(before.$io),)*
                }
            }
        }
    };
}

counters! {
    /// Blocks that clients of this node read: `local_hits + remote_hits + disk_reads` once all are answered.
    reads,
    /// Reads answered from this node's cache.
    local_hits,
    /// Reads answered from another node's cache.
    remote_hits,
    /// Reads answered from the disk.
    disk_reads,
    /// Reads that failed.
    failed,
    /// Writes of this node's clients.
    writes,
    /// Blocks fetched ahead of their use.
    read_ahead,
    /// Blocks that left this node's cache for want of room.
    evictions,
    /// Evicted blocks that were sent to another node.
    forwarded,
    /// Evicted blocks of other nodes that this node took in.
    stored_for_others,
    /// Of these, blocks evicted again without having been used.
    stored_in_vain,
    /// Blocks delivered to other nodes from this node's cache: their `remote_hits`.
    served,
    /// Blocks delivered to other nodes from this node's disk.
    served_from_disk,
    /// Blocks given to readers out of this node's memory where the disk would have been read, since this node wrote
    /// them last or had the write in hand.
    handed_over,
    /// Requests of other nodes passed on.
    passed_on,
    /// Requests that reached this node by a hint and found no copy.
    stale_hints,
    /// Requests that waited for a fetch under way for somebody else.
    joined,
    /// Requests repeated to the disk node for want of an answer.
    retries,
    /// Requests made to the disk node as well, since the answer was late.
    hedged,
    /// Deliveries refused as possibly older than a completed write.
    refused_as_stale,
    /// Copies kept over the loss of their lock or of the card, and usable again.
    copies_kept,
    /// Copies that were outdated when their lock came back.
    copies_outdated,
    /// Copies dropped because the block was written.
    invalidations,
    /// Times that this node gave its lock on a range up, for somebody's write.
    locks_given_up,
    /// Times that this node asked a card for its lock on a region of a disk here, for want of room in the directory.
    locks_revoked,
    /// Times that it asked for one again.
    locks_asked,
    /// Reads that waited for it.
    lock_waits,
    /// How long they waited, together, in microseconds.
    lock_wait_us,
    /// Times that pages of this node's kernel were withdrawn, for somebody's write.
    withdrawals,
    /// Messages sent to peers.
    messages_sent,
    /// Messages received from peers.
    messages_received,
    /// Fetches that had to wait for a free slot.
    slot_waits,
    ;
    /// Bytes sent to peers, headers and data.
    bytes_sent,
    /// Bytes received from peers, headers and data.
    bytes_received,
    /// Bytes that clients of this node read.
    bytes_read,
    /// Bytes that clients of this node wrote.
    bytes_written,
    /// Bytes of blocks copied within the daemon.
    bytes_copied,
    /// Messages to peers that were dropped because the peer took them too slowly.
    messages_dropped,
}

/// What a physical disk was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DiskCounters {
    /// Blocks read.
    pub reads: u64,
    /// Blocks written, in whole or in part; zeroing and trimming move no bytes and do not count.
    pub writes: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
}

impl DiskCounters {
    /// The sum of both, for several disks.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            reads: self.reads.saturating_add(other.reads),
            writes: self.writes.saturating_add(other.writes),
            bytes_read: self.bytes_read.saturating_add(other.bytes_read),
            bytes_written: self.bytes_written.saturating_add(other.bytes_written),
        }
    }
}
