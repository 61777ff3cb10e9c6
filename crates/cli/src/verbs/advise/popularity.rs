//! How often the blocks of a sample are read.

use std::collections::HashMap;

/// Reads of each block of a sample that was read, and from them how much of what the sample has too many reads, or too few, is due
/// to its most popular blocks.
pub(super) struct Popularity {
    /// Ascending.
    reads: Vec<u64>,
    /// Sums over the blocks, of the reads and of their squares.
    sum: u64,
    squares: f64,
}

impl Popularity {
    /// Of these blocks, one for each read.
    pub(super) fn of(blocks: impl Iterator<Item = u32>) -> Self {
        let mut reads: HashMap<u32, u64> = HashMap::new();
        blocks.for_each(|block| *reads.entry(block).or_default() += 1);
        let mut reads: Vec<u64> = reads.into_values().collect();
        reads.sort_unstable();
        let sum = reads.iter().sum();
        let squares = reads.iter().map(|&reads| reads as f64 * reads as f64).sum();
        Self { reads, sum, squares }
    }

    /// From how many of the sample's reads something has happened to, how many of `all` reads it happens to. One block of
    /// `weight` is in the sample.
    ///
    /// A regression estimate (W. Cochran, "Sampling techniques", 3rd edition, 1977, chapter 7): what happened in the sample is
    /// multiplied, and what is wrong about the sample's number of reads is put right with [`Self::slope`]. Where all blocks are
    /// alike that is the sample's share; where a few popular blocks make the number wrong, which hit whatever their number,
    /// it is the correction of SHARDS (section 3.3), which takes their hits only.
    pub(super) fn estimate(&self, happened: u64, weight: u64, all: u64) -> f64 {
        let multiplied = |sampled: u64| sampled as f64 * weight as f64;
        let missing = all as f64 - multiplied(self.sum);
        (multiplied(happened) + self.slope(happened) * missing).clamp(0.0, all as f64)
    }

    /// How many more of it there are for one read more in the sample: of the line through zero that is nearest to all
    /// blocks, where it happens to the first reads of a block, to as many of each as agrees with the total.
    fn slope(&self, happened: u64) -> f64 {
        let (mut left, mut blocks) = (happened as f64, self.reads.len() as f64);
        let mut most = f64::INFINITY;
        for &reads in &self.reads {
            if reads as f64 * blocks >= left {
                most = left / blocks;
                break;
            }
            left -= reads as f64;
            blocks -= 1.0;
        }
        let product: f64 = self.reads.iter().map(|&reads| reads as f64 * most.min(reads as f64)).sum();
        if self.squares > 0.0 { product / self.squares } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn popularity(reads: &[u32]) -> Popularity {
        let blocks = (0..).zip(reads).flat_map(|(block, &reads)| (0..reads).map(move |_| block));
        Popularity::of(blocks)
    }

    #[test]
    fn of_blocks_that_are_alike_the_share_counts() {
        let alike = popularity(&[4; 90]);
        // A tenth of the reads, and the sample has a tenth too few.
        assert!((alike.estimate(36, 10, 4000) - 400.0).abs() < 1e-6);
        assert!((alike.estimate(360, 10, 4000) - 4000.0).abs() < 1e-6);
    }

    #[test]
    fn too_many_reads_of_a_popular_block_are_hits() {
        let mut reads = [1; 100];
        reads[0] = 10_000;
        assert!((popularity(&reads).estimate(100, 10, 2000) - 1000.0).abs() < 15.0);
    }

    #[test]
    fn nothing_is_estimated_from_nothing() {
        assert_eq!(popularity(&[]).estimate(0, 8, 100).to_bits(), 0.0f64.to_bits());
        assert!((popularity(&[3, 1]).estimate(2, 1, 4) - 2.0).abs() < 1e-9);
    }
}
