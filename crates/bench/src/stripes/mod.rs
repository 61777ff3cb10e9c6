//! Volumes over many disks, on modelled ones: what a striped volume has of its disks' sum, and what many clients get of mirrored and
//! striped volumes beside one server with one disk, as in figure 6 of the single I/O space paper.
//!
//! The disks are modelled, and slow, so that they are the limit and not the two cores that all daemons and clients share. Clusters run one after
//! the other: sixteen daemons are enough for one core.

use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::compare::Effort;
use crate::load::{self, Access, Mode, Options};
use crate::mirror::Bar;
use crate::peers::{Cluster, ClusterOptions, Medium, Site, Transport};
use crate::report::{Style, micros, ratio, table};
use crate::size::{format_rate, format_size};
use crate::stats::median;
use crate::{Error, content, interrupt};

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// Streams of a volume over four disks, beside one disk.
    Sum,
    /// Files of 4 and of 16 clients, each at a node of its own.
    Clients,
}

/// How fast disks are, in bytes per second.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Rates {
    /// Of four.
    pub sum: u64,
    /// Of sixteen.
    pub clients: u64,
}

/// What one volume did, as medians over rounds.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Point {
    /// Bytes per second of all clients.
    pub bytes_per_s: f64,
    /// Processor time of all daemons per MiB, in microseconds.
    pub cpu_us: Option<f64>,
}

/// A load on a volume, and on what it is compared with.
#[derive(Debug, Serialize)]
pub struct Row {
    /// What it was.
    pub name: String,
    /// One plain disk.
    pub plain: Point,
    /// How many of these it is compared with.
    pub disks: usize,
    /// The volume.
    pub ours: Point,
    /// Rates, the volume / the plain disks.
    pub ratio: f64,
    /// What the ratio is held against.
    pub bar: Bar,
}

/// Disks of the volume that is compared with their sum.
const FEW: usize = 4;
/// Daemons, clients and disks of the other part.
const MANY: usize = 16;
/// Bytes of each cache: more than is under way, and little beside the volume.
const CACHE: u64 = 16 << 20;
/// Bytes of the volume on each disk of [`FEW`].
const ON_A_DISK: u64 = 64 << 20;
/// Bytes of a client's file, which is read once.
const FILE: u64 = 4 << 20;
/// A file takes no longer.
const LONGEST: Duration = Duration::from_secs(300);
const REQUEST: u32 = 128 << 10;
/// Requests that a client has under way for each disk that it streams from.
const DEPTH: usize = 8;
/// The same of clients with files: sixteen of them have no more at one server than its disk can do in a second.
const FILE_DEPTH: usize = 2;
const MODES: [(Mode, &str); 2] = [(Mode::Read, "read"), (Mode::Write, "write")];

/// Of NFS with 16 clients, the single I/O space paper's RAID-1 has so much: 6.33 of 2.6 MB/s, and 5.95 of 2.77.
const PAPER: [f64; 2] = [2.4, 2.1];

/// Measures these parts; none: all.
///
/// # Errors
/// A cluster cannot be started, a request fails, or the user asks to stop.
pub fn run(site: &Site, parts: &[Part], rates: Rates, effort: &Effort) -> Result<Vec<Row>, Error> {
    let wanted = |part| parts.is_empty() || parts.contains(&part);
    let mut rows = Vec::new();
    if wanted(Part::Sum) {
        rows.extend(sum(site, rates.sum, effort)?);
    }
    if wanted(Part::Clients) {
        rows.extend(clients(site, rates.clients, effort)?);
    }
    Ok(rows)
}

fn start(site: &Site, nodes: usize, disk: Medium, disk_rate: u64) -> Result<Cluster, Error> {
    let options = ClusterOptions {
        disk_rate,
        policy: "rd",
        // It keeps nothing of a stream that is longer than the cache.
        replacement: Some("lru"),
        prefault: true,
        ..ClusterOptions::new(nodes, CACHE, 64 << 10, disk)
    };
    Cluster::start(site, &options)
}

/// A plain disk that is no hole.
fn plain(site: &Site, name: &str, bytes: u64) -> Result<Medium, Error> {
    let path = site.path(name);
    content::create_image(&path, bytes)?;
    Ok(Medium::File(path))
}

/// Rounds of loads at nodes, which begin at the same time and are over with the last one; `options` are those of a round and a client.
fn rounds(
    cluster: &Cluster,
    nodes: &[usize],
    effort: &Effort,
    options: impl Fn(usize, usize) -> Options + Sync,
) -> Result<Point, Error> {
    let (mut rates, mut cpus) = (Vec::new(), Vec::new());
    for round in 0..effort.rounds {
        if Instant::now() >= effort.deadline && !rates.is_empty() {
            break;
        }
        let one = |client: usize, node: usize| {
            load::run(&cluster.target(node, Transport::Unix)?, &options(round, client))
        };
        let outcomes = thread::scope(|scope| {
            let one = &one;
            let begin = |(client, &node): (usize, &usize)| scope.spawn(move || one(client, node));
            let threads: Vec<_> = nodes.iter().enumerate().map(begin).collect();
            let join = |thread: thread::ScopedJoinHandle<'_, _>| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            threads.into_iter().map(join).collect::<Result<Vec<_>, Error>>()
        })?;
        let bytes: f64 = outcomes.iter().map(|outcome| outcome.bytes_per_s * outcome.seconds).sum();
        let seconds = outcomes.iter().map(|outcome| outcome.seconds).fold(0.0, f64::max);
        rates.push(bytes / seconds);
        // Each client has counted the time of all daemons, the last one most of it.
        let cpu = outcomes.iter().filter_map(|one| Some(one.server_cpu_us? * one.requests as f64));
        cpus.extend(cpu.reduce(f64::max).map(|us| us / (bytes / f64::from(1 << 20))));
        interrupt::check()?;
    }
    Ok(Point { bytes_per_s: median(&rates).unwrap_or_default(), cpu_us: median(&cpus) })
}

