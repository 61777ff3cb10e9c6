//! The samples of nodes as one trace of a small cluster.

use std::time::Duration;

use cards_admin::{Mark, Measured, Sampled};
use cards_advise::{Access, Curve, Doubt, HISTORY, Rate, Reference, Sample, place};
use cards_core::{BlockId, Coherence, PgId};
use cards_policies::Replacement;
use cards_sim::{Library, Pace, RunError, Setup, Timing, WarmUp};
use cards_trace::{Op, Progress, Request, Skipped, Source, TraceError};

use super::popularity::Popularity;

/// Requests of one simulation: more take longer and tell no more.
const REQUESTS_MAX: usize = 300_000;

/// Any machine will do: one request after the other, nothing depends on how fast anything is.
const MACHINE: &str = "lan25";

/// Parts of a trace, that are compared.
const GROUPS: u64 = 4;
/// Of two samples of so many groups, the mean is not off by more of its standard errors, nineteen times of twenty (Student's t).
const STUDENT: f64 = 3.18;

/// What was counted since a time is known if what was counted between the marks around it is no more than this share of that.
const UNCERTAIN_MAX: f64 = 0.05;

/// What the clients of some nodes asked of a volume, scaled down.
pub(super) struct Trace {
    volume: PgId,
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
    /// Where these came from; none if that is not known of that time.
    pub(super) counted: Option<Measured>,
    /// How long what is measured took.
    pub(super) span: Duration,
    /// Of one LRU cache for all nodes.
    pub(super) curve: Curve,
    /// Of one for each node.
    nodes: Vec<Curve>,
    /// No node has forgotten a reference: with time, there will be more.
    pub(super) grows: bool,
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
        let (volume, rate) = samples.first().map(|sample| (sample.volume, sample.rate))?;
        // Where every node's references are known.
        let begins =
            |of: &mut dyn Iterator<Item = &Sample>| of.filter_map(Sample::span_us).map(|(at, _)| at).max();
        let begins = begins(&mut cut_off(&samples)).or_else(|| begins(&mut samples.iter()))?;
        let (mut requests, mut before, mut merged) = (Vec::new(), Vec::new(), Vec::new());
        let block = nodes.first()?.block;
        let most = samples.iter().map(|sample| sample.before.len()).max().unwrap_or(0);
        for turn in 0..most {
            for (node, sample) in (0..).zip(&samples) {
                // All end at the same time, as the references begin.
                let place = (turn + sample.before.len()).checked_sub(most);
                if let Some(&index) = place.and_then(|place| sample.before.get(place)) {
                    requests.push(request(node, index, Access::Read, block));
                    before.push(index);
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
        let references = merged.iter().map(|(_, reference)| *reference).collect();
        let curve = Curve::of(&Sample { before, references, ..Sample::new(volume, rate) });
        requests.extend(
            merged
                .iter()
                .map(|&(node, Reference { block: index, access, .. })| request(node, index, access, block)),
        );
        (reads > 0).then(|| Self {
            volume,
            caches: nodes.iter().map(|node| node.share_blocks).collect(),
            block_bytes: block,
            network_attached: nodes.iter().any(|node| node.network_attached),
            rate,
            requests,
            popularity,
            warm_up,
            reads,
            counted: counted_since(&nodes, begins),
            span: Duration::from_micros(ends.saturating_sub(begins)),
            curve,
            nodes: samples.iter().map(Curve::of).collect(),
            grows: nodes.iter().all(|node| node.sample.before.is_empty()),
        })
    }

    /// Blocks of all caches together, not scaled.
    pub(super) fn cache_blocks(&self) -> u64 {
        self.caches.iter().fold(0, |sum, &blocks| sum.saturating_add(blocks))
    }

    /// How far predictions can be trusted if all caches are multiplied by `factor`. As if there were one LRU cache for all nodes,
    /// or one for each that others do not know of: what policies and replacements make of them is in between.
    pub(super) fn doubt(&self, factor: f64) -> Doubt {
        let scaled = |blocks: u64| (blocks as f64 * factor) as u64;
        let nothing = Doubt { error: 1.0, unknown: 1.0 };
        let mut doubt = self.curve.doubt(scaled(self.cache_blocks())).unwrap_or(nothing);
        // A node that is sure of the reads of its clients does not make up for one that is not.
        let (mut error, mut reads) = (0.0, 0.0);
        for (node, &blocks) in self.nodes.iter().zip(&self.caches) {
            let read = node.counted() as f64;
            error += read * node.doubt(scaled(blocks)).unwrap_or(nothing).error;
            reads += read;
        }
        doubt.error = if reads > 0.0 { doubt.error.max(error / reads) } else { doubt.error };
        doubt
    }

    /// The blocks dealt to some smaller traces, by their hashes. Each says the same as all of it, but for chance. None if all blocks
    /// are known, since nothing is left to chance then.
    pub(super) fn groups(&self) -> Vec<Self> {
        if self.rate == Rate::ALL {
            return Vec::new();
        }
        (0..GROUPS).map(|number| self.group(number)).collect()
    }

    fn group(&self, number: u64) -> Self {
        let index = |request: &Request| (request.offset / u64::from(self.block_bytes)) as u32;
        let width = self.rate.limit() / GROUPS + 1;
        let taken = |request: &&Request| place(BlockId::new(self.volume, index(request))) / width == number;
        let (before, measured) = self.requests.split_at(self.warm_up as usize);
        let mut requests: Vec<Request> = before.iter().filter(taken).copied().collect();
        let warm_up = requests.len() as u64;
        requests.extend(measured.iter().filter(taken));
        let read = measured.iter().filter(taken).filter(|request| request.op == Op::Read);
        Self {
            rate: self.rate.half().half(),
            popularity: Popularity::of(read.map(index)),
            requests,
            warm_up,
            caches: self.caches.clone(),
            curve: self.curve.clone(),
            nodes: self.nodes.clone(),
            ..*self
        }
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

/// How far off a prediction can be by chance, from those of its [groups](Trace::groups): random groups, K. Wolter, "Introduction
/// to Variance Estimation", 2007, chapter 2.
pub(super) fn chance(groups: &[Shares]) -> Option<f64> {
    let n = groups.len() as f64;
    let error = |share: fn(&Shares) -> f64| {
        let mean = groups.iter().map(share).sum::<f64>() / n;
        let squares: f64 = groups.iter().map(|group| (share(group) - mean).powi(2)).sum();
        STUDENT * (squares / (n - 1.0) / n).sqrt()
    };
    let errors = [error(|of| of.own), error(|of| of.peers), error(|of| of.disk)];
    (groups.len() > 1).then(|| errors.into_iter().fold(0.0, f64::max).min(1.0))
}

/// What the nodes have counted since a time; none where their marks are too far apart to tell.
fn counted_since(nodes: &[&Sampled], time_us: u64) -> Option<Measured> {
    let (mut counted, mut uncertain) = (Measured::default(), 0);
    for node in nodes {
        let Some((until, between)) = counted_until(&node.marks, time_us) else { continue };
        let (_, now) = node.marks.last()?;
        counted = counted.plus(now.since(until));
        uncertain += between;
    }
    let reads = counted.reads();
    (reads > 0 && uncertain as f64 <= UNCERTAIN_MAX * reads as f64).then_some(counted)
}

/// What had been counted at a time as if reads came evenly between the marks around it, and the reads between these. None of a node that has
/// counted nothing.
fn counted_until(marks: &[Mark], time_us: u64) -> Option<(Measured, u64)> {
    let later = marks.partition_point(|(at, _)| *at <= time_us);
    let (_, last) = *marks.last()?;
    let Some(&(next_us, next)) = marks.get(later) else { return Some((last, 0)) };
    let (before_us, before) = later.checked_sub(1).map_or((time_us, Measured::default()), |at| marks[at]);
    let (between, part) = (next.since(before), time_us.saturating_sub(before_us));
    let share = |count: u64| {
        let count = u128::from(count) * u128::from(part) / u128::from((next_us - before_us).max(1));
        count as u64
    };
    if part == 0 {
        return Some((before, 0));
    }
    let Measured { local_hits, remote_hits, disk_reads } = between;
    let of = Measured {
        local_hits: share(local_hits),
        remote_hits: share(remote_hits),
        disk_reads: share(disk_reads),
    };
    Some((before.plus(of), between.reads()))
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
    let mut history = HISTORY;
    loop {
        samples.iter_mut().for_each(|sample| {
            sample.thin(rate);
            sample.rate = rate;
            sample.remember(history);
        });
        let all: usize = samples.iter().map(Sample::len).sum();
        if all <= REQUESTS_MAX || rate == rate.half() {
            return samples;
        }
        if history > 1 {
            history -= 1;
        } else {
            rate = rate.half();
        }
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
