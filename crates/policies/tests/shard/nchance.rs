//! N-Chance forwarding: who recirculates, who makes room, and what the disk node is told.

use super::*;

const NCHANCE: Setup = Setup { policy: "nchance", nodes: 3, capacity: 2, network_attached: true, ..SETUP };

fn stores(log: &[String]) -> Vec<String> {
    log.iter().filter(|l| l.contains(" store ")).cloned().collect()
}

/// Nodes that have the block.
fn holders(c: &Cluster, index: u32) -> Vec<u16> {
    (0..c.nodes.len() as u16).filter(|&n| c.has(n, index)).collect()
}

#[test]
fn an_only_copy_is_sent_to_a_client_and_found_there() {
    let mut c = Cluster::new(NCHANCE);
    (0..3).for_each(|index| drop(c.read(1, index)));
    assert_eq!(holders(&c, 0), [2], "never at the disk node");
    let reads = c.disk_reads;
    assert_eq!(
        c.read(1, 0)[..3],
        ["n1->n0 read 0 for n1", "n0->n2 read 0 for n1", "n2->n0 note 0 Note { kind: 0, value: 0 }"]
    );
    assert_eq!(c.disk_reads, reads);
    assert_eq!(holders(&c, 0), [1], "a recirculating copy moves to whoever reads it");
}

#[test]
fn a_duplicate_is_dropped() {
    let mut c = Cluster::new(NCHANCE);
    c.read(1, 0);
    c.read(2, 0);
    for (node, others) in [(1, [10, 11]), (2, [20, 21])] {
        c.read(node, others[0]);
        let log = c.read(node, others[1]);
        // The second one to go is the only copy by then.
        assert_eq!(stores(&log).len(), usize::from(node == 2), "{log:?}");
    }
}

/// What the disk node serves from its own cache, the other holders do not see: they are told.
#[test]
fn holders_learn_of_others_that_the_disk_node_serves() {
    let mut c = Cluster::new(Setup { network_attached: false, capacity: 4, ..NCHANCE });
    c.read(1, 0);
    let log = c.read(2, 0);
    assert_eq!(log.iter().filter(|l| l.contains("note 0 Note { kind: 3, value: 0 }")).count(), 2, "{log:?}");
    for index in 10..14 {
        assert!(!stores(&c.read(2, index)).iter().any(|l| l.contains("store 0 ")));
    }
    assert!(c.log.contains(&"n0->n1 note 0 Note { kind: 2, value: 0 }".to_string()), "{:?}", c.log);
}

/// n chances, then the block is gone. The hosts drop it when they read more of their own.
#[test]
fn a_copy_that_nobody_uses_is_forwarded_n_times() {
    for n in 1..=3 {
        let policy = ["nchance n=1", "nchance n=2", "nchance n=3"][n - 1];
        let mut c = Cluster::new(Setup { policy, ..NCHANCE });
        c.read(1, 0);
        let mut sent = 0;
        for round in 0..20 {
            let Some(&holder) = holders(&c, 0).first() else { break };
            let log = c.read(holder, 100 + round);
            sent += stores(&log).iter().filter(|l| l.contains("store 0 ")).count();
        }
        assert_eq!((sent, holders(&c, 0)), (n, vec![]));
    }
}

#[test]
fn a_use_at_the_host_makes_it_an_ordinary_copy() {
    let mut c = Cluster::new(Setup { policy: "nchance n=1", ..NCHANCE });
    (0..3).for_each(|index| drop(c.read(1, index)));
    assert_eq!(holders(&c, 0), [2]);
    c.read(2, 0);
    c.read(2, 10);
    let log = c.read(2, 11);
    assert!(stores(&log).len() == 1 && holders(&c, 0) == [1], "a new tour of one stage: {log:?}");
}

