//! Every process on its own.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use cards_trace::{Request, Source};

use super::connection::Connection;
use super::load::Load;
use super::replayed::Times;
use super::{ReplayError, interrupted};
use crate::captive::Cluster;
use crate::error::Error;
use crate::progress::Progress;
use crate::signals::Signals;
use crate::verbs::sim::SimError;

/// Processes of a node: a daemon serves 100 clients.
const PROCESSES_MAX: usize = 100;
/// Requests of a process that are read ahead.
const AHEAD: usize = 1 << 10;
/// The longest sleep before a look whether all shall end.
const NAP: Duration = Duration::from_millis(50);

/// What all processes share.
struct Shared {
    began: Instant,
    stop: AtomicBool,
    done: AtomicU64,
}

/// Issues the requests of each process at their times, each when the process has had the answer before and done its
/// computing.
pub(super) fn play(
    source: &mut dyn Source,
    cluster: &Cluster,
    load: &Load,
    signals: &Signals,
) -> Result<Times, Error> {
    check(load)?;
    let sockets: Vec<PathBuf> = (0..cluster.nodes.len()).map(|node| cluster.socket(node)).collect();
    let mut connections = Vec::new();
    for (&process, &node) in &load.processes {
        connections.push((process, Connection::open(&sockets[node as usize])?));
    }
    let shared = Shared { began: Instant::now(), stop: AtomicBool::new(false), done: AtomicU64::new(0) };
    thread::scope(|scope| {
        let (mut queues, mut processes) = (BTreeMap::new(), Vec::new());
        for (process, connection) in connections {
            let (queue, requests) = sync_channel(AHEAD);
            queues.insert(process, queue);
            let process = Process { connection, shared: &shared, times: Times::new(load.block) };
            let spawned = thread::Builder::new().spawn_scoped(scope, move || process.run(&requests));
            match spawned {
                Ok(handle) => processes.push(handle),
                Err(source) => {
                    shared.stop.store(true, Relaxed);
                    return Err(ReplayError::Thread(source).into());
                }
            }
        }
        let dealt = deal(source, &queues, load, &shared, signals);
        drop(queues);
        let mut times = Times::new(load.block);
        let mut failed = None;
        for process in processes {
            while !process.is_finished() {
                shared.stop.fetch_or(interrupted(signals), Relaxed);
                thread::sleep(Duration::from_millis(1));
            }
            match process.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)) {
                Ok(more) => times.merge(&more),
                Err(error) => failed = Some(failed.unwrap_or(error)),
            }
        }
        dealt?;
        match failed {
            Some(error) => Err(error),
            None if shared.stop.load(Relaxed) => Err(ReplayError::Interrupted.into()),
            None => Ok(times),
        }
    })
}

fn check(load: &Load) -> Result<(), ReplayError> {
    let mut of_node: BTreeMap<u32, usize> = BTreeMap::new();
    load.processes.values().for_each(|&node| *of_node.entry(node).or_default() += 1);
    match of_node.into_iter().find(|&(_, processes)| processes > PROCESSES_MAX) {
        Some((node, _)) => {
            let trace = load.workload.name.clone();
            Err(ReplayError::Processes { trace, node, max: PROCESSES_MAX })
        }
        None => Ok(()),
    }
}

/// Hands the requests to their processes, as far ahead as there is room.
fn deal(
    source: &mut dyn Source,
    queues: &BTreeMap<u32, SyncSender<Request>>,
    load: &Load,
    shared: &Shared,
    signals: &Signals,
) -> Result<(), Error> {
    let progress = Progress::new("replaying");
    while let Some(mut request) = source.next().map_err(|error| {
        shared.stop.store(true, Relaxed);
        SimError::from(error)
    })? {
        let Some(queue) = queues.get(&request.process) else { continue };
        loop {
            if shared.stop.load(Relaxed) {
                return Ok(());
            }
            match queue.try_send(request) {
                Ok(()) | Err(TrySendError::Disconnected(_)) => break,
                Err(TrySendError::Full(back)) => request = back,
            }
            shared.stop.fetch_or(interrupted(signals), Relaxed);
            let done = shared.done.load(Relaxed);
            progress.show(done as f64 / load.pieces as f64, done, None, "");
            thread::sleep(Duration::from_millis(1));
        }
    }
    Ok(())
}

/// Does a request and waits for the answer.
fn act(connection: &mut Connection, request: &Request) -> Result<Duration, Error> {
    let began = Instant::now();
    connection.begin(request)?;
    connection.wait()?;
    Ok(began.elapsed())
}

struct Process<'a> {
    connection: Connection,
    shared: &'a Shared,
    times: Times,
}

impl Process<'_> {
    fn run(mut self, requests: &Receiver<Request>) -> Result<Times, Error> {
        while let Ok(request) = requests.recv() {
            // As in the simulator: the time of the trace first, then the computing.
            self.sleep_until(self.shared.began + request.time);
            self.sleep_until(Instant::now() + request.compute);
            if self.shared.stop.load(Relaxed) {
                break;
            }
            let done = act(&mut self.connection, &request);
            let took = done.inspect_err(|_| self.shared.stop.store(true, Relaxed))?;
            self.times.add(&request, took);
            self.shared.done.fetch_add(1, Relaxed);
        }
        Ok(self.times)
    }

    fn sleep_until(&self, at: Instant) {
        loop {
            let rest = at.saturating_duration_since(Instant::now());
            if rest.is_zero() || self.shared.stop.load(Relaxed) {
                return;
            }
            thread::sleep(rest.min(NAP));
        }
    }
}
