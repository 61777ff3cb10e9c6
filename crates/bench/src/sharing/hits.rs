//! Without conflict: hits on a volume that may be written, beside hits on one that may not, and writes to a range that
//! the writer holds alone.

use std::ops::Range;
use std::time::Duration;

use super::cluster::{self, SHARERS, VOLUME_BYTES};
use super::sample::{Case, Limit, Results, Sample};
use super::{BLOCK, Effort, Error, Site};
use crate::load::{self, Access, Mode, Options};
use crate::peers::{Cluster, ClusterOptions, Transport};

/// Queue depths, and the part of the volume that node 3 reads for the first time at each. Depth 1 needs less.
const DEPTHS: [(usize, Range<u64>); 2] = [(1, 0..VOLUME_BYTES / 4), (32, VOLUME_BYTES / 4..VOLUME_BYTES)];

/// What is written: so much that the blocks differ, so little that it is soon held.
const WRITTEN: Range<u64> = 0..4 << 20;

/// A tenth more CPU time is within what one and the same load varies by from round to round.
const CPU_MOST: f64 = 1.1;

#[derive(Clone, Copy)]
enum Volume {
    /// Nobody can write it: no leases, no locks.
    ReadOnly,
    /// All three nodes may write it, and do not.
    Shared,
}

#[derive(Clone, Copy)]
enum Hit {
    Local,
    Remote,
}

fn name(hit: Hit, depth: usize, volume: Volume) -> String {
    let hit = match hit {
        Hit::Local => "local hit",
        Hit::Remote => "remote hit",
    };
    match volume {
        Volume::ReadOnly => format!("{hit}, depth {depth}, read-only volume"),
        Volume::Shared => format!("{hit}, depth {depth}, rw at three nodes"),
    }
}

fn write_name(depth: usize) -> String {
    format!("write to a range that is held, depth {depth}")
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for hit in [Hit::Local, Hit::Remote] {
        for (depth, _) in DEPTHS {
            let base = name(hit, depth, Volume::ReadOnly);
            cases.push(Case { name: base.clone(), base: None, limits: Vec::new() });
            let limits = vec![Limit::Locks(0.0), Limit::Cpu(CPU_MOST)];
            cases.push(Case { name: name(hit, depth, Volume::Shared), base: Some(base), limits });
        }
    }
    for (depth, _) in DEPTHS {
        let limits = vec![Limit::Locks(0.0), Limit::Messages(2.0)];
        cases.push(Case { name: write_name(depth), base: None, limits });
    }
    cases
}

pub(super) fn measure(
    site: &Site,
    effort: &Effort,
    round: usize,
    results: &mut Results,
) -> Result<(), Error> {
    let shared = cluster::options(site, "disk-shared.raw")?;
    let disk = cluster::options(site, "disk-read-only.raw")?.disk;
    let read_only = ClusterOptions { disk, read_only: true, ..shared.clone() };
    let mut clusters = [
        (Volume::ReadOnly, cluster::start(site, &read_only)?),
        (Volume::Shared, cluster::start(site, &shared)?),
    ];
    // Neither is always the first.
    clusters.rotate_left(round % 2);
    for (_, cluster) in &clusters {
        load::read_all(&cluster.target(SHARERS[0], Transport::Unix)?)?;
    }
    for (depth, range) in DEPTHS {
        for (volume, cluster) in &clusters {
            let remote = Options { access: Access::Once, range: range.clone(), ..reads(depth, effort) };
            results.add(&name(Hit::Remote, depth, *volume), run(cluster, SHARERS[1], &remote))?;
        }
        for (volume, cluster) in &clusters {
            let local = reads(depth, effort);
            results.add(&name(Hit::Local, depth, *volume), run(cluster, SHARERS[0], &local))?;
        }
    }
    for (volume, cluster) in &clusters {
        if let Volume::Shared = volume {
            writes(cluster, effort, results)?;
        }
    }
    Ok(())
}

/// The others have read what is written first; then nobody has it but the writer.
fn writes(cluster: &Cluster, effort: &Effort, results: &mut Results) -> Result<(), Error> {
    let write = Options { mode: Mode::Write, range: WRITTEN, ..reads(1, effort) };
    let all = Options { access: Access::Scan, depth: 32, duration: Duration::from_secs(60), ..write.clone() };
    load::run(&cluster.target(SHARERS[0], Transport::Unix)?, &all)?;
    for (depth, _) in DEPTHS {
        results.add(&write_name(depth), run(cluster, SHARERS[0], &Options { depth, ..write.clone() }))?;
    }
    Ok(())
}

fn reads(depth: usize, effort: &Effort) -> Options {
    Options { block: BLOCK, depth, duration: effort.duration, seed: effort.seed, ..Options::default() }
}

/// A load at a node, and what all nodes counted meanwhile.
fn run(cluster: &Cluster, node: usize, options: &Options) -> Result<Sample, Error> {
    let before = cluster.counters()?;
    let outcome = load::run(&cluster.target(node, Transport::Unix)?, options)?;
    Ok(Sample::of(&outcome).counted(outcome.requests, &before, &cluster.counters()?))
}
