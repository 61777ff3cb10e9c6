//! Makes a failing run simpler: fewer kinds of faults, fewer nodes, writers and clients, a shorter storm.
//!
//! Every step is one a flag can express, and is kept if the run then fails in the same way: wrong, stuck, or
//! crashed. A run that lacks something draws other random numbers from there on, so what is left out may have had
//! no part in the failure, or may have hidden it; what remains is sufficient, and not always necessary.

use std::collections::BTreeSet;
use std::mem::discriminant;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cards_world::Trace;

use crate::options::Options;
use crate::overrides::{Kind, LeftOut, Overrides};
use crate::run::Failure;
use crate::seeds::run_caught;

/// Runs tried at most.
const RUNS_MAX: u32 = 60;

/// No run begins later than this.
const TIME_MAX: Duration = Duration::from_secs(20);

/// A failing run that was made simpler.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// What makes it simpler; as before if nothing does.
    pub overrides: Overrides,
    /// How it fails.
    pub failure: Failure,
    /// Runs that were tried.
    pub runs: u32,
}

/// Makes the run of `drawn` with `overrides`, which has ended in `failure`, as simple as it can within bounds, or until
/// `stop`.
#[must_use]
pub fn shrink(drawn: &Options, overrides: &Overrides, failure: &Failure, stop: &AtomicBool) -> Shrunk {
    let began = Instant::now();
    let more = || !stop.load(Ordering::Relaxed) && began.elapsed() < TIME_MAX;
    Shrinker::new(drawn, overrides, failure, &more, &|options| run_caught(options, Trace::hashed()).err())
        .shrink()
}

struct Shrinker<'a> {
    drawn: &'a Options,
    best: Shrunk,
    /// All options that were tried, as text.
    tried: BTreeSet<String>,
    more: &'a dyn Fn() -> bool,
    run: &'a dyn Fn(Options) -> Option<Failure>,
}

impl<'a> Shrinker<'a> {
    fn new(
        drawn: &'a Options,
        overrides: &Overrides,
        failure: &Failure,
        more: &'a dyn Fn() -> bool,
        run: &'a dyn Fn(Options) -> Option<Failure>,
    ) -> Self {
        let best = Shrunk { overrides: overrides.clone(), failure: failure.clone(), runs: 0 };
        let mut shrinker = Self { drawn, best, tried: BTreeSet::new(), more, run };
        shrinker.tried.insert(format!("{:?}", shrinker.options(overrides)));
        shrinker
    }

    fn shrink(mut self) -> Shrunk {
        let none = |overrides: &mut Overrides| {
            (overrides.left_out, overrides.loss, overrides.drift) = (LeftOut::all(), None, None);
        };
        self.attempt(none);
        loop {
            let before = self.best.overrides.clone();
            self.fewer_faults();
            self.smaller();
            self.shorter();
            // What was needed at first may not be needed in a simpler run.
            if self.best.overrides == before || self.best.runs >= RUNS_MAX || !(self.more)() {
                return self.best;
            }
        }
    }

    fn fewer_faults(&mut self) {
        for kind in Kind::ALL {
            self.attempt(|overrides| {
                overrides.left_out = overrides.left_out.and(kind);
                match kind {
                    Kind::Loss => overrides.loss = None,
                    Kind::Drift => overrides.drift = None,
                    _ => {}
                }
            });
        }
    }

    fn smaller(&mut self) {
        let options = self.options(&self.best.overrides);
        let nodes = options.world.nodes.len() as u16;
        let _ = (1..nodes).any(|nodes| self.attempt(|overrides| overrides.nodes = Some(nodes)));
        let _ =
            (0..options.writers).any(|writers| self.attempt(|overrides| overrides.writers = Some(writers)));
        let _ =
            (0..options.clients).any(|clients| self.attempt(|overrides| overrides.clients = Some(clients)));
    }

    fn shorter(&mut self) {
        loop {
            let storm_ms = self.options(&self.best.overrides).storm.as_millis() as u64;
            if storm_ms == 0 || !self.attempt(|overrides| overrides.storm_ms = Some(storm_ms / 2)) {
                return;
            }
        }
    }

    fn options(&self, overrides: &Overrides) -> Options {
        let mut options = self.drawn.clone();
        overrides.apply(&mut options);
        options
    }

    /// Whether the run fails in the same way with this change, which then is kept.
    fn attempt(&mut self, change: impl FnOnce(&mut Overrides)) -> bool {
        let mut overrides = self.best.overrides.clone();
        change(&mut overrides);
        let options = self.options(&overrides);
        let bound = self.best.runs >= RUNS_MAX || !(self.more)();
        if bound || !self.tried.insert(format!("{options:?}")) {
            return false;
        }
        self.best.runs += 1;
        match (self.run)(options) {
            Some(failure) if discriminant(&failure) == discriminant(&self.best.failure) => {
                (self.best.overrides, self.best.failure) = (overrides, failure);
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong() -> Failure {
        Failure::Wrong("as it was".to_owned())
    }

    /// A storm of a cluster that is not small, with these faults.
    fn storm(has: impl Fn(&Options) -> bool) -> Options {
        let busy = |options: &Options| {
            let writable = options.world.volumes.iter().any(|spec| !spec.read_only);
            options.world.nodes.len() >= 3 && options.writers >= 3 && options.clients >= 2 && writable
        };
        (1..10_000).map(Options::draw).find(|options| busy(options) && has(options)).expect("a seed has it")
    }

    #[test]
    fn what_a_failure_does_not_need_is_left_out() {
        let drawn = storm(|options| {
            options.network.loss > 0 && options.nodes.crash_every > cards_core::Duration::ZERO
        });
        let run = |options: Options| {
            let crashes = options.nodes.crash_every > cards_core::Duration::ZERO;
            let long = options.storm.as_millis() >= 100;
            (crashes && options.writers >= 2 && options.world.nodes.len() >= 2 && long).then(wrong)
        };
        let shrunk = Shrinker::new(&drawn, &Overrides::default(), &wrong(), &|| true, &run).shrink();
        let Overrides { nodes, clients, writers, left_out, storm_ms, .. } = &shrunk.overrides;
        assert_eq!((*nodes, *clients, *writers), (Some(2), Some(0), Some(2)));
        assert!((100..200).contains(&storm_ms.expect("a shorter storm")), "{storm_ms:?}");
        assert!(left_out.iter().any(|kind| kind == Kind::Loss));
        assert!(left_out.iter().all(|kind| kind != Kind::Crashes));
        assert!(shrunk.runs <= RUNS_MAX);
    }

    #[test]
    fn another_failure_is_not_taken_for_this_one() {
        let drawn = storm(|options| options.network.loss > 0);
        let run = |_| Some(Failure::Crashed("elsewhere".to_owned()));
        let shrunk = Shrinker::new(&drawn, &Overrides::default(), &wrong(), &|| true, &run).shrink();
        assert_eq!((shrunk.overrides, shrunk.failure), (Overrides::default(), wrong()));
    }

    #[test]
    fn it_ends_when_it_must() {
        let drawn = storm(|_| true);
        let shrunk =
            Shrinker::new(&drawn, &Overrides::default(), &wrong(), &|| false, &|_| Some(wrong())).shrink();
        assert_eq!((shrunk.overrides, shrunk.runs), (Overrides::default(), 0));
    }
}
