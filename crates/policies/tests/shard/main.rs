//! Policies at work at shards that talk to each other.

mod central;
#[path = "../../../core/tests/shard/cluster.rs"]
mod cluster;
mod conservation;
mod cooperation;
mod demote;
mod explain;
mod gms;
mod greedy;
mod hdc;
mod hints;
mod local;
mod nchance;
mod retained;
mod single;
mod turns;

use cards_core::*;
use cards_policies::{BuiltIn, Replacement};
use cluster::*;

/// CARD-16, case A: client-to-client cooperation. The home has the block and delivers it.
#[test]
fn fig_1_a_client_to_client() {
    let mut c = Cluster::new(SETUP);
    let block = c.homed_at(2);
    c.read(2, block);
    assert_eq!(
        c.read(1, block),
        [format!("n1->n2 read {block} for n1"), format!("n2->n1 data {block} from Cache")]
    );
    assert_eq!((c.stats(1).remote_hits, c.stats(2).served, c.disk_reads), (1, 1, 1));
}

/// CARD-16, case B: three-client cooperation. Requester, home, holder, and straight back (HSCC-15, HSCC-16).
#[test]
fn fig_1_b_three_clients() {
    let mut c = Cluster::new(Setup { nodes: 4, ..SETUP });
    let block = c.homed_at(3);
    c.read(2, block);
    assert!(!c.has(3, block), "HSCC-3: the home gets no copy by passing requests on");
    assert_eq!(
        c.read(1, block),
        [
            format!("n1->n3 read {block} for n1"),
            format!("n3->n2 read {block} for n1"),
            format!("n2->n1 data {block} from Cache")
        ]
    );
    assert_eq!((c.stats(1).remote_hits, c.disk_reads), (1, 1));
    // The list of copies: n0 (disk) <- n2 <- n1, and the home names the newest.
    let entry = |c: &Cluster, node: usize| c.nodes[node].index_entry(BlockId::new(V, block));
    assert_eq!(entry(&c, 2), (Some(NodeId(0)), Some(NodeId(1))));
    assert_eq!(entry(&c, 1), (Some(NodeId(2)), None));
    assert_eq!(entry(&c, 3).1, Some(NodeId(1)));
}

/// CARD-16, case C: cooperation fails. The hint is stale, the block comes from the disk, after three hops.
#[test]
fn fig_1_c_cooperation_fails() {
    let mut c = Cluster::new(Setup { nodes: 4, network_attached: true, ..SETUP });
    let block = c.homed_at(3);
    c.read(2, block);
    c.give(2, Input::DropCaches);
    assert_eq!(
        c.read(1, block),
        [
            format!("n1->n3 read {block} for n1"),
            format!("n3->n2 read {block} for n1"),
            format!("n2->n0 read {block} for n1"),
            format!("n0->n1 data {block} from Disk")
        ]
    );
    assert_eq!((c.stats(1).disk_reads, c.stats(2).stale_hints, c.disk_reads), (1, 1, 2));
}

/// CARD-2: a plain remote disk asks the disk node alone, whoever else has the block.
#[test]
fn rd_asks_nobody_but_the_disk_node() {
    let mut c = Cluster::new(Setup { policy: "rd", ..SETUP });
    c.read(2, 5);
    assert_eq!(c.read(1, 5), ["n1->n0 read 5 for n1", "n0->n1 data 5 from Cache"]);
    assert_eq!(c.stats(2).served, 0);
}

/// HDC-1.
#[test]
fn hdc_asks_the_home_then_the_disk_node() {
    let mut c = Cluster::new(Setup { policy: "hdc", ..SETUP });
    let block = c.homed_at(2);
    assert_eq!(
        c.read(1, block),
        [
            format!("n1->n2 read {block} for n1"),
            format!("n2->n0 read {block} for n1"),
            format!("n0->n1 data {block} from Disk")
        ]
    );
}

