//! Where requests come from.

use std::collections::BTreeMap;
use std::fmt;

use crate::{Request, TraceError};

/// A stream of requests, in the order in which they were issued.
pub trait Source: Send {
    /// The next request; none at the end. After an error the source is at its end.
    ///
    /// # Errors
    /// A damaged or mislabelled trace; the error names the file and the line (or record).
    fn next(&mut self) -> Result<Option<Request>, TraceError>;

    /// How far it has come.
    fn progress(&self) -> Progress;

    /// What was left out so far. Nothing is left out silently.
    fn skipped(&self) -> &Skipped;

    /// Whether [`Request::time`] means something.
    fn has_times(&self) -> bool;

    /// When the trace started, in microseconds since 1970 (UTC), if it was recorded with that: what
    /// [`Request::time`] counts from. Recordings of several nodes are aligned by it.
    fn started_us(&self) -> Option<u64> {
        None
    }
}

impl Source for Box<dyn Source> {
    fn next(&mut self) -> Result<Option<Request>, TraceError> {
        (**self).next()
    }

    fn progress(&self) -> Progress {
        (**self).progress()
    }

    fn skipped(&self) -> &Skipped {
        (**self).skipped()
    }

    fn has_times(&self) -> bool {
        (**self).has_times()
    }

    fn started_us(&self) -> Option<u64> {
        (**self).started_us()
    }
}

/// How much of a source has been read, in units of its own (bytes of a file, requests of a generator).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Progress {
    /// Read so far.
    pub done: u64,
    /// In all, if known.
    pub total: Option<u64>,
}

/// Records that a source has left out or put right, counted by the reason. Displayed as
/// `12 zero size, 3 time goes back`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Skipped {
    counts: BTreeMap<&'static str, u64>,
    total: u64,
}

impl Skipped {
    /// Counts one more.
    pub fn count(&mut self, reason: &'static str) {
        self.add(reason, 1);
    }

    /// Counts `n` more.
    pub fn add(&mut self, reason: &'static str, n: u64) {
        *self.counts.entry(reason).or_default() += n;
        self.total += n;
    }

    /// The reasons with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.counts.iter().map(|(&reason, &count)| (reason, count))
    }

    /// The count of one reason.
    #[must_use]
    pub fn get(&self, reason: &str) -> u64 {
        self.counts.get(reason).copied().unwrap_or(0)
    }

    /// All together.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Takes over what `inner` has counted since `seen`, and brings `seen` up to date. A source that wraps
    /// others keeps the sum this way.
    pub(crate) fn follow(&mut self, inner: &Self, seen: &mut Self) {
        if inner.total == seen.total {
            return;
        }
        for (reason, count) in inner.iter() {
            let more = count - seen.get(reason);
            if more > 0 {
                self.add(reason, more);
                seen.add(reason, more);
            }
        }
    }
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (reason, count)) in self.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            write!(f, "{comma}{count} {reason}")?;
        }
        Ok(())
    }
}
