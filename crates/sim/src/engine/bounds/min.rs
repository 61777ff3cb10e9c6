//! Belady's MIN, on positions in a stream of references.
//!
//! A block that is kept is kept *until* a position: that of its next reference. Positions are unique, so they stand for the
//! blocks, and MIN is: keep everything, and when there is no room give up what is needed last. The block just referred to
//! may be the one: it need not be cached. So no cache of this size has more hits (the classic MIN, which
//! must take every block in, has as many or fewer).

use std::collections::BinaryHeap;

/// A cache that knows the future.
#[derive(Debug)]
pub(super) struct Min {
    capacity: usize,
    kept: usize,
    /// Until when blocks are kept, the latest first. Positions that have passed stay until there are many.
    until: BinaryHeap<u32>,
}

/// Passed positions that are not worth a search for them.
const IDLE: usize = 1024;

impl Min {
    pub(super) const fn new(capacity: u64) -> Self {
        Self { capacity: capacity as usize, kept: 0, until: BinaryHeap::new() }
    }

    pub(super) const fn kept(&self) -> usize {
        self.kept
    }

    /// The reference at a position: `hit` says whether its block had been kept until then, `next` is the next position
    /// that the block should be kept until, if it should. Returns the position until which a block is kept no longer.
    pub(super) fn refer(&mut self, position: u32, hit: bool, next: Option<u32>) -> Option<u32> {
        self.kept -= usize::from(hit);
        self.until.push(next?);
        self.kept += 1;
        if self.until.len() > 2 * self.kept + IDLE {
            self.until.retain(|&until| until > position);
        }
        if self.kept <= self.capacity {
            return None;
        }
        self.kept -= 1;
        self.until.pop()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// Hits of each reference; `counts` says which references are worth a hit.
    fn min(blocks: &[u8], counts: &[bool], capacity: u64) -> Vec<bool> {
        let mut next = vec![None; blocks.len()];
        let mut last = BTreeMap::new();
        for (i, block) in blocks.iter().enumerate() {
            if let Some(last) = last.insert(block, i)
                && counts[i]
            {
                next[last] = Some(i as u32);
            }
        }
        let mut min = Min::new(capacity);
        let mut hits = vec![false; blocks.len()];
        for i in 0..blocks.len() {
            if let Some(until) = next[i] {
                hits[until as usize] = true;
            }
            if let Some(dropped) = min.refer(i as u32, hits[i], next[i]) {
                hits[dropped as usize] = false;
            }
            assert!(min.kept() as u64 <= capacity);
        }
        hits
    }

    fn hits(blocks: &[u8], capacity: u64) -> usize {
        min(blocks, &vec![true; blocks.len()], capacity).into_iter().filter(|&hit| hit).count()
    }

    /// As Belady describes it, but that the incoming block may be the one that is not kept.
    fn naive(blocks: &[u8], capacity: usize) -> usize {
        let next = |block: u8, from: usize| blocks[from..].iter().position(|&b| b == block);
        let (mut cache, mut hits) = (Vec::new(), 0);
        for (i, &block) in blocks.iter().enumerate() {
            if cache.contains(&block) {
                hits += 1;
                continue;
            }
            cache.push(block);
            if cache.len() > capacity {
                let furthest = (0..cache.len()).max_by_key(|&c| next(cache[c], i + 1).unwrap_or(usize::MAX));
                cache.swap_remove(furthest.unwrap());
            }
        }
        hits
    }

    /// The best of all possible decisions, for references that count.
    fn best(blocks: &[u8], counts: &[bool], capacity: u32) -> usize {
        let mut states = BTreeMap::from([(0u32, 0usize)]);
        for (&block, &counts) in blocks.iter().zip(counts) {
            let mut after = BTreeMap::new();
            for (&cached, &hits) in &states {
                let hits = hits + usize::from(counts && cached & 1 << block != 0);
                let with = cached | 1 << block;
                // Any one may go, or none if there is room.
                let choices = (0..8).map(|gone| with & !(1 << gone)).chain([with]);
                for choice in choices.filter(|choice| choice.count_ones() <= capacity) {
                    let best = after.entry(choice).or_insert(0);
                    *best = hits.max(*best);
                }
            }
            states = after;
        }
        states.into_values().max().unwrap_or(0)
    }

    #[test]
    fn a_loop_larger_than_the_cache_hits_all_that_it_holds() {
        let blocks: Vec<u8> = (0..10).cycle().take(100).collect();
        // What is kept is hit in every round but the first.
        assert_eq!(hits(&blocks, 7), 9 * 7);
        assert_eq!(hits(&blocks, 10), 90);
        assert_eq!(hits(&blocks, 0), 0);
    }

    #[test]
    fn passed_positions_are_forgotten() {
        let mut min = Min::new(4);
        for i in 0..100_000u32 {
            // Block i modulo 2.
            min.refer(i, i >= 2, Some(i + 2));
        }
        assert!(min.until.len() <= 2 * 4 + IDLE + 1);
    }

    proptest! {
        #[test]
        fn it_has_beladys_hits(blocks in prop::collection::vec(0u8..12, 0..200), capacity in 0u64..13) {
            prop_assert_eq!(hits(&blocks, capacity), naive(&blocks, capacity as usize));
        }

        #[test]
        fn nothing_is_better(
            references in prop::collection::vec((0u8..8, any::<bool>()), 0..40),
            capacity in 0u32..6,
        ) {
            let (blocks, counts): (Vec<u8>, Vec<bool>) = references.into_iter().unzip();
            let hits = min(&blocks, &counts, capacity.into());
            prop_assert_eq!(hits.into_iter().filter(|&hit| hit).count(), best(&blocks, &counts, capacity));
        }
    }
}
