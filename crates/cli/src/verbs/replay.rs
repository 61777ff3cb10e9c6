//! `cards replay`: a trace on real daemons, and beside it what the simulator says of them.

mod cluster;
mod compare;
mod connection;
mod error;
mod latencies;
mod load;
mod quiet;
mod replayed;
mod report;
mod serial;
mod steps;
mod timed;

use std::process::ExitCode;
use std::time::Instant;

use cards_config::{PolicySpec, size};
use cards_core::Coherence;
use cards_policies::Replacement;
use cards_policies::policy::is_auto;
use cards_sim::{Interrupt, Library, Pace, Report, RunError, Setup, Timing};
use cards_trace::{Progress as Read, Source as _};
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use clap::{Args, ValueEnum};

pub(crate) use error::ReplayError;

use crate::captive::Cluster;
use crate::complete;
use crate::context::Context;
use crate::error::Error;
use crate::output;
use crate::signals::{Arrived, Signals};
use crate::verbs::sim::{Reading, SimError, parse_block};
use compare::Comparison;
use load::Load;
use replayed::{Replayed, Taken};
use report::Outcome;

/// Play a trace on real daemons, and compare what they do with what the simulator predicts
#[derive(Debug, Args)]
#[command(after_help = "\
Starts a captive cluster (see `cards dev -h`) without read-ahead, with a sparse disk at node 1 that
has the trace's volumes one after the other. Serial: requests are cut at the borders of blocks, each
piece is issued when the cluster is at rest, and messages cross one at a time; --compare then finds the same counts in the
simulator, or the exit status is 1. docs/reference/replay.md says more.

Examples:
  cards replay gen:oltp:nodes=3,bytes=8MiB,requests=2000 --block 8K --cache 1M --compare
  cards replay site.cards --policy hdc --cache 64M --shards 4 --compare --json
  cards replay gen:boot:nodes=3,hot=4MiB --timing trace --limit 5000")]
pub(crate) struct Replay {
    /// A trace file, or a generator: gen:NAME:key=value,..
    #[arg(value_name = "TRACE")]
    trace: String,

    /// Number of nodes
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    nodes: u16,

    /// The policy, with parameters if any; see `cards policy list`. A fixed one, for counts to be compared: volumes of daemons have auto
    #[arg(long, default_value = "hscc", value_name = "POLICY", add = complete::policies())]
    policy: PolicySpec,

    /// Cache of each node
    #[arg(long, default_value = "4M", value_name = "SIZE", value_parser = size::parse)]
    cache: u64,

    /// The unit of caching
    #[arg(long, default_value = "64K", value_name = "SIZE", value_parser = block)]
    block: u32,

    /// Which block leaves a full cache
    #[arg(long, default_value = "lru", value_parser = replacement())]
    replacement: Replacement,

    /// Parts of each cache [default: 16, or fewer if the cache is small]
    #[arg(long, value_name = "N")]
    shards: Option<u32>,

    /// When requests are issued
    #[arg(long, value_enum, default_value_t = When::Serial, value_name = "WHEN")]
    timing: When,

    /// The first requests of the trace only
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,

    /// Which node does a request: as-is, client, round-robin, hash:BYTES, sessions:SECONDS,
    /// replicas:SECONDS or replicas:NUMBERr (requests)
    #[arg(long, value_name = "RULE", default_value = "as-is")]
    spread: String,

    /// Requests of node i that the cluster does not have are node i modulo n's
    #[arg(long)]
    fold: bool,

    #[command(flatten)]
    reading: Reading,

    /// Simulate the same as well, and show both
    #[arg(long)]
    compare: bool,

    /// The simulator's hardware, for its times; see `cards sim machines`
    #[arg(long, default_value = "lan25", value_name = "NAME")]
    machine: String,

    /// One JSON object
    #[arg(long)]
    json: bool,
}

/// When requests are issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum When {
    /// One block at a time, when the cluster is at rest
    Serial,
    /// Each process on its own, at the times of the trace
    Trace,
}

fn block(text: &str) -> Result<u32, String> {
    parse_block("block", text, 4096).map_err(|error| error.to_string())
}

fn replacement() -> impl clap::builder::TypedValueParser<Value = Replacement> {
    PossibleValuesParser::new(Replacement::ALL.map(Replacement::name))
        .map(|name| name.parse().unwrap_or_default())
}

