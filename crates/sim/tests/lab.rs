//! What the tests that try to prove the simulator wrong have in common: traces drawn at random, machines whose times are
//! easy to add up, and the runs.

use std::time::Duration;

use cards_policies::policy;
use cards_sim::{Library, Machine, Report, RunError, Setup, SetupError, Timing, run_from};
use cards_trace::{Op, Progress, Request, Skipped, Source, TraceError};

pub(crate) const BLOCK: u32 = 4096;

/// Requests from a list.
pub(crate) struct Listed<'a> {
    requests: std::borrow::Cow<'a, [Request]>,
    done: usize,
    skipped: Skipped,
}

impl Source for Listed<'_> {
    fn next(&mut self) -> Result<Option<Request>, TraceError> {
        let next = self.requests.get(self.done).copied();
        self.done += usize::from(next.is_some());
        Ok(next)
    }

    fn progress(&self) -> Progress {
        Progress { done: self.done as u64, total: Some(self.requests.len() as u64) }
    }

    fn skipped(&self) -> &Skipped {
        &self.skipped
    }

    fn has_times(&self) -> bool {
        true
    }
}

pub(crate) fn listed(requests: &[Request]) -> Listed<'static> {
    Listed { requests: requests.to_vec().into(), done: 0, skipped: Skipped::default() }
}

/// Numbers drawn from a seed.
pub(crate) struct Draw(pub(crate) u64);

impl Draw {
    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = cards_core::mix(self.0);
        self.0 % limit
    }

    /// A number from 0 to 1.
    pub(crate) fn unit(&mut self) -> f64 {
        self.below(1 << 53) as f64 / (1u64 << 53) as f64
    }
}

/// Whole blocks, by a node's only process, at the start of the trace.
pub(crate) fn request(node: u16, op: Op, block: u64, blocks: u64) -> Request {
    Request {
        time: Duration::ZERO,
        compute: Duration::ZERO,
        process: node.into(),
        node: node.into(),
        volume: 0,
        op,
        offset: block * u64::from(BLOCK),
        bytes: blocks as u32 * BLOCK,
    }
}

/// Single blocks, all read by one node.
pub(crate) fn reads(node: u16, blocks: impl IntoIterator<Item = u64>) -> Vec<Request> {
    blocks.into_iter().map(|block| request(node, Op::Read, block, 1)).collect()
}

/// What a random trace is like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) nodes: u16,
    pub(crate) volumes: u16,
    pub(crate) blocks: u64,
    pub(crate) requests: u64,
    /// Percent of the requests.
    pub(crate) writes: u64,
    /// Per mille of the requests, each: trims, opens, closes, flushes and messages.
    pub(crate) others: u64,
}

/// Some blocks are hot, some are scanned, requests begin and end anywhere, and each node has three processes.
pub(crate) fn random_trace(seed: u64, shape: Shape) -> Vec<Request> {
    let mut draw = Draw(seed);
    let mut scans = vec![0; usize::from(shape.nodes)];
    let mut requests = Vec::new();
    for number in 0..shape.requests {
        let node = draw.below(shape.nodes.into());
        let first = match draw.below(3) {
            0 => draw.below(shape.blocks / 8 + 1),
            1 => draw.below(shape.blocks),
            _ => {
                let at = &mut scans[node as usize];
                *at = (*at + 2) % shape.blocks;
                *at
            }
        };
        let blocks = (1 + draw.below(4)).min(shape.blocks - first);
        let cut = draw.below(2) * draw.below(BLOCK.into());
        let op = match draw.below(1000) {
            n if n < shape.others => {
                [Op::Trim, Op::Open, Op::Close, Op::Flush, Op::Send { to: 1 }][n as usize % 5]
            }
            _ if draw.below(100) < shape.writes => Op::Write,
            _ => Op::Read,
        };
        let ranged = !matches!(op, Op::Flush | Op::Send { .. });
        requests.push(Request {
            time: Duration::from_micros(number * 700),
            compute: Duration::from_micros(draw.below(2) * 50),
            process: (node * 3 + draw.below(3)) as u32,
            node: node as u32,
            volume: draw.below(shape.volumes.into()) as u16,
            op,
            offset: if ranged { first * u64::from(BLOCK) + cut } else { 0 },
            bytes: if op == Op::Flush { 0 } else { (blocks * u64::from(BLOCK) - cut) as u32 },
        });
    }
    requests
}

