//! Keeps the recent references to the blocks of a sample, in memory that does not grow.

use std::collections::{HashMap, VecDeque};

use cards_core::{BlockId, PgId};

use crate::sample::{Carried, HISTORY};
use crate::{Access, Rate, Reference, Sample};

/// How much a [`Sampler`] keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// References at most.
    pub references: usize,
    /// Different blocks at most, those of [`Sample::before`] included.
    pub blocks: usize,
    /// The rate is halved while there are too many blocks, but not below this: the cache of interest must not be scaled
    /// to nothing. From there on the oldest references go.
    pub lowest: Rate,
}

impl Limits {
    /// Bytes that a sampler takes at most.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        // A hash table has up to 16/7 places for each entry.
        let block = size_of::<(u32, Seen)>() * 16 / 7 + before_max(1) * size_of::<(u32, u32)>();
        self.references * size_of::<Reference>() + self.blocks * block
    }
}

/// Keeps what is referenced of one volume.
///
/// Two things are kept of the past: all recent references, and, of blocks whose references have become too old for that,
/// the order of the last [`HISTORY`] of each, so that a simulated cache need not begin empty.
#[derive(Debug)]
pub struct Sampler {
    volume: PgId,
    limits: Limits,
    rate: Rate,
    references: VecDeque<Reference>,
    blocks: HashMap<u32, Seen>,
    /// References that have become too old, in order: the block, and the how many-th of it that was. One counts only if it
    /// is among the block's last.
    before: VecDeque<(u32, u32)>,
    /// Blocks without a recent reference.
    outside: usize,
    /// Counts of references that are not kept, for the next one.
    carried: Carried,
}

/// Places for references that have become too old: one for each block more than can count, so that it seldom takes long to find
/// those that do not.
const fn before_max(blocks: usize) -> usize {
    (HISTORY as usize + 1) * blocks
}

fn remembers(blocks: &HashMap<u32, Seen>, block: u32, nth: u32) -> bool {
    blocks.get(&block).is_some_and(|seen| seen.remembers(nth))
}

/// A block of the sample.
#[derive(Clone, Copy, Default, Debug)]
struct Seen {
    /// Its recent references.
    inside: u32,
    /// How many have become too old; 0 if none that is remembered has.
    left: u32,
}

impl Seen {
    /// Whether the `nth` of those that have become too old is among the last.
    const fn remembers(self, nth: u32) -> bool {
        self.left > 0 && self.left.wrapping_sub(nth) < HISTORY
    }
}

impl Sampler {
    /// Begins with a rate; `limits` must allow some references and blocks.
    #[must_use]
    pub fn new(volume: PgId, rate: Rate, limits: Limits) -> Self {
        let limits = Limits {
            references: limits.references.max(1),
            blocks: limits.blocks.max(1),
            lowest: limits.lowest.max(rate),
        };
        Self {
            volume,
            limits,
            rate,
            references: VecDeque::with_capacity(limits.references),
            blocks: HashMap::with_capacity(limits.blocks + 1),
            before: VecDeque::with_capacity(before_max(limits.blocks) + 1),
            outside: 0,
            carried: Carried::default(),
        }
    }

    /// The blocks that it wants to be told of now.
    #[must_use]
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    /// A block is referenced. Those that are not in the sample any more only count. Times that go back are put right.
    pub fn refer(&mut self, mut reference: Reference) {
        let takes = self.rate.takes(BlockId::new(self.volume, reference.block));
        if !self.carried.pass(takes, &mut reference) {
            return;
        }
        if let Some(last) = self.references.back() {
            reference.time_us = reference.time_us.max(last.time_us);
        }
        if self.references.len() == self.limits.references {
            self.age();
        }
        let seen = self.blocks.entry(reference.block).or_default();
        self.outside -= usize::from(seen.inside == 0 && seen.left > 0);
        seen.inside += 1;
        self.references.push_back(reference);
        while self.blocks.len() > self.limits.blocks {
            self.make_room();
        }
    }

    /// What there is now.
    #[must_use]
    pub fn sample(&self) -> Sample {
        let remembered = |&&(block, nth): &&(u32, u32)| remembers(&self.blocks, block, nth);
        Sample {
            volume: self.volume,
            rate: self.rate,
            before: self.before.iter().filter(remembered).map(|&(block, _)| block).collect(),
            references: self.references.iter().copied().collect(),
        }
    }

