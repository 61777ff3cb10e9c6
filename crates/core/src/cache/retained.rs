//! Ranges of blocks that stay once they are here (`cards pin`).
//!
//! A *retained* block is in no queue, so that no replacement ever chooses it; a write drops it like any other one, and
//! when it comes again it is retained again.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::ids::{BlockId, PgId};

/// The ranges, and how many of their blocks are retained.
#[derive(Default)]
pub(super) struct Retained {
    /// First and last blocks, in ascending order, none touching another.
    ranges: BTreeMap<PgId, Vec<(u32, u32)>>,
    /// Slots with [`super::Mark::RETAINED`].
    pub(super) len: u32,
}

impl Retained {
    /// Replaces a volume's ranges, first and last blocks in any order.
    pub(super) fn set(&mut self, volume: PgId, mut ranges: Vec<(u32, u32)>) {
        ranges.retain(|(first, last)| first <= last);
        ranges.sort_unstable();
        ranges.dedup_by(|next, before| {
            let touches = next.0 <= before.1.saturating_add(1);
            if touches {
                before.1 = before.1.max(next.1);
            }
            touches
        });
        match ranges.is_empty() {
            true => self.ranges.remove(&volume),
            false => self.ranges.insert(volume, ranges),
        };
    }

    pub(super) fn covers(&self, block: BlockId) -> bool {
        self.ranges.get(&block.volume).is_some_and(|ranges| {
            let after = ranges.partition_point(|(first, _)| *first <= block.index);
            after > 0 && block.index <= ranges[after - 1].1
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_put_together() {
        let mut retained = Retained::default();
        let volume = PgId(3);
        retained.set(volume, alloc::vec![(7, 9), (0, 2), (3, 3), (8, 12), (20, 19), (u32::MAX, u32::MAX)]);
        assert_eq!(retained.ranges[&volume], [(0, 3), (7, 12), (u32::MAX, u32::MAX)]);
        let covered = (0..30).filter(|&index| retained.covers(BlockId::new(volume, index)));
        assert!(covered.eq((0..=3).chain(7..=12)));
        assert!(!retained.covers(BlockId::new(PgId(4), 0)));
        retained.set(volume, Vec::new());
        assert!(retained.ranges.is_empty());
    }
}
