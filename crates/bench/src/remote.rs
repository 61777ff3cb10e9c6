//! What a remote hit costs against a bare request/response over the same transport.
//!
//! Node 2 holds the blocks, node 3 has a cold cache, the client reads each block once at node 3. That is
//! two round trips: client to node 3 (unix socket), node 3 to node 2 (TCP). The bare round trip (TCP) is
//! only the second, under TLS where the nodes' is, so both are printed: the whole remote hit, and what it adds to a local hit of the
//! same blocks at node 3 (*less local*). Node 2 runs on the server's core, node 3 beside the client, as the two ends of
//! the bare round trip do.

use std::process::Command;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::Error;
use crate::bare::pingpong;
use crate::bare::tls::Identity;
use crate::compare::{Effort, Skipped};
use crate::load::{self, Access, Options, Outcome, Target};
use crate::peers::{Cluster, Site, Transport, free_host};
use crate::proc::child::Guard;
use crate::report::{Style, micros, ratio, table};
use crate::size::format_size;
use crate::stats::{median, median_ratio};
use crate::warm::{self, Cell, Kind};

const CELLS: [Cell; 5] = [
    Cell { block: 4 << 10, request: 4 << 10, depth: 1, access: Access::Once, part: (0, 1) },
    Cell { block: 4 << 10, request: 4 << 10, depth: 32, access: Access::Once, part: (1, 3) },
    Cell { block: 4 << 10, request: 64 << 10, depth: 32, access: Access::Once, part: (3, 4) },
    Cell { block: 64 << 10, request: 64 << 10, depth: 32, access: Access::Once, part: (0, 2) },
    Cell { block: 64 << 10, request: 128 << 10, depth: 8, access: Access::Scan, part: (2, 4) },
];

/// The comparison of one cell over one transport: medians over the rounds.
#[derive(Debug, Serialize)]
pub struct RemoteRow {
    /// What was read, and how both ends of the bare round trip talk.
    #[serde(flatten)]
    pub kind: Kind,
    /// The bare round trip.
    pub bare: Point,
    /// A read that node 2's cache serves; absent without CARDs.
    pub remote: Option<Point>,
    /// The same read again, from node 3's own cache.
    pub local: Option<Point>,
    /// Remote hit / bare, in the same round.
    pub ratio: Ratios,
    /// (Remote hit - local hit) / bare, in the same round.
    pub added: Ratios,
}

/// Medians of ratios within rounds.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Ratios {
    /// Of mean latencies.
    pub latency: Option<f64>,
    /// Of processor times.
    pub cpu: Option<f64>,
    /// Of rates; none where a rate is added to nothing.
    pub rate: Option<f64>,
}

/// One measured kind of read.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Point {
    /// Mean latency in microseconds.
    pub mean_us: f64,
    /// 99th percentile in microseconds.
    pub p99_us: f64,
    /// Requests per second.
    pub iops: f64,
    /// Microseconds of processor time per request: of both ends of the bare round trip, of nodes 2 and 3 for a remote hit, of
    /// node 3 for a local one.
    pub cpu_us: Option<f64>,
}

/// The results, and why CARDs is missing from them if it is.
#[derive(Debug, Default, Serialize)]
pub struct Remote {
    /// One row per block size and depth.
    pub rows: Vec<RemoteRow>,
    /// What could not be measured.
    pub skipped: Vec<Skipped>,
}

/// One round of one cell.
#[derive(Default)]
struct Round {
    bare: Option<Outcome>,
    remote: Option<Outcome>,
    local: Option<Outcome>,
}

/// Measures all cells, encrypted and in the clear.
pub fn run(site: &Site, effort: &Effort) -> Result<Remote, Error> {
    let mut result = Remote::default();
    for insecure in [false, true] {
        let mut rounds: Vec<Vec<Round>> = CELLS.iter().map(|_| Vec::new()).collect();
        for _ in 0..effort.rounds {
            for block in [4 << 10, 64 << 10] {
                if Instant::now() >= effort.deadline {
                    break;
                }
                let cells = CELLS.iter().zip(&mut rounds).filter(|(cell, _)| cell.block == block);
                round(site, effort, insecure, block, cells, &mut result.skipped)?;
            }
        }
        result
            .rows
            .extend(CELLS.iter().zip(&rounds).filter_map(|(cell, rounds)| row(cell, insecure, rounds)));
    }
    Ok(result)
}

