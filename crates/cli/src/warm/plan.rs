//! What is to be fetched, in requests that a daemon takes.

use std::collections::VecDeque;

/// Ranges of one request at most: it must not be longer than a daemon reads.
const RANGES_MAX: usize = 1000;

/// Ranges that are still to be fetched, offsets and lengths in bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Plan {
    rest: VecDeque<(u64, u64)>,
    block: u64,
    /// Bytes of all ranges.
    pub(super) bytes: u64,
}

impl Plan {
    /// Ranges of a volume of blocks of `block` bytes.
    pub(super) fn new(ranges: Vec<(u64, u64)>, block: u64) -> Self {
        let bytes = ranges.iter().fold(0u64, |sum, (_, length)| sum.saturating_add(*length));
        Self { rest: ranges.into(), block: block.max(1), bytes }
    }

    /// The same for one of several nodes, from that node's part on: node `index` of `of` begins at `index / of` of the bytes. Nodes
    /// that go on at the same pace fetch each another part from the disk, and the rest from one another.
    pub(super) fn rotated(mut self, index: usize, of: usize) -> Self {
        let mut skip = (u128::from(self.bytes) * index as u128 / of.max(1) as u128) as u64;
        let mut passed = Vec::new();
        while skip > 0
            && let Some((offset, length)) = self.rest.pop_front()
        {
            if length <= skip {
                skip -= length;
                passed.push((offset, length));
                continue;
            }
            // At the begin of a block, so that none is in two parts.
            let cut = ((offset + skip) / self.block * self.block).max(offset);
            if cut > offset {
                passed.push((offset, cut - offset));
            }
            self.rest.push_front((cut, offset + length - cut));
            break;
        }
        self.rest.extend(passed);
        self
    }

    /// The next ranges, at most so many blocks, and their bytes. None at the end.
    pub(super) fn next(&mut self, blocks_max: u64) -> Option<(Vec<(u64, u64)>, u64)> {
        let (mut ranges, mut bytes, mut room) = (Vec::new(), 0, blocks_max.max(1));
        while room > 0
            && ranges.len() < RANGES_MAX
            && let Some((offset, length)) = self.rest.pop_front()
        {
            let first = offset / self.block;
            let end = offset + length;
            let cut = end.min(first.saturating_add(room).saturating_mul(self.block));
            if length > 0 {
                room -= cut.div_ceil(self.block) - first;
                bytes += cut - offset;
                ranges.push((offset, cut - offset));
            }
            if cut < end {
                self.rest.push_front((cut, end - cut));
            }
        }
        (!ranges.is_empty()).then_some((ranges, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_ranges_are_cut_at_blocks_and_short_ones_are_put_together() {
        let mut plan = Plan::new(vec![(10, 20), (100, 950), (5, 0), (7, 1)], 100);
        assert_eq!(plan.bytes, 971);
        assert_eq!(plan.next(4), Some((vec![(10, 20), (100, 300)], 320)));
        assert_eq!(plan.next(4), Some((vec![(400, 400)], 400)));
        assert_eq!(plan.next(4), Some((vec![(800, 250), (7, 1)], 251)));
        assert_eq!(plan.next(4), None);
    }

    #[test]
    fn many_short_ranges_are_several_requests() {
        let mut plan = Plan::new((0..2500).map(|i| (i * 4096, 1)).collect(), 4096);
        let mut sizes = Vec::new();
        while let Some((ranges, _)) = plan.next(u64::MAX) {
            sizes.push(ranges.len());
        }
        assert_eq!(sizes, [1000, 1000, 500]);
    }

    fn all(mut plan: Plan) -> Vec<(u64, u64)> {
        plan.next(u64::MAX).map(|(ranges, _)| ranges).unwrap_or_default()
    }

    #[test]
    fn each_node_begins_at_its_own_part() {
        let plan = || Plan::new(vec![(0, 1000)], 100);
        assert_eq!(all(plan().rotated(0, 3)), [(0, 1000)]);
        assert_eq!(all(plan().rotated(1, 3)), [(300, 700), (0, 300)]);
        assert_eq!(all(plan().rotated(2, 3)), [(600, 400), (0, 600)]);
        let ranges = || Plan::new(vec![(700, 50), (0, 250), (320, 100)], 100);
        assert_eq!(all(ranges().rotated(1, 2)), [(100, 150), (320, 100), (700, 50), (0, 100)]);
        assert_eq!(all(ranges().rotated(3, 4)), [(320, 100), (700, 50), (0, 250)]);
        assert_eq!(all(Plan::new(Vec::new(), 100).rotated(1, 2)), []);
    }

    #[test]
    fn a_node_fetches_all_blocks_wherever_it_begins() {
        let block = 4096;
        let ranges: Vec<(u64, u64)> = (0..50).map(|i| (i * 37 * 4096 + i * 11, 1 + i * i * 97)).collect();
        let blocks = |mut plan: Plan, step: u64| {
            let mut all = Vec::new();
            while let Some((ranges, bytes)) = plan.next(step) {
                assert_eq!(ranges.iter().map(|(_, length)| length).sum::<u64>(), bytes);
                all.extend(
                    ranges
                        .iter()
                        .flat_map(|(offset, length)| offset / block..(offset + length).div_ceil(block)),
                );
            }
            all.sort_unstable();
            all
        };
        let straight = blocks(Plan::new(ranges.clone(), block), 1024);
        for of in 1..9 {
            for index in 0..of {
                let plan = Plan::new(ranges.clone(), block).rotated(index, of);
                assert_eq!(blocks(plan, 3), straight, "{index} of {of}");
            }
        }
    }
}
