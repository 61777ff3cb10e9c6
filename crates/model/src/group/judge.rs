//! What clients wrote and saw, and what no run may show.

/// Values that are written, and the one that is there first.
pub(crate) const VALUES: usize = 4;

/// What has happened so far. Values are bits of a set.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Judge {
    /// Values that were read, or whose write was acknowledged.
    seen: u8,
    /// By value: those whose writing began after it was seen.
    later: [u8; VALUES],
    /// Writes that were acknowledged.
    pub acknowledged: u8,
    /// The first thing that was wrong.
    pub verdict: Option<Verdict>,
}

/// What was wrong.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Verdict {
    /// Both nodes may tell clients something at the same time.
    BothServe,
    /// A client has read what was replaced: seen before another value was written, which was seen before this read.
    Stale {
        /// What was read.
        value: u8,
    },
    /// A write is acknowledged, or a value was read, and a column in sync has what was replaced by it.
    NotEverywhere {
        /// The column's node.
        node: usize,
        /// What it has.
        value: u8,
    },
}

impl Judge {
    pub(crate) const fn new() -> Self {
        Self { seen: 1, later: [0; VALUES], acknowledged: 0, verdict: None }
    }

    pub(crate) fn is_wrong(&mut self, verdict: Verdict) {
        self.verdict.get_or_insert(verdict);
    }

    /// A client begins to write a value.
    pub(crate) fn begins(&mut self, value: u8) {
        let seen = self.seen;
        let of_seen = self.later.iter_mut().enumerate().filter(|(earlier, _)| seen & 1 << earlier != 0);
        of_seen.for_each(|(_, later)| *later |= 1 << value);
    }

    /// The value was replaced by one that somebody has seen.
    pub(crate) const fn is_replaced(&self, value: u8) -> bool {
        self.later[value as usize] & self.seen != 0
    }

    pub(crate) const fn acknowledges(&mut self, value: u8) {
        self.acknowledged |= 1 << value;
        self.seen |= 1 << value;
    }

    pub(crate) fn reads(&mut self, value: u8) {
        if self.is_replaced(value) {
            self.is_wrong(Verdict::Stale { value });
        }
        self.seen |= 1 << value;
    }
}
