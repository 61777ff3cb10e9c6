//! Counters: plain numbers, read by all drivers.

macro_rules! stats {
    ($($(#[$doc:meta])* $name:ident,)*;) => {
        /// What a shard has done since it began. Counts are in blocks unless a name says otherwise.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct Stats {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Stats {
            /// Adds the counts of another shard.
            pub const fn add(&mut self, other: &Self) {
                $(self.$name += other.$name;)*
            }

            /// All counters with their names, in the order of their declaration.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name),)*].into_iter()
            }
        }
    };
}

/// Gives the macro `$with` the counters of [`Stats`], each with what it means, and behind them `;` and `$rest`.
#[macro_export]
macro_rules! with_stats {
    ($with:ident { $($rest:tt)* }) => {
        $with! {
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
            $($rest)*
        }
    };
}

with_stats!(stats {});
