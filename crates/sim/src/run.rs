//! A run: a trace through an engine, on a machine.

use std::time::{Duration, Instant as Wall};

use cards_core::{Instant, PgId};
use cards_policies::policy;
use cards_trace::{Op, Progress, Request, Source, TraceError};
use hdrhistogram::Histogram;

use crate::engine::{ArrayEngine, Bound, Cluster, Counts, Engine, Foresight, Pafs, RemoteEngine, Xfs};
use crate::kernel::{Io, IoToken, Kernel, Scheduled};
use crate::model::{Model, Traffic};
use crate::processes::{Numbered, Processes};
use crate::report::Report;
use crate::setup::{Setup, SetupError, Timing, WarmUp};

/// Told how far a run has come; may stop it.
pub trait Pace {
    /// So many requests and blocks are done; the source is read so far.
    fn tick(&mut self, requests: u64, blocks: u64, source: Progress) -> Interrupt;
}

/// Whether a run goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interrupt {
    /// It does.
    Continue,
    /// It ends without a report.
    Stop,
}

/// Lets every run go on.
impl Pace for () {
    fn tick(&mut self, _requests: u64, _blocks: u64, _source: Progress) -> Interrupt {
        Interrupt::Continue
    }
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The combination makes no sense.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The trace names a node that the cluster does not have.
    #[error("{trace}: request {number} is node {node}'s, and there are {nodes} nodes: give --nodes {}, or --spread to deal its requests out anew", u64::from(*node) + 1)]
    Node {
        /// The trace.
        trace: String,
        /// The number of the request, from 1.
        number: u64,
        /// The node.
        node: u32,
        /// Nodes of the cluster.
        nodes: u16,
    },
    /// A request lies beyond what a volume can have.
    #[error("{trace}: request {number}: {problem}")]
    Range {
        /// The trace.
        trace: String,
        /// The number of the request, from 1.
        number: u64,
        /// What is wrong.
        problem: String,
    },
    /// The trace has ended before the warm-up.
    #[error("{trace}: {requests} requests, and all of them belong to the warm-up: give a shorter --warmup")]
    NothingMeasured {
        /// The trace.
        trace: String,
        /// Its requests.
        requests: u64,
    },
    /// The policy must know the future, and there is one source only.
    #[error("policy {policy} must read the trace twice: simulate it with run_from")]
    OneLook {
        /// The policy.
        policy: String,
    },
    /// A policy that must know the future cannot know so much of it.
    #[error(
        "{trace}: policy {policy} can look {limit} block references ahead, and there are more: take a part of the trace, or larger blocks"
    )]
    TooLong {
        /// The trace.
        trace: String,
        /// The policy.
        policy: String,
        /// References at most.
        limit: u32,
    },
    /// Nothing can happen any more, and not everything is done: simulated time has come to its end.
    #[error("{trace}: {requests} requests were never answered: shorten its times and compute demands")]
    Unanswered {
        /// The trace.
        trace: String,
        /// How many.
        requests: u64,
    },
    /// It was interrupted.
    #[error("interrupted")]
    Stopped,
}

/// Requests read ahead of the simulated time. A trace that is further ahead of its slowest process is held up.
const LOOKAHEAD: usize = 1 << 16;
/// The latest time of a request, and the longest that it may compute: there are policies that wake up every few seconds.
const LONGEST: Duration = Duration::from_secs(365 * 86_400);
/// Requests between two words to the [`Pace`].
const PACE: u64 = 1 << 13;

