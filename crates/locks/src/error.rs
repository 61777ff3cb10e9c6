//! Why a lock is refused.

use core::fmt;

use super::range::LockRange;

/// Why a request for locks is refused. Nothing has changed then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockError {
    /// The request names no range.
    NoRanges,
    /// The request names a position twice.
    Overlapping {
        /// A range of it.
        first: LockRange,
        /// Another, which overlaps.
        second: LockRange,
    },
    /// The request has too many ranges.
    TooManyRanges {
        /// So many.
        given: usize,
        /// So many are allowed.
        limit: usize,
    },
    /// The range is not inside one region.
    OutsideRegion {
        /// The range.
        range: LockRange,
    },
    /// The table has no room for another record.
    TableFull {
        /// Records it has room for.
        limit: usize,
    },
    /// The home looks after as many sessions as it can.
    TooManySessions {
        /// So many.
        limit: usize,
    },
    /// The session has as many groups as it can.
    TooManyGroups {
        /// So many.
        limit: usize,
    },
    /// The record exists already.
    Exists,
    /// Somebody else has it, and the request was not to wait.
    WouldBlock,
    /// It was not granted in time.
    TimedOut,
    /// The session's lease at a home ended before all of it was granted.
    LeaseEnded,
}

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRanges => f.write_str("the request names no range: name at least one"),
            Self::Overlapping { first, second } => {
                write!(f, "ranges {first:?} and {second:?} of one request overlap: join them")
            }
            Self::TooManyRanges { given, limit } => {
                write!(f, "{given} ranges, at most {limit} fit one record: lock larger ranges")
            }
            Self::OutsideRegion { range } => {
                write!(f, "range {range:?} crosses the region's border: split it there")
            }
            Self::TableFull { limit } => {
                write!(f, "the region has {limit} lock records, its limit: release some or try later")
            }
            Self::TooManySessions { limit } => {
                write!(f, "the home has {limit} sessions, its limit: close some or try later")
            }
            Self::TooManyGroups { limit } => {
                write!(f, "the session has {limit} lock groups, its limit: release some")
            }
            Self::Exists => f.write_str("a record of this name exists: give each a new name"),
            Self::WouldBlock => f.write_str("the range is locked: wait for it or try later"),
            Self::TimedOut => f.write_str("the locks were not granted in time: try again or wait longer"),
            Self::LeaseEnded => {
                f.write_str("the session's lease ended before all locks were granted: ask again")
            }
        }
    }
}

impl core::error::Error for LockError {}
