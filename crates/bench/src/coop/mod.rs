//! The cooperative effect on real processes: figures 2 to 5 of the CARDs paper (sections 5.2 and 5.3).
//!
//! Three nodes, node 1 with a modelled slow disk, nobody writes. Node 2 reads the whole volume (the paper's
//! warm-up, which is also its run on a cold cache), then node 3 reads it and is measured. The volumes have the
//! paper's six sizes in proportion to one cache of 240 MB; all caches are equal here, where the paper's other
//! two were 225 MB. Its reader was `find -exec grep`, one request at a time and the kernel's read-ahead; here
//! it is one sequential read at a time and the cards' read-ahead, without grep's CPU time. So hit ratios
//! compare with the paper's, and of the run times only their order.
//!
//! Read-ahead is not scaled: with small caches the adaptive window is a large part of one, while the paper's
//! 31 pages were nothing beside 240 MB. `--read-ahead 128K` has the paper's window.

mod claims;
mod format;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::compare::{Effort, Skipped};
use crate::load::{self, Access, Options, Target};
use crate::peers::{Cluster, ClusterOptions, Counters, Site, Transport};
use crate::stats::{median, median_ratio};
use crate::{Error, content};

pub use claims::Claim;
pub use format::format;

/// The paper's volumes in MB.
const PAPER_VOLUMES_MB: [u32; 6] = [310, 420, 490, 571, 681, 741];
/// The paper's largest cache in MB, that of the disk node.
const PAPER_CACHE_MB: u32 = 240;
/// The unit of caching and of requests.
const BLOCK: u32 = 64 << 10;
/// A remote disk without cooperation: what speed-ups are against.
const BASE: &str = "rd";
/// The paper's comparison partner.
const HDC: &str = "hdc";
/// The product's setting of HSCC and the one that is nearest to the paper's.
const HSCC: [&str; 2] = ["hscc", "hscc load=home room=dup"];

/// What to measure.
#[derive(Debug, Clone)]
pub struct CoopOptions {
    /// Volumes and caches as a share of the paper's.
    pub scale: f64,
    /// Added to each disk read: a modelled slow disk.
    pub disk_delay: Duration,
    /// How far sequential reads run ahead: `auto`, `off` or a size.
    pub read_ahead: String,
}

impl CoopOptions {
    /// The smallest and largest [`CoopOptions::scale`]: at least 160 blocks per cache, at most the paper's sizes.
    pub const SCALES: std::ops::RangeInclusive<f64> = 0.04..=1.0;

    fn bytes(&self, paper_mb: u32) -> u64 {
        let blocks = f64::from(paper_mb) * self.scale * f64::from(1 << 20) / f64::from(BLOCK);
        blocks.round() as u64 * u64::from(BLOCK)
    }
}

/// Everything that was measured, and what the paper says about it.
#[derive(Debug, Serialize)]
pub struct Coop {
    /// Cache per node in bytes.
    pub cache: u64,
    /// Added to each disk read, in milliseconds.
    pub disk_delay_ms: f64,
    /// How far sequential reads ran ahead.
    pub read_ahead: String,
    /// One row per volume and policy: medians over the rounds.
    pub rows: Vec<CoopRow>,
    /// The paper's statements, checked.
    pub claims: Vec<Claim>,
    /// What could not be measured.
    pub skipped: Vec<Skipped>,
    /// Volumes that were not measured in all rounds because the time was over.
    pub not_run: Vec<String>,
}

/// One volume under one policy. Shares are of the blocks read at node 3 after node 2.
#[derive(Debug, Clone, Serialize)]
pub struct CoopRow {
    /// The paper's volume in MB.
    pub paper_mb: u32,
    /// The volume here, in bytes.
    pub size: u64,
    /// The policy.
    pub policy: &'static str,
    /// From node 3's own cache.
    pub local: f64,
    /// From another node's cache.
    pub remote: f64,
    /// From the disk.
    pub disk: f64,
    /// Evicted blocks that node 3 stored for others meanwhile.
    pub stored: f64,
    /// Evicted blocks that all nodes forwarded meanwhile.
    pub forwarded: f64,
    /// Seconds to read the volume at node 2, all caches being empty.
    pub cold_s: f64,
    /// Seconds to read it at node 3 after that.
    pub warm_s: f64,
    /// Time of a cold remote disk / cold time, in the same round.
    pub cold_speedup: Option<f64>,
    /// Time of the remote disk's second reader / warm time, in the same round.
    pub warm_speedup: Option<f64>,
    /// Requests of all nodes in both readings that were repeated for want of an answer; each cost a time-out.
    pub retries: f64,
}