fn row(name: String, plain: Point, disks: usize, ours: Point, bar: f64) -> Row {
    let ratio = ours.bytes_per_s / (plain.bytes_per_s * disks as f64);
    Row { name, plain, disks, ours, ratio, bar: Bar::AtLeast(bar) }
}

/// One client of a volume over a few disks, which has enough under way for all of them.
fn sum(site: &Site, rate: u64, effort: &Effort) -> Result<Vec<Row>, Error> {
    let points = |nodes: usize, disk| -> Result<[Point; 2], Error> {
        let cluster = start(site, nodes, disk, rate)?;
        load::fill(&cluster.target(1, Transport::Unix)?)?;
        let stream = |mode| Options {
            mode,
            access: Access::Sequential,
            block: REQUEST,
            depth: DEPTH * nodes,
            duration: effort.duration,
            ..Options::default()
        };
        let [read, write] = MODES.map(|(mode, _)| rounds(&cluster, &[1], effort, |_, _| stream(mode)));
        Ok([read?, write?])
    };
    let one = points(1, plain(site, "one.raw", ON_A_DISK)?)?;
    let all = points(FEW, Medium::Array("raid0", ON_A_DISK * FEW as u64))?;
    let rate = format_size(rate);
    let rows = MODES.into_iter().zip(one.into_iter().zip(all)).map(|((_, mode), (one, all))| {
        row(format!("raid0 over {FEW} disks of {rate}/s, stream {mode}"), one, FEW, all, 0.9)
    });
    Ok(rows.collect())
}

/// Clients with a file each, of one server with one disk, then of volumes over the disks of all nodes.
fn clients(site: &Site, rate: u64, effort: &Effort) -> Result<Vec<Row>, Error> {
    // The server is node 1: a few clients are at others.
    let groups: [Vec<usize>; 2] = [(2..2 + FEW).collect(), (1..=MANY).collect()];
    // What was read once may be in a cache: each round has files of its own.
    let begins = [0, FEW * effort.rounds];
    let volume = FILE * ((FEW + MANY) * effort.rounds) as u64;
    let points = |disk, has_holes: bool| -> Result<Vec<Point>, Error> {
        let cluster = start(site, MANY, disk, rate)?;
        if has_holes {
            load::fill(&cluster.target(1, Transport::Unix)?)?;
        }
        let mut points = Vec::new();
        for (nodes, begin) in groups.iter().zip(begins) {
            for (mode, _) in MODES {
                let file = |round: usize, client: usize| {
                    let begin = FILE * (begin + round * nodes.len() + client) as u64;
                    Options {
                        mode,
                        access: Access::Scan,
                        block: REQUEST,
                        depth: FILE_DEPTH,
                        duration: LONGEST,
                        range: begin..begin + FILE,
                        ..Options::default()
                    }
                };
                points.push(rounds(&cluster, nodes, effort, file)?);
            }
        }
        Ok(points)
    };
    let server = points(plain(site, "server.raw", volume)?, false)?;
    let mut rows = Vec::new();
    for (layout, bars) in [("raid1", [0.9; 2]), ("raid10", PAPER)] {
        let ours = points(Medium::Array(layout, volume), true)?;
        for (number, (server, ours)) in server.iter().zip(ours).enumerate() {
            let (count, (_, mode)) = (groups[number / MODES.len()].len(), MODES[number % MODES.len()]);
            let bar = bars[number % MODES.len()];
            rows.push(row(format!("{layout}, {count} clients, stream {mode}"), *server, 1, ours, bar));
        }
    }
    Ok(rows)
}

/// The results as a table.
pub fn format(rows: &[Row], style: Style) -> String {
    let head = ["volume and load", "plain disks", "volume", "ratio", "bar", "CPU us/MiB plain", "volume"];
    let line = |row: &Row| {
        let cpu = |us: Option<f64>| us.map_or_else(|| "-".to_owned(), micros);
        vec![
            row.name.clone(),
            format!("{} x {}", row.disks, format_rate(row.plain.bytes_per_s)),
            format_rate(row.ours.bytes_per_s),
            ratio(Some(row.ratio)),
            row.bar.judge(Some(row.ratio)),
            cpu(row.plain.cpu_us),
            cpu(row.ours.cpu_us),
        ]
    };
    table(&head, &rows.iter().map(line).collect::<Vec<_>>(), style)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_of_all_plain_disks() {
        let point = |bytes_per_s| Point { bytes_per_s, cpu_us: None };
        let row = row("raid0".to_owned(), point(10e6), 4, point(38e6), 0.9);
        assert!((row.ratio - 0.95).abs() < 1e-9);
        let text = format(&[row], Style::Plain);
        assert!(text.contains("0.95x") && text.contains(">= 0.9 met"), "{text}");
    }
}
