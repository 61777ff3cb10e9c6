//! Counters of a disk, shared by its engines.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::error::JobError;
use crate::job::{Op, Outcome};

/// Counters, bumped without ordering: each is exact, a set of them is only nearly simultaneous.
#[derive(Debug, Default)]
pub struct DiskStats {
    reads: AtomicU64,
    writes: AtomicU64,
    bytes_read: AtomicU64,
    bytes_written: AtomicU64,
    flushes: AtomicU64,
    errors: AtomicU64,
    in_flight: AtomicU64,
}

/// The counters at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StatsSnapshot {
    /// Reads completed without error.
    pub reads: u64,
    /// Writes completed without error (zero and trim move no bytes and do not count).
    pub writes: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
    /// Syncs that succeeded; several flushes and FUA writes may share one.
    pub flushes: u64,
    /// Jobs that failed.
    pub errors: u64,
    /// Jobs submitted and not yet delivered.
    pub in_flight: u64,
}

impl DiskStats {
    /// Reads all counters.
    pub fn snapshot(&self) -> StatsSnapshot {
        StatsSnapshot {
            reads: self.reads.load(Relaxed),
            writes: self.writes.load(Relaxed),
            bytes_read: self.bytes_read.load(Relaxed),
            bytes_written: self.bytes_written.load(Relaxed),
            flushes: self.flushes.load(Relaxed),
            errors: self.errors.load(Relaxed),
            in_flight: self.in_flight.load(Relaxed),
        }
    }

    pub(crate) fn submitted(&self) {
        self.in_flight.fetch_add(1, Relaxed);
    }

    pub(crate) fn synced(&self) {
        self.flushes.fetch_add(1, Relaxed);
    }

    pub(crate) fn completed(&self, op: &Op, result: &Result<Outcome, JobError>) {
        match (op, result) {
            (_, Err(_)) => _ = self.errors.fetch_add(1, Relaxed),
            (Op::Read { buf, .. }, Ok(_)) => {
                self.reads.fetch_add(1, Relaxed);
                self.bytes_read.fetch_add(buf.len() as u64, Relaxed);
            }
            (Op::Write { buf, .. }, Ok(_)) => {
                self.writes.fetch_add(1, Relaxed);
                self.bytes_written.fetch_add(buf.len() as u64, Relaxed);
            }
            (Op::Flush | Op::Zero { .. } | Op::Trim { .. } | Op::Extents { .. }, Ok(_)) => {}
        }
    }

    pub(crate) fn delivered(&self, jobs: usize) {
        self.in_flight.fetch_sub(jobs as u64, Relaxed);
    }
}
