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
}