/// Simulates a trace.
///
/// # Errors
/// [`RunError`]: nothing is reported of a run that did not come to its end.
pub fn run(
    setup: &Setup,
    name: &str,
    source: &mut dyn Source,
    pace: &mut dyn Pace,
) -> Result<Report, RunError> {
    setup.check()?;
    if setup.module.is_some() {
        return Driver::new(setup, name, source, Cluster::new(setup)?).run(pace);
    }
    if let Some(array) = &setup.array {
        return Driver::new(setup, name, source, ArrayEngine::new(setup, array)?).run(pace);
    }
    if let Some(remote) = &setup.remote {
        return Driver::new(setup, name, source, RemoteEngine::new(setup, remote)?).run(pace);
    }
    let (entry, _) = policy::parse(&setup.policy).map_err(SetupError::from)?;
    match entry.name {
        "glru" => Driver::new(setup, name, source, Bound::lru(setup)?).run(pace),
        "wlru" => Driver::new(setup, name, source, Bound::weighted(setup)?).run(pace),
        "opt" => {
            Foresight::check(setup)?;
            Err(RunError::OneLook { policy: setup.policy.clone() })
        }
        "pafs" | "paca" => Driver::new(setup, name, source, Pafs::new(setup)?).run(pace),
        "xfs" => Driver::new(setup, name, source, Xfs::new(setup)?).run(pace),
        _ => Driver::new(setup, name, source, Cluster::new(setup)?).run(pace),
    }
}

/// Simulates a trace that can be opened more than once: what a policy takes that must know the future.
///
/// # Errors
/// As [`run`].
pub fn run_from(
    setup: &Setup,
    name: &str,
    open: &mut dyn FnMut() -> Result<Box<dyn Source>, TraceError>,
    pace: &mut dyn Pace,
) -> Result<Report, RunError> {
    setup.check()?;
    let needs_foresight = setup.module.is_none()
        && setup.array.is_none()
        && setup.remote.is_none()
        && policy::parse(&setup.policy).map_err(SetupError::from)?.0.name == "opt";
    if !needs_foresight {
        return run(setup, name, &mut *open()?, pace);
    }
    let foresight = Foresight::of(setup, name, &mut *open()?, pace)?;
    let mut pace = foresight.second_look(pace);
    let mut source = open()?;
    Driver::new(setup, name, &mut *source, Bound::opt(setup, foresight)).run(&mut pace)
}

struct Driver<'a, E: Engine> {
    setup: &'a Setup,
    name: &'a str,
    source: &'a mut dyn Source,
    exhausted: bool,
    kernel: Kernel<E::Event>,
    engine: E,
    processes: Processes,
    pending: Vec<Pending>,
    free_tokens: Vec<IoToken>,
    in_flight: u32,
    requests: u64,
    blocks: u64,
    began: Wall,
    /// When the last answer so far has been given.
    answered: Instant,
    /// The number of the first request that is measured, once it has been read.
    warm_up_end: Option<u64>,
    measured: Option<Measured>,
}

/// A request that has been issued.
#[derive(Clone, Copy)]
struct Pending {
    process: u32,
    op: Op,
    issued: Instant,
    measured: bool,
}

/// From the end of the warm-up on.
struct Measured {
    since: Instant,
    counts: Counts,
    stored_by_node: Vec<u64>,
    traffic: Traffic,
    requests: u64,
    reads: u64,
    writes: u64,
    blocks: u64,
    read_ns: Histogram<u64>,
    read_time: Duration,
    write_time: Duration,
}

impl<'a, E: Engine> Driver<'a, E> {
    fn new(setup: &'a Setup, name: &'a str, source: &'a mut dyn Source, engine: E) -> Self {
        Self {
            kernel: Kernel::new(Model::new(setup.machine.clone(), setup.nodes)),
            setup,
            name,
            source,
            exhausted: false,
            engine,
            processes: Processes::default(),
            pending: Vec::new(),
            free_tokens: Vec::new(),
            in_flight: 0,
            requests: 0,
            blocks: 0,
            began: Wall::now(),
            answered: Instant(0),
            warm_up_end: None,
            measured: None,
        }
    }

    fn run(mut self, pace: &mut dyn Pace) -> Result<Report, RunError> {
        match self.setup.timing {
            Timing::Serial => self.run_serial(pace)?,
            Timing::Trace | Timing::Fast => self.run_concurrent(pace)?,
        }
        if self.setup.check {
            self.engine.check(self.kernel.now());
        }
        self.report()
    }

