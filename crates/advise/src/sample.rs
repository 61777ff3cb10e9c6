//! The recent references to the blocks of a sample.

use std::collections::HashMap;

use cards_core::{BlockId, PgId};
use serde::{Deserialize, Serialize};

use crate::Rate;

/// Of the references of a block that are too old to be kept with their times, so many of the last ones are remembered: an LRU
/// cache asks for one, the others for whether a block has come back, and how often.
pub const HISTORY: u32 = 5;

/// What a reference does with its block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Reads of it, all or a part.
    Read,
    /// Writes all of it.
    Write,
    /// Writes a part of it, which does not bring it into a cache.
    PartialWrite,
}

/// A reference to a block of the sample.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reference {
    /// When, in microseconds since 1970 (UTC).
    pub time_us: u64,
    /// The block's number in its volume.
    pub block: u32,
    /// What it does.
    pub access: Access,
    /// Block reads since the reference before, this one included, of blocks in the sample or not.
    pub reads: u32,
    /// Block writes, likewise.
    pub writes: u32,
}

/// What a [`crate::Sampler`] has kept.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(from = "Packed", into = "Packed")]
pub struct Sample {
    /// The volume's number.
    pub volume: PgId,
    /// Which blocks are in it.
    pub rate: Rate,
    /// Blocks that were referenced before the first of `references`: of each the last [`HISTORY`] references, in order.
    /// They tell what caches have at that time.
    pub before: Vec<u32>,
    /// All references of a time, in order.
    pub references: Vec<Reference>,
}

impl Sample {
    /// An empty sample.
    #[must_use]
    pub const fn new(volume: PgId, rate: Rate) -> Self {
        Self { volume, rate, before: Vec::new(), references: Vec::new() }
    }

    /// Leaves out the blocks that are not in a sample of a lower rate. A higher rate changes nothing.
    pub fn thin(&mut self, rate: Rate) {
        if rate <= self.rate {
            return;
        }
        self.rate = rate;
        let volume = self.volume;
        let takes = |block| rate.takes(BlockId::new(volume, block));
        self.before.retain(|&block| takes(block));
        let mut carried = Carried::default();
        self.references.retain_mut(|reference| carried.pass(takes(reference.block), reference));
    }

    /// Makes it begin later: only so many references stay, the last ones. Of those before, the order of each block's last
    /// [`HISTORY`] does.
    pub fn keep(&mut self, references: usize) {
        let old = self.references.len().saturating_sub(references);
        if old == 0 {
            return;
        }
        let cached = |reference: &Reference| reference.access != Access::PartialWrite;
        let left = self.references.drain(..old).filter(cached).map(|reference| reference.block);
        self.before.extend(left);
        self.remember(HISTORY);
    }

    /// Of the references before, only the last `most` of each block stay.
    pub fn remember(&mut self, most: u32) {
        let mut later: HashMap<u32, u32> = HashMap::with_capacity(self.before.len());
        self.before.reverse();
        self.before.retain(|&block| {
            let later = later.entry(block).or_default();
            *later += 1;
            *later <= most
        });
        self.before.reverse();
    }

    /// Shrinks it to at most so many references, those before included. The time of its references becomes shorter first, down
    /// to a third of `most` of them, then the memory of those before, down to the last of each block; only then blocks
    /// are left out. So it says less of the past, but of caches as large.
    pub fn shrink(&mut self, most: usize) {
        if self.len() <= most {
            return;
        }
        self.keep(most / 3);
        for history in (1..HISTORY).rev() {
            if self.len() > most {
                self.remember(history);
            }
        }
        while self.len() > most && u32::from(self.rate) < Rate::SHIFT_MAX {
            self.thin(self.rate.half());
        }
    }

    /// References, those before included.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.references.len() + self.before.len()
    }

    /// Whether it has no reference at all.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where what is measured begins; the references before it warm the cache up. Without
    /// [`before`](Self::before) the cache begins empty, and has to fill.
    #[must_use]
    pub fn warm_up(&self) -> usize {
        self.references.len() / if self.before.is_empty() { 2 } else { 8 }
    }

    /// Block reads, of blocks in the sample or not, since the warm-up.
    #[must_use]
    pub fn reads(&self) -> u64 {
        self.references.iter().skip(self.warm_up()).map(|reference| u64::from(reference.reads)).sum()
    }

    /// When what is measured began and ended, in microseconds since 1970 (UTC).
    #[must_use]
    pub fn span_us(&self) -> Option<(u64, u64)> {
        Some((self.references.get(self.warm_up())?.time_us, self.references.last()?.time_us))
    }
}

/// References that are left out leave their counts to the next that is kept.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Carried {
    reads: u32,
    writes: u32,
}

impl Carried {
    /// A reference is kept, or not.
    pub(crate) fn pass(&mut self, keep: bool, reference: &mut Reference) -> bool {
        let reads = self.reads.saturating_add(reference.reads);
        let writes = self.writes.saturating_add(reference.writes);
        if keep {
            (reference.reads, reference.writes) = (reads, writes);
            *self = Self::default();
        } else {
            *self = Self { reads, writes };
        }
        keep
    }
}

