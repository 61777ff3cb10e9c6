//! Ranges and modes: what is locked, and how.

use alloc::vec::Vec;
use core::fmt;

use super::error::LockError;

/// How a range is locked: many readers or one writer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Mode {
    /// Shared with other readers.
    Read,
    /// With nobody.
    Write,
}

/// Bytes or blocks (the user decides, once per volume) from `start` up to `end`, which is not in it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockRange {
    start: u64,
    end: u64,
}

impl LockRange {
    /// From `start` up to `end`: none when that is empty.
    #[must_use]
    pub const fn new(start: u64, end: u64) -> Option<Self> {
        if start < end { Some(Self { start, end }) } else { None }
    }

    /// The first position.
    #[must_use]
    pub const fn start(self) -> u64 {
        self.start
    }

    /// The first position behind it.
    #[must_use]
    pub const fn end(self) -> u64 {
        self.end
    }

    /// They have a position in common.
    #[must_use]
    pub const fn overlaps(self, other: Self) -> bool {
        self.start < other.end && other.start < self.end
    }

    /// What they have in common.
    #[must_use]
    pub fn intersection(self, other: Self) -> Option<Self> {
        Self::new(self.start.max(other.start), self.end.min(other.end))
    }
}

impl fmt::Debug for LockRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.start, self.end)
    }
}

/// A range and the mode it is locked in.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Locked {
    /// What.
    pub range: LockRange,
    /// How.
    pub mode: Mode,
}

impl Locked {
    /// Two owners cannot have these at one time.
    #[must_use]
    pub fn conflicts(self, other: Self) -> bool {
        self.range.overlaps(other.range) && (self.mode == Mode::Write || other.mode == Mode::Write)
    }
}

/// Two owners cannot have all of these at one time.
pub(super) fn conflict(a: &[Locked], b: &[Locked]) -> bool {
    a.iter().any(|x| b.iter().any(|y| x.conflicts(*y)))
}

/// Any position is in both.
pub(super) fn overlap(a: &[Locked], b: &[Locked]) -> bool {
    a.iter().any(|x| b.iter().any(|y| x.range.overlaps(y.range)))
}

/// The ranges in ascending order, if they are a request that makes sense.
pub(super) fn checked(ranges: &[Locked], limit: usize) -> Result<Vec<Locked>, LockError> {
    if ranges.is_empty() {
        return Err(LockError::NoRanges);
    }
    if ranges.len() > limit {
        return Err(LockError::TooManyRanges { given: ranges.len(), limit });
    }
    let mut ranges = ranges.to_vec();
    ranges.sort_unstable();
    match ranges.windows(2).find(|pair| pair[0].range.overlaps(pair[1].range)) {
        Some(pair) => Err(LockError::Overlapping { first: pair[0].range, second: pair[1].range }),
        None => Ok(ranges),
    }
}

/// The whole of `range` is locked in `mode`. The ranges are in ascending order and do not overlap.
pub(super) fn covers(ranges: &[Locked], range: LockRange, mode: Mode) -> bool {
    let mut from = range.start;
    for locked in ranges.iter().filter(|l| l.mode == mode) {
        if locked.range.start <= from && from < locked.range.end {
            from = locked.range.end;
        }
    }
    from >= range.end
}

/// The same ranges with `range` changed to `mode`, or taken out.
pub(super) fn overlay(ranges: &[Locked], range: LockRange, mode: Option<Mode>) -> Vec<Locked> {
    let mut result: Vec<Locked> = Vec::new();
    for locked in ranges {
        let Some(inside) = locked.range.intersection(range) else {
            result.push(*locked);
            continue;
        };
        let before = LockRange::new(locked.range.start, inside.start);
        let after = LockRange::new(inside.end, locked.range.end);
        result.extend(before.map(|range| Locked { range, mode: locked.mode }));
        result.extend(mode.map(|mode| Locked { range: inside, mode }));
        result.extend(after.map(|range| Locked { range, mode: locked.mode }));
    }
    result.dedup_by(|next, last| {
        let joined = last.mode == next.mode && last.range.end == next.range.start;
        if joined {
            last.range.end = next.range.end;
        }
        joined
    });
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn locked(start: u64, end: u64, mode: Mode) -> Locked {
        Locked { range: LockRange::new(start, end).unwrap(), mode }
    }

    #[test]
    fn an_overlay_splits_and_joins() {
        let held = [locked(0, 10, Mode::Read)];
        let split = overlay(&held, LockRange::new(3, 5).unwrap(), Some(Mode::Write));
        assert_eq!(split, [locked(0, 3, Mode::Read), locked(3, 5, Mode::Write), locked(5, 10, Mode::Read)]);
        assert_eq!(overlay(&split, LockRange::new(2, 6).unwrap(), Some(Mode::Read)), held);
        assert_eq!(overlay(&held, LockRange::new(0, 20).unwrap(), None), []);
    }

    #[test]
    fn a_range_is_covered_by_neighbours_of_one_mode_only() {
        let held = [locked(0, 5, Mode::Read), locked(5, 9, Mode::Read), locked(9, 12, Mode::Write)];
        assert!(covers(&held, LockRange::new(1, 9).unwrap(), Mode::Read));
        assert!(!covers(&held, LockRange::new(1, 10).unwrap(), Mode::Read));
    }

    #[test]
    fn an_empty_or_reversed_range_is_none() {
        assert_eq!((LockRange::new(3, 3), LockRange::new(4, 3)), (None, None));
    }
}