    fn run_concurrent(&mut self, pace: &mut dyn Pace) -> Result<(), RunError> {
        loop {
            while !self.exhausted && self.processes.waiting() < LOOKAHEAD {
                self.read_one(pace)?;
            }
            let quiet = self.exhausted && self.processes.waiting() == 0 && self.in_flight == 0;
            if quiet && self.engine.is_idle() {
                return Ok(());
            }
            let Some(event) = self.kernel.next() else { return self.all_answered() };
            self.happen(event)?;
        }
    }

    fn run_serial(&mut self, pace: &mut dyn Pace) -> Result<(), RunError> {
        loop {
            self.read_one(pace)?;
            while self.in_flight > 0 || self.processes.waiting() > 0 || !self.engine.is_idle() {
                let Some(event) = self.kernel.next() else { break };
                self.happen(event)?;
            }
            self.all_answered()?;
            if self.exhausted {
                return Ok(());
            }
        }
    }

    fn all_answered(&self) -> Result<(), RunError> {
        match u64::from(self.in_flight) + self.processes.waiting() as u64 {
            0 => Ok(()),
            requests => Err(RunError::Unanswered { trace: self.name.into(), requests }),
        }
    }

    fn read_one(&mut self, pace: &mut dyn Pace) -> Result<(), RunError> {
        let before = self.source.progress();
        let Some(request) = self.source.next()? else {
            self.exhausted = true;
            return Ok(());
        };
        self.requests += 1;
        if self.requests.is_multiple_of(PACE)
            && pace.tick(self.requests, self.blocks, self.source.progress()) == Interrupt::Stop
        {
            return Err(RunError::Stopped);
        }
        self.check_request(&request)?;
        self.note_warm_up_end(&request, before);
        let process = self.processes.push(self.requests, request);
        if !self.processes.get(process).busy {
            self.begin_next(process);
        }
        Ok(())
    }

    fn check_request(&self, request: &Request) -> Result<(), RunError> {
        let blocks = request.blocks(self.setup.block_bytes);
        let volumes = self.setup.disk_nodes * PgId::MAX_DISKS;
        if request.node >= u32::from(self.setup.nodes) {
            return Err(RunError::Node {
                trace: self.name.into(),
                number: self.requests,
                node: request.node,
                nodes: self.setup.nodes,
            });
        }
        let problem = if blocks.end > u64::from(u32::MAX) {
            format!("offset {} is beyond the {} blocks that a volume can have", request.offset, u32::MAX)
        } else if request.volume >= volumes {
            format!(
                "volume {}: a disk node has at most {} volumes: give more --disk-nodes",
                request.volume,
                PgId::MAX_DISKS
            )
        } else if request.time > LONGEST || request.compute > LONGEST {
            format!("time {:?}, compute {:?}: more than a year", request.time, request.compute)
        } else {
            return Ok(());
        };
        Err(RunError::Range { trace: self.name.into(), number: self.requests, problem })
    }

    /// A process that is free goes on with its next demand, when its time has come.
    fn begin_next(&mut self, number: u32) {
        let timing = self.setup.timing;
        let process = self.processes.get(number);
        let Some(next) = process.queue.front() else { return };
        let stamp = Instant(u64::try_from(next.request.time.as_nanos()).unwrap_or(u64::MAX));
        let at = match timing {
            Timing::Trace => process.free_at.max(stamp),
            Timing::Serial => stamp.max(self.answered).max(self.kernel.model.idle_at()),
            Timing::Fast => process.free_at,
        };
        process.busy = true;
        self.kernel.schedule(at, Scheduled::Process(number));
    }

    fn happen(&mut self, event: Scheduled<E::Event>) -> Result<(), RunError> {
        match event {
            Scheduled::Engine(event) => self.engine.event(&mut self.kernel, event),
            Scheduled::Process(number) => self.go_on(number),
        }
        while let Some((token, at)) = self.kernel.take_completed() {
            self.done(token, at);
        }
        Ok(())
    }

