//! The curve of a sample against an exact replay of everything.

mod exact;
mod workloads;

use std::collections::HashSet;

use cards_advise::{Access, Curve, Limits, Rate, Reference, Sampler};
use cards_core::PgId;

use exact::Lru;
use workloads::Workload;

/// Blocks of the cache that is to be judged.
const CACHE: u64 = 16_384;
const FACTORS: [f64; 4] = [0.5, 1.0, 2.0, 4.0];
/// What a prediction may be off, as a share of all reads.
const ERROR: f64 = 0.02;

fn limits(references: usize, blocks: usize, scaled: u64) -> Limits {
    Limits { references, blocks, lowest: Rate::scaling(CACHE, scaled) }
}

/// Numbers of the volume: blocks of each are chosen by another hash.
const VOLUMES: [u32; 4] = [0, 1, 3, 9];

/// Samples a workload of one volume.
fn sampler(volume: u32, workload: &Workload, limits: Limits) -> Sampler {
    let mut sampler = Sampler::new(PgId(volume), Rate::scaling(CACHE, 4096), limits);
    for (time, &(block, write)) in workload.references.iter().enumerate() {
        let (access, reads, writes) = if write { (Access::Write, 0, 1) } else { (Access::Read, 1, 0) };
        sampler.refer(Reference { time_us: time as u64, block, access, reads, writes });
    }
    sampler
}

/// The largest error of the curve, of several hashes and at several sizes. Nine of ten are not larger than the doubt that is told,
/// and none is twice as large.
fn error(workload: &Workload, limits: Limits) -> f64 {
    let (mut largest, mut within, mut all): (f64, u32, u32) = (0.0, 0, 0);
    for volume in VOLUMES {
        let sample = sampler(volume, workload, limits).sample();
        let (begin, _) = sample.span_us().unwrap();
        let curve = Curve::of(&sample);
        for factor in FACTORS {
            let cache = (CACHE as f64 * factor) as u64;
            let (estimate, exact) = (curve.hit_ratio(cache).unwrap(), exact(workload, cache, begin));
            let (error, told) = ((estimate - exact).abs(), curve.doubt(cache).unwrap().error);
            println!(
                "{} x {factor}: estimate {estimate:.4}, exact {exact:.4}, doubt {told:.4}",
                workload.name
            );
            assert!(error < 2.0 * told, "{} x {factor}: {error:.4} off, {told:.4} told", workload.name);
            (largest, within, all) = (largest.max(error), within + u32::from(error <= told), all + 1);
        }
    }
    assert!(10 * within >= 9 * all, "{}: {within} of {all} within the doubt that is told", workload.name);
    largest
}

/// The share of reads from reference `begin` on that hit in an LRU cache which has seen all.
fn exact(workload: &Workload, cache: u64, begin: u64) -> f64 {
    let mut lru = Lru::new(cache as usize);
    let (mut reads, mut hits) = (0u64, 0u64);
    for (time, &(block, write)) in workload.references.iter().enumerate() {
        let hit = lru.refer(block);
        if time as u64 >= begin && !write {
            reads += 1;
            hits += u64::from(hit);
        }
    }
    hits as f64 / reads as f64
}

#[test]
fn the_curve_of_a_sample_is_within_two_points_of_an_exact_replay() {
    for workload in workloads::all() {
        let error = error(&workload, limits(1 << 17, 1 << 15, 1024));
        assert!(error < ERROR, "{}: {error:.3}", workload.name);
    }
}

#[test]
fn it_is_also_when_old_references_had_to_go() {
    for workload in [workloads::zipf(), workloads::loop_and_scan()] {
        let small = limits(1 << 15, 1 << 14, 1024);
        let sampler = sampler(VOLUMES[0], &workload, small);
        let sample = sampler.sample();
        let blocks: HashSet<u32> = sample.before.iter().copied().collect();
        assert!(sample.references.len() <= 1 << 15 && blocks.len() <= 1 << 14);
        let error = error(&workload, small);
        assert!(error < ERROR, "{}: {error:.3}", workload.name);
    }
}

#[test]
fn the_same_references_give_the_same_sample() {
    let workload = workloads::oltp();
    let small = limits(20_000, 5_000, 1024);
    assert_eq!(sampler(3, &workload, small).sample(), sampler(3, &workload, small).sample());
}
