//! Ranges and modes: what is locked, and how.

use core::fmt;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_or_reversed_range_is_none() {
        assert_eq!((LockRange::new(3, 3), LockRange::new(4, 3)), (None, None));
    }
}