    /// A process computes, or issues its request.
    fn go_on(&mut self, number: u32) {
        let now = self.kernel.now();
        if let Some(Numbered { request, .. }) = self.processes.get(number).queue.front_mut()
            && !request.compute.is_zero()
            && self.setup.timing != Timing::Serial
        {
            let work = std::mem::take(&mut request.compute);
            let node = request.node as u16;
            let at = self.kernel.model.compute(now, node, work);
            self.kernel.schedule(at, Scheduled::Process(number));
            return;
        }
        let Some(Numbered { number: in_trace, request }) = self.processes.pop(number) else { return };
        if self.warm_up_end.is_some_and(|end| in_trace >= end) {
            self.measure();
        }
        self.issue(number, &request);
    }

    fn issue(&mut self, process: u32, request: &Request) {
        let now = self.kernel.now();
        let token = self.free_tokens.pop().unwrap_or_else(|| {
            let place = self.pending.len();
            self.pending.push(Pending { process, op: request.op, issued: now, measured: false });
            place as IoToken
        });
        let blocks = match request.op {
            Op::Read | Op::Write | Op::Trim => request.blocks(self.setup.block_bytes),
            Op::Flush | Op::Open | Op::Close | Op::Send { .. } => 0..0,
        };
        let count = blocks.end - blocks.start;
        if request.op.is_data() {
            self.blocks += count;
        }
        if let Some(measured) = &mut self.measured {
            measured.requests += 1;
            match request.op {
                Op::Read => measured.reads += 1,
                Op::Write => measured.writes += 1,
                _ => {}
            }
            measured.blocks += if request.op.is_data() { count } else { 0 };
        }
        self.pending[token as usize] =
            Pending { process, op: request.op, issued: now, measured: self.measured.is_some() };
        self.in_flight += 1;
        let io = Io {
            token,
            node: request.node as u16,
            process: request.process,
            volume: request.volume,
            op: request.op,
            offset: request.offset,
            bytes: request.bytes,
            first: blocks.start,
            blocks: count as u32,
        };
        if let Op::Send { to } = request.op {
            // Communication of the application: it loads CPUs and links, and the receiver does not wait for it.
            let to = (to % u32::from(self.setup.nodes)) as u16;
            let at = self.kernel.model.send_data(now, io.node, to, u64::from(io.bytes));
            self.kernel.complete(token, at);
        } else {
            self.engine.submit(&mut self.kernel, io);
        }
    }

    /// Finds the first request to be measured when it is read: processes issue theirs in another order.
    /// `before` is how much had been read before it.
    fn note_warm_up_end(&mut self, request: &Request, before: Progress) {
        let over = match self.setup.warm_up {
            WarmUp::Time(time) => request.time >= time,
            WarmUp::Requests(requests) => self.requests > requests,
            WarmUp::Share(share) => {
                let Progress { done, total } = before;
                total.is_none_or(|total| done as f64 >= share * total as f64)
            }
        };
        if over && self.warm_up_end.is_none() {
            self.warm_up_end = Some(self.requests);
        }
    }

    /// The warm-up is over.
    fn measure(&mut self) {
        if self.measured.is_some() {
            return;
        }
        self.measured = Some(Measured {
            since: self.kernel.now(),
            counts: self.engine.counts(),
            stored_by_node: self.engine.stored_by_node(),
            traffic: *self.kernel.model.traffic(),
            requests: 0,
            reads: 0,
            writes: 0,
            blocks: 0,
            read_ns: Histogram::new(3).unwrap_or_else(|_| unreachable!("three digits are allowed")),
            read_time: Duration::ZERO,
            write_time: Duration::ZERO,
        });
    }

