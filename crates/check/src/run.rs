//! One run: boot, storm, calm, and the verdict.
//!
//! In the storm, clients work while faults happen; safety must hold. Then the faults stop, and liveness must
//! hold: whatever is outstanding completes, every node can take the writer's role and read everything
//! without an error, and nothing is left over. The checkers judge the whole.

use std::collections::BTreeMap;
use std::fmt;

use cards_core::{Duration, Instant, NodeId, Stats, Token};
use cards_world::{Action, Completion, Trace, World};

use crate::checkers::{self, errors::Errors};
use crate::faults::{Counts, Faults};
use crate::history::History;
use crate::nodes::Nodes;
use crate::options::{Mode, Options};
use crate::rng::Rng;
use crate::workload::{Ticket, Workload};

/// What a run that found nothing wrong has done.
#[derive(Clone, Debug)]
pub struct Report {
    /// Hash of the trace.
    pub hash: u64,
    /// Lines of the trace.
    pub lines: u64,
    /// Faults injected.
    pub faults: Counts,
    /// Client requests that completed, by name of their outcome.
    pub outcomes: BTreeMap<&'static str, u64>,
    /// Sector reads and writes judged by the checker of linearizability.
    pub judged: u64,
    /// Hints at the end that lead to a node without a copy.
    pub stale_hints: u64,
    /// Counters of all shards that lived to the end.
    pub stats: Stats,
}

/// What went wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Failure {
    /// A promise was broken.
    Wrong(String),
    /// Something did not complete though nothing hindered it any more.
    Stuck(String),
    /// A core or the pump panicked.
    Crashed(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wrong(what) => write!(f, "wrong: {what}"),
            Self::Stuck(what) => write!(f, "stuck: {what}"),
            Self::Crashed(what) => write!(f, "crashed: {what}"),
        }
    }
}

/// The state of a run, shared by those who act in it.
pub(crate) struct Run {
    pub(crate) options: Options,
    pub(crate) world: World<Faults>,
    pub(crate) phase: Phase,
    pub(crate) history: History,
    /// Counts what clients do and see, see [`crate::history`].
    pub(crate) clock: u64,
    pub(crate) tickets: BTreeMap<Token, Ticket>,
    pub(crate) errors: Errors,
    pub(crate) outcomes: BTreeMap<&'static str, u64>,
    deeds: Vec<Deed>,
    steps: u64,
}

/// Where in its course a run is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// Faults and clients.
    Storm,
    /// The faults have stopped, and so do the clients.
    Calm,
    /// A last round of work that must succeed.
    Final,
}

/// What somebody wants to do later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Deed {
    Nodes(crate::nodes::Deed),
    Workload(crate::workload::Deed),
}

/// Runs `options`.
///
/// # Errors
/// Returns the first failure found.
///
/// # Panics
/// When a core does: see [`crate::seeds::run_caught`].
pub fn run(options: Options, trace: Trace) -> Result<Report, Failure> {
    let mut nodes = Nodes::new(&options);
    let mut workload = Workload::new(&options);
    let mut run = Run {
        world: World::new(options.world.clone(), Faults::new(&options), Some(trace)),
        phase: Phase::Storm,
        history: History::default(),
        clock: 0,
        tickets: BTreeMap::new(),
        errors: Errors::new(&options),
        outcomes: BTreeMap::new(),
        deeds: Vec::new(),
        steps: 0,
        options,
    };
    run.world.note(format_args!("{:?}", run.options));
    nodes.begin(&mut run);
    workload.begin(&mut run);

    let lease = run.options.world.lease;
    let disk_wait = run.options.world.disk_wait;
    if run.options.mode == Mode::Storm {
        let storm = Instant::default() + run.options.storm;
        run.until(&mut nodes, &mut workload, storm)?;
        run.world.note(format_args!("calm"));
        run.phase = Phase::Calm;
        run.world.models().calm();
        nodes.calm(&mut run);
        let settled = run.world.now() + disk_wait + lease * 4 + run.options.nodes.pause + SETTLE;
        run.until(&mut nodes, &mut workload, settled)?;
    } else {
        run.until(&mut nodes, &mut workload, Instant::default() + SETTLE)?;
    }
    run.all_done("after the faults stopped")?;
    run.world.note(format_args!("final"));
    run.phase = Phase::Final;
    workload.finish(&mut run);
    let limit = run.world.now() + disk_wait + lease * 4 + SETTLE;
    while !workload.is_finished(&run) && run.world.now() < limit {
        run.step(&mut nodes, &mut workload)?;
    }
    if !workload.is_finished(&run) {
        return Err(Failure::Stuck(format!("the final round: {}", run.waiting(&workload))));
    }
    let end = run.world.now() + lease + run.options.world.peer_timeout * 4 + SETTLE;
    run.until(&mut nodes, &mut workload, end)?;
    run.verdict()
}

