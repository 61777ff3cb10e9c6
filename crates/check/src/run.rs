//! One run: boot, storm, calm, and the verdict.
//!
//! In the storm, clients work while faults happen; safety must hold. Then the faults stop, and liveness must
//! hold: whatever is outstanding completes, every node can write and read everything
//! without an error, and nothing is left over. The checkers judge the whole.

use std::collections::BTreeMap;
use std::fmt;

use cards_core::{Duration, Instant, NodeId, Reached, Stats, Token};
use cards_world::models::Why;
use cards_world::{Action, ColumnEvent, Completion, Loss, MirrorCounts, PageEvent, Trace, World};

use crate::checkers::{self, Judged, Observer, Observers, errors::Errors};
use crate::coordinator::Coordinator;
use crate::efficiency::{Figures, Kind};
use crate::faults::{Counts, Fault, Faults};
use crate::history::History;
use crate::nodes::Nodes;
use crate::options::{Mode, Options};
use crate::rng::Rng;
use crate::takeovers::Takeovers;
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
    /// How often each observer had something to judge.
    pub judged: Judged,
    /// Hints at the end that lead to a node without a copy.
    pub stale_hints: u64,
    /// Counters of all shards that lived to the end.
    pub stats: Stats,
    /// How often each limit was reached.
    pub reached: Reached,
    /// What has happened to groups of copies.
    pub mirrors: MirrorCounts,
    /// What kind of run it was ...
    pub kind: Kind,
    /// ... and what it has cost.
    pub figures: Figures,
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
    pub(crate) observers: Observers,
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

/// What is to be done later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Deed {
    Nodes(crate::nodes::Deed),
    Workload(crate::workload::Deed),
    Takeovers(crate::takeovers::Deed),
    Coordinator(crate::coordinator::Deed),
}

/// Those who act.
struct Actors {
    nodes: Nodes,
    workload: Workload,
    takeovers: Takeovers,
    coordinator: Coordinator,
}

impl Actors {
    fn new(options: &Options) -> Self {
        Self {
            nodes: Nodes::new(options),
            workload: Workload::new(options),
            takeovers: Takeovers::new(options),
            coordinator: Coordinator::new(options),
        }
    }

    fn begin(&mut self, run: &mut Run) {
        self.nodes.begin(run);
        self.workload.begin(run);
        self.takeovers.begin(run);
        self.coordinator.begin(run);
    }

    fn calm(&mut self, run: &mut Run) {
        self.nodes.calm(run);
        self.takeovers.calm(run, &mut self.workload);
        self.workload.calm_devices(run, |node| self.nodes.stays_dead(node));
        let living = run.all_nodes().filter(|node| !self.nodes.stays_dead(*node));
        self.coordinator.calm(run, living.collect());
    }

    fn act(&mut self, run: &mut Run, deed: Deed) {
        match deed {
            Deed::Nodes(deed) => {
                self.nodes.act(run, &mut self.workload, deed);
                if let crate::nodes::Deed::Restart(node) = deed
                    && !run.world.has_orphans(node)
                {
                    self.coordinator.booted(run, node);
                }
            }
            Deed::Workload(deed) => self.workload.act(run, deed),
            Deed::Takeovers(deed) => self.takeovers.act(run, &mut self.workload, deed),
            Deed::Coordinator(deed) => self.coordinator.act(run, &mut self.workload, deed),
        }
    }
}

