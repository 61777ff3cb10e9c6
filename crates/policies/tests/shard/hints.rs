//! Hint-based cooperative caching: what is a master copy, where it goes, and who is asked.

use super::*;

const HINTS: Setup = Setup { policy: "hints", nodes: 4, capacity: 2, network_attached: true, ..SETUP };

/// What was said, but for answers to stores and the ages that come with them.
fn said(log: &[String]) -> Vec<&str> {
    let aside = |line: &&str| !line.contains(" stored ") && !line.contains("kind: 1");
    log.iter().map(String::as_str).filter(aside).collect()
}

fn stores(log: &[String]) -> Vec<&str> {
    log.iter().map(String::as_str).filter(|line| line.contains(" store ")).collect()
}

fn holders(c: &Cluster, index: u32) -> Vec<u16> {
    (0..c.nodes.len() as u16).filter(|&n| c.has(n, index)).collect()
}

fn pass(c: &mut Cluster, time: Duration) {
    c.now = c.now + time;
}

/// The disk node is the manager: it passes on whoever has no hint, and tells what it knows of the blocks that follow.
#[test]
fn a_node_without_a_hint_asks_the_disk_node_and_one_with_a_hint_the_holder() {
    let mut c = Cluster::new(Setup { capacity: 8, ..HINTS });
    (0..3).for_each(|index| drop(c.read(1, index)));
    let log = c.read(2, 0);
    let holders = u64::MAX >> 4 & !0xf_ffff | 1 << 10 | 1;
    assert_eq!(
        said(&log),
        [
            "n2->n0 read 0 for n2",
            &format!("n0->n2 note 0 Note {{ kind: 2, value: {holders} }}"),
            "n0->n1 read 0 for n2",
            "n1->n2 data 0 from Cache",
            "n2->n0 note 0 Note { kind: 0, value: 0 }",
        ]
    );
    assert_eq!(c.read(2, 1), ["n2->n1 read 1 for n2", "n1->n2 data 1 from Cache"]);
    assert_eq!((c.disk_reads, c.stats(0).served), (3, 0));
}

#[test]
fn a_wrong_hint_leads_to_the_disk_node_and_is_forgotten() {
    let mut c = Cluster::new(Setup { capacity: 8, ..HINTS });
    (0..2).for_each(|index| drop(c.read(1, index)));
    c.read(2, 0);
    c.give(1, Input::DropCaches);
    assert_eq!(c.read(2, 1), ["n2->n1 read 1 for n2", "n1->n0 read 1 for n2", "n0->n2 data 1 from Disk"]);
    assert_eq!(c.read(3, 1)[..2], ["n3->n0 read 1 for n3", "n0->n2 read 1 for n3"]);
}

/// The copy that comes from the server is the master; it alone is saved, and the evictor's hint leads to it.
#[test]
fn only_master_copies_are_saved() {
    let mut c = Cluster::new(HINTS);
    c.read(1, 0);
    c.read(2, 0);
    c.read(2, 10);
    assert_eq!(stores(&c.read(2, 11)), [""; 0], "a copy is dropped");
    assert_eq!(c.read(2, 0)[0], "n2->n1 read 0 for n2", "but who had delivered it is remembered");
    c.read(1, 20);
    let log = c.read(1, 21);
    let host = *holders(&c, 0).iter().find(|&&n| n != 2).unwrap();
    assert_eq!(stores(&log), [format!("n1->n{host} store 0 0")]);
    let log = c.read(1, 0);
    assert_eq!(log[0], format!("n1->n{host} read 0 for n1"));
}

/// Requests follow the trail of a block that has moved on.
#[test]
fn a_request_is_passed_on_by_the_hint_of_whoever_is_asked() {
    for (policy, asked) in [
        ("hints", ["n2->n1 read 0 for n2", "n1->n3 read 0 for n2", "n3->n2 data 0 from Cache"]),
        ("hints forwards=0", ["n2->n1 read 0 for n2", "n1->n0 read 0 for n2", "n0->n2 data 0 from Disk"]),
    ] {
        let mut c = Cluster::new(Setup { policy, ..HINTS });
        c.read(1, 0);
        c.read(2, 0);
        // Node 2 drops its copy and has a hint: node 1.
        c.read(2, 10);
        c.read(2, 11);
        // Node 1 has the master, and sends it to node 3, which has free places.
        c.read(1, 20);
        assert_eq!(stores(&c.read(1, 21)), ["n1->n3 store 0 0"]);
        assert_eq!(c.read(2, 0)[..3], asked);
    }
}

