//! The coordinator: who the members are, and who hears of it when.
//!
//! Each change makes a view with the next number. A node hears of views late, some not at all, but never of an older
//! one after a newer. While the coordinator is lost no node hears of any. What is true of a member need not be what the
//! view says: one that is declared dead may live, and go on with what it does.

use std::collections::{BTreeMap, BTreeSet};

use cards_core::{Duration, Instant, NodeId};
use cards_world::Action;

use crate::faults::Fault;
use crate::options::{MemberOptions, Options};
use crate::rng::Rng;
use crate::run::{Deed as RunDeed, Phase, Run, stream};
use crate::workload::Workload;

/// A node that hears of a view later than this has heard of it late.
const LATE: Duration = Duration::from_millis(100);

/// Changes the members.
pub(crate) struct Coordinator {
    options: MemberOptions,
    rng: Rng,
    /// The views so far; the number of a view is its place.
    views: Vec<BTreeSet<NodeId>>,
    /// The life of each node, and the view it has heard of.
    told: BTreeMap<NodeId, (u64, usize)>,
    lost_until: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Deed {
    /// The members change.
    Change,
    /// The coordinator is lost for a while.
    Lose,
    /// A node is told the view of this number.
    Tell(NodeId, usize),
}

impl Coordinator {
    pub(crate) fn new(options: &Options) -> Self {
        let all = (0..options.world.nodes.len() as u16).map(NodeId).collect();
        Self {
            options: options.members.clone(),
            rng: stream(options, 8),
            views: vec![all],
            told: BTreeMap::new(),
            lost_until: Instant::default(),
        }
    }

    pub(crate) fn begin(&mut self, run: &mut Run) {
        self.again(run, Deed::Change);
        self.again(run, Deed::Lose);
    }

    /// The storm is over: the coordinator is there, and the members are those that live or come back.
    pub(crate) fn calm(&mut self, run: &mut Run, living: BTreeSet<NodeId>) {
        self.lost_until = Instant::default();
        if self.views.len() > 1 && self.views.last() != Some(&living) {
            self.views.push(living);
        }
        self.tell_all(run);
    }

    /// A node has started, and knows only who the members were at first.
    pub(crate) fn booted(&mut self, run: &mut Run, node: NodeId) {
        if self.views.len() > 1 {
            self.tell(run, node);
        }
    }

    pub(crate) fn act(&mut self, run: &mut Run, workload: &mut Workload, deed: Deed) {
        match deed {
            Deed::Tell(node, view) => self.hear(run, node, view),
            Deed::Change | Deed::Lose if run.phase != Phase::Storm => {}
            Deed::Change => {
                self.change(run, workload);
                self.again(run, deed);
            }
            Deed::Lose => {
                run.world.models().count(Fault::CoordinatorLoss);
                self.lost_until = run.world.now() + self.rng.skewed(self.options.lost);
                self.again(run, deed);
            }
        }
    }

    fn again(&mut self, run: &mut Run, deed: Deed) {
        let every = if deed == Deed::Change { self.options.change_every } else { self.options.lose_every };
        if every > Duration::ZERO {
            let delay = every * self.rng.range(100, 1900) as u32 / 1000;
            run.later(delay, RunDeed::Coordinator(deed));
        }
    }

    fn change(&mut self, run: &mut Run, workload: &mut Workload) {
        let nodes: Vec<NodeId> = run.all_nodes().collect();
        let node = self.rng.pick(&nodes);
        let mut members = self.views.last().cloned().unwrap_or_default();
        if members.contains(&node) {
            let leaves = self.rng.chance(400);
            if members.len() == 1 {
                return;
            }
            members.remove(&node);
            if leaves {
                run.world.models().count(Fault::Leave);
                workload.drain(run, node);
            } else if run.world.is_running(node) {
                run.world.models().count(Fault::DeclaredDead);
            }
        } else {
            members.insert(node);
            run.world.models().count(Fault::Join);
        }
        self.views.push(members);
        self.tell_all(run);
    }

    fn tell_all(&mut self, run: &mut Run) {
        run.running_nodes().into_iter().for_each(|node| self.tell(run, node));
    }

    /// The node will hear of the view of now, if the coordinator is there then.
    fn tell(&mut self, run: &mut Run, node: NodeId) {
        let view = self.views.len() - 1;
        let delay = match run.phase {
            Phase::Storm => self.rng.skewed(self.options.late),
            Phase::Calm | Phase::Final => Duration::ZERO,
        };
        if delay > LATE {
            run.world.models().count(Fault::LateView);
        }
        run.later(delay, RunDeed::Coordinator(Deed::Tell(node, view)));
    }

    fn hear(&mut self, run: &mut Run, node: NodeId, view: usize) {
        let (now, life) = (run.world.now(), run.world.life(node));
        if !run.world.is_running(node) || now < self.lost_until {
            return;
        }
        let newer = self.told.get(&node).is_some_and(|&(to, told)| to == life && told >= view);
        if newer || view == 0 {
            return;
        }
        self.told.insert(node, (life, view));
        let members = self.views[view].iter().copied().collect();
        run.world.schedule(now, Action::Members { at: node, members });
    }
}
