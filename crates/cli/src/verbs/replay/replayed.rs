//! What the daemons have done, by the names of the simulator's report.

use std::collections::BTreeMap;
use std::time::Duration;

use cards_admin::{Counters, DiskCounters};
use cards_trace::{Op, Request};
use serde::Serialize;

use super::Replay;
use super::latencies::Latencies;
use crate::captive::Cluster;
use crate::error::Error;

/// What clients have seen.
#[derive(Debug)]
pub(super) struct Times {
    block_bytes: u32,
    requests: u64,
    blocks: u64,
    reads: Latencies,
    writes: Latencies,
}

impl Times {
    pub(super) fn new(block_bytes: u32) -> Self {
        let (reads, writes) = (Latencies::default(), Latencies::default());
        Self { block_bytes, requests: 0, blocks: 0, reads, writes }
    }

    pub(super) fn add(&mut self, request: &Request, took: Duration) {
        self.requests += 1;
        if request.op.is_data() {
            let blocks = request.blocks(self.block_bytes);
            self.blocks += blocks.end - blocks.start;
        }
        match request.op {
            Op::Read => self.reads.add(took),
            Op::Write => self.writes.add(took),
            Op::Trim | Op::Flush | Op::Open | Op::Close | Op::Send { .. } => {}
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.requests += other.requests;
        self.blocks += other.blocks;
        self.reads.merge(&other.reads);
        self.writes.merge(&other.writes);
    }
}

/// The counters of all nodes together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    nodes: Counters,
    disks: DiskCounters,
}

impl Taken {
    pub(super) fn of(cluster: &Cluster) -> Result<Self, Error> {
        let (mut nodes, mut disks) = (Counters::default(), DiskCounters::default());
        for node in &cluster.nodes {
            let status = node.status()?;
            nodes = nodes.plus(&status.counters);
            disks = status.disks.iter().fold(disks, |sum, disk| sum.plus(disk.counters));
        }
        Ok(Self { nodes, disks })
    }

    pub(super) fn since(&self, before: &Self) -> Self {
        let disks = DiskCounters {
            reads: self.disks.reads - before.disks.reads,
            writes: self.disks.writes - before.disks.writes,
            bytes_read: self.disks.bytes_read - before.disks.bytes_read,
            bytes_written: self.disks.bytes_written - before.disks.bytes_written,
        };
        Self { nodes: self.nodes.since(&before.nodes), disks }
    }
}

/// A replay. Its JSON is an interface: names and meanings are those of `cards_sim::Report`; times are real.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Replayed {
    pub(super) trace: String,
    pub(super) policy: String,
    pub(super) replacement: String,
    pub(super) nodes: u16,
    pub(super) cache_bytes: u64,
    pub(super) block_bytes: u64,
    pub(super) shards: u32,
    pub(super) requests: u64,
    pub(super) read_requests: u64,
    pub(super) write_requests: u64,
    pub(super) blocks: u64,
    pub(super) local_hits: u64,
    pub(super) remote_hits: u64,
    pub(super) disk_reads: u64,
    pub(super) disk_writes: u64,
    pub(super) global_hit_ratio: f64,
    pub(super) read_mean_us: f64,
    pub(super) read_p50_us: f64,
    pub(super) read_p99_us: f64,
    pub(super) write_mean_us: f64,
    pub(super) messages: u64,
    pub(super) forwarded: u64,
    pub(super) stored_for_others: u64,
    pub(super) wall_s: f64,
    pub(super) requests_per_s: f64,
    pub(super) skipped: u64,
    pub(super) more: BTreeMap<&'static str, u64>,
}

impl Replayed {
    pub(super) fn new(
        replay: &Replay,
        cluster: &Cluster,
        times: &Times,
        taken: &Taken,
        wall: Duration,
        skipped: u64,
    ) -> Self {
        let Taken { nodes: n, disks } = taken;
        let ratio = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
        let hits = n.local_hits + n.remote_hits;
        let more = [
            ("evictions", n.evictions),
            ("failed", n.failed),
            ("invalidations", n.invalidations),
            ("joined", n.joined),
            ("messages_dropped", n.messages_dropped),
            ("refused_as_stale", n.refused_as_stale),
            ("retries", n.retries),
            ("slot_waits", n.slot_waits),
            ("stale_hints", n.stale_hints),
            ("stored_in_vain", n.stored_in_vain),
        ];
        Self {
            trace: replay.trace.clone(),
            policy: replay.policy.to_string(),
            replacement: replay.replacement.name().into(),
            nodes: replay.nodes,
            cache_bytes: replay.cache,
            block_bytes: replay.block.into(),
            shards: cluster.nodes.first().map_or(0, |node| node.config.shards),
            requests: times.requests,
            read_requests: times.reads.count(),
            write_requests: times.writes.count(),
            blocks: times.blocks,
            local_hits: n.local_hits,
            remote_hits: n.remote_hits,
            disk_reads: n.disk_reads,
            disk_writes: disks.writes,
            global_hit_ratio: ratio(hits as f64, (hits + n.disk_reads) as f64),
            read_mean_us: times.reads.mean_us(),
            read_p50_us: times.reads.quantile_us(0.5),
            read_p99_us: times.reads.quantile_us(0.99),
            write_mean_us: times.writes.mean_us(),
            messages: n.messages_sent,
            forwarded: n.forwarded,
            stored_for_others: n.stored_for_others,
            wall_s: wall.as_secs_f64(),
            requests_per_s: ratio(times.requests as f64, wall.as_secs_f64()),
            skipped,
            more: more.into(),
        }
    }
}
