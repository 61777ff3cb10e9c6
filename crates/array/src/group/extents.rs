//! Ranges of bytes of a group.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// A range of bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Extent {
    /// Where it begins.
    pub offset: u64,
    /// Its length; not 0.
    pub length: u64,
}

impl Extent {
    /// Where it ends.
    #[must_use]
    pub const fn end(self) -> u64 {
        self.offset + self.length
    }

    /// The units of so many bytes each that have a byte of it.
    #[must_use]
    pub const fn whole(self, unit: u64) -> Self {
        let offset = self.offset - self.offset % unit;
        Self { offset, length: self.end().next_multiple_of(unit) - offset }
    }

    /// The units of so many bytes each that are in it as a whole.
    #[must_use]
    pub const fn inner(self, unit: u64) -> Option<Self> {
        let (offset, end) = (self.offset.next_multiple_of(unit), self.end() - self.end() % unit);
        if offset < end { Some(Self { offset, length: end - offset }) } else { None }
    }

    /// The bytes of both.
    #[must_use]
    pub fn common(self, other: Self) -> Option<Self> {
        let (offset, end) = (self.offset.max(other.offset), self.end().min(other.end()));
        (offset < end).then(|| Self { offset, length: end - offset })
    }

    /// What lies before `other`, and behind it.
    pub fn around(self, other: Self) -> impl DoubleEndedIterator<Item = Self> {
        let before = (self.offset, self.end().min(other.offset));
        let behind = (self.offset.max(other.end()), self.end());
        let parts = [before, behind].into_iter().filter(|(offset, end)| offset < end);
        parts.map(|(offset, end)| Self { offset, length: end - offset })
    }

    /// Whether a byte is in both.
    #[must_use]
    pub const fn overlaps(self, other: Self) -> bool {
        self.offset < other.end() && other.offset < self.end()
    }
}

/// Ranges that a set may have which is sent to another node: see [`Extents::cover`] and [`Extents::parts`].
pub const EXTENTS_MAX: usize = 4096;

/// A set of bytes, as ranges that neither overlap nor touch.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Extents(BTreeMap<u64, u64>);

impl Extents {
    /// Adds a range.
    pub fn insert(&mut self, extent: Extent) {
        let (mut offset, mut end) = (extent.offset, extent.end());
        while let Some((&start, &stop)) = self.0.range(..=end).next_back() {
            if stop < offset {
                break;
            }
            self.0.remove(&start);
            (offset, end) = (offset.min(start), end.max(stop));
        }
        self.0.insert(offset, end);
    }

    /// Removes a range.
    pub fn remove(&mut self, extent: Extent) {
        while let Some((&start, &stop)) = self.0.range(..extent.end()).next_back() {
            if stop <= extent.offset {
                break;
            }
            self.0.remove(&start);
            if start < extent.offset {
                self.0.insert(start, extent.offset);
            }
            if stop > extent.end() {
                self.0.insert(extent.end(), stop);
            }
        }
    }

    /// Adds the ranges of another set.
    pub fn unite(&mut self, other: &Self) {
        other.iter().for_each(|extent| self.insert(extent));
    }

    /// Whether a byte of the range is in it.
    #[must_use]
    pub fn overlaps(&self, extent: Extent) -> bool {
        let last = self.0.range(..extent.end()).next_back();
        last.is_some_and(|(_, &end)| end > extent.offset)
    }

    /// Whether no byte is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many ranges they are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The ranges, ascending.
    pub fn iter(&self) -> impl Iterator<Item = Extent> + '_ {
        self.0.iter().map(|(&offset, &end)| Extent { offset, length: end - offset })
    }

    /// The units of so many bytes each that have a byte in it.
    #[must_use]
    pub fn whole(&self, unit: u64) -> Self {
        self.iter().map(|extent| extent.whole(unit)).collect()
    }

    /// Makes them at most `most` ranges, of which there is one at least, by adding the bytes between neighbours: where least is
    /// between them first.
    pub fn cover(&mut self, most: usize) {
        let Some(joins) = self.len().checked_sub(most.max(1)).filter(|joins| *joins > 0) else { return };
        let pairs = self.iter().zip(self.iter().skip(1));
        let mut gaps: Vec<_> = pairs.map(|(one, next)| (next.offset - one.end(), one.end())).collect();
        gaps.select_nth_unstable(joins - 1);
        for &(length, offset) in &gaps[..joins] {
            self.insert(Extent { offset, length });
        }
    }

    /// As [`Self::cover`], with room for others: what grows one by one is not looked through each time.
    pub(crate) fn bound(&mut self, most: usize) {
        if self.len() > most {
            self.cover(most - most / 4);
        }
    }

    /// Adds a range, unless it would be one more than `most`.
    pub(super) fn insert_within(&mut self, extent: Extent, most: usize) {
        let before = self.len();
        self.insert(extent);
        if self.len() > most.max(before) {
            self.remove(extent);
        }
    }

    /// The same bytes as sets of at most `most` ranges each.
    pub fn parts(&self, most: usize) -> impl Iterator<Item = Self> + '_ {
        let mut ranges = self.0.iter().map(|(&offset, &end)| (offset, end)).peekable();
        core::iter::from_fn(move || {
            ranges.peek()?;
            Some(Self(ranges.by_ref().take(most.max(1)).collect()))
        })
    }

    /// The ranges in pieces of at most `length` bytes, ascending.
    pub fn pieces(&self, length: u64) -> impl Iterator<Item = Extent> + '_ {
        self.0.iter().flat_map(move |(&offset, &end)| {
            let starts = (offset..end).step_by(usize::try_from(length).unwrap_or(usize::MAX));
            starts.map(move |offset| Extent { offset, length: length.min(end - offset) })
        })
    }
}

