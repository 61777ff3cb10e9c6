//! The samples of nodes as one trace of a small cluster.

use std::time::Duration;

use cards_advise::{Access, Rate, Reference, Sample};
use cards_core::{Coherence, Replacement};
use cards_node::admin::Sampled;
use cards_sim::{Library, Pace, RunError, Setup, Timing, WarmUp};
use cards_trace::{Op, Progress, Request, Skipped, Source, TraceError};

use super::popularity::Popularity;

/// Requests of one simulation: more take longer and tell no more.
const REQUESTS_MAX: usize = 300_000;

/// Any machine will do: one request after the other, nothing depends on how fast anything is.
const MACHINE: &str = "lan25";

/// What the clients of some nodes asked of a volume, scaled down.
pub(super) struct Trace {
    /// Blocks that each node's cache has for the volume, not scaled.
    caches: Vec<u64>,
    block_bytes: u32,
    network_attached: bool,
    /// Which of the volume's blocks are in it.
    pub(super) rate: Rate,
    requests: Vec<Request>,
    /// Of what is measured.
    popularity: Popularity,
    /// Requests before what is measured.
    warm_up: u64,
    /// Block reads since then, of blocks in the sample or not.
    pub(super) reads: u64,
    /// How long what is measured took.
    pub(super) span: Duration,
}

/// What to simulate it with.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Case {
    /// All caches are multiplied by it.
    pub(super) factor: f64,
    pub(super) policy: String,
    pub(super) replacement: Replacement,
}

/// Where reads were answered, as shares of all.
#[derive(Clone, Copy, PartialEq, Debug, serde::Serialize)]
pub(super) struct Shares {
    /// From the reader's own cache.
    pub(super) own: f64,
    /// From another node's.
    pub(super) peers: f64,
    /// From the disk.
    pub(super) disk: f64,
}

impl Trace {
    /// The trace of these nodes; none if no block was read. The first node that has the disk is the simulated cluster's
    /// disk node; if none has, the first one is.
    pub(super) fn of(nodes: &[&Sampled]) -> Option<Self> {
        let mut nodes = nodes.to_vec();
        nodes.sort_by_key(|node| !node.disk_node);
        let samples = alike(&nodes);
        let rate = samples.first()?.rate;
        // Where every node's references are known.
        let begins =
            |of: &mut dyn Iterator<Item = &Sample>| of.filter_map(Sample::span_us).map(|(at, _)| at).max();
        let begins = begins(&mut cut_off(&samples)).or_else(|| begins(&mut samples.iter()))?;
        let (mut requests, mut merged) = (Vec::new(), Vec::new());
        let block = nodes.first()?.block;
        let most = samples.iter().map(|sample| sample.before.len()).max().unwrap_or(0);
        for turn in 0..most {
            for (node, sample) in (0..).zip(&samples) {
                // All end at the same time, as the references begin.
                let place = (turn + sample.before.len()).checked_sub(most);
                if let Some(&index) = place.and_then(|place| sample.before.get(place)) {
                    requests.push(request(node, index, Access::Read, block));
                }
            }
        }
        for (node, sample) in (0..).zip(&samples) {
            merged.extend(sample.references.iter().map(|reference| (node, *reference)));
        }
        merged.sort_by_key(|(_, reference)| reference.time_us);
        let measured = merged.partition_point(|(_, reference)| reference.time_us < begins);
        let reads = merged[measured..].iter().map(|(_, reference)| u64::from(reference.reads)).sum();
        let read = merged[measured..].iter().filter(|(_, reference)| reference.access == Access::Read);
        let popularity = Popularity::of(read.map(|(_, reference)| reference.block));
        let warm_up = (requests.len() + measured) as u64;
        let ends = merged.last().map_or(begins, |(_, reference)| reference.time_us);
        requests.extend(
            merged
                .iter()
                .map(|&(node, Reference { block: index, access, .. })| request(node, index, access, block)),
        );
        (reads > 0).then(|| Self {
            caches: nodes.iter().map(|node| node.share_blocks).collect(),
            block_bytes: block,
            network_attached: nodes.iter().any(|node| node.network_attached),
            rate,
            requests,
            popularity,
            warm_up,
            reads,
            span: Duration::from_micros(ends.saturating_sub(begins)),
        })
    }

