//! Takeovers: now and then a card gets its volume exclusively, while other cards write. Some lose it to another one, while
//! their clients live on.

use std::collections::BTreeMap;

use cards_core::{Duration, NodeId, PgId};

use crate::options::{Options, TakeoverOptions};
use crate::rng::Rng;
use crate::run::{Deed as RunDeed, Phase, Run, stream};
use crate::workload::Workload;

/// How often a node that wants a volume exclusively looks whether it has to retry.
const ASK: Duration = Duration::from_millis(50);
/// Of those who have a volume for themselves, so many in a thousand lose it to another node.
const OVERTAKEN: u32 = 800;

/// Lets cards take volumes over.
pub(crate) struct Takeovers {
    options: TakeoverOptions,
    rng: Rng,
    /// Who has each volume for itself, or wants it.
    under_way: BTreeMap<PgId, NodeId>,
    /// Who has lost each volume to that one, or is about to, and has not given it up.
    overtaken: BTreeMap<PgId, NodeId>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Deed {
    /// Some card wants some volume.
    Begin,
    /// It asks, unless it has asked already.
    Ask(PgId),
    /// Another one takes it over.
    Overtake(PgId),
    /// It has had it for long enough.
    End(PgId),
    /// Who had it before that one gives it up.
    Settle(PgId),
}

impl Takeovers {
    pub(crate) fn new(options: &Options) -> Self {
        let (under_way, overtaken) = Default::default();
        Self { options: options.takeovers.clone(), rng: stream(options, 7), under_way, overtaken }
    }

    pub(crate) fn begin(&mut self, run: &mut Run) {
        self.again(run);
    }

    /// The storm is over: volumes are for all again.
    pub(crate) fn calm(&mut self, run: &mut Run, workload: &mut Workload) {
        let volumes: Vec<PgId> = self.under_way.keys().copied().collect();
        volumes.into_iter().for_each(|volume| self.end(run, workload, volume));
        let volumes: Vec<PgId> = self.overtaken.keys().copied().collect();
        volumes.into_iter().for_each(|volume| self.settle(run, workload, volume));
    }

    pub(crate) fn act(&mut self, run: &mut Run, workload: &mut Workload, deed: Deed) {
        match deed {
            Deed::Begin if run.phase == Phase::Storm => {
                self.take(run, workload);
                self.again(run);
            }
            Deed::Begin => {}
            Deed::Ask(volume) => self.ask(run, workload, volume),
            Deed::Overtake(volume) => self.overtake(run, workload, volume),
            Deed::End(volume) => self.end(run, workload, volume),
            Deed::Settle(volume) => self.settle(run, workload, volume),
        }
    }

    fn again(&mut self, run: &mut Run) {
        if self.options.every > Duration::ZERO {
            let delay = self.options.every * self.rng.range(100, 1900) as u32 / 1000;
            run.later(delay, RunDeed::Takeovers(Deed::Begin));
        }
    }

    fn take(&mut self, run: &mut Run, workload: &mut Workload) {
        let specs = run.options.world.volumes.iter().filter(|spec| !spec.read_only);
        let volumes: Vec<PgId> = specs.map(|spec| spec.id).collect();
        if volumes.is_empty() {
            return;
        }
        let volume = self.rng.pick(&volumes);
        let may = |node: &NodeId| workload.may_write(*node, volume);
        let nodes: Vec<NodeId> = run.running_nodes().into_iter().filter(may).collect();
        if nodes.is_empty() || self.under_way.contains_key(&volume) || self.overtaken.contains_key(&volume) {
            return;
        }
        let node = self.rng.pick(&nodes);
        self.under_way.insert(volume, node);
        workload.set_taker(volume, Some(node));
        run.errors.takeover_begins(volume, run.world.now());
        workload.detach(run, node, volume);
        let delay = self.rng.skewed(Duration::from_millis(20));
        run.later(delay, RunDeed::Takeovers(Deed::Ask(volume)));
        let hold = self.rng.skewed(self.options.hold) + run.options.world.lease * 2;
        run.later(hold, RunDeed::Takeovers(Deed::End(volume)));
        if self.rng.chance(OVERTAKEN) {
            run.later(hold / 4, RunDeed::Takeovers(Deed::Overtake(volume)));
        }
    }

    /// Another node takes the volume over from the one that has it for itself, whose clients do not give it up.
    fn overtake(&mut self, run: &mut Run, workload: &mut Workload, volume: PgId) {
        let Some(&first) = self.under_way.get(&volume).filter(|_| run.phase == Phase::Storm) else { return };
        if self.overtaken.contains_key(&volume) {
            return;
        }
        // At the primary's own node the card ends before anybody is told.
        let is_ready = workload.is_attached(run, first, volume) && run.world.primary(volume) != first;
        let may = |node: &NodeId| *node != first && workload.may_write(*node, volume);
        let nodes: Vec<NodeId> = run.running_nodes().into_iter().filter(may).collect();
        if !is_ready || nodes.is_empty() {
            return run.later(ASK, RunDeed::Takeovers(Deed::Overtake(volume)));
        }
        let node = self.rng.pick(&nodes);
        self.overtaken.insert(volume, first);
        self.under_way.insert(volume, node);
        workload.set_taker(volume, Some(node));
        workload.detach(run, node, volume);
    }

    fn ask(&mut self, run: &mut Run, workload: &mut Workload, volume: PgId) {
        let Some(&node) = self.under_way.get(&volume) else { return };
        if workload.may_take_over(run, node, volume) {
            workload.take_over(run, node, volume);
        }
        run.later(ASK, RunDeed::Takeovers(Deed::Ask(volume)));
    }

    fn end(&mut self, run: &mut Run, workload: &mut Workload, volume: PgId) {
        let Some(node) = self.under_way.remove(&volume) else { return };
        workload.set_taker(volume, None);
        if run.world.is_running(node) {
            workload.detach(run, node, volume);
        }
        if self.overtaken.contains_key(&volume) {
            // Long enough for its card to come back, if it may.
            run.later(run.options.world.lease * 2, RunDeed::Takeovers(Deed::Settle(volume)));
        } else {
            run.errors.takeover_ends(volume, run.world.now());
        }
    }

    /// Its card is over, unless nobody has got the volume in its place.
    fn settle(&mut self, run: &mut Run, workload: &mut Workload, volume: PgId) {
        let Some(first) = self.overtaken.remove(&volume) else { return };
        run.errors.takeover_ends(volume, run.world.now());
        if run.world.is_running(first) {
            workload.detach(run, first, volume);
        }
    }
}