/// A reference as numbers: microseconds since the one before, block, access (0 read, 1 write, 2 partial write), reads,
/// writes.
type Numbers = (u64, u32, u8, u32, u32);

/// A sample as it is sent.
#[derive(Serialize, Deserialize)]
struct Packed {
    volume: u32,
    rate: Rate,
    before: Vec<u32>,
    references: Vec<Numbers>,
}

impl From<Sample> for Packed {
    fn from(sample: Sample) -> Self {
        let mut last = 0;
        let mut pack = |reference: &Reference| {
            let since = reference.time_us.saturating_sub(last);
            last = reference.time_us;
            let access = match reference.access {
                Access::Read => 0,
                Access::Write => 1,
                Access::PartialWrite => 2,
            };
            (since, reference.block, access, reference.reads, reference.writes)
        };
        let references = sample.references.iter().map(&mut pack).collect();
        Self { volume: sample.volume.0, rate: sample.rate, before: sample.before, references }
    }
}

impl From<Packed> for Sample {
    fn from(packed: Packed) -> Self {
        let mut last: u64 = 0;
        let mut unpack = |(since, block, access, reads, writes): Numbers| {
            last = last.saturating_add(since);
            let access = match access {
                0 => Access::Read,
                1 => Access::Write,
                _ => Access::PartialWrite,
            };
            Reference { time_us: last, block, access, reads, writes }
        };
        let references = packed.references.into_iter().map(&mut unpack).collect();
        Self { volume: PgId(packed.volume), rate: packed.rate, before: packed.before, references }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn sample() -> Sample {
        let reference = |block: u32| Reference {
            time_us: 1_700_000_000_000_000 + u64::from(block) * 7,
            block,
            access: [Access::Read, Access::Write, Access::PartialWrite][block as usize % 3],
            reads: 1,
            writes: 2,
        };
        let references = (0..1000).map(reference).collect();
        Sample { before: (2000..2100).collect(), references, ..Sample::new(PgId(9), Rate::ALL) }
    }

    #[test]
    fn a_sample_reads_back() {
        let text = serde_json::to_string(&sample()).unwrap();
        assert_eq!(serde_json::from_str::<Sample>(&text).unwrap(), sample());
        assert!(text.len() < 1000 * 20, "{} bytes", text.len());
    }

    #[test]
    fn a_thinner_sample_has_fewer_blocks_and_counts_the_same_reads() {
        let mut thin = sample();
        thin.thin(Rate::ALL.half().half());
        assert!((200..350).contains(&(thin.references.len() + thin.before.len())));
        let reads: u32 = thin.references.iter().map(|reference| reference.reads).sum();
        let last = thin.references.last().unwrap().block;
        assert_eq!(reads, last + 1);
        let again = thin.clone();
        thin.thin(Rate::ALL);
        assert_eq!(thin, again);
    }

    #[test]
    fn a_later_sample_knows_the_order_of_the_blocks_before() {
        let read = |block| Reference { time_us: 0, block, access: Access::Read, reads: 1, writes: 0 };
        let part = |block| Reference { access: Access::PartialWrite, ..read(block) };
        let references = vec![read(1), read(2), part(9), read(1), read(4), read(2)];
        let mut sample = Sample { before: vec![7, 2, 8], references, ..Sample::new(PgId(0), Rate::ALL) };
        sample.keep(2);
        assert_eq!(sample.before, [7, 2, 8, 1, 2, 1]);
        assert_eq!(sample.references, [read(4), read(2)]);
        sample.keep(2);
        assert_eq!(sample.before, [7, 2, 8, 1, 2, 1]);
        sample.remember(1);
        assert_eq!(sample.before, [7, 8, 2, 1]);
    }

    #[test]
    fn of_a_block_that_is_read_often_the_last_reads_are_known() {
        let read = |block| Reference { time_us: 0, block, access: Access::Read, reads: 1, writes: 0 };
        let references = (0..100).map(|i| read(if i == 1 { 9 } else { 3 })).collect();
        let mut sample = Sample { references, ..Sample::new(PgId(0), Rate::ALL) };
        sample.keep(0);
        assert_eq!(sample.before, [&[9], &[3; HISTORY as usize][..]].concat());
    }

    #[test]
    fn a_smaller_sample_says_less_of_the_past_before_it_leaves_blocks_out() {
        let mut twice = sample();
        twice.before.extend_from_within(..);
        twice.shrink(950);
        let different: HashSet<u32> = twice.before.iter().copied().collect();
        assert_eq!((twice.rate, twice.references.len()), (Rate::ALL, 316));
        assert_eq!((twice.before.len(), different.len()), (556, 556));
        let mut small = sample();
        small.shrink(1100);
        assert_eq!(small, sample());
        small.shrink(1098);
        assert_eq!((small.rate, small.references.len()), (Rate::ALL, 366));
        small.shrink(300);
        assert!(small.rate > Rate::ALL && small.references.len() + small.before.len() <= 300);
    }
}
