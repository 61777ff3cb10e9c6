//! All servers under the same conditions in the same minute.

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::load::{self, Mode, Options, Outcome};
use crate::peers::{Peer, Server, Site, Transport};
use crate::rng::Rng;
use crate::stats::{median, median_ratio};
use crate::suite::{Cell, Client, Filter};
use crate::{Error, fio};

/// What ratios are against.
pub const BASE: Peer = Peer::NbdkitMemory;

/// How long and how often.
#[derive(Debug, Clone)]
pub struct Effort {
    /// How long each server is loaded in each round.
    pub duration: Duration,
    /// Rounds per cell; the median counts.
    pub rounds: usize,
    /// No cell is started after this.
    pub deadline: Instant,
    /// Determines the order of servers and the offsets.
    pub seed: u64,
}

/// The whole comparison.
#[derive(Debug, Default, Serialize)]
pub struct Comparison {
    /// What was measured.
    pub cells: Vec<CellResult>,
    /// Servers that were left out, with the reason.
    pub skipped: Vec<Skipped>,
    /// Cells that were not measured because the time was over.
    pub not_run: Vec<String>,
}

/// A server that was left out.
#[derive(Debug, Serialize)]
pub struct Skipped {
    /// Which server, or which cell of it.
    pub what: String,
    /// Why.
    pub reason: String,
    /// It is there but did not work, which is a result; otherwise it is only not installed.
    pub is_failure: bool,
}

impl Skipped {
    /// Notes that `what` is missing from the results because of `error`.
    pub fn new(what: String, error: &Error) -> Skipped {
        let is_failure = !matches!(error, Error::MissingTool { .. });
        Skipped { what, reason: error.to_string(), is_failure }
    }
}

/// One cell.
#[derive(Debug, Serialize)]
pub struct CellResult {
    /// The conditions.
    pub cell: Cell,
    /// One row per server that answered.
    pub rows: Vec<Row>,
}

/// One server in one cell: medians over the rounds.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// Which server.
    pub peer: Peer,
    /// Requests per second.
    pub iops: f64,
    /// Bytes per second.
    pub bytes_per_s: f64,
    /// Mean latency in microseconds.
    pub mean_us: f64,
    /// 99th percentile of latency in microseconds.
    pub p99_us: f64,
    /// Server CPU per request in microseconds.
    pub cpu_us: Option<f64>,
    /// Requests per second against [`BASE`]; above 1 is better.
    pub iops_ratio: Option<f64>,
    /// Server CPU per request against [`BASE`]; below 1 is better.
    pub cpu_ratio: Option<f64>,
}

/// Measures the chosen cells, telling each result to `progress` as it is known.
pub fn run(
    site: &Site,
    filter: &Filter,
    effort: &Effort,
    mut progress: impl FnMut(&CellResult),
) -> Result<Comparison, Error> {
    let mut result = Comparison::default();
    let mut cells = filter.cells();
    if cells.iter().any(|cell| cell.client == Client::Fio) && crate::proc::child::find_tool("fio").is_none() {
        result.skipped.push(Skipped::new("all loads by fio".to_owned(), &fio::missing()));
        cells.retain(|cell| cell.client != Client::Fio);
    }
    for transport in [Transport::Unix, Transport::Tcp] {
        let here: Vec<Cell> = cells.iter().copied().filter(|cell| cell.transport == transport).collect();
        if here.is_empty() {
            continue;
        }
        let servers = start_all(site, transport, &filter.peers(), &mut result.skipped)?;
        for cell in here {
            if Instant::now() >= effort.deadline {
                result.not_run.push(cell.name());
                continue;
            }
            let measured = measure(site, cell, &servers, effort, &mut result.skipped)?;
            progress(&measured);
            result.cells.push(measured);
        }
        drop(servers);
        // fio's writes left its own data behind; the next servers prove their content again.
        for image in ["disk.raw", "disk-cards.raw"] {
            let _ = std::fs::remove_file(site.path(image));
        }
    }
    Ok(result)
}

fn start_all(
    site: &Site,
    transport: Transport,
    peers: &[Peer],
    skipped: &mut Vec<Skipped>,
) -> Result<Vec<Server>, Error> {
    let mut servers = Vec::new();
    for &peer in peers {
        match Server::start(peer, site, transport) {
            Ok(server) => servers.push(server),
            Err(Error::Interrupted) => return Err(Error::Interrupted),
            Err(error) => {
                let what = format!("{} over {}", peer.name(), transport.name());
                skipped.push(Skipped::new(what, &error));
            }
        }
    }
    Ok(servers)
}

