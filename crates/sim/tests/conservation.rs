//! What must hold whatever is simulated: nothing is lost, nothing comes from nowhere, and no policy is better than can be.

use std::collections::BTreeSet;

use cards_core::{Coherence, PlacementKind};
use cards_policies::Replacement;
use cards_sim::{Report, Setup, Timing};
use cards_trace::{Op, Request};

use crate::lab::{
    BLOCK, Draw, Shape, blocks_of, core_policies, go, go_if_possible, hits, policies, random_trace, reads,
    serial, setup,
};

const TIMINGS: [Timing; 3] = [Timing::Serial, Timing::Trace, Timing::Fast];

/// Blocks whose first use in the trace is a read: they can come from a disk only.
fn compulsory(requests: &[Request]) -> u64 {
    let (mut seen, mut count) = (BTreeSet::new(), 0);
    for request in requests.iter().filter(|request| request.op.is_data()) {
        for block in request.blocks(BLOCK) {
            count += u64::from(seen.insert((request.volume, block)) && request.op == Op::Read);
        }
    }
    count
}

#[track_caller]
fn check(setup: &Setup, requests: &[Request], report: &Report) {
    let what = format!(
        "{} {} {:?} {:?} shards {} caches {:?}",
        setup.policy, setup.replacement, setup.timing, setup.coherence, setup.shards, setup.cache_blocks
    );
    let count = |op| requests.iter().filter(|request| request.op == op).count() as u64;
    assert_eq!(report.requests, requests.len() as u64, "{what}: requests");
    assert_eq!(report.read_requests, count(Op::Read), "{what}: read requests");
    assert_eq!(report.write_requests, count(Op::Write), "{what}: write requests");
    let (read, written) = (blocks_of(requests, Op::Read), blocks_of(requests, Op::Write));
    assert_eq!(report.blocks, read + written, "{what}: blocks");
    assert_eq!(hits(report) + report.disk_reads, read, "{what}: every block read is answered once");
    assert_eq!(report.more["writes"], written, "{what}: writes");
    if setup.timing == Timing::Serial {
        assert!(report.disk_reads >= compulsory(requests), "{what}: {} disk reads", report.disk_reads);
    }
    assert!(report.more["stored_in_vain"] <= report.stored_for_others, "{what}: stored");
    assert!(report.stored_for_others <= report.forwarded, "{what}: {} stored", report.stored_for_others);
    for (name, busy) in [("disks", report.disk_busy), ("links", report.network_busy)] {
        assert!((0.0..=1.0 + 1e-9).contains(&busy), "{what}: {name} are busy for {busy} of the time");
    }
    assert!(report.read_p50_us <= report.read_p99_us, "{what}: median and 99th percentile");
    if setup.nodes == 1 {
        let sent = requests.iter().filter(|request| matches!(request.op, Op::Send { .. })).count() as u64;
        assert!(report.messages <= sent, "{what}: a node sends itself no messages");
        assert_eq!((report.remote_hits, report.forwarded), (0, 0), "{what}: one node has no peers");
    }
    if core_policies().any(|name| setup.policy.starts_with(name)) {
        assert_eq!(report.disk_writes, written, "{what}: writes go through");
    }
}

#[test]
fn every_block_is_accounted_for_whatever_is_combined() {
    let mut draw = Draw(2026);
    let mut runs = 0;
    for seed in 0..10 {
        let nodes = [1, 2, 3, 5][seed as usize % 4];
        let shape = Shape {
            nodes,
            volumes: 1 + draw.below(4) as u16,
            blocks: 30 + draw.below(200),
            requests: 150 + draw.below(100),
            writes: [0, 10, 40][draw.below(3) as usize],
            others: [0, 50][draw.below(2) as usize],
        };
        let requests = random_trace(seed, shape);
        for policy in policies() {
            let shards = [1, 1, 2, 4][draw.below(4) as usize];
            let caches = (0..nodes).map(|_| (shards + draw.below(40)) as u32);
            let setup = Setup {
                cache_blocks: caches.collect(),
                shards: shards as u16,
                replacement: Replacement::ALL[draw.below(Replacement::ALL.len() as u64) as usize],
                timing: TIMINGS[draw.below(3) as usize],
                coherence: [Coherence::Policy, Coherence::Confirmed][draw.below(2) as usize],
                placement: [PlacementKind::Rendezvous, PlacementKind::Modulo][draw.below(2) as usize],
                disk_nodes: 1 + draw.below(nodes.into()) as u16,
                network_attached: draw.below(4) == 0,
                ..setup(policy, nodes, 1)
            };
            let lru = Setup { replacement: Replacement::Lru, ..setup.clone() };
            let report = go_if_possible(&setup, &requests).unwrap_or_else(|| go(&lru, &requests));
            check(&setup, &requests, &report);
            runs += 1;
        }
    }
    assert!(runs >= 10 * 9);
}