    /// Blocks of all caches together, not scaled.
    pub(super) fn cache_blocks(&self) -> u64 {
        self.caches.iter().sum()
    }

    /// How many requests a simulation does.
    pub(super) fn requests(&self) -> u64 {
        self.requests.len() as u64
    }

    /// Simulates it.
    ///
    /// # Errors
    /// [`RunError`].
    pub(super) fn simulate(&self, case: &Case, pace: &mut dyn Pace) -> Result<Shares, RunError> {
        let machine = Library::default().find(MACHINE).map_err(cards_sim::SetupError::from)?.clone();
        let scaled = |&blocks: &u64| (blocks as f64 * case.factor / self.rate.weight() as f64).round() as u32;
        let setup = Setup {
            nodes: u16::try_from(self.caches.len()).unwrap_or(u16::MAX),
            cache_blocks: self.caches.iter().map(|blocks| scaled(blocks).max(1)).collect(),
            block_bytes: self.block_bytes,
            replacement: case.replacement,
            coherence: Coherence::Confirmed,
            network_attached: self.network_attached,
            timing: Timing::Serial,
            warm_up: WarmUp::Requests(self.warm_up),
            ..Setup::new(machine, &case.policy)
        };
        let mut player = Player::new(&self.requests);
        let report = cards_sim::run(&setup, "the sample", &mut player, pace)?;
        let share = |blocks: u64| {
            self.popularity.estimate(blocks, self.rate.weight(), self.reads) / self.reads as f64
        };
        let (peers, disk) = (share(report.remote_hits), share(report.disk_reads));
        let all = (peers + disk).max(1.0);
        Ok(Shares { own: 1.0 - (peers + disk) / all, peers: peers / all, disk: disk / all })
    }
}

/// Those that do not reach back to their node's first reference.
fn cut_off(samples: &[Sample]) -> impl Iterator<Item = &Sample> {
    samples.iter().filter(|sample| !sample.before.is_empty())
}

/// The samples at one rate, of one time, few enough.
fn alike(nodes: &[&Sampled]) -> Vec<Sample> {
    let mut samples: Vec<Sample> = nodes.iter().map(|node| node.sample.clone()).collect();
    let used = |sample: &&Sample| !sample.references.is_empty();
    let mut rate = samples.iter().filter(used).map(|sample| sample.rate).max().unwrap_or(Rate::ALL);
    // Where all are known: what came earlier only tells what was cached then.
    let begins =
        cut_off(&samples).filter_map(|sample| sample.references.first()).map(|first| first.time_us).max();
    for sample in &mut samples {
        let early = sample.references.partition_point(|reference| Some(reference.time_us) < begins);
        sample.keep(sample.references.len() - early);
    }
    loop {
        samples.iter_mut().for_each(|sample| {
            sample.thin(rate);
            sample.rate = rate;
        });
        let all: usize = samples.iter().map(|sample| sample.references.len() + sample.before.len()).sum();
        if all <= REQUESTS_MAX || rate == rate.half() {
            return samples;
        }
        rate = rate.half();
    }
}

fn request(node: u32, index: u32, access: Access, block: u32) -> Request {
    let (op, bytes) = match access {
        Access::Read => (Op::Read, block),
        Access::Write => (Op::Write, block),
        Access::PartialWrite => (Op::Write, block / 2),
    };
    let offset = u64::from(index) * u64::from(block);
    let (time, compute) = (Duration::ZERO, Duration::ZERO);
    Request { time, compute, process: node, node, volume: 0, op, offset, bytes }
}

/// Gives requests to the simulator.
pub(super) struct Player<'a> {
    requests: &'a [Request],
    next: usize,
    skipped: Skipped,
}

impl<'a> Player<'a> {
    pub(super) fn new(requests: &'a [Request]) -> Self {
        Self { requests, next: 0, skipped: Skipped::default() }
    }
}

impl Source for Player<'_> {
    fn next(&mut self) -> Result<Option<Request>, TraceError> {
        let next = self.requests.get(self.next).copied();
        self.next += usize::from(next.is_some());
        Ok(next)
    }

    fn progress(&self) -> Progress {
        Progress { done: self.next as u64, total: Some(self.requests.len() as u64) }
    }

    fn skipped(&self) -> &Skipped {
        &self.skipped
    }

    fn has_times(&self) -> bool {
        false
    }
}
