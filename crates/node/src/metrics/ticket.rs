//! What goes with a request from its arrival to its reply.

use cards_core::Instant;

use cards_admin::Op;

/// A request, as far as it is counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket {
    /// When it had arrived.
    pub(crate) start: Instant,
    /// Where it begins in the volume, in bytes.
    pub(crate) offset: u64,
    /// Its length, in bytes.
    pub(crate) length: u32,
    /// Its kind.
    pub(crate) op: Op,
    /// How it ended, or that it has been noted as slow.
    pub(crate) mark: Mark,
}

/// What is to be said of a request when its reply leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// It has succeeded.
    Done,
    /// It has succeeded, and is among the slow requests already.
    Noted,
    /// It has failed.
    Failed,
}
