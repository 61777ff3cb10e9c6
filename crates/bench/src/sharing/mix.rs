//! Reads at three nodes with one write in a hundred, beside reads alone, of a set that every cache holds.

use std::ops::Range;
use std::time::{Duration, Instant};

use super::client::Client;
use super::cluster;
use super::sample::{Case, Limit, Results, Sample};
use super::{BLOCK, Effort, Error, Site};
use crate::load::{self, Access, Options};
use crate::peers::{Cluster, ClusterOptions, Transport};
use crate::proc::cpu::Meter;
use crate::rng::Rng;
use crate::{content, interrupt};

const POLICIES: [&str; 2] = ["hscc", "rd"];
/// Clients of each node, with one request at a time.
const CLIENTS: usize = 4;
/// What is read and written.
const SET: Range<u64> = 0..16 << 20;
/// Of a hundred requests.
const WRITES: u64 = 1;
/// Of the throughput of reads alone.
const LEAST: f64 = 0.8;

fn name(policy: &str, writes: u64) -> String {
    match writes {
        0 => format!("reads at three nodes, {policy}"),
        _ => format!("reads and {writes} % writes at three nodes, {policy}"),
    }
}

pub(super) fn cases() -> Vec<Case> {
    let of = |policy: &str| {
        let base = name(policy, 0);
        let limits = vec![Limit::Rate(LEAST)];
        [
            Case { name: base.clone(), base: None, limits: Vec::new() },
            Case { name: name(policy, WRITES), base: Some(base), limits },
        ]
    };
    POLICIES.into_iter().flat_map(of).collect()
}

pub(super) fn measure(
    site: &Site,
    effort: &Effort,
    round: usize,
    results: &mut Results,
) -> Result<(), Error> {
    for policy in POLICIES {
        let options = cluster::options(site, "disk-shared.raw")?;
        let cluster = cluster::start(site, &ClusterOptions { policy, ..options })?;
        let shares = if round.is_multiple_of(2) { [0, WRITES] } else { [WRITES, 0] };
        for writes in shares {
            warm(&cluster)?;
            results.add(&name(policy, writes), run(&cluster, effort, writes))?;
        }
    }
    Ok(())
}

/// Every node has the whole set.
fn warm(cluster: &Cluster) -> Result<(), Error> {
    for node in 1..=3 {
        let duration = Duration::from_secs(60);
        let all = Options { access: Access::Scan, block: BLOCK, duration, range: SET, ..Options::default() };
        load::run(&cluster.target(node, Transport::Unix)?, &all)?;
    }
    Ok(())
}

fn run(cluster: &Cluster, effort: &Effort, writes: u64) -> Result<Sample, Error> {
    let mut clients = Vec::new();
    for node in 1..=3 {
        for _ in 0..CLIENTS {
            clients.push(Client::open(&cluster.target(node, Transport::Unix)?, BLOCK as usize)?);
        }
    }
    let before = cluster.counters()?;
    let mut meter = Meter::start(cluster.pids());
    let (start, count) = (Instant::now(), clients.len());
    let end = start + effort.duration;
    let done: Vec<Result<u64, Error>> = std::thread::scope(|scope| {
        let seeded = clients.into_iter().zip(effort.seed << 8..);
        let threads: Vec<_> =
            seeded.map(|(client, seed)| scope.spawn(move || requests(client, seed, writes, end))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a client panics on nothing")).collect()
    });
    let seconds = start.elapsed().as_secs_f64();
    meter.sample();
    let requests = done.into_iter().sum::<Result<u64, Error>>()?;
    let mean_us = seconds * 1e6 * count as f64 / requests.max(1) as f64;
    let sample = Sample::new(requests, seconds, mean_us, Some(meter.used_ns()));
    Ok(sample.counted(requests, &before, &cluster.counters()?))
}

/// One client's requests until `end`. Everybody writes the test disk's content, so what is read can be checked.
fn requests(mut client: Client, seed: u64, writes: u64, end: Instant) -> Result<u64, Error> {
    let mut rng = Rng::new(seed);
    let mut done = 0;
    while Instant::now() < end {
        interrupt::check()?;
        let offset = SET.start + rng.below((SET.end - SET.start) / u64::from(BLOCK)) * u64::from(BLOCK);
        if rng.below(100) < writes {
            client.write_content(offset)?;
        } else {
            let is_same = content::matches(offset, client.read(offset)?);
            if !is_same {
                return Err(client.wrong_content(offset));
            }
        }
        done += 1;
    }
    Ok(done)
}
