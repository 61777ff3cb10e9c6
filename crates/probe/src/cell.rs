//! What one data thread has counted of one volume.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use cards_core::Origin;

use cards_admin::{Io, LATENCY_BUCKETS, Op, OpIo};

/// Counted by one thread and read by any: no locked instruction, no line that another thread writes.
#[derive(Debug, Default)]
pub(crate) struct Cell {
    ops: [Ops; Op::ALL.len()],
    /// By [`Origin`].
    blocks: [AtomicU64; 3],
    /// Reads that had to wait for blocks, and their nanoseconds, by [`Origin`] of the last block.
    waited: [(AtomicU64, AtomicU64); 3],
    lock_waits: AtomicU64,
    throttled: AtomicU64,
    throttled_ns: AtomicU64,
}

#[derive(Debug)]
struct Ops {
    buckets: [AtomicU64; LATENCY_BUCKETS],
    nanoseconds: AtomicU64,
    bytes: AtomicU64,
    errors: AtomicU64,
}

impl Default for Ops {
    fn default() -> Self {
        let zero = AtomicU64::default;
        Self { buckets: std::array::from_fn(|_| zero()), nanoseconds: zero(), bytes: zero(), errors: zero() }
    }
}

impl Cell {
    /// A request is over, after `nanoseconds`, which are in that bucket. Only the cell's own thread may say so, and what
    /// follows.
    #[inline]
    pub(crate) fn request(&self, op: Op, (nanoseconds, bucket): (u64, usize), bytes: u32, failed: bool) {
        let ops = &self.ops[op as usize];
        add(&ops.buckets[bucket], 1);
        add(&ops.nanoseconds, nanoseconds);
        if failed {
            add(&ops.errors, 1);
        } else {
            add(&ops.bytes, u64::from(bytes));
        }
    }

    /// A block of a read has been had.
    #[inline]
    pub(crate) fn block(&self, origin: Origin) {
        add(&self.blocks[index_of(origin)], 1);
    }

    /// A read has waited for blocks, the last of which came from there.
    pub(crate) fn waited(&self, origin: Origin, nanoseconds: u64) {
        let (reads, sum) = &self.waited[index_of(origin)];
        add(reads, 1);
        add(sum, nanoseconds);
    }

    /// Reads and their nanoseconds together: of all of them, and of those that waited for blocks, by [`Origin`].
    pub(crate) fn read_times(&self) -> ((u64, u64), [(u64, u64); 3]) {
        let ops = &self.ops[Op::Read as usize];
        let reads = ops.buckets.iter().map(|bucket| bucket.load(Relaxed)).sum();
        let of = |(reads, sum): &(AtomicU64, AtomicU64)| (reads.load(Relaxed), sum.load(Relaxed));
        ((reads, ops.nanoseconds.load(Relaxed)), self.waited.each_ref().map(of))
    }

    /// A read waits for a lock.
    pub(crate) fn lock_wait(&self) {
        add(&self.lock_waits, 1);
    }

    /// A limit has had a request wait.
    pub(crate) fn throttled(&self, waited: Duration) {
        add(&self.throttled, 1);
        add(&self.throttled_ns, u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX));
    }

    /// What has been counted.
    pub(crate) fn read(&self) -> Io {
        let blocks = |origin| self.blocks[index_of(origin)].load(Relaxed);
        Io {
            ops: Op::ALL.iter().zip(&self.ops).filter_map(|(op, ops)| ops.read(*op)).collect(),
            local_hits: blocks(Origin::Local),
            remote_hits: blocks(Origin::Remote),
            disk_reads: blocks(Origin::Disk),
            lock_waits: self.lock_waits.load(Relaxed),
            throttled: self.throttled.load(Relaxed),
            throttled_us: self.throttled_ns.load(Relaxed) / 1_000,
        }
    }
}

impl Ops {
    fn read(&self, op: Op) -> Option<OpIo> {
        let mut io = OpIo {
            errors: self.errors.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            total_us: self.nanoseconds.load(Relaxed) / 1_000,
            ..OpIo::none(op)
        };
        for (bucket, count) in self.buckets.iter().enumerate() {
            io.latency.add(bucket, count.load(Relaxed));
        }
        (io.latency.count() > 0).then_some(io)
    }
}

const fn index_of(origin: Origin) -> usize {
    match origin {
        Origin::Local => 0,
        Origin::Remote => 1,
        Origin::Disk => 2,
    }
}

/// Adds to a counter that only this thread writes.
#[inline]
fn add(counter: &AtomicU64, value: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(value), Relaxed);
}