/// The oldest duplicate first, else the recirculating copy with the fewest chances, else the oldest; and what goes
/// is dropped, not sent on.
#[test]
fn a_host_drops_what_is_worth_least() {
    let victim = |fill: fn(&mut Cluster)| {
        let mut c = Cluster::new(Setup { policy: "nchance", nodes: 4, capacity: 3, ..NCHANCE });
        c.give(1, Input::PeerDown { node: NodeId(3) });
        fill(&mut c);
        let before: Vec<u32> = (0..300).filter(|&i| c.has(2, i)).collect();
        assert_eq!(before.len(), 3);
        (200..203).for_each(|index| drop(c.read(1, index)));
        c.give(2, Input::PeerUp { node: NodeId(3) });
        let log = c.read(1, 203);
        assert_eq!(stores(&log), ["n1->n2 store 200 0"], "no ripple");
        let gone = before.iter().copied().find(|&i| !c.has(2, i)).unwrap();
        assert!(c.has(2, 200));
        assert!(log.iter().any(|l| l.starts_with(&format!("n2->n0 note {gone} "))));
        gone
    };
    // 1 was read by another node as well.
    assert_eq!(
        victim(|c| {
            (0..3).for_each(|index| drop(c.read(2, index)));
            c.read(3, 1);
        }),
        1
    );
    // All are the only copies: the oldest. (1 and 2 have been used since.)
    assert_eq!(victim(|c| [1, 0, 2, 1].iter().for_each(|&index| drop(c.read(2, index)))), 0);
}

#[test]
fn of_recirculating_copies_the_one_with_the_fewest_chances_goes() {
    let mut c = Cluster::new(Setup { nodes: 4, capacity: 3, ..NCHANCE });
    // Node 1 has one recirculating copy with one chance left, and node 2 gets it; the others have two.
    let store = |c: &mut Cluster, index: u32, depth: u8| {
        let body = Body::Store {
            block: index,
            class: 0,
            depth,
            evictor: NodeId(1),
            previous: NodeId(0),
            as_of: Stamp(u64::MAX),
            age_ms: 0,
            oldest_ms: 0,
        };
        let message = Message { volume: V, shard: 0, through: Stamp(0), free: 0, body };
        let Landing::Slot(slot) = c.nodes[2].landing(NodeId(1), &message) else { panic!() };
        c.give(2, Input::Message { from: NodeId(1), message, payload: Payload::Slot(slot) });
        c.run();
    };
    for (index, depth) in [(0, 2), (1, 1), (2, 2)] {
        store(&mut c, index, depth);
    }
    store(&mut c, 3, 2);
    assert_eq!((0..4).filter(|&i| c.has(2, i)).collect::<Vec<_>>(), [0, 2, 3]);
}

/// What a host has already it does not take in twice; and the copy counts as the only one again.
#[test]
fn a_store_of_a_block_that_is_there_is_discarded() {
    let mut c = Cluster::new(NCHANCE);
    c.read(1, 0);
    c.read(2, 0);
    // A wrong word that node 1 has the only copy.
    let message = Message {
        volume: V,
        shard: 0,
        through: Stamp(0),
        free: 0,
        body: Body::Note { block: 0, note: Note { kind: 2, value: 0 } },
    };
    c.give(1, Input::Message { from: NodeId(0), message, payload: Payload::None });
    c.read(1, 10);
    let log = c.read(1, 11);
    assert!(log.contains(&"n2->n1 stored 0 Present".to_string()), "{log:?}");
    assert!(log.contains(&"n0->n2 note 0 Note { kind: 2, value: 0 }".to_string()), "{log:?}");
    assert_eq!(holders(&c, 0), [2]);
}

#[test]
fn the_writers_copy_becomes_the_only_one() {
    let mut c = Cluster::new(Setup { coherence: Coherence::Policy, ..NCHANCE });
    c.read(1, 0);
    c.read(2, 0);
    c.write(2, 0);
    assert_eq!(holders(&c, 0), [2]);
    c.read(2, 10);
    assert_eq!(stores(&c.read(2, 11)), ["n2->n1 store 0 0"]);
}

/// With no chance it is greedy forwarding, message by message.
#[test]
fn zero_chance_is_greedy() {
    let log = |policy| {
        let mut c = Cluster::new(Setup { policy, nodes: 4, capacity: 4, ..NCHANCE });
        let mut log = Vec::new();
        for turn in 0..300u64 {
            let random = mix(turn);
            log.extend(c.read((random % 4) as u16, (random >> 8) as u32 % 12));
        }
        log
    };
    assert_eq!(log("nchance n=0"), log("greedy"));
}

#[test]
fn the_host_with_the_most_free_places_is_found() {
    for policy in ["nchance peer=free", "nchance peer=two_choices"] {
        let mut c = Cluster::new(Setup { policy, nodes: 4, capacity: 4, ..NCHANCE });
        // Node 2 is full, and both have said so to node 1.
        (20..24).for_each(|index| drop(c.read(2, index)));
        c.read(3, 30);
        c.read(1, 20);
        c.read(1, 30);
        for index in 0..4 {
            let log = c.read(1, index);
            assert!(stores(&log).iter().all(|l| l.starts_with("n1->n3")), "{log:?}");
        }
    }
}