/// Runs `options`.
///
/// # Errors
/// Returns the first failure found.
///
/// # Panics
/// When a core does: see [`crate::seeds::run_caught`].
pub fn run(options: Options, trace: Trace) -> Result<Report, Failure> {
    let mut actors = Actors::new(&options);
    let mut run = Run {
        world: World::new(options.world.clone(), Faults::new(&options), Some(trace)),
        phase: Phase::Storm,
        history: History::default(),
        clock: 0,
        tickets: BTreeMap::new(),
        errors: Errors::new(&options),
        observers: Observers::new(&options),
        outcomes: BTreeMap::new(),
        deeds: Vec::new(),
        steps: 0,
        options,
    };
    run.world.note(format_args!("{:?}", run.options));
    actors.begin(&mut run);

    let lease = run.options.world.lease;
    let disk_wait = run.options.world.disk_wait;
    if run.options.mode == Mode::Storm {
        let storm = Instant::default() + run.options.storm;
        run.until(&mut actors, storm)?;
        run.world.note(format_args!("calm"));
        run.phase = Phase::Calm;
        run.world.models().calm();
        run.observers.count(Observer::WakeUps, run.tickets.len() as u64);
        actors.calm(&mut run);
        let all_connect = actors.nodes.last_cut(run.world.now());
        let settled =
            all_connect.max(run.world.now() + run.options.nodes.pause) + disk_wait * 2 + lease * 4 + SETTLE;
        run.until(&mut actors, settled)?;
    } else {
        run.until(&mut actors, Instant::default() + SETTLE)?;
    }
    checkers::all_woken(&run, "after the faults stopped")?;
    run.world.note(format_args!("final"));
    run.phase = Phase::Final;
    actors.workload.finish(&mut run);
    let paced = actors.workload.paced_for(&run.options);
    let limit = run.world.now() + disk_wait + lease * 4 + SETTLE + paced;
    while !actors.workload.is_finished(&run) && run.world.now() < limit {
        run.step(&mut actors)?;
    }
    if !actors.workload.is_finished(&run) {
        return Err(Failure::Stuck(format!("the final round: {}", run.waiting(&actors.workload))));
    }
    for mirror in run.options.world.mirrors.clone() {
        run.world.scrub(mirror.volume, 0..run.world.pieces(mirror.volume));
    }
    let end = run.world.now() + lease + run.options.world.peer_timeout * 4 + SETTLE;
    run.until(&mut actors, end)?;
    // A slow disk has just cost a column its place, and a card its lease: what that was answered is kept until nobody can ask for it.
    if checkers::answers_are_kept(&run) {
        let end = run.world.now() + disk_wait * 2 + SETTLE;
        run.until(&mut actors, end)?;
    }
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

    fn until(&mut self, actors: &mut Actors, end: Instant) -> Result<(), Failure> {
        while self.world.next_at().is_some_and(|at| at <= end) {
            self.step(actors)?;
        }
        Ok(())
    }

    fn step(&mut self, actors: &mut Actors) -> Result<(), Failure> {
        self.steps += 1;
        if self.steps > STEPS_MAX {
            return Err(Failure::Stuck(format!(
                "{STEPS_MAX} events and only at {:?}: something goes round in circles",
                self.world.now()
            )));
        }
        if let Some(number) = self.world.step() {
            actors.act(self, self.deeds[number as usize]);
        }
        while let Some(event) = self.world.page_event() {
            self.paged(&event).map_err(Failure::Wrong)?;
        }
        let seen = std::mem::take(&mut self.world.models().seen);
        self.observers.saw(&self.world, &seen).map_err(Failure::Wrong)?;
        if self.steps.is_multiple_of(EXCLUSION_EVERY) {
            let judged =
                checkers::exclusion(self).map_err(Observer::Exclusion.finds()).map_err(Failure::Wrong)?;
            self.observers.count(Observer::Exclusion, judged);
            let judged = checkers::copies(self).map_err(Observer::Copies.finds()).map_err(Failure::Wrong)?;
            self.observers.count(Observer::Copies, judged);
            let judged = checkers::heard(self).map_err(Observer::Heard.finds()).map_err(Failure::Wrong)?;
            self.observers.count(Observer::Heard, judged);
        }
        while let Some(loss) = self.world.loss() {
            self.lost(&loss);
        }
        while let Some(event) = self.world.column_event() {
            self.column_event(event).map_err(Failure::Wrong)?;
        }
        while let Some((node, volume, refusal)) = self.world.eviction() {
            self.observers.evicted(&self.world, node, volume, &refusal).map_err(Failure::Wrong)?;
            actors.workload.evicted(self, node, volume);
        }
        while let Some(completion) = self.world.completion() {
            *self.outcomes.entry(outcome_name(&completion)).or_default() += 1;
            actors.workload.completed(self, completion)?;
        }
        Ok(())
    }

    /// Writes were lost: a write by nobody, which takes effect when somebody sees it. Commands that were in flight may be
    /// seen, be lost, and be done again.
    fn lost(&mut self, loss: &Loss) {
        let now = self.tick();
        for &(sector, tag) in &loss.changed {
            self.history.lost((loss.volume, sector), tag, now);
        }
        self.observers.lost(loss.volume, now);
        self.errors.lost(loss.volume, self.world.now());
    }

    /// Something has happened to a column of a group.
    fn column_event(&mut self, event: ColumnEvent) -> Result<(), String> {
        match event {
            ColumnEvent::Admitted { volume, node } => {
                self.observers.admitted(&self.world, &self.history, volume, node)
            }
            ColumnEvent::Unrepaired(volume) if self.phase == Phase::Final => {
                Err(format!("a unit of {volume:?} is not repaired, though a column in sync has it"))
            }
            ColumnEvent::Unrepaired(volume) => {
                let now = self.world.now();
                self.world.models().disk_errors.push((now, volume));
                Ok(())
            }
            ColumnEvent::News { node, volume, at } => {
                self.errors.hears(node, volume, (self.world.now(), at));
                Ok(())
            }
            ColumnEvent::Wrong(why) => Err(why),
        }
    }

    /// Something has happened to a page.
    fn paged(&mut self, event: &PageEvent) -> Result<(), String> {
        let faults = self.world.models();
        match event {
            PageEvent::Voided(..) => faults.count(Fault::VoidAnswer),
            PageEvent::Cleared(.., Why::Lapsed, 1..) => faults.count(Fault::Lapse),
            PageEvent::Cleared(.., Why::Orphaned, 1..) => faults.count(Fault::Orphans),
            PageEvent::Cleared(..)
            | PageEvent::Filled(..)
            | PageEvent::Used(..)
            | PageEvent::Withdrawn(..) => {}
        }
        self.observers.paged(event)
    }

    fn waiting(&self, workload: &Workload) -> String {
        checkers::unanswered(self).unwrap_or_else(|| workload.waits_for())
    }

    fn verdict(mut self) -> Result<Report, Failure> {
        let kind = Kind::of(&self.options);
        let figures = self.observers.figures(&mut self.world);
        let stats = self.judge((kind, &figures)).map_err(Failure::Wrong)?;
        let stale_hints = checkers::stale_hints(&self);
        let trace = self.world.trace().expect("a run has a trace");
        let (hash, lines) = (trace.hash(), trace.lines());
        let faults = self.world.models().counts.clone();
        let (outcomes, judged) = (self.outcomes, self.observers.judged);
        let reached = self.world.reached();
        let mirrors = self.world.mirror_counts();
        Ok(Report {
            hash,
            lines,
            faults,
            outcomes,
            judged,
            stale_hints,
            stats,
            reached,
            mirrors,
            kind,
            figures,
        })
    }

    /// Those judge who look at the whole, at the end.
    fn judge(&mut self, (kind, figures): (Kind, &Figures)) -> Result<Stats, String> {
        self.errors.judge().map_err(Observer::Errors.finds())?;
        self.observers.count(Observer::Errors, self.errors.count());
        let operations = checkers::contents(self).map_err(Observer::Linearizability.finds())?;
        self.observers.count(Observer::Linearizability, operations);
        let shards = checkers::leaks(self).map_err(Observer::Leaks.finds())?;
        self.observers.count(Observer::Leaks, shards);
        checkers::mirrors(self).map_err(Observer::Copies.finds())?;
        let stats = checkers::counters(self).map_err(Observer::Counters.finds())?;
        if self.options.mode == Mode::ColdRead {
            let blocks = checkers::single_flight(self).map_err(Observer::SingleFlight.finds())?;
            self.observers.count(Observer::SingleFlight, blocks);
        }
        // What a module costs, which may drop every copy, is its author's affair.
        if self.options.world.module.is_none() {
            let costs = figures.judge(kind).map_err(Observer::Efficiency.finds())?;
            self.observers.count(Observer::Efficiency, costs);
        }
        Ok(stats)
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
        Outcome::Failed(IoError::NoAnswer) => "failed: NoAnswer",
        Outcome::Failed(IoError::OutcomeUnknown) => "failed: OutcomeUnknown",
        Outcome::Failed(IoError::NoSpace) => "failed: NoSpace",
        Outcome::Failed(IoError::NotPermitted) => "failed: NotPermitted",
        Outcome::Failed(IoError::NotSupported) => "failed: NotSupported",
        Outcome::Failed(IoError::NotAttached) => "failed: NotAttached",
        Outcome::Failed(IoError::Busy) => "failed: Busy",
        Outcome::Failed(IoError::Invalid) => "failed: Invalid",
        Outcome::Failed(IoError::PowerLost) => "failed: PowerLost",
        Outcome::Failed(IoError::SyncFailed) => "failed: SyncFailed",
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
