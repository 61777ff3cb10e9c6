//! Clients of many nodes who work on the same blocks at the same time.

use std::collections::BTreeSet;
use std::panic;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use super::client::Worker;
use super::history::{Clock, Event, History};
use crate::harness::export::Export;
use crate::harness::{SHORT, eventually};

/// Operations a client must complete to count as served again.
const STEADY: u64 = 20;

/// What the clients and their test tell each other.
pub(super) struct Shared {
    pub(super) clock: Clock,
    pub(super) counts: Vec<Counts>,
    over: AtomicBool,
}

impl Shared {
    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }
}

/// Operations of one client so far.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) successes: AtomicU64,
    pub(super) failures: AtomicU64,
    /// It has asked for a write and has no answer yet.
    pub(super) is_writing: AtomicBool,
    /// What the client was told, each once.
    pub(super) errors: Mutex<BTreeSet<String>>,
}

/// Running clients; told to go home with the value.
pub(super) struct Crowd {
    shared: Arc<Shared>,
    /// The node of each client.
    nodes: Vec<usize>,
    workers: Vec<JoinHandle<Vec<Event>>>,
}

impl Crowd {
    /// Starts one client at each of `places`, which are nodes with their exports; clients count from `first`.
    pub(super) fn start(clock: Clock, places: Vec<(usize, Export)>, first: u64, seed: u64) -> Crowd {
        let counts = places.iter().map(|_| Counts::default()).collect();
        let shared = Arc::new(Shared { clock, counts, over: AtomicBool::new(false) });
        let nodes = places.iter().map(|(node, _)| *node).collect();
        let start = |(place, (_, export)): (usize, (usize, Export))| {
            let worker = Worker::new(first + place as u64, export, Arc::clone(&shared), seed);
            thread::spawn(move || worker.work(place))
        };
        let workers = places.into_iter().enumerate().map(start).collect();
        Crowd { shared, nodes, workers }
    }

    /// Operations that succeeded so far.
    pub(super) fn successes(&self) -> u64 {
        self.shared.counts.iter().map(|counts| counts.successes.load(Ordering::Relaxed)).sum()
    }

    /// Errors that clients of `node` were told so far.
    pub(super) fn failures(&self, node: usize) -> u64 {
        let here = self.nodes.iter().zip(&self.shared.counts).filter(|(at, _)| **at == node);
        here.map(|(_, counts)| counts.failures.load(Ordering::Relaxed)).sum()
    }

    /// What clients of `node` were told when something failed.
    pub(super) fn errors(&self, node: usize) -> BTreeSet<String> {
        let here = self.nodes.iter().zip(&self.shared.counts).filter(|(at, _)| **at == node);
        here.flat_map(|(_, counts)| counts.errors.lock().expect("no panic inside").clone()).collect()
    }

    /// Whether a client of `node` waits for the answer to a write.
    pub(super) fn is_writing_at(&self, node: usize) -> bool {
        self.at(&[node]).any(|place| self.shared.counts[place].is_writing.load(Ordering::Relaxed))
    }

    /// Waits until every client of `nodes` has failed with something that it began after this call.
    #[track_caller]
    pub(super) fn is_told_at(&self, nodes: &[usize]) {
        let count = |place: usize| self.shared.counts[place].failures.load(Ordering::Relaxed);
        for (place, before) in self.at(nodes).map(|place| (place, count(place))).collect::<Vec<_>>() {
            let what = format!("an error at a client of n{}", self.nodes[place]);
            // The first may be of something that had begun before.
            eventually(&what, SHORT, || (count(place) >= before + 2 || self.has_lost_one()).then_some(()));
        }
    }

    /// Waits until every client of `nodes` has been served anew.
    #[track_caller]
    pub(super) fn goes_on_at(&self, nodes: &[usize]) {
        let count = |place: usize| self.shared.counts[place].successes.load(Ordering::Relaxed);
        for (place, before) in self.at(nodes).map(|place| (place, count(place))).collect::<Vec<_>>() {
            let node = self.nodes[place];
            let what = format!("a client of n{node} is served; it was told {:?} so far", self.errors(node));
            eventually(&what, SHORT, || {
                (count(place) >= before + STEADY || self.has_lost_one()).then_some(())
            });
        }
    }

    /// The clients of these nodes.
    fn at(&self, nodes: &[usize]) -> impl Iterator<Item = usize> {
        (0..self.nodes.len()).filter(move |place| nodes.contains(&self.nodes[*place]))
    }

    /// Waits until all together have succeeded with `operations`.
    #[track_caller]
    pub(super) fn has_done(&self, operations: u64) {
        eventually("enough operations", 6 * SHORT, || {
            (self.successes() >= operations || self.has_lost_one()).then_some(())
        });
    }

    /// A client has panicked; [`Self::end`] tells why.
    fn has_lost_one(&self) -> bool {
        self.workers.iter().any(JoinHandle::is_finished)
    }

    /// Sends all home; what they did.
    pub(super) fn end(mut self) -> History {
        self.shared.over.store(true, Ordering::Relaxed);
        let join = |worker: JoinHandle<_>| worker.join().unwrap_or_else(|panic| panic::resume_unwind(panic));
        History(self.workers.drain(..).flat_map(join).collect())
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
    }
}
