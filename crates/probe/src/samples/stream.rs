//! The sample of one volume.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use cards_admin::{Mark, Measured};
use cards_advise::{Limits, Rate, Reference, Sample, Sampler};
use cards_core::PgId;

use super::marks::Marks;

/// A sample begins at a rate that scales this node's cache to so many blocks, or to twice as many.
const SCALED_BLOCKS: u64 = 8192;
/// The rate never falls below one that scales it to so many, or to twice as many: with a quarter, predictions of skewed
/// reads vary by a point and a half from sample to sample.
const SCALED_BLOCKS_MIN: u64 = 4096;
/// References that are kept.
const REFERENCES_MAX: usize = 1 << 17;
/// Blocks that are kept: at the lowest rate they stand for at least four caches of this node, the most that an advice
/// looks at.
const BLOCKS_MAX: usize = 1 << 15;

/// References to one volume, as they come.
pub(crate) struct Stream {
    volume: PgId,
    /// Blocks are in the sample whose place is below; always that of the sampler's rate.
    limit: AtomicU64,
    /// What clients that are gone had counted since their last reference to a block of the sample.
    reads: AtomicU64,
    writes: AtomicU64,
    sampler: Mutex<Sampler>,
    marks: Mutex<Marks>,
}

impl Stream {
    pub(super) fn new(volume: PgId, cache_blocks: u64) -> Self {
        let rate = Rate::scaling(cache_blocks, SCALED_BLOCKS);
        let lowest = Rate::scaling(cache_blocks, SCALED_BLOCKS_MIN);
        let limits = Limits { references: REFERENCES_MAX, blocks: BLOCKS_MAX, lowest };
        Self {
            volume,
            limit: AtomicU64::new(rate.limit()),
            reads: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            sampler: Mutex::new(Sampler::new(volume, rate, limits)),
            marks: Mutex::default(),
        }
    }

    pub(super) const fn volume(&self) -> PgId {
        self.volume
    }

    #[inline]
    pub(super) fn limit(&self) -> u64 {
        self.limit.load(Relaxed)
    }

    /// A client leaves what it has counted to the others.
    pub(super) fn leave(&self, reads: u32, writes: u32) {
        self.reads.fetch_add(reads.into(), Relaxed);
        self.writes.fetch_add(writes.into(), Relaxed);
    }

    /// What clients have left, for the next reference.
    pub(super) fn left(&self) -> (u32, u32) {
        let take = |count: &AtomicU64| {
            if count.load(Relaxed) == 0 {
                0
            } else {
                u32::try_from(count.swap(0, Relaxed)).unwrap_or(u32::MAX)
            }
        };
        (take(&self.reads), take(&self.writes))
    }

    /// Takes what is this volume's.
    pub(super) fn take(&self, references: &[(PgId, Reference)]) {
        let mut sampler = self.sampler();
        for (_, reference) in references.iter().filter(|(volume, _)| *volume == self.volume) {
            sampler.refer(*reference);
        }
        self.limit.store(sampler.rate().limit(), Relaxed);
    }

    /// Notes what has been measured so far, if it is time.
    pub(super) fn mark(&self, now_us: u64, measured: impl FnOnce() -> Measured) {
        let begins_us = self.sampler().begins_us().unwrap_or(now_us);
        self.marks().note(now_us, begins_us, measured);
    }

    /// What had been measured at some times of the sample, and what has been by now.
    pub(super) fn marks_with(&self, now: Mark) -> Vec<Mark> {
        self.marks().with(now)
    }

    fn marks(&self) -> MutexGuard<'_, Marks> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn sample(&self) -> Sample {
        self.sampler().sample()
    }

    pub(super) fn since(&self, since_us: u64, rate: Rate, most: usize) -> Sample {
        self.sampler().since(since_us, rate, most)
    }

    fn sampler(&self) -> MutexGuard<'_, Sampler> {
        self.sampler.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_takes_a_few_megabytes_whatever_the_cache() {
        let limits = Limits { references: REFERENCES_MAX, blocks: BLOCKS_MAX, lowest: Rate::ALL };
        assert!(limits.bytes() < 6 << 20, "{} bytes", limits.bytes());
    }

    #[test]
    fn what_clients_leave_is_taken_once() {
        let stream = Stream::new(PgId(1), 1 << 20);
        stream.leave(3, 4);
        stream.leave(1, 0);
        assert_eq!((stream.left(), stream.left()), ((4, 4), (0, 0)));
        assert_eq!(stream.limit(), u64::MAX >> 7);
    }
}