/// One round of the cells of one block size, which share a cluster.
fn round<'a>(
    site: &Site,
    effort: &Effort,
    insecure: bool,
    block: u32,
    cells: impl Iterator<Item = (&'a Cell, &'a mut Vec<Round>)>,
    skipped: &mut Vec<Skipped>,
) -> Result<(), Error> {
    let mut or_skip = |what: String, error: Error| match error {
        Error::Interrupted => Err(error),
        error => {
            note(skipped, what, &error);
            Ok(())
        }
    };
    let warm = warm::options(site, block, insecure)
        .and_then(|options| warm::cluster(site, site.cards.as_deref(), &options));
    let cluster = match warm {
        Ok(cluster) => Some(cluster),
        Err(error) => {
            or_skip(format!("remote hits of {}", format_size(block.into())), error)?;
            None
        }
    };
    let identity =
        (!insecure).then(Identity::generate).transpose().map_err(Error::io("making a certificate"))?;
    let identity = identity.as_ref();
    for (cell, rounds) in cells {
        let host = free_host()?;
        let pong = start_pong(site, &host, cell.request, effort.duration, identity)?;
        let bare = pingpong::run(&host, cell.request, cell.depth, effort.duration, &pong.roots(), identity)?;
        let mut round = Round { bare: Some(bare), ..Round::default() };
        if let Some(cluster) = &cluster {
            match hits(site, cluster, cell, effort.duration) {
                Ok((remote, local)) => (round.remote, round.local) = (Some(remote), Some(local)),
                Err(error) => or_skip(cell.kind(insecure).title(), error)?,
            }
        }
        rounds.push(round);
    }
    Ok(())
}

/// The same reason once, not once per round.
fn note(skipped: &mut Vec<Skipped>, what: String, error: &Error) {
    if !skipped.iter().any(|known| known.what == what) {
        skipped.push(Skipped::new(what, error));
    }
}

/// Starts the far end of a bare round trip that answers with blocks of `block` bytes; with an identity, under TLS.
pub(crate) fn start_pong(
    site: &Site,
    host: &str,
    block: u32,
    limit: Duration,
    identity: Option<&Identity>,
) -> Result<Guard, Error> {
    let program = std::env::current_exe().map_err(Error::io("finding this program"))?;
    let mut command = Command::new(program);
    command.args(["pong", "--listen", host, "--block", &block.to_string()]);
    if let Some(identity) = identity {
        let dir = site.dir.path();
        identity.write(dir).map_err(Error::io("writing a certificate"))?;
        command.arg("--identity").arg(dir);
    }
    let mut guard = Guard::spawn("ping-pong", command, site.server_core(), &site.path("pong.log"))?;
    guard.wait_for(limit + Duration::from_secs(10), || {
        pingpong::run(host, block, 1, Duration::ZERO, &[], identity).ok()
    })?;
    Ok(guard)
}

/// Reads a part of the disk at node 3 that no other cell touches: first remote, then local hits.
fn hits(
    site: &Site,
    cluster: &Cluster,
    cell: &Cell,
    duration: Duration,
) -> Result<(Outcome, Outcome), Error> {
    let target = cluster.target(3, Transport::Unix)?;
    let both = Target { pids: cluster.pids()[1..].to_vec(), ..target.clone() };
    let only = Target { pids: cluster.pids()[2..].to_vec(), ..target };
    let options = cell.options(site, duration);
    let remote = load::run(&both, &options)?;
    // The same seed gives the same order: at most the blocks that were just read are asked for again.
    let again = Options { duration: Duration::from_secs_f64(duration.as_secs_f64() / 4.0), ..options };
    Ok((remote, load::run(&only, &again)?))
}