/// Events of a run, far more than any useful one has.
const STEPS_MAX: u64 = 2_000_000;

/// Events between two looks at all locks.
const EXCLUSION_EVERY: u64 = 64;

/// Time in which everything calms down that depends on no option.
const SETTLE: Duration = Duration::from_secs(2);

impl Run {
    /// Lets `deed` happen after `delay`.
    pub(crate) fn later(&mut self, delay: Duration, deed: Deed) {
        self.deeds.push(deed);
        let at = self.world.now() + delay;
        self.world.schedule(at, Action::Wake(self.deeds.len() as u64 - 1));
    }

    /// All nodes.
    pub(crate) fn all_nodes(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.options.world.nodes.len() as u16).map(NodeId)
    }

    /// The nodes that run.
    pub(crate) fn running_nodes(&self) -> Vec<NodeId> {
        self.all_nodes().filter(|node| self.world.is_running(*node)).collect()
    }

    /// The next number of [`Self::clock`].
    pub(crate) fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    fn until(&mut self, nodes: &mut Nodes, workload: &mut Workload, end: Instant) -> Result<(), Failure> {
        while self.world.next_at().is_some_and(|at| at <= end) {
            self.step(nodes, workload)?;
        }
        Ok(())
    }

    fn step(&mut self, nodes: &mut Nodes, workload: &mut Workload) -> Result<(), Failure> {
        self.steps += 1;
        if self.steps > STEPS_MAX {
            return Err(Failure::Stuck(format!(
                "{STEPS_MAX} events and only at {:?}: something goes round in circles",
                self.world.now()
            )));
        }
        if let Some(number) = self.world.step() {
            match self.deeds[number as usize] {
                Deed::Nodes(deed) => nodes.act(self, workload, deed),
                Deed::Workload(deed) => workload.act(self, deed),
            }
        }
        if self.steps.is_multiple_of(EXCLUSION_EVERY) {
            checkers::exclusion(self).map_err(Failure::Wrong)?;
        }
        while let Some(completion) = self.world.completion() {
            *self.outcomes.entry(outcome_name(&completion)).or_default() += 1;
            workload.completed(self, completion)?;
        }
        Ok(())
    }

    fn all_done(&self, when: &str) -> Result<(), Failure> {
        match self.tickets.iter().next() {
            None => Ok(()),
            Some((token, ticket)) => Err(Failure::Stuck(format!(
                "{} requests have no answer {when}, the first is {token:?}: {ticket:?}",
                self.tickets.len()
            ))),
        }
    }

    fn waiting(&self, workload: &Workload) -> String {
        match self.tickets.iter().next() {
            Some((token, ticket)) => {
                format!("{} requests have no answer, the first is {token:?}: {ticket:?}", self.tickets.len())
            }
            None => workload.waits_for(),
        }
    }

    fn verdict(mut self) -> Result<Report, Failure> {
        self.errors.judge().map_err(Failure::Wrong)?;
        let judged = checkers::contents(&mut self).map_err(Failure::Wrong)?;
        checkers::leaks(&self).map_err(Failure::Wrong)?;
        let stats = checkers::counters(&self).map_err(Failure::Wrong)?;
        if self.options.mode == Mode::ColdRead {
            checkers::single_flight(&mut self).map_err(Failure::Wrong)?;
        }
        let stale_hints = checkers::stale_hints(&self);
        let trace = self.world.trace().expect("a run has a trace");
        let (hash, lines) = (trace.hash(), trace.lines());
        let faults = self.world.models().counts.clone();
        Ok(Report { hash, lines, faults, outcomes: self.outcomes, judged, stale_hints, stats })
    }
}

fn outcome_name(completion: &Completion) -> &'static str {
    use cards_core::IoError;
    use cards_world::Outcome;
    match &completion.outcome {
        Outcome::Read { origin: None, .. } => "read inline",
        Outcome::Read { .. } => "read",
        Outcome::Done => "done",
        Outcome::Failed(IoError::Io) => "failed: Io",
        Outcome::Failed(IoError::NoSpace) => "failed: NoSpace",
        Outcome::Failed(IoError::NotPermitted) => "failed: NotPermitted",
        Outcome::Failed(IoError::NotSupported) => "failed: NotSupported",
        Outcome::Failed(IoError::NotAttached) => "failed: NotAttached",
        Outcome::Failed(IoError::Busy) => "failed: Busy",
        Outcome::Failed(IoError::Invalid) => "failed: Invalid",
        Outcome::Attached(_) => "attached",
        Outcome::Refused(_) => "refused",
        Outcome::Extents(_) => "extents",
        Outcome::Lost => "lost",
    }
}

/// A stream of random numbers for one concern of a run.
pub(crate) fn stream(options: &Options, concern: u64) -> Rng {
    Rng::new(options.seed, concern)
}