fn measure(
    site: &Site,
    cell: Cell,
    servers: &[Server],
    effort: &Effort,
    skipped: &mut Vec<Skipped>,
) -> Result<CellResult, Error> {
    let mut rng = Rng::new(effort.seed);
    let mut outcomes: Vec<Vec<Option<Outcome>>> = vec![Vec::new(); servers.len()];
    for round in 0..effort.rounds {
        let mut order: Vec<usize> = (0..servers.len()).collect();
        rng.shuffle(&mut order);
        for index in order {
            let server = &servers[index];
            let options = options(site, &cell, effort, round);
            let outcome = match cell.client {
                Client::Own => load::run(&server.target, &options),
                Client::Fio => fio::run(&server.target, &options, site.client_core(), site.dir.path()),
            };
            outcomes[index].push(match outcome {
                Ok(outcome) => Some(outcome),
                Err(Error::Interrupted) => return Err(Error::Interrupted),
                Err(error) => {
                    let what = format!("{} in {}, round {}", server.peer.name(), cell.name(), round + 1);
                    skipped.push(Skipped::new(what, &error));
                    None
                }
            });
        }
    }
    let peers: Vec<Peer> = servers.iter().map(|server| server.peer).collect();
    Ok(CellResult { cell, rows: rows(&peers, &outcomes) })
}

fn options(site: &Site, cell: &Cell, effort: &Effort, round: usize) -> Options {
    let Cell { load, client, connections, .. } = *cell;
    Options {
        mode: load.mode,
        access: load.access,
        block: load.block,
        depth: load.depth,
        connections,
        duration: effort.duration,
        range: match (client, load.mode) {
            // fio needs to know the size; its writes spoil the content only of the second half.
            (Client::Fio, Mode::Write) => site.size / 2..site.size,
            (Client::Fio, Mode::Read) | (Client::Own, _) => 0..site.size,
        },
        seed: effort.seed + round as u64,
        ..Options::default()
    }
}

fn rows(peers: &[Peer], outcomes: &[Vec<Option<Outcome>>]) -> Vec<Row> {
    let base = peers.iter().position(|&peer| peer == BASE);
    let column = |index: usize, value: fn(&Outcome) -> Option<f64>| -> Vec<Option<f64>> {
        outcomes[index].iter().map(|outcome| outcome.as_ref().and_then(value)).collect()
    };
    let middle = |index, value| median(&column(index, value).into_iter().flatten().collect::<Vec<_>>());
    let ratio = |index, value| median_ratio(&column(index, value), &column(base?, value));
    let row = |(index, &peer)| {
        Some(Row {
            peer,
            iops: middle(index, |o| Some(o.iops))?,
            bytes_per_s: middle(index, |o| Some(o.bytes_per_s))?,
            mean_us: middle(index, |o| Some(o.latency.mean_us))?,
            p99_us: middle(index, |o| Some(o.latency.p99_us))?,
            cpu_us: middle(index, |o| o.server_cpu_us),
            iops_ratio: ratio(index, |o| Some(o.iops)),
            cpu_ratio: ratio(index, |o| o.server_cpu_us),
        })
    };
    peers.iter().enumerate().filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::LatencySummary;

    fn outcome(iops: f64, cpu_us: f64) -> Option<Outcome> {
        let latency = LatencySummary { mean_us: 1.0, p50_us: 1.0, p99_us: 2.0, max_us: 3.0 };
        let server_cpu_us = Some(cpu_us);
        Some(Outcome { requests: 1, iops, bytes_per_s: iops * 4096.0, latency, server_cpu_us, seconds: 1.0 })
    }

    #[test]
    fn ratios_are_medians_within_rounds() {
        let peers = [Peer::NbdkitMemory, Peer::Bare, Peer::Cards];
        let outcomes = [
            vec![outcome(100.0, 8.0), outcome(10.0, 8.0), outcome(50.0, 4.0)],
            vec![outcome(200.0, 4.0), outcome(30.0, 2.0), outcome(200.0, 4.0)],
            vec![None, None, None],
        ];
        let rows = rows(&peers, &outcomes);
        assert_eq!(rows.len(), 2, "a server without any result has no row");
        assert_eq!(rows[0].iops_ratio, Some(1.0));
        assert_eq!((rows[1].iops, rows[1].iops_ratio, rows[1].cpu_ratio), (200.0, Some(3.0), Some(0.5)));
    }

    #[test]
    fn without_the_base_there_are_no_ratios() {
        let rows = rows(&[Peer::Bare], &[vec![outcome(1.0, 1.0)]]);
        assert_eq!((rows[0].iops_ratio, rows[0].cpu_ratio), (None, None));
    }
}