    /// When the oldest reference was made that is kept with its time, in microseconds since 1970 (UTC).
    #[must_use]
    pub fn begins_us(&self) -> Option<u64> {
        self.references.front().map(|reference| reference.time_us)
    }

    /// The references after a time, in microseconds since 1970 (UTC), to blocks of a rate (or of the sample's own, if that is lower): at most
    /// `most`, the last ones. Their counts of reads and writes mean nothing.
    #[must_use]
    pub fn since(&self, time_us: u64, rate: Rate, most: usize) -> Sample {
        let rate = rate.max(self.rate);
        let takes = |reference: &&Reference| rate.takes(BlockId::new(self.volume, reference.block));
        let later = self.references.partition_point(|reference| reference.time_us <= time_us);
        let mut references: Vec<Reference> =
            self.references.range(later..).rev().filter(takes).take(most).copied().collect();
        references.reverse();
        Sample { references, ..Sample::new(self.volume, rate) }
    }

    /// There are too many blocks.
    fn make_room(&mut self) {
        let crowded = self.outside < self.limits.blocks / 2;
        if crowded && self.rate < self.limits.lowest {
            self.halve();
        } else if !self.forget() {
            self.age();
        }
    }

    /// The oldest reference becomes too old.
    fn age(&mut self) {
        let Some(Reference { block, access, .. }) = self.references.pop_front() else { return };
        let Some(seen) = self.blocks.get_mut(&block) else { return };
        seen.inside -= 1;
        if access != Access::PartialWrite {
            // What comes after the last number is not 0.
            seen.left = seen.left.checked_add(1).unwrap_or(HISTORY);
            self.before.push_back((block, seen.left));
        }
        match (seen.inside, seen.left) {
            (0, 0) => {
                self.blocks.remove(&block);
            }
            (0, _) => self.outside += 1,
            _ => {}
        }
        if self.before.len() > before_max(self.limits.blocks) {
            let blocks = &self.blocks;
            self.before.retain(|&(block, nth)| remembers(blocks, block, nth));
        }
    }

    /// Forgets the blocks that were last referenced the longest ago, up to one that has no recent reference. Says whether
    /// there was one.
    fn forget(&mut self) -> bool {
        while let Some((block, nth)) = self.before.pop_front() {
            let Some(seen) = self.blocks.get_mut(&block).filter(|seen| seen.left == nth) else { continue };
            if seen.inside == 0 {
                self.blocks.remove(&block);
                self.outside -= 1;
                return true;
            }
            seen.left = 0;
        }
        false
    }

    fn halve(&mut self) {
        self.rate = self.rate.half();
        let (volume, rate) = (self.volume, self.rate);
        let takes = |block| rate.takes(BlockId::new(volume, block));
        self.blocks.retain(|&block, _| takes(block));
        self.before.retain(|&(block, _)| takes(block));
        // What the last reference that is left out has carried comes before the next.
        let mut carried = Carried::default();
        self.references.retain_mut(|reference| carried.pass(takes(reference.block), reference));
        self.carried = carried;
        self.outside = self.blocks.values().filter(|seen| seen.inside == 0).count();
    }

