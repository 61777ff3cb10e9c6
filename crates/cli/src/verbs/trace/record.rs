//! `cards trace record`: what the clients of running nodes ask for.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use cards_admin::{Client, Demand, DemandKind, Recording};
use cards_config::{duration, size};
use cards_trace::{Op, RecordWriter, Request};
use clap::Args;

use crate::error::Error;
use crate::output;
use crate::progress::Progress;
use crate::signals::Signals;
use crate::table::count;
use crate::verbs::sim::SimError;

/// Record what the clients of running nodes ask for, to replay or simulate it
#[derive(Debug, Args)]
#[command(after_help = "\
Ends after --duration, at --max-size or at Ctrl-C; the file can be read at any time, also if the
command or a node is killed. A process of the trace is a connection of a client; a volume is the
number of its disk x members of the cluster + the number of its disk node. Nothing is read or
written for clients any slower: what comes faster than it is fetched is lost, and counted.

Examples:
  cards trace record --node /run/cards -o site.cards --duration 10m
  cards trace record --node /tmp/cards-x/node1 --node /tmp/cards-x/node2 -o both.cards
  cards sim site.cards --policy rd,hscc --cache 64M,256M")]
pub(crate) struct Record {
    /// The runtime_dir of a node on this machine; for more nodes, once for each
    #[arg(long, visible_alias = "runtime-dir", value_name = "DIR", default_value = "/run/cards")]
    node: Vec<PathBuf>,

    /// The recording to write
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    /// End after this time [default: at Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    duration: Option<Duration>,

    /// End when the file is this long
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = size::parse)]
    max_size: u64,

    /// Replace FILE if it is there
    #[arg(long)]
    force: bool,
}

/// How often nodes are asked; their rings hold half a second of 64,000 requests a second.
const LOOK: Duration = Duration::from_millis(20);
/// What a data thread has seen may reach its ring so much later than what another has seen: it waits so long for its
/// place in the order.
const LATE: Duration = Duration::from_millis(100);
/// Bytes of a request in the file.
const RECORD_BYTES: u64 = 32;
const HEADER_BYTES: u64 = 32;

impl Record {
    pub(super) fn run(self) -> Result<ExitCode, Error> {
        let signals = Signals::block();
        let mut nodes = Vec::new();
        for directory in &self.node {
            let mut client = Client::connect(&directory.join("admin.sock"))?;
            let recording = client.record()?;
            nodes.push(Node { client: Some(client), recording, late_ns: 0, seen_ns: 0, lost: 0 });
        }
        let started_us = nodes.iter().map(|node| node.recording.started_us).min().unwrap_or(0);
        for node in &mut nodes {
            node.late_ns = (node.recording.started_us - started_us).saturating_mul(1000);
        }
        let mut file = Output::create(&self.output, self.force, started_us, self.max_size)?;
        let ended = record(&mut nodes, &mut file, self.duration, &signals)?;
        let lost = nodes.iter().map(|node| node.lost).sum();
        output::print(&self.summary(&file, lost, ended))?;
        Ok(ExitCode::SUCCESS)
    }

    fn summary(&self, file: &Output, lost: u64, ended: Ended) -> String {
        let mut text = format!("{}: {} requests\n", self.output.display(), count(file.written));
        if lost > 0 {
            text += &format!("  {} more were lost: they came faster than they were fetched\n", count(lost));
        }
        match ended {
            Ended::AsAsked => {}
            Ended::Full => text += "  ended at --max-size\n",
            Ended::Gone => text += "  ended because no node answers any more\n",
        }
        text
    }
}

/// Why a recording has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// By a signal or after its time.
    AsAsked,
    Full,
    Gone,
}

/// A node that records.
struct Node {
    /// None once it does not answer any more.
    client: Option<Client>,
    recording: Recording,
    /// How much later than the first of all nodes it began.
    late_ns: u64,
    /// It has told everything up to here, but for [`LATE`].
    seen_ns: u64,
    lost: u64,
}

