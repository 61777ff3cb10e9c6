//! Random accesses, hand-overs, rounds of the syncer and deaths, in random order.

use cards_core::NodeId;

use super::super::*;
use super::cluster::{BLOCKS, Cluster};

const NODES: u16 = 5;

fn any_step(cluster: &mut Cluster, moves_buffers: bool) {
    let servers = cluster.servers.len() as u64;
    match cluster.random(100) {
        0..50 => {
            cluster.advance();
        }
        50..70 => {
            let index = cluster.random(BLOCKS.into()) as u32;
            cluster.access(index, AccessKind::Read);
        }
        70..80 => {
            let index = cluster.random(BLOCKS.into()) as u32;
            cluster.access(index, AccessKind::WritePart);
        }
        80..90 => {
            let index = cluster.random(BLOCKS.into()) as u32;
            cluster.access(index, AccessKind::WriteWhole);
        }
        90..92 => cluster.sync(),
        92..94 => {
            let first = cluster.random(BLOCKS.into()) as u32;
            let count = cluster.random(9) as u32;
            cluster.discard(first, (first + count).min(BLOCKS));
        }
        94..97 if moves_buffers && servers > 1 => {
            let from = cluster.random(servers) as u16;
            let to = (from + 1) % servers as u16;
            let count = cluster.random(4) as u32;
            cluster.call(from, |s, out| s.give(to, count, out));
        }
        97..100 if moves_buffers && servers > 1 => {
            let to = cluster.random(servers) as u16;
            let from = (to + 1) % servers as u16;
            let count = cluster.random(4) as u32;
            cluster.call(to, |s, out| {
                s.end_interval();
                s.set_gains([(from, count)], out);
            });
        }
        _ => while cluster.random(10) > 0 && cluster.advance() {},
    }
}

/// Reads find what was written last, whatever else is going on, at every level; and in the end all is on the disk.
#[test]
fn one_copy_needs_no_coherence_protocol() {
    for seed in 0..8 {
        for level in [Level::A, Level::B, Level::C] {
            for servers in [1, 3] {
                // Without parity one frame per node makes do.
                let cache = if level == Level::A { 1 } else { 2 } + seed as u32 % 3;
                let mut cluster = Cluster::new(NODES, cache, servers, level, seed);
                for _ in 0..400 {
                    any_step(&mut cluster, true);
                    cluster.check();
                }
                cluster.settle();
                assert!(cluster.reads.iter().all(|&n| n > 0) && cluster.acknowledgements > 0);
            }
        }
    }
}

/// PAFS-17, PAFS-18: any node may die at any moment; at level C no acknowledged write is lost.
#[test]
fn at_level_c_no_single_node_takes_an_acknowledged_write_with_it() {
    for seed in 0..10 {
        let mut cluster = Cluster::new(NODES, 3, 3, Level::C, seed);
        for _ in 0..200 {
            any_step(&mut cluster, true);
            for dead in 0..NODES {
                assert_eq!(cluster.lost_with(NodeId(dead)), [], "seed {seed}, node {dead}");
            }
        }
    }
}

/// PAFS-18: and at the other levels some are, so the test above can fail.
#[test]
fn at_levels_a_and_b_writes_are_lost_with_a_node() {
    for level in [Level::A, Level::B] {
        let mut lost = 0;
        for seed in 0..10 {
            let mut cluster = Cluster::new(NODES, 3, 3, level, seed);
            for _ in 0..200 {
                any_step(&mut cluster, true);
                lost += (0..NODES).map(|dead| cluster.lost_with(NodeId(dead)).len()).sum::<usize>();
            }
        }
        assert!(lost > 0, "{level:?}");
    }
}