    fn done(&mut self, token: IoToken, at: Instant) {
        let Pending { process: number, op, issued, measured } = self.pending[token as usize];
        self.free_tokens.push(token);
        self.in_flight -= 1;
        if let Some(m) = self.measured.as_mut().filter(|_| measured) {
            let time = at.since(issued);
            match op {
                Op::Read => {
                    m.read_time += time;
                    // It grows with its values, so that none is refused.
                    m.read_ns.record(time.as_nanos() as u64).unwrap_or_default();
                }
                Op::Write => m.write_time += time,
                _ => {}
            }
        }
        let process = self.processes.get(number);
        process.busy = false;
        process.free_at = at;
        self.answered = self.answered.max(at);
        self.begin_next(number);
    }

    fn report(self) -> Result<Report, RunError> {
        let wall_s = self.began.elapsed().as_secs_f64();
        let trace = self.name.to_string();
        let Some(m) = self.measured else {
            return Err(RunError::NothingMeasured { trace, requests: self.requests });
        };
        let counts = self.engine.counts().since(&m.counts);
        let policy_failure = self.engine.policy_failure();
        let stored_by_node =
            self.engine.stored_by_node().into_iter().zip(&m.stored_by_node).map(|(now, before)| now - before);
        let traffic = *self.kernel.model.traffic();
        let end = self.kernel.now().max(self.answered);
        let simulated = end.since(m.since);
        let hits = counts.local_hits + counts.remote_hits;
        let ratio = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
        let mean_us = |time: Duration, count: u64| ratio(time.as_secs_f64() * 1e6, count as f64);
        // What is still queued at the end is done afterwards.
        let busy = |now: u64, before: u64, parts: f64, idle_at: Instant| {
            let time = end.max(idle_at).since(m.since);
            ratio((now - before) as f64 / 1e9, time.as_secs_f64() * parts)
        };
        let machine = self.kernel.model.machine();
        let channels = f64::from(machine.disks) * f64::from(machine.disk.channels);
        let links = f64::from(self.setup.nodes) * 2.0;
        Ok(Report {
            trace,
            machine: machine.name.clone(),
            policy: self.setup.policy.clone(),
            replacement: self.setup.replacement_spec(),
            nodes: self.setup.nodes,
            cache_bytes: u64::from(self.setup.cache_of(0)) * u64::from(self.setup.block_bytes),
            block_bytes: self.setup.block_bytes,
            requests: m.requests,
            read_requests: m.reads,
            write_requests: m.writes,
            blocks: m.blocks,
            local_hits: counts.local_hits,
            remote_hits: counts.remote_hits,
            disk_reads: counts.disk_reads,
            disk_writes: traffic.disk_writes - m.traffic.disk_writes,
            global_hit_ratio: ratio(hits as f64, (hits + counts.disk_reads) as f64),
            read_mean_us: mean_us(m.read_time, m.reads),
            read_p50_us: m.read_ns.value_at_quantile(0.5) as f64 / 1e3,
            read_p99_us: m.read_ns.value_at_quantile(0.99) as f64 / 1e3,
            write_mean_us: mean_us(m.write_time, m.writes),
            messages: traffic.messages - m.traffic.messages,
            bytes_moved: traffic.bytes_moved - m.traffic.bytes_moved,
            forwarded: counts.forwarded,
            stored_for_others: counts.stored_for_others,
            stored_by_node: stored_by_node.collect(),
            disk_busy: busy(
                traffic.disks_busy,
                m.traffic.disks_busy,
                channels,
                self.kernel.model.disks_idle_at(),
            ),
            network_busy: busy(
                traffic.links_busy,
                m.traffic.links_busy,
                links,
                self.kernel.model.links_idle_at(),
            ),
            simulated_s: simulated.as_secs_f64(),
            wall_s,
            requests_per_s: ratio(self.blocks as f64, wall_s),
            table_bytes_per_block: ratio(
                self.engine.table_bytes() as f64,
                self.engine.cached_blocks() as f64,
            ),
            skipped: self.source.skipped().total(),
            seed: self.setup.seed,
            policy_failure,
            choices: self.engine.choices(),
            more: counts.iter().collect(),
        })
    }
}