#[test]
fn the_disk_works_for_every_block_that_counts_as_read_from_it() {
    let shape = Shape { nodes: 4, volumes: 1, blocks: 150, requests: 400, writes: 0, others: 0 };
    let requests = random_trace(77, shape);
    for policy in core_policies().chain(["pafs", "paca", "xfs", "glru", "wlru"]) {
        let report = go(&serial(policy, 4, 20), &requests);
        // A read takes the plain machine's disk a millisecond.
        let read = (report.disk_busy * report.simulated_s * 1e3).round() as u64;
        assert_eq!(read, report.disk_reads, "{policy}");
    }
}

/// The least recently used of `capacity` blocks leaves.
fn hits_of_naive_lru(requests: &[Request], capacity: usize) -> u64 {
    let (mut queue, mut hits): (Vec<(u16, u64)>, u64) = (Vec::new(), 0);
    for request in requests {
        for block in request.blocks(BLOCK).map(|block| (request.volume, block)) {
            if let Some(at) = queue.iter().position(|&there| there == block) {
                queue.remove(at);
                hits += 1;
            } else if queue.len() == capacity {
                queue.remove(0);
            }
            queue.push(block);
        }
    }
    hits
}

/// With nobody to cooperate with, every policy is a private cache. (Requests are for one block: the blocks of one
/// request are fetched at the same time.)
#[test]
fn a_single_node_caches_as_if_there_were_no_policy() {
    let mut draw = Draw(5);
    let requests = reads(0, (0..500).map(|i| draw.below(10 + i % 80)));
    for capacity in [1u32, 7, 30] {
        let lru = hits_of_naive_lru(&requests, capacity as usize);
        for replacement in Replacement::ALL {
            let rd = go(&Setup { replacement, ..serial("rd", 1, capacity) }, &requests);
            if replacement == Replacement::Lru {
                assert_eq!(rd.local_hits, lru, "rd is not LRU with {capacity} blocks");
            }
            for policy in policies().filter(|&policy| policy != "opt") {
                let setup = Setup { replacement, ..serial(policy, 1, capacity) };
                let Some(report) = go_if_possible(&setup, &requests) else { continue };
                let found = (report.local_hits, report.remote_hits, report.disk_reads);
                let want = (rd.local_hits, 0, requests.len() as u64 - rd.local_hits);
                assert_eq!(found, want, "{policy} {replacement} {capacity} blocks");
            }
        }
    }
}

/// Shards share a node's cache; together they have no more of it than the node.
#[test]
fn shards_do_not_make_a_cache_larger() {
    for (shards, blocks) in [(4, 10), (8, 9), (16, 16), (4, 7)] {
        let setup = Setup { shards, ..serial("rd", 1, blocks) };
        // Each shard sees stripes of 16 blocks in turn: one lap fills all of them.
        let lap = || 0..64 * u64::from(shards);
        go(&setup, &reads(0, lap()));
        let kept: u64 = (0..16 * u64::from(shards))
            .map(|stripe_block| {
                let mut requests = reads(0, 0..16 * u64::from(shards));
                requests.extend(reads(0, [stripe_block]));
                go(&setup, &requests).local_hits
            })
            .sum();
        assert!(kept <= blocks.into(), "{shards} shards of a cache of {blocks} blocks keep {kept}");
    }
}

#[test]
fn paca_has_one_copy_of_each_block() {
    let (nodes, blocks) = (4, 25);
    let all = u64::from(nodes) * u64::from(blocks);
    let mut requests = Vec::new();
    let mut draw = Draw(3);
    (0..3000).for_each(|_| requests.extend(reads(draw.below(nodes.into()) as u16, [draw.below(all)])));
    // All blocks of all nodes just fit: any second copy would cost a disk read.
    let report = go(&serial("paca", nodes, blocks), &requests);
    assert_eq!(report.disk_reads, compulsory(&requests));
    let greedy = go(&serial("greedy", nodes, blocks), &requests);
    assert!(greedy.disk_reads > report.disk_reads);
}
