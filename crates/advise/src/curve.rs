//! The miss-ratio curve of an LRU cache.

use std::collections::HashMap;

use crate::{Access, Fenwick, Sample};

/// The share of block reads that hit in one LRU cache, for all sizes at once.
///
/// From the stack distances of the sample: how many other blocks of it were referenced since the block was (R. Mattson
/// and others, "Evaluation techniques for storage hierarchies", 1970). Misses are counted in the sample and multiplied,
/// and set against all reads: the error that a few blocks of very many reads make, which are in the sample or are
/// not, is one of hits in the smallest cache (SHARDS, section 3.3).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Curve {
    /// Reads of blocks in the sample, those of one block together.
    counted: Vec<Counted>,
    /// Reads, of blocks in the sample or not.
    reads: u64,
    weight: u64,
}

/// A read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Counted {
    block: u32,
    again: bool,
    /// If the block is met again: the blocks of the sample that were referenced since. If not: those that were before.
    others: u32,
}

impl Counted {
    /// Whether it misses in a cache that has room for so many blocks of the sample.
    fn misses(&self, room: u64) -> bool {
        !self.again || u64::from(self.others) >= room
    }
}

/// How far a hit ratio can be trusted.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Doubt {
    /// With 95 of 100 samples it is not off by more than this share of all reads.
    pub error: f64,
    /// The share of all reads that were the first of their blocks, before the cache was full: they count as misses, and some might
    /// have hit, had the sample begun earlier.
    pub unknown: f64,
}

impl Curve {
    /// The curve of a sample, for what comes after its [warm-up](Sample::warm_up).
    #[must_use]
    pub fn of(sample: &Sample) -> Self {
        let mut marks = Fenwick::new(sample.len(), 0);
        let mut last: HashMap<u32, usize> = HashMap::with_capacity(sample.before.len());
        for (place, &block) in sample.before.iter().enumerate() {
            marks.set(place);
            if let Some(old) = last.insert(block, place) {
                marks.clear(old);
            }
        }
        let warm_up = sample.warm_up();
        let mut counted = Vec::new();
        for (i, reference) in sample.references.iter().enumerate() {
            if reference.access == Access::PartialWrite {
                continue;
            }
            let place = sample.before.len() + i;
            let known = last.len() as u32;
            let old = last.insert(reference.block, place);
            if i >= warm_up && reference.access == Access::Read {
                let others = known - old.map_or(0, |old| marks.up_to(old));
                counted.push(Counted { block: reference.block, again: old.is_some(), others });
            }
            if let Some(old) = old {
                marks.clear(old);
            }
            marks.set(place);
        }
        counted.sort_by_key(|read| read.block);
        Self { counted, reads: sample.reads(), weight: sample.rate.weight() }
    }

    /// Reads of blocks in the sample.
    #[must_use]
    pub const fn counted(&self) -> usize {
        self.counted.len()
    }

    /// Blocks in the sample that were read.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.by_block().count()
    }

    fn by_block(&self) -> impl Iterator<Item = &[Counted]> {
        self.counted.chunk_by(|a, b| a.block == b.block)
    }

    /// The share of reads that hit in a cache of so many blocks; none without reads.
    #[must_use]
    pub fn hit_ratio(&self, cache_blocks: u64) -> Option<f64> {
        self.hit_ratio_scaled(cache_blocks / self.weight)
    }

    fn hit_ratio_scaled(&self, room: u64) -> Option<f64> {
        let missed = self.counted.iter().filter(|read| read.misses(room)).count();
        (self.reads > 0)
            .then(|| (1.0 - missed as f64 * self.weight as f64 / self.reads as f64).clamp(0.0, 1.0))
    }

    /// How far [`hit_ratio`](Self::hit_ratio) can be trusted; none without reads.
    ///
    /// Three things are left to chance: which blocks are in the sample (of blocks that are drawn independently, the variance
    /// of the misses: C.-E. Särndal, B. Swensson, J. Wretman, "Model Assisted Survey Sampling", 1992, section 3.2), how many
    /// of them the cache has room for, and which of all the reads to come were made up to now (a binomial share, as A. Agresti and
    /// B. Coull correct it, "Approximate is better than 'exact'", 1998).
    #[must_use]
    pub fn doubt(&self, cache_blocks: u64) -> Option<Doubt> {
        let room = cache_blocks / self.weight;
        let (weight, reads) = (self.weight as f64, self.reads as f64);
        let left_out = 1.0 - 1.0 / weight;
        // Two blocks that are missed once, and two that are not, are added.
        let squares: f64 = self
            .by_block()
            .map(|block| block.iter().filter(|read| read.misses(room)).count() as f64)
            .fold(2.0, |sum, misses| sum + misses * misses);
        let chosen = weight * weight * left_out * squares / (reads + 4.0).powi(2);
        let hits = self.hit_ratio_scaled(room)?;
        let step = (2.0 * (room as f64 * left_out).sqrt()).ceil() as u64;
        let larger = self.hit_ratio_scaled(room.saturating_add(step))? - hits;
        let scaled = larger.max(hits - self.hit_ratio_scaled(room.saturating_sub(step))?);
        let share = (hits * reads + 2.0) / (reads + 4.0);
        let happened = share * (1.0 - share) / (reads + 4.0);
        let early = |read: &&Counted| !read.again && u64::from(read.others) < room;
        let unknown = self.counted.iter().filter(early).count() as f64 * weight / reads;
        Some(Doubt {
            // Too many blocks in the sample are too many misses, and too little room for them too: these two add up.
            error: ((2.0 * chosen.sqrt() + scaled).powi(2) + 4.0 * happened).sqrt().min(1.0),
            unknown: unknown.min(1.0),
        })
    }
}

