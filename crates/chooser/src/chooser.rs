//! The choice.

use cards_advise::Access;
use cards_core::{Duration, Instant};

use crate::candidates::CANDIDATES;
use crate::costs::Costs;
use crate::shadow::{Cluster, Shadow};
use crate::steps::Steps;

/// Reads of the sample between two comparisons.
const WINDOW: u32 = 100;
/// A change costs a part of what it takes to fill the caches anew: copies are not where the next policy looks for them.
const REFILL: f64 = 0.1;
/// What windows differ by, as the root of the mean square, is exceeded so many times by what is no accident.
const NOISE: f64 = 5.0;
/// What a candidate has to be better by to count as better at all, as a share of a read's time.
const WORTH: f64 = 0.01;
/// Reads for each block of the caches after which these are taken for filled.
const ENOUGH: u64 = 4;
/// Reads after which an earlier one counts half in the means that are shown: at least, and for each block of the shadows' caches.
const HALF_LIFE: f64 = 1_000.0;
const HALF_LIFE_BLOCKS: f64 = 4.0;

/// A policy that is to be in force from now on.
#[derive(Clone, PartialEq, Debug)]
pub struct Switch {
    /// With its parameters.
    pub policy: &'static str,
    /// Mean times of a read by the sample, with the policy until now and with this one. None if only the costs of disk and peers speak
    /// for it, before anything is known of the load.
    pub expected: Option<(Duration, Duration)>,
}

/// What a candidate would do.
#[derive(Clone, PartialEq, Debug)]
pub struct Standing {
    /// With its parameters.
    pub policy: &'static str,
    /// The mean time of a read, by the sample.
    pub mean: Duration,
    /// It is in force.
    pub in_force: bool,
}

/// All candidates of a volume, and the one in force.
pub struct Chooser {
    candidates: Vec<Candidate>,
    current: usize,
    /// The weight of a window in the means.
    fade: f64,
    costs: Costs,
    reads: u64,
    /// Of the window.
    in_window: u32,
    /// Of all caches of a shadow.
    blocks: u64,
    /// The caches of all candidates have filled.
    is_full: bool,
    windows: u64,
    /// Nothing has been chosen yet.
    is_new: bool,
}

struct Candidate {
    policy: &'static str,
    shadow: Shadow,
    /// Of the window.
    steps: Steps,
    /// Mean nanoseconds of a read lately.
    mean: f64,
    /// How much time reads would have saved with it, in nanoseconds, since that was nothing.
    ahead: f64,
    /// Mean square of what a window has added to that lately.
    noise: f64,
}

impl Candidate {
    /// How much time it has been ahead by beyond what a change costs, in nanoseconds; negative as long as that is not sure.
    fn surplus(&self, change_ns: f64) -> f64 {
        self.ahead - change_ns.max(NOISE * self.noise.sqrt())
    }
}

impl Chooser {
    /// Nothing is known yet. The policy in force is the last life's choice, if there was one; else the one that all begin with.
    #[must_use]
    pub fn new(cluster: &Cluster, chosen: Option<&str>) -> Self {
        let candidates = CANDIDATES.iter().filter_map(|policy| {
            Some(Candidate {
                policy,
                shadow: Shadow::new(cluster, policy)?,
                steps: Steps::default(),
                mean: 0.0,
                ahead: 0.0,
                noise: 0.0,
            })
        });
        let blocks: f64 = cluster.caches.iter().map(|&blocks| f64::from(blocks)).sum();
        let half_life = HALF_LIFE.max(HALF_LIFE_BLOCKS * blocks);
        Self {
            candidates: candidates.collect(),
            current: chosen
                .and_then(|chosen| CANDIDATES.iter().position(|policy| *policy == chosen))
                .unwrap_or(0),
            fade: 1.0 - 0.5_f64.powf(f64::from(WINDOW) / half_life),
            costs: Costs::default(),
            reads: 0,
            in_window: 0,
            blocks: cluster.caches.iter().map(|&blocks| u64::from(blocks)).sum(),
            is_full: false,
            windows: 0,
            is_new: chosen.is_none(),
        }
    }

    /// What was measured last.
    pub fn set_costs(&mut self, costs: Costs) {
        self.costs = costs;
        self.candidates.iter_mut().for_each(|candidate| candidate.shadow.set_costs(costs));
    }

    /// A client of a node refers to a block of the sample, at a time that is not earlier than that of the reference before.
    pub fn refer(&mut self, at: Instant, node: u16, block: u32, access: Access) {
        let reads = access == Access::Read;
        for candidate in &mut self.candidates {
            let (path, beside) = candidate.shadow.refer(at, node, block, access);
            candidate.steps.add(reads, path, beside);
        }
        self.reads += u64::from(reads);
        self.in_window += u32::from(reads);
    }

