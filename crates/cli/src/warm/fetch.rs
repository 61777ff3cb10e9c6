//! The fetching itself: a thread for each node asks the daemon for one step after the other.

use std::collections::VecDeque;
use std::sync::mpsc::{self, Sender, TryRecvError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cards_admin::{Client, ClientError, WARM_BLOCKS_MAX, Warmed};

use super::bar::Bars;
use super::nodes::Target;
use super::outcome::NodeOutcome;
use super::plan::Plan;
use crate::signals::{Arrived, Signals};

/// Requests a second, at least, at a limited rate, so that it is limited at every moment.
const STEPS_PER_SECOND: u64 = 10;
/// A node's part is fetched in at least so many steps: while it fetches the first of them, others must not begin with the same.
const STEPS_OF_A_PART: u64 = 4;
/// But not in steps of fewer blocks.
const STEP_MIN: u64 = 16;
/// Nodes at a time: each needs a connection to the daemon.
const NODES_AT_ONCE: usize = 128;
/// How long the steps under way may take after a signal.
const GRACE: Duration = Duration::from_secs(2);
/// Time between two looks at what the threads have done.
const LOOK: Duration = Duration::from_millis(10);

/// What is fetched, where.
pub(super) struct Fetch {
    pub(super) volume: String,
    /// Bytes of a block.
    pub(super) block: u64,
    /// What each node is to have.
    pub(super) plan: Plan,
    pub(super) targets: Vec<Target>,
    /// The daemon is to pass it on to the node, which may be its own.
    pub(super) by_name: bool,
    /// Bytes a second of all nodes at most.
    pub(super) rate: Option<u64>,
}

/// What was fetched.
pub(super) struct Fetched {
    /// In the order of the targets, without errors.
    pub(super) nodes: Vec<NodeOutcome>,
    /// Those that did not go on to the end.
    pub(super) errors: Vec<(usize, ClientError)>,
    /// The signal that has ended it.
    pub(super) signal: Option<u8>,
    pub(super) seconds: f64,
}

/// What a thread says of node `.0`.
enum Report {
    Step(usize, u64, Warmed),
    End(usize, Option<ClientError>),
}

/// What the threads share.
struct Work {
    fetch: Fetch,
    began: Instant,
    queue: Mutex<VecDeque<usize>>,
    stopped: Mutex<bool>,
    stop: Condvar,
}

impl Fetch {
    /// Fetches it. `connect` makes a connection to the daemon. The first signal has every node end after the step
    /// under way, which is waited for [`GRACE`]; the second one does not wait for that.
    pub(super) fn run<C>(self, signals: &Signals, connect: C) -> Fetched
    where
        C: Fn() -> Result<Client, ClientError> + Clone + Send + 'static,
    {
        let (count, block) = (self.targets.len(), self.block);
        let names = self.targets.iter().map(|target| target.node.as_str());
        let mut bars = Bars::new(&self.volume, names.clone(), self.plan.bytes);
        let mut nodes: Vec<NodeOutcome> =
            names.map(|node| NodeOutcome { node: node.into(), ..NodeOutcome::default() }).collect();
        let work = Arc::new(Work {
            fetch: self,
            began: Instant::now(),
            queue: Mutex::new((0..count).collect()),
            stopped: Mutex::new(false),
            stop: Condvar::new(),
        });
        let (sender, reports) = mpsc::channel();
        for _ in 0..count.min(NODES_AT_ONCE) {
            let (work, sender, connect) = (Arc::clone(&work), sender.clone(), connect.clone());
            std::thread::spawn(move || work.run(&sender, &connect));
        }
        drop(sender);
        let (mut errors, mut signal) = (Vec::new(), None);
        let mut end: Option<Instant> = None;
        loop {
            // The daemon may stand still.
            if end.is_some_and(|end| Instant::now() >= end) {
                break;
            }
            match reports.try_recv() {
                Ok(Report::Step(node, bytes, blocks)) => {
                    let bytes = bytes.saturating_sub(blocks.failed.saturating_mul(block));
                    bars.add(node, bytes);
                    nodes[node].bytes_done += bytes;
                    nodes[node].blocks = nodes[node].blocks.plus(blocks);
                }
                Ok(Report::End(node, error)) => {
                    bars.end(node, error.as_ref().map(ToString::to_string).as_deref());
                    errors.extend(error.map(|error| (node, error)));
                }
                // The last thread has ended.
                Err(TryRecvError::Disconnected) => break,
                Err(TryRecvError::Empty) => {
                    let Some(arrived) = signals.wait(LOOK).filter(|&arrived| Arrived::ends(arrived)) else {
                        continue;
                    };
                    if signal.is_some() {
                        break;
                    }
                    signal = u8::try_from(arrived.number).ok();
                    end = Some(Instant::now() + GRACE);
                    *lock(&work.stopped) = true;
                    work.stop.notify_all();
                }
            }
        }
        errors.sort_by_key(|(node, _)| *node);
        Fetched { nodes, errors, signal, seconds: work.began.elapsed().as_secs_f64() }
    }
}

impl Work {
    /// Fetches for one node after the other.
    fn run(&self, reports: &Sender<Report>, connect: &impl Fn() -> Result<Client, ClientError>) {
        loop {
            let node = lock(&self.queue).pop_front();
            let Some(node) = node.filter(|_| !*lock(&self.stopped)) else { return };
            let error = connect().and_then(|mut client| self.fetch(node, &mut client, reports)).err();
            if reports.send(Report::End(node, error)).is_err() {
                return;
            }
        }
    }

    fn fetch(&self, node: usize, client: &mut Client, reports: &Sender<Report>) -> Result<(), ClientError> {
        let Fetch { volume, plan, targets, .. } = &self.fetch;
        let rate = self.fetch.rate.map(|rate| rate as f64 / targets.len().min(NODES_AT_ONCE) as f64);
        let mut plan = plan.clone().rotated(node, targets.len());
        let (began, step, mut done) = (Instant::now(), self.step(node), 0);
        while !*lock(&self.stopped)
            && let Some((ranges, bytes)) = plan.next(step)
        {
            let blocks = match self.fetch.by_name {
                true => client.warm_at(&targets[node].node, volume, &ranges)?,
                false => client.warm(volume, &ranges)?,
            };
            if reports.send(Report::Step(node, bytes, blocks)).is_err() {
                break;
            }
            done += bytes;
            // What was there already has cost nobody anything, but a rate is a promise that is easy to understand.
            if let Some(rate) = rate {
                let due = Duration::try_from_secs_f64(done as f64 / rate).unwrap_or(Duration::MAX);
                self.rest(due.saturating_sub(began.elapsed()));
            }
        }
        Ok(())
    }

    /// Blocks that a node is asked for at a time.
    fn step(&self, node: usize) -> u64 {
        let Fetch { block, plan, targets, rate, .. } = &self.fetch;
        let (block, count) = ((*block).max(1), targets.len() as u64);
        let mut step = WARM_BLOCKS_MAX.min(targets[node].cache / 4 / block);
        if let Some(rate) = rate {
            step = step.min(rate / count / STEPS_PER_SECOND / block);
        }
        if count > 1 {
            step = step.min((plan.bytes / count / block / STEPS_OF_A_PART).max(STEP_MIN));
        }
        step
    }

    /// Waits, unless a signal has come.
    fn rest(&self, duration: Duration) {
        let stopped = lock(&self.stopped);
        drop(self.stop.wait_timeout_while(stopped, duration, |stopped| !*stopped));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