/// HDC-2: only the disk node saves what it evicts, and sends it to the home.
#[test]
fn hdc_saves_the_victims_of_the_disk_node_alone() {
    let mut c = Cluster::new(Setup { policy: "hdc", capacity: 4, ..SETUP });
    for index in 0..40 {
        c.read(1, index);
    }
    assert!(c.stats(0).forwarded > 0);
    assert_eq!((c.stats(1).forwarded, c.stats(2).forwarded), (0, 0));
    // The others were at their homes already.
    assert!(
        (1..=c.stats(0).forwarded).contains(&(c.stats(1).stored_for_others + c.stats(2).stored_for_others))
    );
}

/// HSCC-7, HSCC-8, HSCC-9: the only copy goes to the least loaded node, which tells the home.
#[test]
fn an_evicted_singleton_is_saved() {
    let mut c = Cluster::new(Setup { capacity: 4, network_attached: true, ..SETUP });
    for index in 0..5 {
        c.read(1, index);
    }
    assert!(!c.has(1, 0));
    assert!(c.has(0, 0) || c.has(2, 0), "{:?}", c.log);
    assert!(c.log.iter().any(|l| l.starts_with("n1->") && l.contains("store 0 0")));
    assert_eq!((c.stats(1).forwarded, c.stats(0).stored_for_others + c.stats(2).stored_for_others), (1, 1));
    // It is found again without the disk.
    let reads = c.disk_reads;
    c.read(1, 0);
    assert_eq!(c.disk_reads, reads);
}

/// A stream of writes is sent once, to its disk. What somebody has read since is worth saving, whoever that was.
#[test]
fn what_was_only_written_is_sent_to_no_other_node() {
    for policy in ["hscc", "nchance", "central", "gms", "hints", "hdc"] {
        let mut c = Cluster::new(Setup { policy, nodes: 4, network_attached: true, ..SETUP });
        (0..4).for_each(|node| (0..100).for_each(|index| c.write(node, u32::from(node) * 100 + index)));
        let forwarded: Vec<u64> = (0..4).map(|node| c.stats(node).forwarded).collect();
        assert_eq!(forwarded, [0; 4], "{policy}");
    }
    for reader in [1, 2] {
        let mut c = Cluster::new(Setup { nodes: 4, network_attached: true, ..SETUP });
        c.write(1, 0);
        c.read(reader, 0);
        (1..9).for_each(|index| c.write(1, index));
        assert_eq!((c.has(1, 0), c.stats(1).forwarded), (false, u64::from(reader == 1)), "read by {reader}");
    }
}

/// HSCC-9, second and third branch: no room at the target, none at the home.
#[test]
fn a_singleton_without_room_is_passed_to_the_home_then_dropped() {
    let mut c = Cluster::new(Setup { nodes: 4, capacity: 1, network_attached: true, ..SETUP });
    for node in [0, 2, 3] {
        c.read(node, 1000 + u32::from(node));
    }
    c.read(1, 0);
    let log = c.read(1, 1);
    let stores = log.iter().filter(|l| l.contains(" store 0 ")).count();
    assert!((1..=2).contains(&stores), "{log:?}");
    assert!(log.iter().any(|l| l.contains("stored 0 Dropped")), "{log:?}");
    assert!((0..4).all(|n| !c.has(n, 0)));
}

/// HSCC-10: the most recent copy goes back to where it came from; there it is refused if there is one.
#[test]
fn a_most_recent_copy_returns_to_its_previous_node() {
    let mut c = Cluster::new(Setup { capacity: 2, network_attached: true, ..SETUP });
    let block = c.homed_at(2);
    c.read(2, block);
    c.read(1, block);
    c.read(1, block + 30);
    let log = c.read(1, block + 60);
    assert!(log.contains(&format!("n1->n2 store {block} 1")), "{log:?}");
    assert!(log.contains(&format!("n2->n1 stored {block} Present")), "{log:?}");
    assert_eq!(c.nodes[2].index_entry(BlockId::new(V, block)).1, None, "the list ends here again");
}

/// HSCC-7: a copy that is not the most recent is dropped without a word.
#[test]
fn an_older_copy_is_dropped() {
    let mut c = Cluster::new(Setup { capacity: 1, network_attached: true, ..SETUP });
    let block = c.homed_at(2);
    c.read(2, block);
    c.read(1, block);
    let log = c.read(2, block + 3);
    assert!(!log.iter().any(|l| l.contains("store")), "{log:?}");
    assert!(!c.has(2, block) && c.has(1, block));
}

