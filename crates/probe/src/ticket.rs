//! What goes with a request from its arrival to its reply.

use std::time::Duration;

use cards_admin::Op;
use cards_core::Instant;

/// A request, as far as it is counted.
#[derive(Clone, Copy, Debug)]
pub struct Ticket {
    /// When it had arrived.
    pub start: Instant,
    /// Where it begins in the volume, in bytes.
    pub offset: u64,
    /// Its length, in bytes.
    pub length: u32,
    /// How long a limit has had it wait, in milliseconds; no more than a minute is told apart.
    pub throttled_ms: u16,
    /// Its kind.
    pub op: Op,
    /// How it ended, or that it has been noted as slow.
    pub mark: Mark,
}

impl Ticket {
    /// How long it has taken until `now`, in nanoseconds.
    pub(crate) const fn took_ns(&self, now: Instant) -> u64 {
        now.0.saturating_sub(self.start.0)
    }

    /// It had arrived at `since`, and a limit has had it wait.
    pub fn throttled(&mut self, since: Instant, waited: Duration) {
        self.start = since;
        self.throttled_ms = u16::try_from(waited.as_millis()).unwrap_or(u16::MAX);
    }

    /// Whether most of the time that it took was a limit's doing.
    pub(crate) fn waited_for_limit(&self, took: Duration) -> bool {
        let is_most = u128::from(self.throttled_ms) * 2 > took.as_millis();
        is_most || self.throttled_ms == u16::MAX
    }
}

/// What is to be said of a request when its reply leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// It has succeeded.
    Done,
    /// It has succeeded, and is among the slow requests already.
    Noted,
    /// It has failed.
    Failed,
}
