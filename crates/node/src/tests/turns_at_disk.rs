//! Cards take turns at a disk: one that asks for hundreds of blocks has no other's single read wait behind them.

use cards_wire::nbd::Command;

use super::cluster::{BLOCK, Cluster};

const FLOOD: usize = 256;
const SINGLE: usize = 8;
const DEPTH: usize = 4;
/// Far more than those that are at the disk when a read comes there, since the way of a read there, and of its answer, takes time
/// too; and far fewer than the flood.
const FEW: u64 = 64;

/// Blocks that the disk of node 1 has read, and that are asked of it.
fn disk(cluster: &Cluster) -> (u64, u64) {
    let stats = cluster.node(1).disks[0].stats().snapshot();
    (stats.reads, stats.in_flight)
}

/// A client at one node asks for hundreds of blocks at once, and one at the other for a few, one after the other. Says how many
/// blocks the disk read while each of these waited.
fn waits(flood_at: usize, single_at: usize) -> Vec<u64> {
    let cluster = Cluster::with(2, (FLOOD + SINGLE) * BLOCK, |config| {
        for disk in &mut config.disks {
            // A block takes ten milliseconds, one after the other.
            (disk.rate, disk.depth) = (100 * BLOCK as u64, DEPTH);
        }
    });
    let (mut flood, mut single) = (cluster.client(flood_at), cluster.client(single_at));
    // Its lock, and the connection to the disk node.
    single.read(((FLOOD + SINGLE - 1) * BLOCK) as u64, BLOCK).unwrap();
    for block in 0..FLOOD {
        flood.send(Command::Read, 0, (block * BLOCK) as u64, BLOCK as u32, &[]);
    }
    cluster.wait("the disk has a queue", || disk(&cluster).1 > FLOOD as u64 / 2);
    let waits = (0..4).map(|i| {
        let before = disk(&cluster).0;
        single.read(((FLOOD + i) * BLOCK) as u64, BLOCK).unwrap();
        disk(&cluster).0 - before
    });
    waits.collect()
}

#[test]
fn a_single_read_of_another_card_does_not_wait_behind_a_flood() {
    for (flood_at, single_at) in [(2, 1), (1, 2)] {
        let waits = waits(flood_at, single_at);
        println!("flood at node {flood_at}: {waits:?}");
        assert!(waits.iter().all(|wait| *wait <= FEW), "flood at node {flood_at}: {waits:?}");
    }
}
