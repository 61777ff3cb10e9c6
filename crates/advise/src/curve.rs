//! The miss-ratio curve of an LRU cache.

use std::collections::HashMap;

use crate::{Access, Sample};

/// The share of block reads that hit in one LRU cache, for all sizes at once.
///
/// From the stack distances of the sample: how many other blocks of it were referenced since the block was (R. Mattson
/// and others, "Evaluation techniques for storage hierarchies", 1970). Misses are counted in the sample and multiplied,
/// and set against all reads: the error that a few blocks of very many reads make, which are in the sample or are
/// not, is one of hits in the smallest cache (SHARDS, section 3.3).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Curve {
    /// Reads of the sample by distance.
    distances: Vec<u64>,
    /// Reads of the sample of blocks that are met for the first time.
    firsts: u64,
    /// Reads, of blocks in the sample or not.
    reads: u64,
    weight: u64,
}

impl Curve {
    /// The curve of a sample, for what comes after its [warm-up](Sample::warm_up).
    #[must_use]
    pub fn of(sample: &Sample) -> Self {
        let places = sample.before.len() + sample.references.len();
        let mut marks = Marks::new(places);
        let mut last: HashMap<u32, usize> = HashMap::with_capacity(sample.before.len());
        for (place, &block) in sample.before.iter().enumerate() {
            marks.set(place);
            if let Some(old) = last.insert(block, place) {
                marks.clear(old);
            }
        }
        let mut curve =
            Self { distances: Vec::new(), firsts: 0, reads: sample.reads(), weight: sample.rate.weight() };
        let warm_up = sample.warm_up();
        for (i, reference) in sample.references.iter().enumerate() {
            if reference.access == Access::PartialWrite {
                continue;
            }
            let place = sample.before.len() + i;
            let old = last.insert(reference.block, place);
            let counts = i >= warm_up && reference.access == Access::Read;
            match old {
                Some(old) => {
                    if counts {
                        curve.again(last.len() as u64 - u64::from(marks.up_to(old)));
                    }
                    marks.clear(old);
                }
                None => curve.firsts += u64::from(counts),
            }
            marks.set(place);
        }
        curve
    }

    fn again(&mut self, distance: u64) {
        // Less than the blocks of the sample.
        let distance = distance as usize;
        if distance >= self.distances.len() {
            self.distances.resize(distance + 1, 0);
        }
        self.distances[distance] += 1;
    }

    /// The share of reads that hit in a cache of so many blocks; none without reads.
    #[must_use]
    pub fn hit_ratio(&self, cache_blocks: u64) -> Option<f64> {
        let scaled = usize::try_from(cache_blocks / self.weight).unwrap_or(usize::MAX);
        let missed: u64 = self.firsts + self.distances.iter().skip(scaled).sum::<u64>();
        (self.reads > 0)
            .then(|| (1.0 - missed as f64 * self.weight as f64 / self.reads as f64).clamp(0.0, 1.0))
    }

    /// Blocks of the largest cache of which it can tell more than of smaller ones.
    #[must_use]
    pub fn reach_blocks(&self) -> u64 {
        (self.distances.len() as u64).saturating_mul(self.weight)
    }
}

/// Marked places, counted by prefix in logarithmic time (P. Fenwick, "A new data structure for cumulative frequency
/// tables", 1994).
struct Marks {
    sums: Vec<u32>,
}

impl Marks {
    fn new(places: usize) -> Self {
        Self { sums: vec![0; places + 1] }
    }

    fn set(&mut self, place: usize) {
        self.change(place, |sum| sum + 1);
    }

    fn clear(&mut self, place: usize) {
        self.change(place, |sum| sum - 1);
    }

    fn change(&mut self, place: usize, change: impl Fn(u32) -> u32) {
        let mut i = place + 1;
        while let Some(sum) = self.sums.get_mut(i) {
            *sum = change(*sum);
            i += i & i.wrapping_neg();
        }
    }

    /// Marks up to and including a place.
    fn up_to(&self, place: usize) -> u32 {
        let mut i = place + 1;
        let mut total = 0;
        while i > 0 {
            total += self.sums[i];
            i &= i - 1;
        }
        total
    }
}

#[cfg(test)]
mod tests {
    use cards_core::VolumeId;

    use super::*;
    use crate::{Rate, Reference};

    fn sample(before: &[u32], blocks: &[u32]) -> Sample {
        let reference = |&block| Reference { time_us: 0, block, access: Access::Read, reads: 1, writes: 0 };
        let references = blocks.iter().map(reference).collect();
        Sample { before: before.into(), references, ..Sample::new(VolumeId(0), Rate::ALL) }
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
        assert_eq!(curve.reach_blocks(), 3);
    }

    #[test]
    fn nothing_is_known_without_reads() {
        assert_eq!(Curve::of(&sample(&[], &[])).hit_ratio(5), None);
    }
}