/// Best guess: the node believed to have the oldest block; if none is older than the victim, the discard cache.
#[test]
fn a_master_copy_goes_where_the_oldest_block_is_believed_to_be() {
    let mut c = Cluster::new(Setup { policy: "hints discard_share=100", ..HINTS });
    // Node 3 fills its cache, and idles; node 2 fills its cache much later.
    (30..32).for_each(|index| drop(c.read(3, index)));
    pass(&mut c, Duration::from_secs(100));
    (20..22).for_each(|index| drop(c.read(2, index)));
    pass(&mut c, Duration::from_secs(1));
    // Node 1 hears of their ages. (That it asks for 20 and 30 is a use.)
    for index in [20, 30, 10, 11] {
        c.read(1, index);
    }
    let log = c.read(1, 12);
    assert_eq!(stores(&log), ["n1->n3 store 10 0", "n3->n0 store 31 3"]);
    assert!(c.has(3, 10) && c.has(0, 31), "the host's own victim is discarded, not forwarded");
}

#[test]
fn a_block_older_than_all_others_goes_to_the_discard_cache_and_is_found_there() {
    let mut c = Cluster::new(Setup { nodes: 3, capacity: 4, ..HINTS });
    (0..4).for_each(|index| drop(c.read(1, index)));
    pass(&mut c, Duration::from_secs(50));
    (20..24).for_each(|index| drop(c.read(2, index)));
    // Node 1 hears that node 2's oldest block is young. Its own victim, 0, is fifty seconds old.
    let log = c.read(1, 20);
    assert_eq!(stores(&log)[0], "n1->n2 store 0 0", "it has heard nothing yet when it sends the first");
    assert!(log.iter().any(|l| l.starts_with("n2->n1 note 0 Note { kind: 1,")), "{log:?}");
    let reads = c.disk_reads;
    let log = c.read(1, 40);
    assert_eq!(stores(&log), ["n1->n0 store 1 3"]);
    assert_eq!(c.read(1, 1)[..2], ["n1->n0 read 1 for n1", "n0->n1 data 1 from Cache"]);
    assert_eq!(c.disk_reads, reads + 1);
}

#[test]
fn discarded_blocks_fill_their_share_of_the_disk_nodes_cache() {
    for (policy, most) in [("hints discard_share=50", 4), ("hints discard_share=0", 0)] {
        let mut c = Cluster::new(Setup { policy, nodes: 2, capacity: 8, ..HINTS });
        (100..108).for_each(|index| drop(c.read(0, index)));
        (0..30).for_each(|index| drop(c.read(1, index)));
        assert_eq!(c.stats(0).stored_for_others > 0, most > 0);
        assert_eq!((0..30).filter(|&i| c.has(0, i)).count(), most, "the last of them");
        assert_eq!((100..108).filter(|&i| c.has(0, i)).count(), 8 - most);
    }
}

/// A node that never answers is not sent blocks for ever.
#[test]
fn a_silent_node_is_given_up() {
    let mut c = Cluster::new(Setup { nodes: 3, ..HINTS });
    let mut sent = 0;
    for index in 0..20 {
        // Node 2 gets nothing: what goes to it is lost.
        c.log.clear();
        c.give(1, Input::Read { token: Token(1), block: BlockId::new(V, index) });
        while !c.wire.is_empty() || !c.disk.is_empty() {
            while let Some((from, to, message, payload)) = c.wire.pop_front() {
                match to {
                    NodeId(2) => {
                        if let Payload::Slot(slot) = payload {
                            c.nodes[usize::from(from.0)].unpin(slot);
                            c.drain(from.0);
                        }
                    }
                    to => c.arrive(from, to, message, payload),
                }
            }
            while let Some((node, op)) = c.disk.pop_front() {
                c.give(node.0, Input::DiskDone { op, result: Ok(()) });
            }
        }
        c.finish_reads();
        sent += c.log.iter().filter(|l| l.starts_with("n1->n2 store")).count();
    }
    assert_eq!(sent, 4);
}

/// Without confirmed invalidation: whoever has opened the extent is told, hosts as well.
#[test]
fn a_write_reaches_readers_and_hosts() {
    let mut c = Cluster::new(Setup { nodes: 5, coherence: Coherence::Policy, ..HINTS });
    c.read(1, 0);
    c.read(2, 0);
    // The master goes to a host.
    c.read(1, 20);
    c.read(1, 21);
    let held = holders(&c, 0);
    assert_eq!(held.len(), 2);
    c.read(3, 300);
    c.log.clear();
    c.write(2, 0);
    assert_eq!(holders(&c, 0), [2], "node 2 has written it");
    assert!(!c.log.iter().any(|l| l.starts_with("n0->n3 note")), "another extent's reader: {:?}", c.log);
    // Its copy is the master now.
    c.read(2, 30);
    assert_eq!(stores(&c.read(2, 31)).len(), 1);
}

/// A stored copy of a block that is there makes that the master.
#[test]
fn a_store_of_a_block_that_is_there_passes_the_flag_on() {
    let mut c = Cluster::new(Setup { nodes: 3, ..HINTS });
    c.read(1, 0);
    c.read(2, 0);
    c.read(1, 20);
    let log = c.read(1, 21);
    assert!(log.contains(&"n2->n1 stored 0 Present".to_string()), "{log:?}");
    c.read(2, 30);
    assert_eq!(stores(&c.read(2, 31))[0], "n2->n1 store 0 0");
}
