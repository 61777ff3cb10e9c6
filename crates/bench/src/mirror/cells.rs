//! Reads and writes of a mirrored volume beside those of a plain one.

use std::ops::Range;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::Bar;
use crate::compare::Effort;
use crate::load::{self, Access, Mode, Options, Outcome};
use crate::peers::{Cluster, ClusterOptions, Medium, Site, Transport};
use crate::stats::{median, median_ratio};
use crate::{Error, interrupt};

/// Bytes of a volume: several times what the caches hold.
const VOLUME: u64 = 256 << 20;
/// Bytes of each cache.
const CACHE: u64 = 16 << 20;
/// Where writes are that hit few regions again and again.
const HOT: Range<u64> = 0..8 << 20;
/// What is read at node 2, then at node 3: it fits in their caches.
const SHARED: u64 = 8 << 20;
/// Bytes per second of the modelled disk.
const RATE: u64 = 60 << 20;

/// A kind of load.
struct Cell {
    name: &'static str,
    /// The disks are modelled.
    is_modelled: bool,
    /// What is loaded: node 1, or node 3 after node 2 has read it.
    is_remote_hit: bool,
    bar: Option<Bar>,
    options: Options,
}

/// What one volume did, as medians over rounds.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Point {
    /// Bytes per second.
    pub bytes_per_s: f64,
    /// Mean latency in microseconds.
    pub mean_us: f64,
    /// Processor time of all daemons per request, in microseconds.
    pub cpu_us: Option<f64>,
}

/// A kind of load on both volumes.
#[derive(Debug, Serialize)]
pub struct Row {
    /// What it was.
    pub name: &'static str,
    /// The plain volume.
    pub plain: Point,
    /// The mirrored one.
    pub mirrored: Point,
    /// Of rates, mirrored / plain, of remote hits the same of latencies: the median of the ratios within rounds.
    pub ratio: Option<f64>,
    /// What the ratio is held against.
    pub bar: Option<Bar>,
}

fn cells(duration: Duration) -> Vec<Cell> {
    let stream = |mode| Options {
        mode,
        access: Access::Sequential,
        block: 128 << 10,
        depth: 8,
        duration,
        ..Options::default()
    };
    let random = |mode, range| Options {
        mode,
        access: Access::Random,
        block: 4096,
        depth: 32,
        duration,
        range,
        ..Options::default()
    };
    let cell = |name, bar, options| Cell { name, is_modelled: false, is_remote_hit: false, bar, options };
    let modelled = |name, bar, options| Cell { is_modelled: true, ..cell(name, bar, options) };
    let hit = Options {
        access: Access::Once,
        block: 64 << 10,
        depth: 1,
        duration,
        range: 0..SHARED,
        ..Options::default()
    };
    let hot = random(Mode::Write, HOT);
    let uniform = random(Mode::Write, 0..VOLUME);
    vec![
        modelled("stream read, disks of 60 MiB/s", Some(Bar::AtLeast(0.9)), stream(Mode::Read)),
        modelled("stream write, disks of 60 MiB/s", Some(Bar::AtLeast(0.9)), stream(Mode::Write)),
        modelled("random write, 4K QD32, hot regions, the same", Some(Bar::AtLeast(0.85)), hot.clone()),
        modelled("random write, 4K QD32, uniform, the same", Some(Bar::AtLeast(0.6)), uniform.clone()),
        cell("stream read, 128K QD8", None, stream(Mode::Read)),
        cell("stream write, 128K QD8", None, stream(Mode::Write)),
        cell("random read, 4K QD32", None, random(Mode::Read, 0..VOLUME)),
        cell("random write, 4K QD32, hot regions", None, hot),
        cell("random write, 4K QD32, uniform", None, uniform),
        Cell { is_remote_hit: true, ..cell("remote hit, 64K QD1 (latency)", Some(Bar::AtMost(1.03)), hit) },
    ]
}

fn options(disk: Medium, disk_rate: u64) -> ClusterOptions {
    ClusterOptions {
        cache: CACHE,
        read_ahead: "auto".to_owned(),
        disk_rate,
        prefault: true,
        ..super::options(disk)
    }
}

/// Loads both volumes in turn.
pub(super) fn run(site: &Site, effort: &Effort) -> Result<Vec<Row>, Error> {
    let mut rows = Vec::new();
    for is_modelled in [true, false] {
        let rate = if is_modelled { RATE } else { 0 };
        let pair = [Medium::Plain(VOLUME), Medium::Mirror(VOLUME)]
            .map(|medium| Cluster::start(site, &options(medium, rate)));
        let [plain, mirrored] = pair;
        let pair = [plain?, mirrored?];
        for cluster in &pair {
            // Holes are read without the disk.
            load::fill(&cluster.target(1, Transport::Unix)?)?;
        }
        for cell in cells(effort.duration).iter().filter(|cell| cell.is_modelled == is_modelled) {
            let mut measured: [Vec<Outcome>; 2] = [Vec::new(), Vec::new()];
            for round in 0..effort.rounds {
                if Instant::now() >= effort.deadline {
                    break;
                }
                for turn in 0..2 {
                    // Neither is always first.
                    let which = (turn + round) % 2;
                    measured[which].push(load(&pair[which], cell, round as u64)?);
                    interrupt::check()?;
                }
            }
            rows.extend(row(cell, &measured));
        }
    }
    Ok(rows)
}

fn load(cluster: &Cluster, cell: &Cell, round: u64) -> Result<Outcome, Error> {
    let options = Options { seed: round + 1, ..cell.options.clone() };
    if !cell.is_remote_hit {
        return load::run(&cluster.target(1, Transport::Unix)?, &options);
    }
    // Another part in each round: node 3 has what it read.
    let start = SHARED * round % (VOLUME - SHARED);
    let range = start..start + SHARED;
    let scan = Options {
        access: Access::Scan,
        depth: 8,
        duration: Duration::from_secs(60),
        range: range.clone(),
        ..options.clone()
    };
    load::run(&cluster.target(2, Transport::Unix)?, &scan)?;
    load::run(&cluster.target(3, Transport::Unix)?, &Options { range, ..options })
}

fn row(cell: &Cell, [plain, mirrored]: &[Vec<Outcome>; 2]) -> Option<Row> {
    let rate = |outcome: &Outcome| outcome.bytes_per_s;
    let time = |outcome: &Outcome| outcome.latency.mean_us;
    let compared = |outcome: &Outcome| if cell.is_remote_hit { time(outcome) } else { rate(outcome) };
    let values = |outcomes: &[Outcome]| outcomes.iter().map(|o| Some(compared(o))).collect::<Vec<_>>();
    let point = |outcomes: &[Outcome]| {
        let middle =
            |value: &dyn Fn(&Outcome) -> f64| median(&outcomes.iter().map(value).collect::<Vec<_>>());
        let cpu: Vec<f64> = outcomes.iter().filter_map(|outcome| outcome.server_cpu_us).collect();
        Some(Point { bytes_per_s: middle(&rate)?, mean_us: middle(&time)?, cpu_us: median(&cpu) })
    };
    Some(Row {
        name: cell.name,
        plain: point(plain)?,
        mirrored: point(mirrored)?,
        ratio: median_ratio(&values(mirrored), &values(plain)),
        bar: cell.bar,
    })
}