fn row(cell: &Cell, insecure: bool, rounds: &[Round]) -> Option<RemoteRow> {
    type Get = fn(&Round) -> Option<&Outcome>;
    type Value = fn(&Outcome) -> Option<f64>;
    const MEAN: Value = |o| Some(o.latency.mean_us);
    const CPU: Value = |o| o.server_cpu_us;
    const RATE: Value = |o| Some(o.bytes_per_s);
    let (bare, remote, local): (Get, Get, Get) =
        (|r| r.bare.as_ref(), |r| r.remote.as_ref(), |r| r.local.as_ref());
    let point = |get: Get| {
        let middle =
            |value: Value| median(&rounds.iter().filter_map(|round| value(get(round)?)).collect::<Vec<_>>());
        Some(Point {
            mean_us: middle(MEAN)?,
            p99_us: middle(|o| Some(o.latency.p99_us))?,
            iops: middle(|o| Some(o.iops))?,
            cpu_us: middle(CPU),
        })
    };
    let values = |get: Get, value: Value| -> Vec<Option<f64>> {
        rounds.iter().map(|round| value(get(round)?)).collect()
    };
    let ratio = |value: Value| median_ratio(&values(remote, value), &values(bare, value));
    let added = |value: Value| {
        let (remote, local) = (values(remote, value), values(local, value));
        let added: Vec<Option<f64>> =
            remote.iter().zip(local).map(|(remote, local)| Some((*remote)? - local?)).collect();
        median_ratio(&added, &values(bare, value))
    };
    Some(RemoteRow {
        kind: cell.kind(insecure),
        bare: point(bare)?,
        remote: point(remote),
        local: point(local),
        ratio: Ratios { latency: ratio(MEAN), cpu: ratio(CPU), rate: ratio(RATE) },
        added: Ratios { latency: added(MEAN), cpu: added(CPU), rate: None },
    })
}

/// The results as a table.
pub fn format(result: &Remote, style: Style) -> String {
    let head = [
        "read",
        "us: bare",
        "remote",
        "local",
        "CPU us: bare",
        "remote",
        "local",
        "us / bare",
        "less local",
        "CPU / bare",
        "less local",
        "rate / bare",
    ];
    let lines: Vec<Vec<String>> = result.rows.iter().map(line).collect();
    let mut out = table(&head, &lines, style);
    for skipped in &result.skipped {
        out += &format!("skipped: {}: {}\n", skipped.what, skipped.reason);
    }
    out
}

fn line(row: &RemoteRow) -> Vec<String> {
    let or_none = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), micros);
    let points = [Some(row.bare), row.remote, row.local];
    let mut line = vec![row.kind.title()];
    line.extend(points.map(|point| or_none(point.map(|p| p.mean_us))));
    line.extend(points.map(|point| or_none(point.and_then(|p| p.cpu_us))));
    let (of, added) = (row.ratio, row.added);
    line.extend([of.latency, added.latency, of.cpu, added.cpu, of.rate].map(ratio));
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::LatencySummary;

    fn outcome(mean_us: f64) -> Option<Outcome> {
        let latency = LatencySummary { mean_us, p50_us: mean_us, p99_us: mean_us, max_us: mean_us };
        Some(Outcome { requests: 1, iops: 1.0, bytes_per_s: 1.0, latency, server_cpu_us: None, seconds: 1.0 })
    }

    #[test]
    fn ratios_compare_within_the_round() {
        let rounds = [(10.0, 30.0, 20.0), (20.0, 60.0, 30.0), (10.0, 40.0, 20.0)];
        let rounds = rounds.map(|(bare, remote, local)| Round {
            bare: outcome(bare),
            remote: outcome(remote),
            local: outcome(local),
        });
        let row = row(&CELLS[0], true, &rounds).unwrap();
        assert_eq!((row.ratio.latency, row.added.latency), (Some(3.0), Some(1.5)));
    }

    #[test]
    fn without_cards_the_bare_round_trip_remains() {
        let row = row(&CELLS[0], false, &[Round { bare: outcome(10.0), ..Round::default() }]).unwrap();
        assert!(row.remote.is_none() && row.ratio.latency.is_none());
        let result = Remote { rows: vec![row], skipped: Vec::new() };
        assert!(format(&result, Style::Plain).contains("TLS: remote hit 4K QD1"));
    }
}
