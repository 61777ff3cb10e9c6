//! Random requests from all nodes, many at a time.

use cards_core::mix;
use cards_trace::Op;

use super::{Bench, setup};
use crate::engine::Engine;

const BLOCK: u64 = 8192;

/// What a run of random requests has come to.
#[derive(PartialEq, Debug)]
struct Outcome {
    counts: crate::engine::Counts,
    traffic: crate::model::Traffic,
    done: Vec<Option<cards_core::Instant>>,
}

fn run(policy: &str, seed: u64) -> Outcome {
    let mut bench = Bench::new(&setup(policy, 6, 8));
    let mut state = seed;
    let mut random = |below: u64| {
        state = mix(state);
        state % below
    };
    let extent = bench.engine.owners.extent_blocks();
    let (mut reads, mut writes) = (0, 0);
    for _ in 0..600 {
        let node = random(6) as u16;
        // A few extents, so that all servers have something, and few blocks of each.
        let offset = (random(9) * extent + random(12)) * BLOCK + random(3) * 3000;
        let bytes = 1 + random(4 * BLOCK) as u32;
        let blocks = (offset + u64::from(bytes)).div_ceil(BLOCK) - offset / BLOCK;
        match random(20) {
            0..10 => {
                reads += blocks;
                bench.submit(node, Op::Read, offset, bytes);
            }
            10..17 => {
                writes += blocks;
                bench.submit(node, Op::Write, offset, bytes);
            }
            17 => {
                bench.submit(node, Op::Trim, offset, bytes);
            }
            18 => {
                bench.submit(node, Op::Open, offset, bytes);
            }
            _ => bench.settle(),
        }
        for _ in 0..random(12) {
            if !bench.engine.is_idle() {
                bench.step();
            }
        }
        bench.engine.check(bench.kernel.now());
    }
    bench.settle();
    let counts = bench.engine.counts();
    assert_eq!(counts.local_hits + counts.remote_hits + counts.disk_reads, reads);
    assert_eq!(counts.writes, writes);
    let traffic = *bench.kernel.model.traffic();
    assert_eq!(
        counts.disk_reads + counts.write_fills,
        traffic.disk_reads,
        "every read of a disk is for somebody"
    );
    Outcome { counts, traffic, done: bench.done }
}

const POLICIES: [&str; 8] = [
    "paca",
    "paca level=C clean=written",
    "pafs",
    "pafs repartition=not-limited interval=1 lose=100 tip=50",
    "pafs repartition=limited interval=1 lose=50 level=B servers=3",
    "pafs interval=1 lose=50 syncer=1",
    "pafs interval=1 lose=50 syncer=1 level=B tip=100 clean=written",
    "pafs interval=1 lose=50 syncer=1 level=C line=3",
];

/// Hits and misses are all reads, partitions are all buffers, and every request ends, whatever is going on at once.
#[test]
fn nothing_is_lost_or_counted_twice() {
    for policy in POLICIES {
        for seed in 0..2 {
            let outcome = run(policy, seed);
            assert!(outcome.done.iter().all(Option::is_some), "{policy}");
            assert!(outcome.counts.evictions > 0 && outcome.counts.dirty_evictions > 0, "{policy}");
        }
    }
}

#[test]
fn the_same_requests_have_the_same_outcome() {
    for policy in POLICIES {
        assert_eq!(run(policy, 7), run(policy, 7), "{policy}");
    }
}