    /// Whether enough has been read since the last comparison.
    #[must_use]
    pub const fn is_due(&self) -> bool {
        self.in_window >= WINDOW
    }

    fn number_of(&self, policy: &str) -> Option<usize> {
        self.candidates.iter().position(|candidate| candidate.policy == policy)
    }

    /// Whether the caches of all candidates are full, or as good as ever.
    fn has_filled(&self) -> bool {
        let is_full = |candidate: &Candidate| candidate.shadow.cached() * 10 >= self.blocks * 9;
        self.reads >= ENOUGH * self.blocks || self.candidates.iter().all(is_full)
    }

    /// Compares the candidates, if enough has been read since the last time. Another policy, if one is surely better: it
    /// counts as in force from now on.
    pub fn choose(&mut self) -> Option<Switch> {
        if !self.is_due() {
            return None;
        }
        let reads = f64::from(std::mem::take(&mut self.in_window));
        let costs = self.costs;
        let means: Vec<f64> =
            self.candidates.iter_mut().map(|of| std::mem::take(&mut of.steps).mean_ns(&costs)).collect();
        if std::mem::take(&mut self.is_new)
            && let Some(begin) = self.number_of(costs.beginning())
            && begin != self.current
        {
            self.current = begin;
            return Some(Switch { policy: costs.beginning(), expected: None });
        }
        // While caches fill, the policy that fills them the fastest looks best, and what it leaves behind has to be cleared away afterwards. So
        // what has been seen until then says little of later; but some never fill.
        if !self.is_full && self.has_filled() {
            self.is_full = true;
            self.candidates.iter_mut().for_each(|candidate| candidate.ahead = 0.0);
        }
        self.windows += 1;
        let fade = self.fade.max(1.0 / self.windows as f64);
        let was = *means.get(self.current)?;
        for (candidate, mean) in self.candidates.iter_mut().zip(&means) {
            candidate.mean += (mean - candidate.mean) * fade;
            let better = (was - mean - was * WORTH) * reads;
            candidate.noise += (better * better - candidate.noise) * fade;
            candidate.ahead = (candidate.ahead + better).max(0.0);
        }
        let cached =
            if self.is_full { self.candidates.get(self.current)?.shadow.cached() } else { self.blocks };
        let change_ns = REFILL * cached as f64 * self.costs.miss();
        let (best, surplus) = self
            .candidates
            .iter()
            .map(|candidate| match costs.suits(candidate.policy) {
                true => candidate.surplus(change_ns),
                false => f64::NEG_INFINITY,
            })
            .enumerate()
            .max_by(|(_, one), (_, other)| one.total_cmp(other))?;
        if surplus <= 0.0 || best == self.current {
            return None;
        }
        let was = self.candidates.get(self.current)?.mean;
        let is = self.candidates.get(best)?.mean;
        self.candidates.iter_mut().for_each(|candidate| candidate.ahead = 0.0);
        self.current = best;
        let time = |ns: f64| Duration::from_nanos(ns as u64);
        let policy = self.candidates.get(best)?.policy;
        Some(Switch { policy, expected: Some((time(was), time(is))) })
    }

    /// The policy in force.
    #[must_use]
    pub fn in_force(&self) -> &'static str {
        self.candidates.get(self.current).map_or(CANDIDATES[0], |candidate| candidate.policy)
    }

    /// Reads of the sample so far.
    #[must_use]
    pub const fn reads(&self) -> u64 {
        self.reads
    }

    /// Whether there have been reads enough for a choice.
    #[must_use]
    pub const fn has_learned(&self) -> bool {
        self.windows > 0
    }

    /// All candidates that may be chosen, the best one first.
    #[must_use]
    pub fn standings(&self) -> Vec<Standing> {
        let standing = |(number, candidate): (usize, &Candidate)| Standing {
            policy: candidate.policy,
            mean: Duration::from_nanos(candidate.mean as u64),
            in_force: number == self.current,
        };
        let is_listed = |of: &Standing| of.in_force || self.costs.suits(of.policy);
        let mut all: Vec<Standing> =
            self.candidates.iter().enumerate().map(standing).filter(is_listed).collect();
        all.sort_by_key(|standing| standing.mean);
        all
    }

    /// Bytes of all shadows' tables.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.candidates.iter().map(|candidate| candidate.shadow.bytes()).sum()
    }
}
