//! Greedy forwarding: what the disk node knows, and what it does with it.

use super::*;

const GREEDY: Setup = Setup { policy: "greedy", nodes: 4, network_attached: true, ..SETUP };

#[test]
fn the_disk_node_passes_a_request_to_a_holder() {
    let mut c = Cluster::new(GREEDY);
    assert_eq!(c.read(1, 5), ["n1->n0 read 5 for n1", "n0->n1 data 5 from Disk"]);
    assert_eq!(c.read(2, 5), ["n2->n0 read 5 for n2", "n0->n1 read 5 for n2", "n1->n2 data 5 from Cache"]);
    assert!(c.has(1, 5) && c.has(2, 5) && !c.has(0, 5));
    assert_eq!(c.disk_reads, 1);
}

#[test]
fn of_several_holders_the_last_one_that_asked_is_chosen() {
    let mut c = Cluster::new(GREEDY);
    c.read(1, 5);
    c.read(2, 5);
    assert!(c.read(3, 5).contains(&"n0->n2 read 5 for n3".to_string()));
}

#[test]
fn the_disk_nodes_own_cache_comes_first() {
    let mut c = Cluster::new(Setup { network_attached: false, ..GREEDY });
    c.read(1, 5);
    assert_eq!(c.read(2, 5), ["n2->n0 read 5 for n2", "n0->n2 data 5 from Cache"]);
}

#[test]
fn the_disk_nodes_own_clients_are_served_by_holders_too() {
    let mut c = Cluster::new(GREEDY);
    c.read(2, 5);
    assert_eq!(c.read(0, 5), ["n0->n2 read 5 for n0", "n2->n0 data 5 from Cache"]);
    assert_eq!(c.disk_reads, 1);
}

#[test]
fn an_evicted_block_is_dropped_and_the_disk_node_told() {
    let mut c = Cluster::new(Setup { capacity: 1, ..GREEDY });
    c.read(1, 5);
    let log = c.read(1, 6);
    assert!(log.iter().any(|l| l.starts_with("n1->n0 note 5")) && !log.iter().any(|l| l.contains("store")));
    assert_eq!(c.read(2, 5), ["n2->n0 read 5 for n2", "n0->n2 data 5 from Disk"]);
}

/// Four hops at worst, and once only.
#[test]
fn a_holder_that_has_lost_its_copy_is_forgotten() {
    let mut c = Cluster::new(GREEDY);
    c.read(1, 5);
    c.give(1, Input::DropCaches);
    assert_eq!(
        c.read(2, 5),
        ["n2->n0 read 5 for n2", "n0->n1 read 5 for n2", "n1->n0 read 5 for n2", "n0->n2 data 5 from Disk"]
    );
    c.give(2, Input::DropCaches);
    c.read(3, 5);
    assert!(!c.log.iter().any(|l| l.starts_with("n0->n1")), "{:?}", c.log);
    // The same for the disk node's own requests.
    c.give(3, Input::DropCaches);
    let asked = c.read(0, 5);
    assert_eq!(asked, ["n0->n3 read 5 for n0", "n3->n0 read 5 for n0"]);
    c.give(0, Input::DropCaches);
    assert!(c.read(0, 5).is_empty());
}

/// The policy's own consistency: the disk node has all copies dropped but the writer's.
#[test]
fn a_write_leaves_the_writers_copy_alone() {
    let mut c = Cluster::new(Setup { coherence: Coherence::Policy, ..GREEDY });
    for node in [1, 2, 3] {
        c.read(node, 5);
    }
    c.write(2, 5);
    assert_eq!([1, 2, 3].map(|node| c.has(node, 5)), [false, true, false]);
    assert!(c.read(1, 5).contains(&"n0->n2 read 5 for n1".to_string()));
    c.write(0, 5);
    assert_eq!([1, 2, 3].map(|node| c.has(node, 5)), [false; 3]);
}
