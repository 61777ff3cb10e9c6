//! What goes with a request from its arrival to its reply.

use cards_core::Instant;

use cards_admin::Op;

/// A request, as far as it is counted.
#[derive(Clone, Copy, Debug)]
pub struct Ticket {
    /// When it had arrived.
    pub start: Instant,
    /// Where it begins in the volume, in bytes.
    pub offset: u64,
    /// Its length, in bytes.
    pub length: u32,
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
