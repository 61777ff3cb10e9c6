//! What is in a trace: against answers by hand and by brute force.

use std::time::Duration;

use cards_trace::{Info, Op, Request, Source};
use proptest::prelude::*;

use crate::support::{List, request};

fn info(requests: &[Request], blocks_max: usize) -> Info {
    let mut source = List::boxed(requests.to_vec(), true);
    Info::read_sampled(&mut *source, 4096, blocks_max).unwrap()
}

#[test]
fn a_small_trace_is_counted() {
    let by = |node, volume, request| Request { node, process: node, volume, ..request };
    let read = info(
        &[
            by(0, 0, request(0, Op::Write, 0, 8192)),
            by(1, 0, request(10, Op::Read, 4096, 100)),
            by(0, 0, request(20, Op::Read, 4000, 200)),
            by(1, 1, request(30, Op::Read, 0, 4096)),
            by(1, 0, request(40, Op::Flush, 0, 0)),
            by(1, 0, request(50, Op::Trim, 0, 4096)),
        ],
        1000,
    );
    assert_eq!((read.requests, read.reads, read.writes, read.trims, read.flushes), (6, 3, 1, 1, 1));
    assert_eq!((read.bytes_read, read.bytes_written), (4396, 8192));
    assert_eq!((read.block_reads, read.block_writes), (4, 2));
    assert_eq!((read.nodes, read.volumes, read.processes), (2, 2, 2));
    assert_eq!(read.span, Some(Duration::from_micros(50)));
    assert_eq!((read.sample, read.blocks, read.shared_blocks), (1, 3, 1));
    // Block 1: read by node 1 after node 0 wrote it, then by node 0 after node 1 read it.
    assert_eq!((read.reads_after_other, read.reads_after_write_of_other), (2, 1));
    assert_eq!(read.read_share(), 0.75);
    // Block 1 again at once; then block 0, with block 1 between; then block 1, with block 0 between.
    assert_eq!((read.reuse.firsts(), read.reuse.references()), (3, 6));
    assert_eq!((read.reuse.percentile(10.0), read.reuse.percentile(50.0)), (Some(0), Some(1)));
    assert_eq!(read.reuse.lru_hit_ratio(1), 1.0 / 6.0);
    assert_eq!(read.reuse.lru_hit_ratio(2), 0.5);
}

#[test]
fn a_trace_without_reuse_has_no_distances() {
    let read = info(&[request(0, Op::Read, 0, 4096)], 10);
    assert_eq!(read.reuse.percentile(50.0), None);
    assert_eq!(read.reuse.lru_hit_ratio(u64::MAX), 0.0);
    assert!(Info::read(&mut *List::boxed(Vec::new(), true), 0).is_err());
    assert_eq!(Info::read(&mut *List::boxed(Vec::new(), true), 512).unwrap().requests, 0);
}

#[test]
fn a_sample_estimates_the_whole() {
    // A loop over 20,000 blocks by two nodes in turns: every distance is 19,999.
    let blocks = 20_000;
    let requests: Vec<Request> = (0..3 * blocks)
        .map(|i| Request { node: (i / blocks % 2) as u32, ..request(i, Op::Read, i % blocks * 4096, 4096) })
        .collect();
    let exact = info(&requests, 1 << 20);
    let sampled = info(&requests, 5_000);
    assert_eq!((exact.sample, exact.blocks, exact.reuse.percentile(50.0)), (1, blocks, Some(blocks - 1)));
    assert!(sampled.sample >= 4);
    let near = |a: u64, b: u64| a.abs_diff(b) * 10 < b;
    assert!(near(sampled.blocks, blocks), "{}", sampled.blocks);
    assert!(near(sampled.shared_blocks, blocks));
    assert!(near(sampled.reuse.percentile(50.0).unwrap(), blocks));
    assert!((sampled.after_other_share() - exact.after_other_share()).abs() < 0.1);
    assert_eq!(sampled.reuse.lru_hit_ratio(blocks / 2), 0.0);
}

/// The hit ratio of an LRU cache, by having one.
fn lru(blocks: &[u64], size: usize) -> f64 {
    let mut cache: Vec<u64> = Vec::new();
    let mut hits = 0;
    for &block in blocks {
        if let Some(at) = cache.iter().position(|&other| other == block) {
            hits += 1;
            cache.remove(at);
        } else if cache.len() == size {
            cache.remove(0);
        }
        cache.push(block);
    }
    f64::from(hits) / blocks.len() as f64
}

proptest! {
    #[test]
    fn hit_ratios_are_those_of_a_cache(blocks in proptest::collection::vec(0u64..30, 1..400), size in 1usize..40) {
        let requests: Vec<Request> = blocks.iter().map(|&b| request(0, Op::Read, b * 4096, 4096)).collect();
        prop_assert_eq!(info(&requests, 1000).reuse.lru_hit_ratio(size as u64), lru(&blocks, size));
    }
}

#[test]
fn positions_are_renumbered_without_a_trace() {
    // More references than there are positions at first.
    let requests: Vec<Request> = (0..200_000u64).map(|i| request(i, Op::Read, i % 7 * 4096, 4096)).collect();
    let read = info(&requests, 1000);
    assert_eq!(read.reuse.percentile(0.0), Some(6));
    assert_eq!(read.reuse.percentile(100.0), Some(6));
    assert!(!List::boxed(requests, false).has_times());
}
