//! The curve of a sample against an exact replay of everything.

mod exact;
mod workloads;

use cards_advise::{Access, Curve, Limits, Rate, Reference, Sampler};
use cards_core::VolumeId;

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

/// Samples a workload of one volume.
fn sampler(workload: &Workload, limits: Limits) -> Sampler {
    let mut sampler = Sampler::new(VolumeId(3), Rate::scaling(CACHE, 4096), limits);
    for (time, &(block, write)) in workload.references.iter().enumerate() {
        let (access, reads, writes) = if write { (Access::Write, 0, 1) } else { (Access::Read, 1, 0) };
        sampler.refer(Reference { time_us: time as u64, block, access, reads, writes });
    }
    sampler
}

/// The largest error of the curve, at several sizes.
fn error(workload: &Workload, limits: Limits) -> f64 {
    let sample = sampler(workload, limits).sample();
    let (begin, _) = sample.span_us().unwrap();
    let curve = Curve::of(&sample);
    let errors = FACTORS.map(|factor| {
        let cache = (CACHE as f64 * factor) as u64;
        let (estimate, exact) = (curve.hit_ratio(cache).unwrap(), exact(workload, cache, begin));
        println!("{} x {factor}: estimate {estimate:.3}, exact {exact:.3}", workload.name);
        (estimate - exact).abs()
    });
    errors.into_iter().fold(0.0, f64::max)
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
        let sampler = sampler(&workload, small);
        let sample = sampler.sample();
        assert!(sample.references.len() <= 1 << 15 && sample.before.len() <= 1 << 14);
        let error = error(&workload, small);
        assert!(error < ERROR, "{}: {error:.3}", workload.name);
    }
}

#[test]
fn the_same_references_give_the_same_sample() {
    let workload = workloads::oltp();
    let small = limits(20_000, 5_000, 1024);
    assert_eq!(sampler(&workload, small).sample(), sampler(&workload, small).sample());
}
