//! Regions: the unit of freshness and of range locks.
//!
//! The blocks of a shard, in their order, are cut into *regions* of 1,024, and each region into 64 *segments* (fewer, if
//! [`super::Limits`] says so). A lock covers segments; what contents must include to be used is remembered per region ([`Bounds`]). A
//! write therefore concerns the copies of its own region alone.

use super::Shard;
use crate::ids::{STRIPE_BLOCKS, Stamp};

/// Segments of a region at most: one bit each in a set of them.
const SEGMENTS: u32 = u64::BITS;
/// Blocks of a shard in a segment. A command lies within one stripe, hence within one segment.
pub(super) const SEGMENT: u32 = STRIPE_BLOCKS;
/// Stamps of one interval share all but so many low bits.
const INTERVAL_BITS: u32 = 20;

/// The place of a block among those of its shard, as its region and the segment in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub(super) region: u32,
    pub(super) segment: u32,
}

impl Place {
    /// The set that has this segment alone.
    pub(super) const fn bit(self) -> u64 {
        1 << self.segment
    }
}

/// The segments in a set.
pub(super) fn segments(set: u64) -> impl Iterator<Item = u32> {
    (0..SEGMENTS).filter(move |segment| set & 1 << segment != 0)
}

/// What contents of a region's blocks must include to be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Bounds {
    /// The limit in segments that were not written lately.
    pub base: Stamp,
    /// Segments that were written lately, one bit each.
    pub written: u64,
    /// The limit in those: the last write to any of them.
    pub version: Stamp,
}

impl Bounds {
    /// The last write that contents of a segment's blocks must include.
    pub(super) fn of(&self, segment: u32) -> Stamp {
        if self.written & 1 << segment != 0 { self.version.max(self.base) } else { self.base }
    }

    /// A write to a segment has begun.
    pub(super) fn write(&mut self, segment: u32, stamp: Stamp) {
        self.written |= 1 << segment;
        self.version = self.version.max(stamp);
    }

    /// The primary's word about the region. It may be older than an invalidation that overtook it.
    pub(super) fn learn(&mut self, word: Self) {
        if word.version.max(word.base) >= self.version.max(self.base) {
            *self = word;
        } else {
            self.base = self.base.max(word.base);
            self.written |= word.written;
        }
    }
}

/// Whether contents that include all complete writes to their block up to `as_of` may become usable where `bound` is
/// the last write they must include.
///
/// The one rule for every way in which a copy begins to be usable: delivered, stored, or parked and locked again.
#[must_use]
pub fn judge(as_of: Stamp, bound: Stamp) -> bool {
    as_of >= bound
}

/// [`Bounds`] as the primary keeps them: segments written in this interval and in the one before are known singly, what
/// was written earlier counts as written everywhere in the region.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Writes {
    base: Stamp,
    /// Of the interval of `version`, and of the one before.
    written: [u64; 2],
    version: Stamp,
}

impl Writes {
    /// Of a region whose earlier writes are all covered by `base`.
    pub(super) fn since(base: Stamp) -> Self {
        Self { base, ..Self::default() }
    }

    /// Of a region as an earlier life knew it.
    pub(super) fn before(bounds: Bounds) -> Self {
        Self { base: bounds.base, written: [bounds.written, 0], version: bounds.version }
    }

    pub(super) fn bounds(&self) -> Bounds {
        Bounds { base: self.base, written: self.written[0] | self.written[1], version: self.version }
    }

    /// The last write to the region that is remembered.
    pub(super) fn last(&self) -> Stamp {
        self.version.max(self.base)
    }

    /// The last write to the region is of the same interval.
    pub(super) fn is_in_interval_of(&self, stamp: Stamp) -> bool {
        self.version.0 >> INTERVAL_BITS == stamp.0 >> INTERVAL_BITS
    }

    pub(super) fn write(&mut self, segment: u32, stamp: Stamp) {
        let interval = |stamp: Stamp| stamp.0 >> INTERVAL_BITS;
        let [this, before] = self.written;
        match interval(stamp).saturating_sub(interval(self.version)) {
            0 => {}
            1 => {
                if before != 0 {
                    self.base = self.base.max(Stamp((interval(self.version) << INTERVAL_BITS) - 1));
                }
                self.written = [0, this];
            }
            _ => {
                self.base = self.last();
                self.written = [0, 0];
            }
        }
        self.written[0] |= 1 << segment;
        self.version = stamp;
    }
}

impl Shard {
    /// The block's place among those of this shard.
    pub(super) fn local(&self, index: u32) -> u32 {
        let stripe = index / STRIPE_BLOCKS / u32::from(self.config.shards);
        stripe * STRIPE_BLOCKS + index % STRIPE_BLOCKS
    }

    /// The block at a place; none beyond the numbers that blocks can have.
    pub(super) fn index_of(&self, local: u32) -> Option<u32> {
        let (stripe, size) = (u64::from(local / STRIPE_BLOCKS), u64::from(STRIPE_BLOCKS));
        let stripe = stripe * u64::from(self.config.shards) + u64::from(self.config.shard);
        u32::try_from(stripe * size + u64::from(local % STRIPE_BLOCKS)).ok()
    }