impl CoopRow {
    /// The share that needed no disk.
    pub fn hits(&self) -> f64 {
        self.local + self.remote
    }
}

/// One policy in one round.
#[derive(Debug, Clone, Copy)]
struct Sample {
    /// What node 3 counted while it was measured.
    node3: Counters,
    forwarded: u64,
    retries: u64,
    cold_s: f64,
    warm_s: f64,
}

fn policies() -> [&'static str; 4] {
    [BASE, HSCC[0], HSCC[1], HDC]
}

/// Measures all volumes and policies.
///
/// # Errors
/// [`Error::MissingTool`] without the `cards` program. What fails later is noted as skipped.
pub fn run(site: &Site, options: &CoopOptions, effort: &Effort) -> Result<Coop, Error> {
    let mut coop = Coop {
        cache: options.bytes(PAPER_CACHE_MB),
        disk_delay_ms: options.disk_delay.as_secs_f64() * 1e3,
        read_ahead: options.read_ahead.clone(),
        rows: Vec::new(),
        claims: Vec::new(),
        skipped: Vec::new(),
        not_run: Vec::new(),
    };
    let disk = site.path("disk-coop.raw");
    for paper_mb in PAPER_VOLUMES_MB {
        let mut rounds: Vec<[Option<Sample>; 4]> = Vec::new();
        for _ in 0..effort.rounds {
            if Instant::now() >= effort.deadline {
                coop.not_run.push(format!("{paper_mb} MB"));
                break;
            }
            if rounds.is_empty() {
                content::create_image(&disk, options.bytes(paper_mb))?;
            }
            let mut round = [None; 4];
            for (sample, policy) in round.iter_mut().zip(policies()) {
                match measure(site, options, policy, &disk) {
                    Ok(measured) => *sample = Some(measured),
                    Err(error @ (Error::Interrupted | Error::MissingTool { .. })) => return Err(error),
                    Err(error) => {
                        coop.skipped.push(Skipped::new(format!("{policy} with {paper_mb} MB"), &error))
                    }
                }
            }
            rounds.push(round);
        }
        coop.rows.extend(rows(paper_mb, options.bytes(paper_mb), &rounds));
    }
    coop.claims = claims::check(&coop.rows);
    Ok(coop)
}

fn measure(site: &Site, options: &CoopOptions, policy: &'static str, disk: &Path) -> Result<Sample, Error> {
    let cluster = Cluster::start(site, &cluster_options(options, policy, disk.to_owned()))?;
    // The disk node has the server's core for itself, as the far end of every other measurement.
    cluster.pin_beside_client(2, site)?;
    cluster.pin_beside_client(3, site)?;
    let cold_s = read(&cluster.target(2, Transport::Unix)?)?;
    let before = cluster.counters()?;
    let warm_s = read(&cluster.target(3, Transport::Unix)?)?;
    let after = cluster.counters()?;
    let meanwhile: Vec<Counters> =
        after.iter().zip(before).map(|(after, before)| after.since(before)).collect();
    let node3 = *meanwhile.get(2).ok_or_else(|| Error::Output {
        tool: "cards dev",
        reason: format!("3 nodes were asked for, {} answer", meanwhile.len()),
    })?;
    Ok(Sample {
        node3,
        forwarded: meanwhile.iter().map(|node| node.forwarded).sum(),
        retries: after.iter().map(|node| node.retries).sum(),
        cold_s,
        warm_s,
    })
}

fn cluster_options(options: &CoopOptions, policy: &'static str, disk: PathBuf) -> ClusterOptions {
    ClusterOptions {
        policy,
        // The paper's Linux replaced the least recently used.
        replacement: Some("lru"),
        read_ahead: options.read_ahead.clone(),
        disk_delay: options.disk_delay,
        read_only: true,
        ..ClusterOptions::new(3, options.bytes(PAPER_CACHE_MB), BLOCK, disk)
    }
}