#[cfg(test)]
mod tests {
    use cards_core::PgId;

    use super::*;
    use crate::{Rate, Reference};

    fn sample(before: &[u32], blocks: &[u32]) -> Sample {
        let reference = |&block| Reference { time_us: 0, block, access: Access::Read, reads: 1, writes: 0 };
        let references = blocks.iter().map(reference).collect();
        Sample { before: before.into(), references, ..Sample::new(PgId(0), Rate::ALL) }
    }

    fn hits(curve: &Curve, caches: &[u64]) -> Vec<f64> {
        caches.iter().map(|&cache| curve.hit_ratio(cache).unwrap()).collect()
    }

    #[test]
    fn a_loop_hits_when_it_fits() {
        let blocks: Vec<u32> = (0..8).map(|i| i % 4).collect();
        assert_eq!(hits(&Curve::of(&sample(&[], &blocks)), &[0, 3, 4, 100]), [0.0, 0.0, 1.0, 1.0]);
    }

    #[test]
    fn what_was_cached_before_counts() {
        let curve = Curve::of(&sample(&[7, 8, 9], &[9, 7]));
        assert_eq!(hits(&curve, &[1, 2, 3]), [0.5, 0.5, 1.0]);
    }

    #[test]
    fn nothing_is_known_without_reads() {
        let nothing = Curve::of(&sample(&[], &[]));
        assert_eq!((nothing.hit_ratio(5), nothing.doubt(5)), (None, None));
    }

    /// Of 400 blocks, each read twice in a row.
    fn twice() -> Vec<u32> {
        (0..800).map(|i| i / 2).collect()
    }

    #[test]
    fn more_reads_leave_less_doubt() {
        let errors: Vec<f64> = [40, 160, 640]
            .into_iter()
            .map(|reads| Curve::of(&sample(&[], &twice()[..reads])).doubt(10).unwrap().error)
            .collect();
        assert!(errors[0] > 0.15 && errors[0] < 0.5, "{errors:?}");
        let halved = |pair: &[f64]| (1.7..2.2).contains(&(pair[0] / pair[1]));
        assert!(errors.windows(2).all(halved), "{errors:?}");
    }

    #[test]
    fn one_block_of_many_reads_leaves_more_doubt_than_many_blocks() {
        let eighth = Rate::try_from(3).unwrap();
        let error = |blocks: &[u32]| {
            let mut sample = Sample { rate: eighth, ..sample(&[], blocks) };
            sample.references.iter_mut().for_each(|reference| reference.reads = 8);
            Curve::of(&sample).doubt(0).unwrap().error
        };
        let many: Vec<u32> = (0..20_000).collect();
        let popular: Vec<u32> = many.iter().map(|&i| if i % 10 == 0 { 7 } else { i }).collect();
        assert!(error(&many) < 0.03 && error(&popular) > 0.15, "{} {}", error(&many), error(&popular));
    }

    #[test]
    fn at_the_size_of_a_loop_there_is_doubt() {
        let blocks: Vec<u32> = (0..40_000).map(|i| i % 2000).collect();
        let sample = Sample { rate: Rate::ALL.half(), ..sample(&[], &blocks) };
        let curve = Curve::of(&sample);
        let error = |cache| curve.doubt(cache).unwrap().error;
        assert!(error(4000) > 0.4 && error(2000) < 0.1 && error(8000) < 0.1);
    }

    #[test]
    fn what_is_read_first_before_the_cache_is_full_is_unknown() {
        // The first 100 warm the cache up, and fill it to the half.
        let blocks: Vec<u32> = (0..200).collect();
        let curve = Curve::of(&sample(&[], &blocks));
        let unknown = [50, 150, 400].map(|cache| curve.doubt(cache).unwrap().unknown);
        assert_eq!(unknown, [0.0, 0.5, 1.0]);
    }
}