/// HSCC-12: the home has the old entries dropped, back along the list, up to the new host.
#[test]
fn an_index_update_invalidates_the_evictors_entry() {
    let mut c = Cluster::new(Setup { capacity: 4, network_attached: true, ..SETUP });
    for index in 0..6 {
        c.read(1, index);
    }
    let entry = |node: usize, index| c.nodes[node].index_entry(BlockId::new(V, index));
    for index in 0..2 {
        let holder = (0..3).find(|&n| c.has(n, index)).expect("a saved singleton has a host");
        let home = usize::from(Placement::new(PlacementKind::Modulo, 3).home(BlockId::new(V, index)).0);
        if home != usize::from(holder) && home != 1 {
            assert_eq!(entry(home, index).1, Some(NodeId(holder)), "the home names the new host");
        }
        assert_eq!(entry(1, index).0, None, "the evictor has no previous node left");
    }
}

/// HSCC-11: a stored block never makes a second one leave.
#[test]
fn an_eviction_does_not_ripple() {
    let mut c = Cluster::new(Setup { nodes: 4, capacity: 2, network_attached: true, ..SETUP });
    for node in 0..4u16 {
        for index in 0..10 {
            c.read(node, 100 * u32::from(node) + index);
            let stores = c.log.iter().filter(|l| l.contains(" store ")).count();
            assert!(stores <= 2, "one block is sent at most twice: {:?}", c.log);
        }
    }
}

/// CARD-8: which block leaves does not depend on the policy.
#[test]
fn the_victim_is_the_replacements_choice() {
    let survivors = |policy| {
        let mut c = Cluster::new(Setup { policy, nodes: 2, capacity: 4, network_attached: true, ..SETUP });
        for index in [0, 1, 2, 3, 0, 2, 4, 5, 0, 6] {
            c.read(1, index);
        }
        (0..7).filter(|&i| c.has(1, i)).collect::<Vec<_>>()
    };
    assert_eq!(survivors("rd"), [0, 4, 5, 6]);
    assert_eq!(survivors("hdc"), survivors("rd"));
}

/// HSCC-13: with the policy's own consistency, a write leaves no stale copy when writers take turns.
#[test]
fn hscc_invalidates_along_the_list() {
    let mut c = Cluster::new(Setup { nodes: 5, coherence: Coherence::Policy, ..SETUP });
    let block = c.homed_at(3);
    for node in [2, 1, 4] {
        c.read(node, block);
    }
    c.log.clear();
    c.write(4, block);
    assert!(!c.log.iter().any(|l| l.contains("invalidate ")), "nobody asks for confirmation");
    assert!(c.log.iter().any(|l| l.contains(&format!("{:?}", Note { kind: 127, value: 4 }))));
    assert!([1, 2, 3].iter().all(|&n| !c.has(n, block)), "{:?}", c.log);
}

/// HSCC-5 and the design's bound: at most 36 bytes of tables per cached block (8 of them are HSCC's index), whatever the number of nodes.
#[test]
fn the_tables_cost_at_most_36_bytes_a_block_but_for_what_w_tinylfu_and_lirs_count() {
    for replacement in Replacement::ALL {
        let per_block = |nodes| {
            let config = ShardConfig {
                hedge: false,
                capacity_blocks: 1 << 16,
                algorithms: BuiltIn::with(replacement),
                nodes,
                ..SETUP.config(0, 1)
            };
            Shard::new(config, 1).index_bytes() as f64 / f64::from(1 << 16)
        };
        // The sketch of W-TinyLFU has the 16 counters a block that its authors give it; with 4 it is another algorithm. LIRS has the time
        // of each block's last use.
        let most = match replacement {
            Replacement::WTinyLfu
            | Replacement::WTinyLfu10
            | Replacement::WTinyLfuAdaptive
            | Replacement::Lirs => 42.0,
            _ => 36.0,
        };
        assert!(per_block(3) <= most, "{replacement}: {}", per_block(3));
        assert_eq!(per_block(3), per_block(1000), "{replacement}");
    }
}
