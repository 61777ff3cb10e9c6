//! What clients ask of a volume in a second, and how long it takes.

use cards_admin::{Io, Op};

/// Differences of what was counted, over one or more nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct IoNow {
    /// Requests per second.
    pub(crate) requests: f64,
    /// Bytes read per second.
    pub(crate) read: f64,
    /// Bytes written per second, zeroed and trimmed ones not included.
    pub(crate) written: f64,
    /// What has been counted since the last look; at several nodes, since each one's.
    pub(crate) io: Io,
    /// For the next sum.
    by_op: Vec<(Op, f64)>,
}

impl IoNow {
    /// What a node counted in so many seconds.
    pub(crate) fn of(io: Io, seconds: f64) -> Self {
        let by_op: Vec<(Op, f64)> =
            io.ops.iter().map(|one| (one.op, one.latency.count() as f64 / seconds)).collect();
        Self {
            requests: by_op.iter().map(|(_, rate)| rate).sum(),
            read: io.op(Op::Read).bytes as f64 / seconds,
            written: io.op(Op::Write).bytes as f64 / seconds,
            io,
            by_op,
        }
    }

    /// Requests of one kind per second.
    pub(crate) fn requests_of(&self, op: Op) -> f64 {
        self.by_op.iter().filter(|(other, _)| *other == op).map(|(_, rate)| rate).sum()
    }

    /// Both together.
    pub(crate) fn plus(mut self, other: &Self) -> Self {
        self.requests += other.requests;
        self.read += other.read;
        self.written += other.written;
        self.io = self.io.plus(&other.io);
        self.by_op.extend_from_slice(&other.by_op);
        self
    }
}
