//! The main job: what one node has read, the others get from memory; which memory depends on the policy.

use super::{SEED, SIZE, image};
use crate::harness::client::Client;
use crate::harness::cluster::Cluster;
use crate::harness::dev::Counters;
use crate::harness::plan::{Disk, Plan};
use crate::harness::tools::need;
use crate::harness::{content, scratch};

const BLOCKS: u64 = SIZE >> 16;

/// Node 2 reads the whole volume cold, then node 3 reads it; both copies are right.
fn cold_then_warm(flags: &str) -> Counters {
    let dir = scratch();
    let image = image(dir.path(), "disk.img");
    let out = dir.path().display();
    // One connection with few requests in flight: what is counted is the policy, not retries under load.
    let copy = "nbdcopy --no-extents --connections=1 --requests=4";
    let script = format!("{copy} $uri2 {out}/cold && {copy} $uri3 {out}/warm");
    let disk = image.display();
    let common = format!("--nodes 3 --cache 64M --block 64K --read-only --disk {disk}");
    let counters = Counters::of(&format!("{common} {flags}"), &script);
    for copy in ["cold", "warm"] {
        content::check(&std::fs::read(dir.path().join(copy)).unwrap(), 0, SEED);
    }
    counters
}

/// Node 3 found everything in a peer's memory, or had it read ahead from there.
fn warm_from_peers(counters: &Counters) {
    assert_eq!(counters.node(3, "disk_reads"), 0, "{}", counters.text());
    assert!(counters.node(3, "remote_hits") > 0, "{}", counters.text());
    let served: u64 = (1..=3).map(|number| counters.node(number, "served")).sum();
    assert!(served >= BLOCKS, "{}", counters.text());
}

#[test]
fn every_policy_reads_the_disk_once_beside_a_caching_disk_node() {
    need!("nbdcopy");
    for policy in ["rd", "hscc", "hdc"] {
        let counters = cold_then_warm(&format!("--policy {policy} --attached computer"));
        assert_eq!(counters.disk("reads"), BLOCKS, "{policy}: {}", counters.text());
        warm_from_peers(&counters);
    }
}

#[test]
fn hscc_reads_an_exclusive_disk_once() {
    need!("nbdcopy");
    let counters = cold_then_warm("--policy hscc --attached network");
    assert_eq!(counters.disk("reads"), BLOCKS, "{}", counters.text());
    warm_from_peers(&counters);
    assert!(counters.node(2, "served") >= BLOCKS, "node 2 has the only copies: {}", counters.text());
}

#[test]
fn rd_asks_no_peer_but_the_disk_node() {
    need!("nbdcopy");
    let counters = cold_then_warm("--policy rd --attached network");
    assert_eq!(counters.node(2, "served"), 0, "{}", counters.text());
    assert_eq!(
        counters.disk("reads"),
        2 * BLOCKS,
        "nobody keeps what the disk node sends: {}",
        counters.text()
    );
}

/// Without read-ahead and with one request at a time every count is exact.
#[test]
fn one_request_at_a_time_counts_exactly() {
    let dir = scratch();
    let mut plan = Plan::new(dir.path(), 3).disk(Disk::file(&image(dir.path(), "disk.img")));
    plan.read_ahead = "off";
    let mut cluster = Cluster::start(plan);
    // Readiness itself reads the first block at each node; count from there.
    let names = ["reads", "local_hits", "remote_hits", "disk_reads"];
    let mut counts = |number: usize| names.map(|name| cluster.node(number).counter(name));
    let before = [counts(2), counts(3)];
    for number in [2, 3] {
        let mut client = cluster.export(number, "disk").open();
        for block in 1..BLOCKS {
            let data = client.read(block << 16, 1 << 16).expect("a read");
            content::check(&data, block << 16, SEED);
        }
        client.close();
    }
    let mut counts = |number: usize| names.map(|name| cluster.node(number).counter(name));
    let after = [counts(2), counts(3)];
    let grown: Vec<[u64; 4]> = (0..2).map(|n| std::array::from_fn(|i| after[n][i] - before[n][i])).collect();
    assert_eq!(grown[0], [BLOCKS - 1, 0, 0, BLOCKS - 1], "node 2 reads cold: {names:?}");
    assert_eq!(grown[1], [BLOCKS - 1, 0, BLOCKS - 1, 0], "node 3 reads after it: {names:?}");
}

/// It is asked, its answer is late, and the disk node answers instead, long before the peer is given up.
#[test]
fn a_peer_that_stands_still_is_not_waited_for() {
    let dir = scratch();
    let mut plan = Plan::new(dir.path(), 3).disk(Disk::file(&image(dir.path(), "disk.img")));
    (plan.read_ahead, plan.hedge) = ("off", true);
    let mut cluster = Cluster::start(plan);
    let [mut second, mut third] = [2, 3].map(|number| cluster.export(number, "disk").open());
    let read = |client: &mut Client, block: u64| {
        let data = client.read(block << 16, 1 << 16).expect("a read");
        content::check(&data, block << 16, SEED);
    };
    (0..BLOCKS).for_each(|block| read(&mut second, block));
    (0..BLOCKS / 2).for_each(|block| read(&mut third, block));
    cluster.node(2).pause();
    let mut rest = BLOCKS / 2..BLOCKS;
    while cluster.node(3).counter("hedged") == 0 {
        read(&mut third, rest.next().expect("some blocks are at the node that stands still"));
    }
    cluster.node(2).resume();
    rest.for_each(|block| read(&mut third, block));
    second.close();
    third.close();
}
