//! Counters of a disk, shared by its engines.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::error::JobError;
use crate::job::{Op, Outcome};

/// Counters, bumped without ordering: each is exact, a set of them is only nearly simultaneous.
#[derive(Debug)]
pub struct DiskStats {
    /// Bytes of a counted block.
    block: u64,
    reads: AtomicU64,
    writes: AtomicU64,
    bytes_read: AtomicU64,
    bytes_written: AtomicU64,
    flushes: AtomicU64,
    errors: AtomicU64,
    damaged: AtomicU64,
    answered: AtomicU64,
    in_flight: AtomicU64,
    moving: AtomicU64,
}

/// The counters at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StatsSnapshot {
    /// Blocks of [`DiskOptions::count_block`](crate::DiskOptions::count_block) bytes read without error; one
    /// that is read in two jobs counts twice.
    pub reads: u64,
    /// Blocks written without error, the same way (zero and trim move no bytes and do not count).
    pub writes: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
    /// Syncs that succeeded; several flushes and FUA writes may share one.
    pub flushes: u64,
    /// Jobs that failed.
    pub errors: u64,
    /// Of these, those whose data did not fit their checksums.
    pub damaged: u64,
    /// Jobs that the disk itself has answered, with an error or not. Those that were refused before they came to it, or that its server
    /// has left without an answer, are not among them.
    pub answered: u64,
    /// Jobs submitted and not yet delivered.
    pub in_flight: u64,
    /// Reads and writes that are not done, without writes that are to be durable.
    pub moving: u64,
}

impl DiskStats {
    pub(crate) fn new(block: u32) -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            block: u64::from(block.max(1)),
            reads: zero(),
            writes: zero(),
            bytes_read: zero(),
            bytes_written: zero(),
            flushes: zero(),
            errors: zero(),
            damaged: zero(),
            answered: zero(),
            in_flight: zero(),
            moving: zero(),
        }
    }

    /// Reads all counters.
    pub fn snapshot(&self) -> StatsSnapshot {
        StatsSnapshot {
            reads: self.reads.load(Relaxed),
            writes: self.writes.load(Relaxed),
            bytes_read: self.bytes_read.load(Relaxed),
            bytes_written: self.bytes_written.load(Relaxed),
            flushes: self.flushes.load(Relaxed),
            errors: self.errors.load(Relaxed),
            damaged: self.damaged.load(Relaxed),
            answered: self.answered.load(Relaxed),
            in_flight: self.in_flight.load(Relaxed),
            moving: self.moving.load(Relaxed),
        }
    }

    pub(crate) fn submitted(&self, op: &Op) {
        self.in_flight.fetch_add(1, Relaxed);
        self.moving.fetch_add(op.only_moves().into(), Relaxed);
    }

    pub(crate) fn synced(&self) {
        self.flushes.fetch_add(1, Relaxed);
    }

    pub(crate) fn completed(&self, op: &Op, result: &Result<Outcome, JobError>) {
        self.moving.fetch_sub(op.only_moves().into(), Relaxed);
        if result.as_ref().map_or_else(|error| error.is_answer(), |_| true) {
            self.answered.fetch_add(1, Relaxed);
        }
        match (op, result) {
            (_, Err(error)) => {
                self.errors.fetch_add(1, Relaxed);
                self.damaged.fetch_add(u64::from(matches!(error, JobError::Damaged { .. })), Relaxed);
            }
            (Op::Read { offset, buf }, Ok(_)) => {
                self.reads.fetch_add(self.blocks(*offset, buf.len()), Relaxed);
                self.bytes_read.fetch_add(buf.len() as u64, Relaxed);
            }
            (Op::Write { offset, buf, .. }, Ok(_)) => {
                self.writes.fetch_add(self.blocks(*offset, buf.len()), Relaxed);
                self.bytes_written.fetch_add(buf.len() as u64, Relaxed);
            }
            (Op::Flush | Op::Zero { .. } | Op::Trim { .. } | Op::Extents { .. }, Ok(_)) => {}
        }
    }

    /// Blocks that a range touches.
    fn blocks(&self, offset: u64, len: usize) -> u64 {
        let Some(last) = (len as u64).checked_sub(1) else { return 0 };
        (offset + last) / self.block - offset / self.block + 1
    }

    pub(crate) fn delivered(&self, jobs: usize) {
        self.in_flight.fetch_sub(jobs as u64, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_counted_not_jobs() {
        let stats = DiskStats::new(64 << 10);
        for (offset, len, blocks) in
            [(0, 3 << 20, 48), (0, 1, 1), (65_535, 2, 2), (4096, 65_536, 2), (65_536, 65_536, 1), (7, 0, 0)]
        {
            assert_eq!(stats.blocks(offset, len), blocks, "{len} bytes at {offset}");
        }
    }
}
