//! Who may not attach a volume is given nothing of it.

use std::sync::Arc;

use super::*;

/// Node 2 may not attach the volume, and has no card.
fn with_a_stranger(policy: &'static str) -> Cluster {
    let mut c = Cluster::new(Setup { nodes: 4, policy, ..SETUP });
    bar(&mut c, 2);
    c
}

fn bar(c: &mut Cluster, stranger: u16) {
    c.give(0, Input::CardDetached { volume: V, node: NodeId(stranger) });
    c.give(stranger, Input::Suspended { volume: V });
    let others = (0..c.setup.nodes).filter(|&node| node != stranger).map(NodeId);
    let nodes = Allowed::Only(Arc::new(others.collect()));
    for node in (0..c.setup.nodes).filter(|&node| node != stranger) {
        c.give(node, Input::Allowed { volume: V, nodes: nodes.clone() });
    }
    c.log.clear();
}

const fn read(block: u32, from_disk: bool) -> Body {
    Body::Read {
        request: RequestId(77),
        block,
        requester: NodeId(2),
        hops: 0,
        leave_copy: true,
        read_ahead: false,
        from_disk,
    }
}

fn is_given_nothing(c: &Cluster) -> bool {
    !c.log.iter().any(|line| line.contains("->n2 data") || line.contains("->n2 store"))
}

#[test]
fn a_holder_sends_a_stranger_to_the_primary_which_refuses_it() {
    for policy in ["rd", "hscc load=home", "hdc"] {
        for from_disk in [false, true] {
            let mut c = with_a_stranger(policy);
            c.read(1, 5);
            c.read(3, 6);
            c.write(3, 6);
            c.log.clear();
            for block in [5, 6, 7] {
                for holder in [0, 1, 3] {
                    c.peer(2, holder, read(block, from_disk));
                    c.run();
                }
            }
            assert!(is_given_nothing(&c), "{policy}: {:?}", c.log);
            let refusals = c.log.iter().filter(|line| line.starts_with("n0->n2 nack")).count();
            assert_eq!(refusals, 9, "{policy}: {:?}", c.log);
        }
    }
}

/// It waits for nothing here either: what comes would be given to it.
#[test]
fn a_stranger_joins_no_fetch() {
    let mut c = with_a_stranger("rd");
    c.hold_disk = true;
    c.begin_read(1, 5);
    c.peer(2, 1, read(5, false));
    c.run();
    c.hold_disk = false;
    c.run();
    assert!(c.has(1, 5) && is_given_nothing(&c), "{:?}", c.log);
    assert!(c.log.iter().any(|line| line.starts_with("n0->n2 nack")), "{:?}", c.log);
}

/// Homes are chosen among all members. One that may not have the block is sent none when it leaves.
#[test]
fn what_is_evicted_is_not_sent_to_a_stranger() {
    let mut c = Cluster::new(Setup { nodes: 4, policy: "hdc", ..SETUP });
    let stores = |c: &mut Cluster, blocks: core::ops::Range<u32>, to: &str| {
        let mut count = 0;
        for block in blocks {
            _ = c.read(1, block);
            count += c.log.iter().filter(|line| line.contains(&format!("->{to} store"))).count();
        }
        count
    };
    assert!(stores(&mut c, 0..64, "n2") > 8);
    bar(&mut c, 2);
    assert_eq!(stores(&mut c, 64..128, "n2"), 0);
    assert!(stores(&mut c, 128..192, "n3") > 8);
}

/// Nor is anything believed that it sends: it would be a write.
#[test]
fn what_a_stranger_offers_is_not_taken() {
    let mut c = with_a_stranger("hscc load=home");
    let body = Body::Store {
        block: 5,
        class: 0,
        depth: 1,
        evictor: NodeId(2),
        previous: NodeId(0),
        as_of: Stamp(u64::MAX),
        age_ms: 0,
        oldest_ms: 0,
    };
    let message = Message { volume: V, shard: 0, through: Stamp(0), free: 0, body };
    assert_eq!(c.nodes[1].landing(NodeId(2), &message), Landing::Discard);
}

/// The list is of when the card was attached, or of later. Who is not in it and has a card has its answer from the primary.
#[test]
fn who_has_come_since_is_served_by_the_primary() {
    let mut c = Cluster::new(Setup { nodes: 4, policy: "rd", ..SETUP });
    c.read(1, 5);
    c.give(1, Input::Allowed { volume: V, nodes: Allowed::Only(Arc::new([NodeId(3)].into())) });
    c.log.clear();
    c.peer(2, 1, read(5, false));
    c.run();
    assert!(c.log.iter().any(|line| line.starts_with("n0->n2 data")), "{:?}", c.log);
}

/// It may answer nothing for as long as it likes, and hears which blocks are wanted.
#[test]
fn a_stranger_is_not_asked() {
    for policy in ["hscc load=home", "hdc"] {
        let mut c = with_a_stranger(policy);
        for block in 0..16 {
            c.begin_read(1, block);
            c.run();
        }
        let asked = c.log.iter().filter(|line| line.contains("->n2 read")).count();
        assert_eq!(asked, 0, "{policy}: {:?}", c.log);
    }
}
