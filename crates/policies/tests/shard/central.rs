//! Centrally coordinated caching: the disk node manages the larger part of each client's cache.

use super::*;

/// Ten blocks everywhere: two of a client's own, eight managed by the disk node.
const CENTRAL: Setup = Setup { policy: "central", capacity: 10, ..SETUP };

/// The clients have said that they have room.
fn central(setup: Setup) -> Cluster {
    let mut c = Cluster::new(setup);
    c.now = Instant(1_000_000_000);
    (0..c.nodes.len() as u16).for_each(|node| c.give(node, Input::Timeout));
    c.run();
    c.log.clear();
    c
}

/// The clients that have a block.
fn holders(c: &Cluster, index: u32) -> Vec<u16> {
    (1..c.nodes.len() as u16).filter(|&n| c.has(n, index)).collect()
}

#[test]
fn a_clients_own_part_is_a_fifth() {
    let mut c = central(CENTRAL);
    (0..9).for_each(|index| drop(c.read(1, index)));
    assert_eq!((0..9).filter(|&i| c.has(1, i)).collect::<Vec<_>>(), [7, 8]);
    assert_eq!(c.stats(1).forwarded, 0, "what clients evict is dropped");
    assert!(!c.log.iter().any(|l| l.contains("note")), "without a word: {:?}", c.log);
}

/// Two messages with data to save a victim; three messages to read it, and it stays where it is.
#[test]
fn the_disk_nodes_victims_are_kept_by_clients() {
    let mut c = central(CENTRAL);
    (0..10).for_each(|index| drop(c.read(1, index)));
    let log = c.read(1, 10);
    let [host] = holders(&c, 0)[..] else { panic!("{log:?}") };
    assert!(log.contains(&format!("n0->n{host} store 0 2")), "{log:?}");
    let other = 3 - host;
    assert_eq!(
        c.read(other, 0),
        [
            format!("n{other}->n0 read 0 for n{other}"),
            format!("n0->n{host} read 0 for n{other}"),
            format!("n{host}->n{other} data 0 from Cache")
        ]
    );
    assert_eq!(holders(&c, 0), [1, 2]);
    // The disk node's own clients find it as well.
    assert_eq!(c.read(0, 0)[0], format!("n0->n{host} read 0 for n0"));
    assert_eq!(c.disk_reads, 11);
}

#[test]
fn the_least_recently_used_of_all_managed_blocks_is_replaced() {
    let mut c = central(CENTRAL);
    // 26 blocks: ten in the disk node's cache, 16 managed.
    (0..26).for_each(|index| drop(c.read(1, index)));
    assert!((0..16).all(|i| !holders(&c, i).is_empty()));
    // A use of block 0, then one victim more: 1 goes, though it may lie elsewhere.
    let [host] = holders(&c, 0)[..] else { panic!() };
    c.read(3 - host, 0);
    let [gone] = holders(&c, 1)[..] else { panic!() };
    let log = c.read(3 - host, 26);
    assert!(log.contains(&format!("n0->n{gone} note 1 Note {{ kind: 1, value: 0 }}")), "{log:?}");
    assert!(log.contains(&format!("n0->n{gone} store 16 2")), "{log:?}");
    assert!(holders(&c, 1).is_empty() && c.has(host, 0) && c.has(gone, 16));
}

#[test]
fn a_victim_that_is_managed_already_is_dropped() {
    let mut c = central(CENTRAL);
    (0..11).for_each(|index| drop(c.read(1, index)));
    c.read(0, 0);
    let forwarded = c.stats(0).forwarded;
    // Ten blocks later block 0 leaves the disk node's cache again.
    (20..30).for_each(|index| drop(c.read(0, index)));
    assert!(!c.has(0, 0));
    assert_eq!(c.stats(0).forwarded - forwarded, 9);
}

#[test]
fn copies_in_a_clients_own_part_are_nobody_elses() {
    let mut c = central(CENTRAL);
    c.read(1, 5);
    c.give(0, Input::DropCaches);
    assert_eq!(c.read(2, 5), ["n2->n0 read 5 for n2", "n0->n2 data 5 from Disk"]);
}

#[test]
fn a_managed_copy_that_is_lost_costs_two_hops_once() {
    let mut c = central(CENTRAL);
    (0..11).for_each(|index| drop(c.read(1, index)));
    let [host] = holders(&c, 0)[..] else { panic!() };
    c.give(host, Input::DropCaches);
    assert_eq!(c.read(3 - host, 0).len(), 4 + 2, "and a victim is saved: {:?}", c.log);
    c.give(0, Input::DropCaches);
    c.give(3 - host, Input::DropCaches);
    let log = c.read(3 - host, 0);
    assert!(!log.iter().any(|l| l.starts_with(&format!("n0->n{host} read"))), "{log:?}");
}

#[test]
fn a_write_drops_managed_and_own_copies() {
    let mut c = central(Setup { nodes: 4, coherence: Coherence::Policy, ..CENTRAL });
    (0..11).for_each(|index| drop(c.read(1, index)));
    for node in [1, 2, 3] {
        c.read(node, 0);
    }
    assert_eq!(holders(&c, 0), [1, 2, 3]);
    c.write(2, 0);
    assert_eq!(holders(&c, 0), [2]);
}
