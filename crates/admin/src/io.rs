//! What clients have asked of a volume at one node.

use serde::{Deserialize, Serialize};

use super::Latencies;

/// A kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Op {
    /// Reading.
    Read,
    /// Writing.
    Write,
    /// Writing zeroes.
    Zero,
    /// Trimming.
    Trim,
    /// Making durable what was written before.
    Flush,
    /// Fetching into the cache, as advice.
    Cache,
    /// Asking where the holes are.
    Status,
    /// What is not understood, and refused.
    Other,
}

impl Op {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 8] = [
        Self::Read,
        Self::Write,
        Self::Zero,
        Self::Trim,
        Self::Flush,
        Self::Cache,
        Self::Status,
        Self::Other,
    ];

    /// Its name, in metrics and in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Zero => "zero",
            Self::Trim => "trim",
            Self::Flush => "flush",
            Self::Cache => "cache",
            Self::Status => "status",
            Self::Other => "other",
        }
    }
}

/// What clients of a node asked of a volume since the node started. What is under way is not in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Io {
    /// Requests by kind, those that there were.
    pub ops: Vec<OpIo>,
    /// Blocks of reads that came from this node's cache. One that was fetched ahead counts by where it came from when
    /// it is read for the first time.
    pub local_hits: u64,
    /// Blocks of reads that came from another node's cache.
    pub remote_hits: u64,
    /// Blocks of reads that came from the disk.
    pub disk_reads: u64,
    /// Reads that first had to wait for this node's lock on the range.
    pub lock_waits: u64,
    /// Requests that a limit of the card or of the node has had wait.
    pub throttled: u64,
    /// How long these waited for it, in microseconds, summed.
    pub throttled_us: u64,
}

/// Requests of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpIo {
    /// The kind.
    pub op: Op,
    /// Those that failed or were refused; also in `latency`.
    pub errors: u64,
    /// Bytes of those that did not.
    pub bytes: u64,
    /// What all of them took, in microseconds, summed.
    pub total_us: u64,
    /// How long each took: from when it had arrived until its reply had left to the client's socket.
    pub latency: Latencies,
}

impl OpIo {
    /// None yet.
    #[must_use]
    pub fn none(op: Op) -> Self {
        Self { op, errors: 0, bytes: 0, total_us: 0, latency: Latencies::default() }
    }

    fn since(&self, before: &Self) -> Self {
        if self.latency.count() < before.latency.count() {
            return self.clone();
        }
        Self {
            op: self.op,
            errors: self.errors.saturating_sub(before.errors),
            bytes: self.bytes.saturating_sub(before.bytes),
            total_us: self.total_us.saturating_sub(before.total_us),
            latency: self.latency.since(&before.latency),
        }
    }

    fn plus(&self, other: &Self) -> Self {
        Self {
            op: self.op,
            errors: self.errors.saturating_add(other.errors),
            bytes: self.bytes.saturating_add(other.bytes),
            total_us: self.total_us.saturating_add(other.total_us),
            latency: self.latency.plus(&other.latency),
        }
    }
}

impl Io {
    /// Requests of one kind; zeroes if there were none.
    #[must_use]
    pub fn op(&self, op: Op) -> OpIo {
        self.ops.iter().find(|io| io.op == op).cloned().unwrap_or_else(|| OpIo::none(op))
    }

    /// What was counted since `before`, an earlier reading; a daemon that restarted in between counts from 0.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            ops: self.ops.iter().map(|io| io.since(&before.op(io.op))).collect(),
            local_hits: self.local_hits.saturating_sub(before.local_hits),
            remote_hits: self.remote_hits.saturating_sub(before.remote_hits),
            disk_reads: self.disk_reads.saturating_sub(before.disk_reads),
            lock_waits: self.lock_waits.saturating_sub(before.lock_waits),
            throttled: self.throttled.saturating_sub(before.throttled),
            throttled_us: self.throttled_us.saturating_sub(before.throttled_us),
        }
    }

    /// The sum of both, for several nodes or volumes.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let ops = Op::ALL.iter().map(|op| self.op(*op).plus(&other.op(*op)));
        Self {
            ops: ops.filter(|io| io.latency.count() > 0).collect(),
            local_hits: self.local_hits.saturating_add(other.local_hits),
            remote_hits: self.remote_hits.saturating_add(other.remote_hits),
            disk_reads: self.disk_reads.saturating_add(other.disk_reads),
            lock_waits: self.lock_waits.saturating_add(other.lock_waits),
            throttled: self.throttled.saturating_add(other.throttled),
            throttled_us: self.throttled_us.saturating_add(other.throttled_us),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_numbered_in_their_order_and_named_as_in_json() {
        for (i, op) in Op::ALL.into_iter().enumerate() {
            assert_eq!(op as usize, i);
            assert_eq!(serde_json::to_string(&op).unwrap(), format!("{:?}", op.name()));
        }
    }

    #[test]
    fn sums_and_differences_go_by_kind() {
        let one = |op, us: u64| {
            let mut io = OpIo { bytes: 4096, total_us: us, ..OpIo::none(op) };
            io.latency.add(crate::latency::bucket_of(us * 1_000), 1);
            Io { ops: vec![io], local_hits: 1, ..Io::default() }
        };
        let (read, write) = (one(Op::Read, 5), one(Op::Write, 70));
        let both = read.plus(&write);
        assert_eq!((both.ops.len(), both.local_hits, both.op(Op::Trim)), (2, 2, OpIo::none(Op::Trim)));
        let since = both.since(&read);
        assert_eq!((since.op(Op::Read).latency.count(), since.op(Op::Write)), (0, write.op(Op::Write)));
    }
}