    /// Segments of a region here.
    fn segments_of_region(&self) -> u32 {
        self.config.limits.region_segments.clamp(1, SEGMENTS)
    }

    /// The set of all segments of a region.
    pub(super) fn all_segments(&self) -> u64 {
        u64::MAX >> (SEGMENTS - self.segments_of_region())
    }

    /// The region and segment of a block.
    pub(super) fn place(&self, index: u32) -> Place {
        let (segment, count) = (self.local(index) / SEGMENT, self.segments_of_region());
        Place { region: segment / count, segment: segment % count }
    }

    /// The first block of a segment, as a place in the shard.
    const fn first_local(count: u32, Place { region, segment }: Place) -> u32 {
        (region * count + segment) * SEGMENT
    }

    /// The run of segments in a set around one of them: its first and its last block; none if it is not in the set.
    pub(super) fn run(&self, set: u64, place: Place) -> Option<(u32, u32)> {
        let is_in = |segment: u32| set & 1 << segment != 0;
        let count = self.segments_of_region();
        let first = (0..=place.segment).rev().take_while(|&segment| is_in(segment)).last()?;
        let last = (place.segment..count).take_while(|&segment| is_in(segment)).last()?;
        let at = |segment| Self::first_local(count, Place { region: place.region, segment });
        Some((self.index_of(at(first))?, self.index_of(at(last) + (SEGMENT - 1))?))
    }

    /// The first and the last block of a region; [`u32::MAX`] for those beyond all numbers.
    pub(super) fn ends_of_region(&self, region: u32) -> (u32, u32) {
        let first = Self::first_local(self.segments_of_region(), Place { region, segment: 0 });
        let last = first + (self.segments_of_region() * SEGMENT - 1);
        let index = |local| self.index_of(local).unwrap_or(u32::MAX);
        (index(first), index(last))
    }

    /// The blocks of a segment.
    pub(super) fn indices(&self, place: Place) -> impl Iterator<Item = u32> + use<> {
        let first = self.index_of(Self::first_local(self.segments_of_region(), place));
        // A segment is one stripe.
        first.into_iter().flat_map(|first| first..first.saturating_add(SEGMENT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: u64 = 1 << INTERVAL_BITS;

    #[test]
    fn a_segment_that_was_not_written_keeps_its_limit() {
        let mut writes = Writes::since(Stamp(7));
        writes.write(3, Stamp(INTERVAL + 1));
        writes.write(5, Stamp(INTERVAL + 9));
        let bounds = writes.bounds();
        assert_eq!(
            (bounds.of(0), bounds.of(3), bounds.of(5)),
            (Stamp(7), bounds.version, Stamp(INTERVAL + 9))
        );
    }

    #[test]
    fn what_was_written_long_ago_falls_into_the_base_and_no_limit_is_below_a_write() {
        let mut writes = Writes::since(Stamp(0));
        let mut last = [Stamp(0); SEGMENTS as usize];
        let mut stamp = 0;
        for step in 0..5_000u64 {
            // Long and short gaps between writes, within and across intervals.
            stamp += 1 + (step * 7919 % 13) * (INTERVAL / 4);
            let segment = (step * 31 % 11) as u32;
            writes.write(segment, Stamp(stamp));
            last[segment as usize] = Stamp(stamp);
            let bounds = writes.bounds();
            for segment in 0..SEGMENTS {
                assert!(bounds.of(segment) >= last[segment as usize], "step {step}, segment {segment}");
                assert!(bounds.of(segment) <= Stamp(stamp), "step {step}, segment {segment}");
            }
        }
        assert!(writes.bounds().written.count_ones() < 11);
    }

    #[test]
    fn an_older_word_of_the_primary_takes_back_no_invalidation() {
        let mut bounds = Bounds::default();
        bounds.write(2, Stamp(50));
        bounds.learn(Bounds { base: Stamp(10), written: 1, version: Stamp(40) });
        assert_eq!((bounds.of(2), bounds.of(0), bounds.of(9)), (Stamp(50), Stamp(50), Stamp(10)));
        bounds.learn(Bounds { base: Stamp(60), written: 0, version: Stamp(55) });
        assert_eq!(bounds.of(2), Stamp(60));
    }

    /// The next life of a primary has written nothing yet, but what was written before comes before all of it.
    #[test]
    fn the_word_of_a_new_life_is_not_an_older_one() {
        let mut bounds = Bounds::default();
        bounds.write(2, Stamp(50));
        bounds.learn(Bounds { base: Stamp(100), ..Bounds::default() });
        assert_eq!((bounds.of(2), bounds.of(3)), (Stamp(100), Stamp(100)));
    }

    /// The primary has forgotten the region: its word is a limit everywhere. A late word from before does not lower it.
    #[test]
    fn a_late_word_does_not_lower_the_limit_of_a_whole_region() {
        let word = Bounds { base: Stamp(1), written: 1, version: Stamp(5) };
        let mut bounds = word;
        bounds.learn(Bounds { base: Stamp(9), ..Bounds::default() });
        bounds.learn(word);
        assert_eq!((bounds.of(0), bounds.of(1)), (Stamp(9), Stamp(9)));
    }
}