impl FromIterator<Extent> for Extents {
    fn from_iter<I: IntoIterator<Item = Extent>>(extents: I) -> Self {
        let mut set = Self::default();
        extents.into_iter().for_each(|extent| set.insert(extent));
        set
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_grows_one_by_one_has_room_for_others_when_it_was_joined() {
        for (count, joined) in [(8, 8), (9, 6), (20, 6)] {
            let mut set: Extents = (0..count).map(|i| Extent { offset: 2 * i, length: 1 }).collect();
            set.bound(8);
            assert_eq!(set.len(), joined, "of {count}");
        }
    }

    #[test]
    fn a_range_is_left_out_only_if_it_would_be_one_more_than_is_allowed() {
        let mut set = Extents::default();
        // The last ones touch others, which are no more by that.
        for (offset, length, ranges) in [(0, 1, 1), (4, 1, 2), (8, 1, 3), (12, 1, 3), (5, 1, 3), (1, 3, 2)] {
            let extent = Extent { offset, length };
            set.insert_within(extent, 3);
            assert_eq!((set.len(), set.overlaps(extent)), (ranges, offset != 12), "{extent:?}");
        }
    }

    #[test]
    fn what_is_around_a_range_has_bytes() {
        let all = Extent { offset: 2, length: 6 };
        for (offset, length, around) in
            [(4, 2, &[(2, 2), (6, 2)][..]), (2, 2, &[(4, 4)]), (6, 2, &[(2, 4)]), (2, 6, &[]), (0, 9, &[])]
        {
            let found: Vec<_> = all.around(Extent { offset, length }).map(|e| (e.offset, e.length)).collect();
            assert_eq!(found, around, "{length} from {offset} on");
        }
    }

    proptest! {
        #[test]
        fn extents_are_the_bytes_that_were_inserted_and_not_removed(
            changes in prop::collection::vec((any::<bool>(), 0_u64..40, 1_u64..12), 0..30),
        ) {
            let (mut set, mut bytes) = (Extents::default(), [false; 64]);
            for (inserts, offset, length) in changes {
                let extent = Extent { offset, length };
                if inserts { set.insert(extent) } else { set.remove(extent) }
                bytes[offset as usize..extent.end() as usize].fill(inserts);
            }
            let ranges: Vec<_> = set.iter().collect();
            for pair in ranges.windows(2) {
                prop_assert!(pair[0].end() < pair[1].offset);
            }
            for (at, is_in) in bytes.into_iter().enumerate() {
                let byte = Extent { offset: at as u64, length: 1 };
                prop_assert_eq!(set.overlaps(byte), is_in);
                prop_assert_eq!(ranges.iter().any(|range| range.overlaps(byte)), is_in);
            }
            let pieces: Extents = set.pieces(5).collect();
            prop_assert!(set.pieces(5).all(|piece| piece.length <= 5));
            prop_assert_eq!(&pieces, &set);
            for most in 1..6 {
                let parts: Vec<_> = set.parts(most).collect();
                prop_assert!(parts.iter().all(|part| !part.is_empty() && part.len() <= most));
                prop_assert_eq!(parts.len(), set.len().div_ceil(most));
                let all: Extents = parts.iter().flat_map(Extents::iter).collect();
                prop_assert_eq!(&all, &set);

                let mut cover = set.clone();
                cover.cover(most);
                prop_assert_eq!(cover.len(), set.len().min(most));
                let mut all = cover.clone();
                all.unite(&set);
                prop_assert_eq!(&all, &cover, "nothing is left out");
                // The gaps that are left are at least as long as any that was closed.
                let gaps = |set: &Extents| {
                    let ranges: Vec<_> = set.iter().collect();
                    let mut gaps: Vec<_> =
                        ranges.windows(2).map(|pair| pair[1].offset - pair[0].end()).collect();
                    gaps.sort_unstable();
                    gaps
                };
                prop_assert!(gaps(&set).ends_with(&gaps(&cover)));
            }
            let (mut within, extent) = (set.clone(), Extent { offset: 60, length: 2 });
            within.insert_within(extent, set.len());
            prop_assert_eq!(within.len(), set.len(), "it touches another one, or is left out");
        }
    }
}