/// Blocks of all requests of a kind.
pub(crate) fn blocks_of(requests: &[Request], op: Op) -> u64 {
    let of_op = requests.iter().filter(|request| request.op == op);
    of_op.map(|request| request.blocks(BLOCK)).map(|blocks| blocks.end - blocks.start).sum()
}

/// A machine of so many nodes: copies 1 us each and no bandwidth, network 10 us a message and 100 us on the wire, disk
/// 1 ms for a read and 2 ms for a write. Bandwidths are so high that bytes take no time.
pub(crate) fn plain_machine(nodes: u16) -> Machine {
    let us = Duration::from_micros;
    let fast = 1e18;
    let mut machine = Library::default().find("pm").unwrap().clone();
    machine.nodes = nodes;
    machine.cache_bytes = vec![1 << 20];
    machine.block_bytes = BLOCK;
    machine.memory_bandwidth = fast;
    machine.network_bandwidth = fast;
    machine.staging_bandwidth = fast;
    machine.network_latency = us(100);
    machine.local_port = us(3);
    machine.remote_port = us(10);
    machine.local_copy = us(1);
    machine.remote_copy = us(20);
    machine.service = us(7);
    machine.staging_copies = 0;
    machine.disks = 1;
    machine.disk.read_seek = us(1_000);
    machine.disk.sequential_seek = us(1_000);
    machine.disk.write_seek = us(2_000);
    machine.disk.bandwidth = fast;
    machine.disk.channels = 1;
    machine
}

/// The plain machine with so many blocks at each node; all invariants are checked at the end.
pub(crate) fn setup(policy: &str, nodes: u16, blocks: u32) -> Setup {
    let machine = plain_machine(nodes);
    Setup {
        nodes,
        cache_blocks: vec![blocks],
        block_bytes: BLOCK,
        check: true,
        ..Setup::new(machine, policy)
    }
}

pub(crate) fn serial(policy: &str, nodes: u16, blocks: u32) -> Setup {
    Setup { timing: Timing::Serial, ..setup(policy, nodes, blocks) }
}

/// A run without what depends on real time.
pub(crate) fn try_go(setup: &Setup, requests: &[Request]) -> Result<Report, RunError> {
    let mut open = || -> Result<Box<dyn Source>, _> { Ok(Box::new(listed(requests))) };
    let report = run_from(setup, "list", &mut open, &mut ())?;
    Ok(Report { wall_s: 0.0, requests_per_s: 0.0, ..report })
}

#[track_caller]
pub(crate) fn go(setup: &Setup, requests: &[Request]) -> Report {
    match try_go(setup, requests) {
        Ok(report) => report,
        Err(error) => panic!("{}: {error}", setup.policy),
    }
}

/// None if the policy cannot be run with this replacement, or this way: comparators know LRU only.
#[track_caller]
pub(crate) fn go_if_possible(setup: &Setup, requests: &[Request]) -> Option<Report> {
    match try_go(setup, requests) {
        Ok(report) => Some(report),
        Err(RunError::Setup(SetupError::Bad { .. } | SetupError::Policy(_))) => None,
        Err(error) => panic!("{}: {error}", setup.policy),
    }
}

/// Every policy there is, with its defaults.
pub(crate) fn policies() -> impl Iterator<Item = &'static str> {
    policy::registry().iter().map(|entry| entry.name)
}

/// Every policy of the production core.
pub(crate) fn core_policies() -> impl Iterator<Item = &'static str> {
    policy::registry().iter().filter(|entry| entry.lacks().is_none()).map(|entry| entry.name)
}

pub(crate) fn hits(report: &Report) -> u64 {
    report.local_hits + report.remote_hits
}
