//! Regions that are dirty on the disk, or about to be or not to be.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// Whether the bit of a region is on the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Bit {
    /// After this cycle it is.
    Setting(u64),
    Set,
    /// After this cycle it is not.
    Clearing(u64),
}

/// A region that is not clean.
#[derive(Debug)]
pub(super) struct Region {
    pub(super) bit: Bit,
    /// Writes that are open.
    pub(super) writers: u32,
    /// When a write began or ended last.
    pub(super) at: u64,
    /// The same by [`Regions::turn`].
    pub(super) turn: u64,
    /// Its checksums are on the disk and its data durable; it is dirty for writes that are not released.
    pub(super) settled: bool,
}

/// Those that are not clean, by number.
#[derive(Debug, Default)]
pub(super) struct Regions {
    pub(super) map: BTreeMap<u64, Region>,
    /// Checksums of their units are not known, up to this unit of the region.
    pub(super) unsure: BTreeMap<u64, u64>,
    /// How many writes of groups stay to be released; not 0.
    pub(super) held: BTreeMap<u64, u32>,
    /// Regions that have been missed, while that is not durable: the cycle after which it is.
    pub(super) missing: BTreeMap<u64, u64>,
    /// Counts writes that began or ended, and settlings.
    pub(super) turn: u64,
}

impl Regions {
    /// A write of the region has begun or ended.
    pub(super) fn touch(&mut self, region: u64, now: u64) {
        self.turn += 1;
        if let Some(found) = self.map.get_mut(&region) {
            found.at = found.at.max(now);
            found.turn = self.turn;
            found.settled = false;
        }
    }

    /// Those that nobody has written since `before`, or, of the `hot` ones that were written last, since `hot_before`.
    pub(super) fn idle(&self, before: u64, hot: usize, hot_before: Option<u64>) -> BTreeSet<u64> {
        let mut by_turn: Vec<_> = self.map.iter().map(|(number, region)| (region.turn, *number)).collect();
        by_turn.sort_unstable_by(|a, b| b.cmp(a));
        let is_cold = |(rank, number): (usize, u64)| {
            let is_hot = rank < hot && hot_before.is_none_or(|before| self.map[&number].at > before);
            (!is_hot).then_some(number)
        };
        let cold = by_turn.into_iter().map(|(_, number)| number).enumerate().filter_map(is_cold);
        cold.filter(|number| {
            let region = &self.map[number];
            region.bit == Bit::Set
                && region.writers == 0
                && region.at <= before
                && !self.unsure.contains_key(number)
                && !self.rests(*number)
        })
        .collect()
    }

    /// Whether all is done for a region but that its writes are released.
    pub(super) fn rests(&self, region: u64) -> bool {
        self.held.contains_key(&region) && self.map.get(&region).is_some_and(|found| found.settled)
    }

    /// A write is released.
    pub(super) fn release(&mut self, region: u64) {
        if let Some(held) = self.held.get_mut(&region) {
            *held -= 1;
            if *held == 0 {
                self.held.remove(&region);
            }
        }
    }

    /// A cycle has ended.
    pub(super) fn cycle_ended(&mut self, cycle: u64) {
        self.missing.retain(|_, number| *number > cycle);
        self.map.retain(|_, region| {
            if matches!(region.bit, Bit::Setting(number) if number <= cycle) {
                region.bit = Bit::Set;
            }
            !matches!(region.bit, Bit::Clearing(number) if number <= cycle)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_last_stays_dirty_for_longer_and_not_for_ever() {
        let mut regions = Regions::default();
        for (number, at) in [(3, 100), (4, 200), (5, 300)] {
            let region = Region { bit: Bit::Set, writers: 0, at, turn: at, settled: false };
            regions.map.insert(number, region);
        }
        let idle = |hot, hot_before| regions.idle(300, hot, hot_before).into_iter().collect::<Vec<_>>();
        assert_eq!(idle(0, None), [3, 4, 5]);
        assert_eq!(idle(2, None), [3]);
        assert_eq!(idle(2, Some(199)), [3]);
        assert_eq!(idle(2, Some(200)), [3, 4]);
        assert_eq!(idle(2, Some(300)), [3, 4, 5]);
    }

    /// Time does not tell them apart.
    #[test]
    fn the_region_that_was_written_last_is_the_hottest() {
        let mut regions = Regions::default();
        for number in [3, 4, 5] {
            let region = Region { bit: Bit::Set, writers: 0, at: 0, turn: 0, settled: false };
            regions.map.insert(number, region);
        }
        [4, 5, 3, 5, 4].into_iter().for_each(|number| regions.touch(number, 100));
        let idle = |hot| regions.idle(100, hot, None).into_iter().collect::<Vec<_>>();
        assert_eq!((idle(1), idle(2)), ([3, 5].into(), [3].into()));
    }
}