/// Reads all of the volume in order, one block at a time, checks every byte, and returns the seconds it took.
fn read(target: &Target) -> Result<f64, Error> {
    let options = Options {
        access: Access::Scan,
        block: BLOCK,
        depth: 1,
        duration: Duration::from_secs(3600),
        verify: true,
        ..Options::default()
    };
    Ok(load::run(target, &options)?.seconds)
}

fn rows(paper_mb: u32, size: u64, rounds: &[[Option<Sample>; 4]]) -> Vec<CoopRow> {
    let of = |index: usize| -> Vec<Option<Sample>> { rounds.iter().map(|round| round[index]).collect() };
    let base = of(0);
    let policies = policies().into_iter().enumerate();
    policies.filter_map(|(index, policy)| row(paper_mb, size, policy, &of(index), &base)).collect()
}

/// The medians, or nothing if no round succeeded.
fn row(
    paper_mb: u32,
    size: u64,
    policy: &'static str,
    samples: &[Option<Sample>],
    base: &[Option<Sample>],
) -> Option<CoopRow> {
    let middle = |value: fn(&Sample) -> f64| median(&samples.iter().flatten().map(value).collect::<Vec<_>>());
    let share = |part: u64, counters: &Counters| part as f64 / counters.reads.max(1) as f64;
    let shares = |part: fn(&Counters) -> u64| {
        let node3 = samples.iter().flatten().map(|sample| &sample.node3);
        median(&node3.map(|counters| share(part(counters), counters)).collect::<Vec<_>>())
    };
    let speedup = |time: fn(&Sample) -> f64| {
        let times =
            |samples: &[Option<Sample>]| samples.iter().map(|s| s.as_ref().map(time)).collect::<Vec<_>>();
        median_ratio(&times(base), &times(samples))
    };
    Some(CoopRow {
        paper_mb,
        size,
        policy,
        local: shares(|counters| counters.local_hits)?,
        remote: shares(|counters| counters.remote_hits)?,
        disk: shares(|counters| counters.disk_reads)?,
        stored: middle(|sample| sample.node3.stored_for_others as f64)?,
        forwarded: middle(|sample| sample.forwarded as f64)?,
        cold_s: middle(|sample| sample.cold_s)?,
        warm_s: middle(|sample| sample.warm_s)?,
        cold_speedup: speedup(|sample| sample.cold_s),
        warm_speedup: speedup(|sample| sample.warm_s),
        retries: middle(|sample| sample.retries as f64)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(local_hits: u64, disk_reads: u64, cold_s: f64, warm_s: f64) -> Option<Sample> {
        let node3 =
            Counters { reads: local_hits + disk_reads, local_hits, disk_reads, ..Counters::default() };
        Some(Sample { node3, forwarded: 0, retries: 0, cold_s, warm_s })
    }

    #[test]
    fn volumes_keep_the_papers_proportions_in_whole_blocks() {
        let options = CoopOptions { scale: 0.1, disk_delay: Duration::ZERO, read_ahead: "auto".to_owned() };
        assert_eq!(options.bytes(PAPER_CACHE_MB), 24 << 20);
        for paper_mb in PAPER_VOLUMES_MB {
            let size = options.bytes(paper_mb);
            assert!(size.is_multiple_of(u64::from(BLOCK)));
            let ratio = size as f64 / options.bytes(PAPER_CACHE_MB) as f64;
            assert!((ratio - f64::from(paper_mb) / f64::from(PAPER_CACHE_MB)).abs() < 0.01, "{paper_mb}");
        }
    }

    #[test]
    fn speedups_compare_within_the_round() {
        let slow = [sample(0, 10, 4.0, 4.0), sample(0, 10, 40.0, 40.0), None, None];
        let rounds: Vec<[Option<Sample>; 4]> = vec![
            [slow[0], sample(5, 5, 4.0, 2.0), None, None],
            [slow[1], sample(7, 3, 40.0, 20.0), None, None],
        ];
        let rows = rows(310, 1 << 20, &rounds);
        let policies: Vec<&str> = rows.iter().map(|row| row.policy).collect();
        assert_eq!(policies, ["rd", "hscc"], "what was not measured has no row");
        assert_eq!((rows[1].cold_speedup, rows[1].warm_speedup), (Some(1.0), Some(2.0)));
        assert!((rows[1].hits() - 0.6).abs() < 1e-9 && (rows[1].disk - 0.4).abs() < 1e-9);
    }
}