impl Replay {
    pub(crate) fn run(self, cx: &Context) -> Result<ExitCode, Error> {
        let signals = Signals::block();
        // Found before anything is started: a machine or a policy that does not exist.
        let mut setup = self.setup()?;
        let load = self.load(&signals)?;
        let mut cluster = Cluster::start(&self.plan(&load, cx.verbose), &signals)?;
        let live = self.play(&load, &cluster, &signals)?;
        (setup.shards, setup.cache_blocks) = cluster::caches(&cluster);
        cluster.stop();
        let simulated = match self.compare {
            true => Some(simulate(&setup, &load, &signals)?),
            false => None,
        };
        let serial = self.timing == When::Serial;
        let outcome = Outcome::new(live, simulated, serial);
        if self.json {
            output::print_json(&outcome)?;
        } else {
            output::print(&outcome.to_string())?;
        }
        let differs = serial && outcome.comparison.as_ref().is_some_and(Comparison::differs);
        Ok(ExitCode::from(u8::from(differs)))
    }

    fn play(&self, load: &Load, cluster: &Cluster, signals: &Signals) -> Result<Replayed, Error> {
        let quiet = quiet::Quiet::new(cluster, signals)?;
        let before = Taken::of(cluster)?;
        let began = Instant::now();
        let mut source = load.open()?;
        let times = match self.timing {
            When::Serial => serial::play(&mut *source, cluster, load, &quiet, signals)?,
            When::Trace => timed::play(&mut *source, cluster, load, signals)?,
        };
        let wall = began.elapsed();
        // The daemons end an admin connection that is not used for long.
        quiet.again(cluster)?.wait(signals)?;
        let taken = Taken::of(cluster)?.since(&before);
        Ok(Replayed::new(self, cluster, &times, &taken, wall, source.skipped().total()))
    }

    fn load(&self, signals: &Signals) -> Result<Load, Error> {
        let workload = cards_sim::Workload {
            name: self.trace.clone(),
            options: self.reading.options()?,
            spread: self.spread.parse().map_err(SimError::from)?,
            beyond: if self.fold { cards_trace::Beyond::Fold } else { cards_trace::Beyond::Refuse },
        };
        let piece = match self.timing {
            When::Serial => u64::from(self.block),
            When::Trace => load::PIECE_MAX,
        };
        Load::survey(workload, self.nodes, self.limit.unwrap_or(u64::MAX), piece, self.block, signals)
    }

    /// All but the caches: those are as large as the daemons make them.
    fn setup(&self) -> Result<Setup, Error> {
        let machine = Library::default().find(&self.machine).map_err(SimError::from)?.clone();
        let policy = self.policy.to_string();
        cards_policies::policy::build(&policy)
            .map_err(|error| SimError::from(cards_sim::SetupError::from(error)))?;
        if self.compare && self.timing == When::Serial && is_auto(&policy) {
            return Err(ReplayError::Chosen.into());
        }
        Ok(Setup {
            nodes: self.nodes,
            block_bytes: self.block,
            replacement: self.replacement,
            coherence: Coherence::Confirmed,
            timing: match self.timing {
                When::Serial => Timing::Serial,
                When::Trace => Timing::Trace,
            },
            ..Setup::new(machine, &policy)
        })
    }
}

fn simulate(setup: &Setup, load: &Load, signals: &Signals) -> Result<Report, Error> {
    let mut source = load.open()?;
    match cards_sim::run(setup, &load.workload.name, &mut *source, &mut Attentive(signals)) {
        Ok(report) => Ok(report),
        Err(RunError::Stopped) => Err(ReplayError::Interrupted.into()),
        Err(first) => Err(SimError::Runs { first, more: 0 }.into()),
    }
}

/// Ends a run at Ctrl-C.
struct Attentive<'a>(&'a Signals);

impl Pace for Attentive<'_> {
    fn tick(&mut self, _requests: u64, _blocks: u64, _source: Read) -> Interrupt {
        if interrupted(self.0) { Interrupt::Stop } else { Interrupt::Continue }
    }
}

/// Whether somebody has asked for the end.
fn interrupted(signals: &Signals) -> bool {
    signals.wait(std::time::Duration::ZERO).is_some_and(Arrived::ends)
}
