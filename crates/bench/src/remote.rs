//! What a remote hit costs against a bare request/response over the same transport.
//!
//! Node 2 holds the blocks, node 3 has a cold cache, the client reads each block once at node 3. That is
//! two round trips: client to node 3 (unix socket), node 3 to node 2 (TCP). The bare round trip (TCP) is
//! only the second, so both are printed: the whole remote hit, and what it adds to a local hit of the
//! same blocks at node 3. Node 2 runs on the server's core, node 3 beside the client, as the two ends of
//! the bare round trip do.

use std::process::Command;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::Error;
use crate::bare::pingpong;
use crate::compare::{Effort, Skipped};
use crate::load::{self, Access, Options, Outcome};
use crate::peers::{Cluster, ClusterOptions, Site, Transport, free_host};
use crate::proc::child::Guard;
use crate::report::{Style, micros, ratio, table};
use crate::size::{format_count, format_size};
use crate::stats::{median, median_ratio};

/// Block sizes compared.
const BLOCKS: [u32; 2] = [4 << 10, 64 << 10];
/// Queue depths compared.
const DEPTHS: [usize; 2] = [1, 32];

/// The comparison for one block size and queue depth: medians over the rounds.
#[derive(Debug, Serialize)]
pub struct RemoteRow {
    /// Bytes per request and per cached block.
    pub block: u32,
    /// Requests in flight.
    pub depth: usize,
    /// The bare round trip.
    pub bare: Point,
    /// A read that node 2's cache serves; absent without CARDs.
    pub remote: Option<Point>,
    /// The same read again, from node 3's own cache.
    pub local: Option<Point>,
    /// Remote hit / bare, mean latency, in the same round.
    pub ratio: Option<f64>,
    /// (Remote hit - local hit) / bare, mean latency, in the same round.
    pub added_ratio: Option<f64>,
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
    /// CPU of the answering processes per request in microseconds.
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

/// Measures all block sizes and depths.
pub fn run(site: &Site, effort: &Effort) -> Result<Remote, Error> {
    let mut result = Remote::default();
    for block in BLOCKS {
        let mut rounds: Vec<Vec<Round>> = DEPTHS.map(|_| Vec::new()).into();
        for _ in 0..effort.rounds {
            if Instant::now() >= effort.deadline {
                break;
            }
            let cluster = match warm_cluster(site, block) {
                Ok(cluster) => Some(cluster),
                Err(Error::Interrupted) => return Err(Error::Interrupted),
                Err(error) => {
                    note(
                        &mut result.skipped,
                        format!("remote hits of {}", format_size(block.into())),
                        &error,
                    );
                    None
                }
            };
            let host = free_host()?;
            let pong = start_pong(site, &host, block, effort.duration)?;
            for (index, &depth) in DEPTHS.iter().enumerate() {
                let bare = pingpong::run(&host, block, depth, effort.duration, &pong.roots())?;
                let mut round = Round { bare: Some(bare), ..Round::default() };
                if let Some(cluster) = &cluster {
                    match hits(site, cluster, block, index, effort.duration) {
                        Ok((remote, local)) => (round.remote, round.local) = (Some(remote), Some(local)),
                        Err(Error::Interrupted) => return Err(Error::Interrupted),
                        Err(error) => {
                            let what = format!("remote hits of {} QD{depth}", format_size(block.into()));
                            note(&mut result.skipped, what, &error);
                        }
                    }
                }
                rounds[index].push(round);
            }
        }
        for (rounds, &depth) in rounds.iter().zip(&DEPTHS) {
            result.rows.extend(row(block, depth, rounds));
        }
    }
    Ok(result)
}

/// The same reason once, not once per round.
fn note(skipped: &mut Vec<Skipped>, what: String, error: &Error) {
    if !skipped.iter().any(|known| known.what == what) {
        skipped.push(Skipped::new(what, error));
    }
}

/// Three nodes of which node 2 has read the whole disk.
fn warm_cluster(site: &Site, block: u32) -> Result<Cluster, Error> {
    let options = ClusterOptions {
        nodes: 3,
        cache: site.size + site.size / 4 + (64 << 20),
        block,
        policy: "hscc",
        replacement: None,
        read_ahead: "auto".to_owned(),
        disk: site.image("disk-cards.raw")?,
        disk_delay: Duration::ZERO,
        read_only: true,
        network_attached: false,
        data_threads: 1,
        insecure: false,
        prefault: false,
        handover: None,
        tcp: false,
    };
    let cluster = Cluster::start(site, &options)?;
    cluster.pin_beside_client(3, site)?;
    load::read_all(&cluster.target(2, Transport::Unix)?)?;
    Ok(cluster)
}

/// Starts the far end of a bare round trip that answers with blocks of `block` bytes.
pub(crate) fn start_pong(site: &Site, host: &str, block: u32, limit: Duration) -> Result<Guard, Error> {
    let program = std::env::current_exe().map_err(Error::io("finding this program"))?;
    let mut command = Command::new(program);
    command.args(["pong", "--listen", host, "--block", &block.to_string()]);
    let mut guard = Guard::spawn("ping-pong", command, site.server_core(), &site.path("pong.log"))?;
    guard.wait_for(limit + Duration::from_secs(10), || {
        pingpong::run(host, block, 1, Duration::ZERO, &[]).ok()
    })?;
    Ok(guard)
}

/// Reads a part of the disk at node 3 that no other depth touches: first remote, then local hits.
fn hits(
    site: &Site,
    cluster: &Cluster,
    block: u32,
    index: usize,
    duration: Duration,
) -> Result<(Outcome, Outcome), Error> {
    let target = cluster.target(3, Transport::Unix)?;
    // Depth 1 needs fewer blocks in the same time.
    let cut = site.size / 4;
    let range = if index == 0 { 0..cut } else { cut..site.size };
    let options =
        Options { access: Access::Once, block, depth: DEPTHS[index], duration, range, ..Options::default() };
    let remote = load::run(&target, &options)?;
    // The same seed gives the same order: at most the blocks that were just read are asked for again.
    let again = Options { duration: Duration::from_secs_f64(duration.as_secs_f64() / 4.0), ..options };
    Ok((remote, load::run(&target, &again)?))
}

fn row(block: u32, depth: usize, rounds: &[Round]) -> Option<RemoteRow> {
    type Get = fn(&Round) -> Option<&Outcome>;
    let (bare, remote, local): (Get, Get, Get) =
        (|r| r.bare.as_ref(), |r| r.remote.as_ref(), |r| r.local.as_ref());
    let point = |get: Get| {
        let middle = |value: fn(&Outcome) -> Option<f64>| {
            median(&rounds.iter().filter_map(|round| value(get(round)?)).collect::<Vec<_>>())
        };
        Some(Point {
            mean_us: middle(|o| Some(o.latency.mean_us))?,
            p99_us: middle(|o| Some(o.latency.p99_us))?,
            iops: middle(|o| Some(o.iops))?,
            cpu_us: middle(|o| o.server_cpu_us),
        })
    };
    let means = |get: Get| -> Vec<Option<f64>> {
        rounds.iter().map(|round| Some(get(round)?.latency.mean_us)).collect()
    };
    let added: Vec<Option<f64>> =
        means(remote).iter().zip(means(local)).map(|(remote, local)| Some((*remote)? - local?)).collect();
    Some(RemoteRow {
        block,
        depth,
        bare: point(bare)?,
        remote: point(remote),
        local: point(local),
        ratio: median_ratio(&means(remote), &means(bare)),
        added_ratio: median_ratio(&added, &means(bare)),
    })
}

/// The results as a table.
pub fn format(result: &Remote, style: Style) -> String {
    let head = ["read", "mean us", "p99 us", "IOPS", "CPU us/req", "/ bare", "(remote - local) / bare"];
    let mut rows = Vec::new();
    for row in &result.rows {
        let name = |kind| format!("{} QD{} {kind}", format_size(row.block.into()), row.depth);
        let line = |kind, point: &Point, ratios: [String; 2]| {
            let cpu = point.cpu_us.map_or_else(|| "-".to_owned(), micros);
            let [first, second] = ratios;
            vec![
                name(kind),
                micros(point.mean_us),
                micros(point.p99_us),
                format_count(point.iops),
                cpu,
                first,
                second,
            ]
        };
        rows.push(line("bare round trip", &row.bare, Default::default()));
        if let Some(remote) = &row.remote {
            rows.push(line("remote hit", remote, [ratio(row.ratio), ratio(row.added_ratio)]));
        }
        if let Some(local) = &row.local {
            rows.push(line("local hit", local, Default::default()));
        }
    }
    let mut out = table(&head, &rows, style);
    for skipped in &result.skipped {
        out += &format!("skipped: {}: {}\n", skipped.what, skipped.reason);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::LatencySummary;

    fn outcome(mean_us: f64) -> Option<Outcome> {
        let latency = LatencySummary { mean_us, p50_us: mean_us, p99_us: mean_us };
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
        let row = row(4096, 1, &rounds).unwrap();
        assert_eq!((row.ratio, row.added_ratio), (Some(3.0), Some(1.5)));
    }

    #[test]
    fn without_cards_the_bare_round_trip_remains() {
        let row = row(4096, 1, &[Round { bare: outcome(10.0), ..Round::default() }]).unwrap();
        assert!(row.remote.is_none() && row.ratio.is_none());
        let result = Remote { rows: vec![row], skipped: Vec::new() };
        assert!(format(&result, Style::Plain).contains("bare round trip"));
    }
}