fn record(
    nodes: &mut [Node],
    file: &mut Output,
    duration: Option<Duration>,
    signals: &Signals,
) -> Result<Ended, SimError> {
    let began = Instant::now();
    let progress = Progress::new("recording");
    loop {
        let left = duration.map(|duration| duration.saturating_sub(began.elapsed()));
        let pause = left.map_or(LOOK, |left| left.min(LOOK));
        let over = signals.end_within(pause) || left.is_some_and(|left| left.is_zero());
        for node in nodes.iter_mut() {
            node.take(file);
        }
        let gone = nodes.iter().all(|node| node.client.is_none());
        let told = nodes.iter().filter(|node| node.client.is_some()).map(|node| node.seen_ns).min();
        let sure = match (over || gone, told) {
            (false, Some(told)) => told.saturating_sub(LATE.as_nanos() as u64),
            _ => u64::MAX,
        };
        file.write_until(sure)?;
        let share = duration.map_or(0.0, |all| began.elapsed().as_secs_f64() / all.as_secs_f64());
        progress.show(share.min(1.0), file.written, None, "");
        let ended = match (file.is_full(), over, gone) {
            (true, _, _) => Ended::Full,
            (_, true, _) => Ended::AsAsked,
            (_, _, true) => Ended::Gone,
            _ => continue,
        };
        return Ok(ended);
    }
}

impl Node {
    /// Fetches what it has recorded. One that does not answer is left out from now on; what it has told stays.
    fn take(&mut self, file: &mut Output) {
        while let Some(client) = &mut self.client {
            let recorded = match client.take_recorded() {
                Ok(recorded) => recorded,
                Err(error) => {
                    eprintln!(
                        "cards: node {}: {error}; it is not recorded any more",
                        self.recording.node + 1
                    );
                    self.client = None;
                    return;
                }
            };
            self.lost = recorded.lost;
            self.seen_ns = recorded.now_ns + self.late_ns;
            file.waiting.extend(recorded.demands.iter().map(|demand| self.request(demand)));
            if !recorded.more {
                return;
            }
        }
    }

    fn request(&self, demand: &Demand) -> Request {
        let Recording { node, members, .. } = self.recording;
        Request {
            time: Duration::from_nanos(demand.time_ns + self.late_ns),
            compute: Duration::ZERO,
            // Two nodes never share a process, also in recordings that are merged later.
            process: demand.client.wrapping_mul(members.into()).wrapping_add(node.into()),
            node: node.into(),
            volume: demand.volume,
            op: match demand.kind {
                DemandKind::Read => Op::Read,
                DemandKind::Write => Op::Write,
                DemandKind::Trim => Op::Trim,
                DemandKind::Flush => Op::Flush,
            },
            offset: demand.offset,
            bytes: demand.bytes,
        }
    }
}

/// The file, and what waits for its place in the order of times.
struct Output {
    path: PathBuf,
    writer: RecordWriter<BufWriter<File>>,
    waiting: Vec<Request>,
    written: u64,
    most: u64,
}

impl Output {
    fn create(path: &Path, force: bool, started_us: u64, max_size: u64) -> Result<Self, SimError> {
        let failed = |source| SimError::Write { path: path.to_owned(), source };
        if path.exists() && !force {
            return Err(SimError::Exists { path: path.to_owned() });
        }
        let file = File::options().write(true).create(true).truncate(true).open(path).map_err(failed)?;
        let mut writer = RecordWriter::new(BufWriter::new(file), started_us).map_err(failed)?;
        writer.flush().map_err(failed)?;
        let most = max_size.saturating_sub(HEADER_BYTES) / RECORD_BYTES;
        Ok(Self { path: path.to_owned(), writer, waiting: Vec::new(), written: 0, most })
    }

    /// Writes what is not later than `sure_ns`, in order.
    fn write_until(&mut self, sure_ns: u64) -> Result<(), SimError> {
        let sure = Duration::from_nanos(sure_ns);
        self.waiting.sort_by_key(|request| request.time);
        let ready = self.waiting.partition_point(|request| request.time <= sure);
        let room = usize::try_from(self.most - self.written).unwrap_or(usize::MAX);
        let failed = |source| SimError::Write { path: self.path.clone(), source };
        for request in self.waiting.drain(..ready).take(room) {
            self.writer.write(&request).map_err(failed)?;
            self.written += 1;
        }
        // A reader that comes meanwhile, or after a kill, finds whole records.
        self.writer.flush().map_err(failed)
    }

    const fn is_full(&self) -> bool {
        self.written >= self.most
    }
}
