//! DEMOTE: the caches of a client and of the disk node act as one.

use super::*;

const DEMOTE: Setup = Setup { policy: "demote", nodes: 2, capacity: 10, ..SETUP };

/// Loops over so many blocks at node 1; what the last lap was served by: its own cache, the disk node's, the disk.
fn laps(policy: &'static str, length: u32) -> [u64; 3] {
    let mut c = Cluster::new(Setup { policy, ..DEMOTE });
    let mut last = [0; 3];
    for _ in 0..4 {
        let before = c.stats(1);
        (0..length).for_each(|index| drop(c.read(1, index)));
        let after = c.stats(1);
        last = [
            after.local_hits - before.local_hits,
            after.remote_hits - before.remote_hits,
            after.disk_reads - before.disk_reads,
        ];
    }
    last
}

/// The published motivation: a loop that fits into both caches together, but into neither alone.
#[test]
fn a_loop_that_fits_into_both_caches_together_needs_no_disk() {
    for length in [11, 15, 20] {
        assert_eq!(laps("demote", length), [0, u64::from(length), 0]);
        assert_eq!(laps("rd", length), [0, 0, u64::from(length)]);
    }
    assert_eq!(laps("demote", 21), [0, 0, 21]);
}

#[test]
fn without_cooling_the_caches_overlap() {
    assert!(laps("demote excl=off", 20)[2] > 0);
}

/// Two messages for a read, and one with data for an eviction, which is answered.
#[test]
fn a_victim_goes_back_to_the_disk_node() {
    let mut c = Cluster::new(Setup { capacity: 2, network_attached: true, ..DEMOTE });
    c.read(1, 0);
    c.read(1, 1);
    assert_eq!(
        c.read(1, 2),
        ["n1->n0 read 2 for n1", "n0->n1 data 2 from Disk", "n1->n0 store 0 3", "n0->n1 stored 0 Stored"]
    );
    assert!(c.has(0, 0));
    // The disk node's own victims are dropped.
    (3..8).for_each(|index| drop(c.read(1, index)));
    assert_eq!((c.stats(0).forwarded, c.nodes[0].resident()), (0, 2));
}

#[test]
fn the_disk_node_refuses_what_it_has_and_takes_it_for_used() {
    let mut c = Cluster::new(Setup { nodes: 3, capacity: 3, ..DEMOTE });
    (0..3).for_each(|index| drop(c.read(1, index)));
    // The disk node has read 0 for its own clients meanwhile.
    c.read(0, 0);
    [10, 11].iter().for_each(|&index| drop(c.read(0, index)));
    let log = c.read(1, 10);
    assert!(log.contains(&"n0->n1 stored 0 Present".to_string()), "{log:?}");
    // 10 was sent away and 11 used before 0 came back.
    c.read(0, 12);
    c.read(0, 13);
    assert_eq!([0, 10, 11].map(|i| c.has(0, i)), [true, false, false]);
}

#[test]
fn what_is_sent_goes_first() {
    let mut c = Cluster::new(Setup { capacity: 3, ..DEMOTE });
    [10, 11, 12].iter().for_each(|&index| drop(c.read(0, index)));
    c.read(1, 12);
    c.read(0, 13);
    assert_eq!([10, 11, 12].map(|i| c.has(0, i)), [true, true, false]);
    // From the disk too: 5 is gone before 11 is.
    c.read(1, 5);
    c.read(0, 14);
    assert_eq!([5, 11].map(|i| c.has(0, i)), [false, true]);
}

/// In a loop that is a little too long, some of what is put at the top survives what is put at the bottom.
#[test]
fn the_middle_is_a_matter_of_chance() {
    assert_eq!(laps("demote", 24), [0, 0, 24]);
    let [_, remote, disk] = laps("demote insert=mid", 24);
    assert!(remote > 2 && disk > 2, "{remote} {disk}");
}

/// A client alone: what it evicts it will want again, what it has just got it will not; the disk node finds out.
#[test]
fn the_shares_adapt() {
    let mut c = Cluster::new(Setup { policy: "demote insert=adaptive", capacity: 8, ..DEMOTE });
    let mut hits = |laps: u32| {
        let before = c.stats(1).remote_hits;
        for _ in 0..laps {
            (0..14).for_each(|index| drop(c.read(1, index)));
        }
        (c.stats(1).remote_hits - before) as f64 / f64::from(laps * 14)
    };
    let first = hits(70);
    hits(700);
    let last = hits(70);
    assert!(last > 0.9 && first < 0.8, "{first} {last}");
}

#[test]
fn a_write_drops_all_other_copies() {
    let mut c = Cluster::new(Setup { nodes: 4, coherence: Coherence::Policy, ..DEMOTE });
    for node in [1, 2, 3] {
        c.read(node, 5);
    }
    c.write(2, 5);
    assert_eq!([1, 2, 3].map(|node| c.has(node, 5)), [false, true, false]);
    assert!(c.has(0, 5), "the disk node's copy is as new as the disk");
}
