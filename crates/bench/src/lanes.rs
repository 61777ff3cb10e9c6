//! Reads of what a peer's memory has, at nodes with several data threads: what a hop between threads costs, and what the
//! lanes of a link spare.
//!
//! Node 2 holds the blocks, node 3 reads each once. A daemon gives its clients to its data threads in turn, so each
//! measurement is the mean over one client on each thread, one after the other. Two builds of the program can be measured
//! in turn within each round.

use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::Error;
use crate::compare::Effort;
use crate::load::{self, Access, Options, Outcome, Target};
use crate::peers::{Cluster, ClusterOptions, Site, Transport};
use crate::report::{Style, micros, ratio, table};
use crate::size::format_rate;
use crate::stats::{median, median_ratio};
use crate::warm::{self, Cell, Kind};

const CELLS: [Cell; 5] = [
    Cell { block: 4 << 10, request: 4 << 10, depth: 1, access: Access::Once, part: (0, 1) },
    Cell { block: 4 << 10, request: 4 << 10, depth: 32, access: Access::Once, part: (1, 2) },
    Cell { block: 4 << 10, request: 64 << 10, depth: 32, access: Access::Once, part: (2, 4) },
    Cell { block: 64 << 10, request: 64 << 10, depth: 32, access: Access::Once, part: (0, 2) },
    Cell { block: 64 << 10, request: 128 << 10, depth: 8, access: Access::Scan, part: (2, 4) },
];

/// What one build did in one cell: in one round, or the medians over the rounds.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Point {
    /// Mean latency in microseconds.
    pub mean_us: f64,
    /// Bytes per second.
    pub bytes_per_s: f64,
    /// CPU of both nodes per request in microseconds.
    pub cpu_us: f64,
}

/// One cell: the first build and the other.
#[derive(Debug, Serialize)]
pub struct Row {
    /// What was read.
    #[serde(flatten)]
    pub kind: Kind,
    /// The first build.
    pub ours: Point,
    /// The build that it is measured against.
    pub other: Option<Point>,
    /// Mean latency, ours / other, median of the ratios within rounds.
    pub latency_ratio: Option<f64>,
    /// CPU of both nodes, ours / other, the same.
    pub cpu_ratio: Option<f64>,
}

/// Measures all cells, encrypted and in the clear; with `against`, of two builds.
pub fn run(
    site: &Site,
    against: Option<&Path>,
    data_threads: usize,
    effort: &Effort,
) -> Result<Vec<Row>, Error> {
    let programs: Vec<Option<&Path>> = [site.cards.as_deref()].into_iter().chain(against.map(Some)).collect();
    let mut rows = Vec::new();
    for insecure in [false, true] {
        let mut measured: Vec<Vec<Vec<Point>>> = vec![vec![Vec::new(); programs.len()]; CELLS.len()];
        for round in 0..effort.rounds {
            if Instant::now() >= effort.deadline {
                break;
            }
            for block in [4 << 10, 64 << 10] {
                for turn in 0..programs.len() {
                    // Neither is always first.
                    let which = (turn + round) % programs.len();
                    let options = ClusterOptions { data_threads, ..warm::options(site, block, insecure)? };
                    let cluster = warm::cluster(site, programs[which], &options)?;
                    for (cell, measured) in
                        CELLS.iter().zip(&mut measured).filter(|(cell, _)| cell.block == block)
                    {
                        measured[which].push(read(site, &cluster, cell, data_threads, effort.duration)?);
                    }
                }
            }
        }
        rows.extend(CELLS.iter().zip(&measured).filter_map(|(cell, builds)| row(cell, insecure, builds)));
    }
    Ok(rows)
}

/// One client after the other, as many as data threads.
fn read(
    site: &Site,
    cluster: &Cluster,
    cell: &Cell,
    data_threads: usize,
    duration: Duration,
) -> Result<Point, Error> {
    let target = cluster.target(3, Transport::Unix)?;
    let target = Target { pids: cluster.pids()[1..].to_vec(), ..target };
    let all = cell.options(site, duration);
    let (from, to) = (all.range.start, all.range.end);
    let piece = (to - from) / data_threads as u64 / (1 << 20) * (1 << 20);
    let outcomes: Vec<Outcome> = (0..data_threads as u64)
        .map(|client| {
            let start = from + client * piece;
            load::run(&target, &Options { range: start..start + piece, ..all.clone() })
        })
        .collect::<Result<_, _>>()?;
    let mean = |value: fn(&Outcome) -> f64| outcomes.iter().map(value).sum::<f64>() / outcomes.len() as f64;
    Ok(Point {
        mean_us: mean(|outcome| outcome.latency.mean_us),
        bytes_per_s: mean(|outcome| outcome.bytes_per_s),
        cpu_us: mean(|outcome| outcome.server_cpu_us.unwrap_or(0.0)),
    })
}

fn row(cell: &Cell, insecure: bool, builds: &[Vec<Point>]) -> Option<Row> {
    let middle =
        |build: &[Point], value: fn(&Point) -> f64| median(&build.iter().map(value).collect::<Vec<_>>());
    let point = |build: &Vec<Point>| {
        Some(Point {
            mean_us: middle(build, |m| m.mean_us)?,
            bytes_per_s: middle(build, |m| m.bytes_per_s)?,
            cpu_us: middle(build, |m| m.cpu_us)?,
        })
    };
    let compare = |value: fn(&Point) -> f64| {
        let values = |build: &[Point]| build.iter().map(|m| Some(value(m))).collect::<Vec<_>>();
        median_ratio(&values(builds.first()?), &values(builds.get(1)?))
    };
    Some(Row {
        kind: cell.kind(insecure),
        ours: point(builds.first()?)?,
        other: builds.get(1).and_then(point),
        latency_ratio: compare(|m| m.mean_us),
        cpu_ratio: compare(|m| m.cpu_us),
    })
}

/// The results as a table.
pub fn format(rows: &[Row], style: Style) -> String {
    let head = ["read", "mean us", "rate", "CPU us/req", "other: mean us", "rate", "CPU us/req", "us", "CPU"];
    let lines: Vec<Vec<String>> = rows.iter().map(line).collect();
    table(&head, &lines, style)
}

fn line(row: &Row) -> Vec<String> {
    let point = |point: &Point| [micros(point.mean_us), format_rate(point.bytes_per_s), micros(point.cpu_us)];
    let mut line = vec![row.kind.title()];
    line.extend(point(&row.ours));
    line.extend(row.other.as_ref().map_or_else(|| ["-"; 3].map(str::to_owned), point));
    line.extend([ratio(row.latency_ratio), ratio(row.cpu_ratio)]);
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builds_are_compared_within_the_round() {
        let build = |values: [f64; 3]| {
            values.map(|mean_us| Point { mean_us, bytes_per_s: 1.0, cpu_us: mean_us }).to_vec()
        };
        let row = row(&CELLS[0], true, &[build([10.0, 40.0, 30.0]), build([20.0, 40.0, 60.0])]).unwrap();
        assert_eq!((row.ours.mean_us, row.latency_ratio, row.cpu_ratio), (30.0, Some(0.5), Some(0.5)));
        assert!(format(&[row], Style::Plain).contains("clear: remote hit 4K QD1"));
    }
}
