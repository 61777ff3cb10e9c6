//! Counters: plain numbers, read by all drivers.

macro_rules! stats {
    ($($(#[$doc:meta])* $name:ident,)*) => {
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

stats! {
    /// Blocks that clients asked for: `local_hits + remote_hits + disk_reads` once all are answered.
    reads,
    /// Answered from this node's cache.
    local_hits,
    /// Answered from another node's cache. A block fetched ahead counts by where it came from when it is first read.
    remote_hits,
    /// Answered from the disk.
    disk_reads,
    /// Reads that failed.
    failed,
    /// Write, zero and trim commands of this node's clients.
    writes,
    /// Blocks fetched ahead of their use.
    read_ahead,
    /// Blocks that left the cache for want of room.
    evictions,
    /// Evicted blocks sent to another node.
    forwarded,
    /// Evicted blocks of other nodes that this node took in.
    stored_for_others,
    /// Of these, blocks evicted again without having been used.
    stored_in_vain,
    /// Blocks delivered to other nodes out of the cache.
    served,
    /// Blocks delivered to other nodes out of the disk.
    served_from_disk,
    /// Blocks given to readers out of a memory where the disk would have been read: by the node that wrote them last, or
    /// by the disk node while it had the write in hand.
    handed_over,
    /// Requests of other nodes passed on.
    passed_on,
    /// Requests that reached a node by a hint and found no copy there.
    stale_hints,
    /// Requests that waited for a fetch under way for somebody else.
    joined,
    /// Requests repeated to the disk node for want of an answer.
    retries,
    /// Requests made to the disk node as well, since the answer was late.
    hedged,
    /// Deliveries refused as possibly older than a completed write.
    refused_as_stale,
    /// Copies kept over the loss of their lock, or of the card, and usable again.
    copies_kept,
    /// Copies that were outdated when their lock came back.
    copies_outdated,
    /// Copies dropped because the block was written.
    invalidations,
    /// Times that the lock on a range was given up, for somebody's write.
    locks_given_up,
    /// Locks of other nodes' cards that this node, as the disk node, has asked to be given up for want of room.
    locks_revoked,
    /// Times that it was asked for again.
    locks_asked,
    /// Reads that waited for it.
    lock_waits,
    /// How long they waited, together, in microseconds.
    lock_wait_us,
    /// Times that pages of this node's kernel were withdrawn, for somebody's write.
    withdrawals,
    /// Messages sent.
    messages_sent,
    /// Messages received.
    messages_received,
    /// Fetches that had to wait for a free slot.
    slot_waits,
}