    /// Checks that its tables agree.
    #[cfg(test)]
    fn check(&self) {
        let mut inside: HashMap<u32, u32> = HashMap::new();
        self.references.iter().for_each(|reference| *inside.entry(reference.block).or_default() += 1);
        for (block, seen) in &self.blocks {
            assert_eq!(seen.inside, inside.get(block).copied().unwrap_or(0));
            assert!(seen.inside > 0 || seen.left > 0);
            assert!(seen.left == 0 || self.before.contains(&(*block, seen.left)));
            let remembered =
                self.before.iter().filter(|(of, nth)| of == block && seen.remembers(*nth)).count();
            assert!(remembered <= HISTORY as usize);
        }
        assert!(inside.keys().all(|block| self.blocks.contains_key(block)));
        assert_eq!(self.outside, self.blocks.values().filter(|seen| seen.inside == 0).count());
        assert!(
            self.blocks.len() <= self.limits.blocks && self.before.len() <= before_max(self.limits.blocks)
        );
        assert!(self.references.len() <= self.limits.references);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn limits(references: usize, blocks: usize, lowest: u32) -> Limits {
        Limits { references, blocks, lowest: Rate::try_from(lowest).unwrap() }
    }

    fn read(time_us: u64, block: u32) -> Reference {
        Reference { time_us, block, access: Access::Read, reads: 1, writes: 0 }
    }

    fn sampler(limits: Limits, blocks: impl IntoIterator<Item = u32>) -> Sampler {
        let mut sampler = Sampler::new(PgId(0), Rate::ALL, limits);
        blocks.into_iter().zip(0..).for_each(|(block, time)| sampler.refer(read(time, block)));
        sampler.check();
        sampler
    }

    #[test]
    fn what_came_since_is_of_the_rate_and_the_last() {
        let sampler = sampler(limits(100, 100, 0), 0..50);
        let since = |time, rate, most| sampler.since(time, rate, most);
        let blocks = |sample: Sample| sample.references.iter().map(|r| r.block).collect::<Vec<_>>();
        assert_eq!(blocks(since(46, Rate::ALL, 100)), [47, 48, 49]);
        assert_eq!(blocks(since(0, Rate::ALL, 2)), [48, 49]);
        let half = since(0, Rate::ALL.half(), 100);
        assert!(half.rate == Rate::ALL.half() && (10..40).contains(&half.references.len()));
        assert!(since(49, Rate::ALL, 100).is_empty());
    }

    #[test]
    fn of_old_references_the_order_of_each_blocks_last_ones_stays() {
        let sample = sampler(limits(3, 8, 0), [1, 2, 1, 3, 4, 5, 2]).sample();
        assert_eq!(sample.before, [1, 2, 1, 3]);
        assert_eq!(sample.references.iter().map(|r| r.block).collect::<Vec<_>>(), [4, 5, 2]);
        let sample = sampler(limits(3, 8, 0), [[7; 4], [8; 4], [7; 4], [9; 4]].concat()).sample();
        assert_eq!(sample.before, [7, 8, 8, 8, 8, 7, 7, 7, 7, 9]);
    }

    #[test]
    fn what_a_sampler_remembers_is_what_a_longer_one_would_keep() {
        let blocks: Vec<u32> = (0..20_000).map(|i| (cards_core::mix(i) % 60 * (i % 7) / 6) as u32).collect();
        let mut long = sampler(limits(20_000, 64, 0), blocks.iter().copied()).sample();
        long.keep(50);
        assert_eq!(sampler(limits(50, 64, 0), blocks).sample(), long);
    }

    #[test]
    fn the_blocks_used_longest_ago_are_forgotten_first() {
        let sample = sampler(limits(2, 4, 0), [1, 2, 3, 1, 4, 5, 6]).sample();
        assert_eq!(sample.before, [1, 4]);
    }

    #[test]
    fn the_rate_falls_as_the_sample_fills_and_stops_at_the_lowest() {
        let sampler = sampler(limits(4000, 1000, 2), 0..100_000);
        assert_eq!(sampler.rate(), Rate::try_from(2).unwrap());
        let sample = sampler.sample();
        let reads: u32 = sample.references.iter().map(|r| r.reads).sum();
        let first = sample.references[0];
        assert_eq!(reads, sample.references.last().unwrap().block - first.block + first.reads);
    }

    #[test]
    fn times_do_not_go_back() {
        let mut sampler = Sampler::new(PgId(0), Rate::ALL, limits(8, 8, 0));
        [5, 3, 7].into_iter().for_each(|time| sampler.refer(read(time, 1)));
        let times: Vec<u64> = sampler.sample().references.iter().map(|r| r.time_us).collect();
        assert_eq!(times, [5, 5, 7]);
    }

    proptest! {
        #[test]
        fn memory_is_bounded_and_tables_agree(
            blocks in prop::collection::vec((0u32..200, 0u8..3), 0..2000),
            references in 1usize..100,
            most in 1usize..60,
            lowest in 0u32..4,
        ) {
            let mut sampler = Sampler::new(PgId(1), Rate::ALL, limits(references, most, lowest));
            for (i, &(block, access)) in blocks.iter().enumerate() {
                let access = [Access::Read, Access::Write, Access::PartialWrite][usize::from(access)];
                sampler.refer(Reference { access, ..read(i as u64, block) });
                if i % 16 == 0 {
                    sampler.check();
                }
            }
            sampler.check();
        }
    }
}
