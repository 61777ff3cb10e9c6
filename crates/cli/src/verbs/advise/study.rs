//! What is simulated for an advice, and what came of it.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use cards_policies::{Replacement, policy};
use cards_sim::{Interrupt, Pace, RunError};
use cards_trace::Progress as Read;

use super::trace::{Case, Shares, Trace, chance};
use crate::progress::Progress;
use crate::signals::{Arrived, Signals};

/// Sizes of the caches that are tried, as multiples of what they are.
pub(super) const FACTORS: [f64; 5] = [0.5, 1.0, 1.25, 2.0, 4.0];

/// One result.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Found {
    pub(super) case: Case,
    pub(super) shares: Shares,
    /// How far they can be off by chance. Of what there is now only, and if it is not known.
    pub(super) chance: Option<f64>,
}

/// What is tried: all sizes with the policy and the replacement there are, and the other ones with the size there is.
/// Where one node is alone, no policy has anything to decide.
pub(super) fn cases(now: &Case, nodes: usize) -> Vec<Case> {
    let sizes = FACTORS.map(|factor| Case { factor, ..now.clone() });
    let replacements = Replacement::ALL.into_iter().filter(|&other| other != now.replacement);
    let replacements = replacements.map(|replacement| Case { replacement, ..now.clone() });
    let current = now.policy.split_whitespace().next().unwrap_or_default();
    // Chaos is for the checker, `auto` has one of the others, and what nodes lack something for cannot be chosen.
    let policies = policy::registry()
        .iter()
        .filter(|entry| {
            entry.lacks().is_none() && !["chaos", "auto", current].contains(&entry.name) && nodes > 1
        })
        .map(|entry| Case { policy: entry.name.into(), ..now.clone() });
    sizes.into_iter().chain(policies).chain(replacements).collect()
}

/// How far all runs are.
struct Done {
    stop: AtomicBool,
    requests: AtomicU64,
}

/// Tells of one run.
struct Teller<'a> {
    done: &'a Done,
    told: u64,
}

impl Pace for Teller<'_> {
    fn tick(&mut self, requests: u64, _blocks: u64, _source: Read) -> Interrupt {
        self.done.requests.fetch_add(requests - self.told, Relaxed);
        self.told = requests;
        if self.done.stop.load(Relaxed) { Interrupt::Stop } else { Interrupt::Continue }
    }
}

/// Simulates a case.
fn simulate(trace: &Trace, case: &Case, is_now: bool, done: &Done) -> Result<Found, RunError> {
    let simulate = |trace: &Trace| trace.simulate(case, &mut Teller { done, told: 0 });
    let shares = simulate(trace)?;
    let groups = if is_now { trace.groups() } else { Vec::new() };
    let groups = groups.iter().map(simulate).collect::<Result<Vec<Shares>, RunError>>()?;
    Ok(Found { case: case.clone(), shares, chance: chance(&groups) })
}

/// Simulates all cases of some traces, on all processors; the results of each trace are in the order of its cases.
///
/// # Errors
/// The first [`RunError`]; [`RunError::Stopped`] after a signal that ends this program.
pub(super) fn run(studies: &[(&Trace, Vec<Case>)], signals: &Signals) -> Result<Vec<Vec<Found>>, RunError> {
    let now = FACTORS.iter().position(|&factor| factor == 1.0);
    let tasks: Vec<(usize, &Trace, usize, &Case)> = studies
        .iter()
        .zip(0..)
        .flat_map(|((trace, cases), study)| (0..).zip(cases).map(move |(i, case)| (study, *trace, i, case)))
        .collect();
    let again = |number: usize| 1 + u64::from(Some(number) == now);
    let all: u64 = tasks.iter().map(|(_, trace, number, _)| trace.requests() * again(*number)).sum();
    let done = Done { stop: AtomicBool::new(false), requests: AtomicU64::new(0) };
    let (next, results) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some(&(study, trace, number, case)) = tasks.get(next.fetch_add(1, Relaxed)) {
            let result = simulate(trace, case, Some(number) == now, &done);
            results.lock().unwrap_or_else(PoisonError::into_inner).push((study, number, result));
        }
    };
    let progress = Progress::new("simulating");
    thread::scope(|scope| {
        let jobs = thread::available_parallelism().map_or(1, usize::from);
        let workers: Vec<_> = (0..jobs.min(tasks.len())).map(|_| scope.spawn(work)).collect();
        let mut pause = Duration::from_millis(2);
        while workers.iter().any(|worker| !worker.is_finished()) {
            if signals.wait(pause).is_some_and(Arrived::ends) {
                done.stop.store(true, Relaxed);
            }
            pause = (pause * 2).min(Duration::from_millis(100));
            let requests = done.requests.load(Relaxed);
            progress.show(requests as f64 / all.max(1) as f64, requests, None, "");
        }
    });
    if done.stop.load(Relaxed) {
        return Err(RunError::Stopped);
    }
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|(study, number, _)| (*study, *number));
    let mut found = vec![Vec::new(); studies.len()];
    for (study, _, result) in results {
        found[study].push(result?);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_that_nodes_can_run_is_tried_once_where_there_are_several() {
        let now = Case { factor: 1.0, policy: "hscc depth=2".into(), replacement: Replacement::Lru };
        let several = cases(&now, 3);
        let policies: Vec<&str> = several.iter().map(|case| case.policy.as_str()).collect();
        assert!(policies.contains(&"nchance") && !policies.contains(&"chaos") && !policies.contains(&"hscc"));
        assert!(cases(&now, 1).iter().all(|case| case.policy == now.policy));
        assert_eq!(cases(&now, 1).len(), FACTORS.len() + Replacement::ALL.len() - 1);
    }
}
