//! Choosers and shadows on references whose best policy is known.

use cards_advise::Access;
use cards_core::{BlockId, Instant, NodeId, Origin, PgId, PlacementKind, mix};
use cards_policies::Replacement;
use cards_policies::policy::START;
use std::time::Duration;

use crate::{CANDIDATES, Chooser, Classes, Cluster, Costs, Path, Shadow, rate, takes};

fn cluster(nodes: usize, cache: u32) -> Cluster {
    Cluster {
        caches: vec![cache; nodes],
        block_bytes: 4096,
        replacement: Replacement::S3Fifo,
        network_attached: false,
        placement: PlacementKind::Rendezvous,
    }
}

/// Microseconds of blocks from own memory, a peer, the disk.
fn costs(own: u64, peer: u64, disk: u64) -> Costs {
    let mut classes = Classes::default();
    for (origin, us) in [(Origin::Local, own), (Origin::Remote, peer), (Origin::Disk, disk)] {
        classes.add(origin, 1, Duration::from_micros(us));
    }
    Costs::of(&classes)
}

/// All nodes read the same blocks, in orders of their own, far more than a node caches and fewer than all do.
fn shared_reads(chooser: &mut Chooser, reads: u64) -> Vec<&'static str> {
    let mut chosen = Vec::new();
    for number in 0..reads {
        let node = (number % 4) as u16;
        let block = (mix(number) % 600) as u32;
        chooser.refer(Instant(number * 100_000), node, block, Access::Read);
        chosen.extend(chooser.choose().map(|switch| switch.policy));
    }
    chosen
}

#[test]
fn a_shadow_counts_what_a_read_waits_for() {
    let mut shadow = Shadow::new(&cluster(3, 64), "rd").unwrap();
    let mut read = |node, block| shadow.refer(Instant(1), node, block, Access::Read).0;
    assert_eq!(read(1, 7), Path { hops: 1, blocks: 1, disks: 1 }, "the disk node reads it");
    assert_eq!(read(1, 7), Path::default(), "it is here");
    assert_eq!(read(2, 7), Path { hops: 1, blocks: 1, disks: 0 }, "the disk node has kept it");
    assert_eq!(read(0, 9), Path { hops: 0, blocks: 0, disks: 1 }, "its own disk");
}

#[test]
fn a_write_takes_copies_away_and_is_nothing_that_a_read_waits_for() {
    let mut shadow = Shadow::new(&cluster(3, 64), "rd").unwrap();
    shadow.refer(Instant(1), 1, 7, Access::Read);
    let (path, beside) = shadow.refer(Instant(2), 2, 7, Access::Write);
    assert_eq!(path, Path::default());
    assert!(beside.hops > 0, "{beside:?}");
    assert_ne!(shadow.refer(Instant(3), 1, 7, Access::Read).0, Path::default());
}

#[test]
fn a_reference_of_a_node_that_is_none_changes_nothing() {
    let mut shadow = Shadow::new(&cluster(2, 64), "single").unwrap();
    assert_eq!(shadow.refer(Instant(1), 9, 7, Access::Read), (Path::default(), Path::default()));
    assert!(Shadow::new(&cluster(2, 64), "no such policy").is_none());
    assert!(Shadow::new(&cluster(0, 64), "rd").is_none());
}

#[test]
fn every_candidate_runs_and_the_first_is_what_volumes_begin_with() {
    assert_eq!(CANDIDATES[0], START);
    assert!(CANDIDATES.iter().all(|policy| Shadow::new(&cluster(2, 16), policy).is_some()));
}

#[test]
fn a_copy_at_each_reader_is_for_fast_disks() {
    let suits = |policy, disk| costs(2, 45, disk).suits(policy);
    assert!(suits("local", 130) && !suits("local", 800));
    assert!(CANDIDATES.iter().filter(|policy| **policy != "local").all(|policy| suits(policy, 800)));
    let listed = |disk| {
        let mut chooser = Chooser::new(&cluster(2, 16), None);
        chooser.set_costs(costs(2, 45, disk));
        chooser.standings().iter().any(|standing| standing.policy == "local")
    };
    assert!(listed(130) && !listed(800));
}

#[test]
fn what_is_bad_is_replaced_and_the_choice_stays() {
    let mut chooser = Chooser::new(&cluster(4, 200), Some("rd"));
    chooser.set_costs(costs(2, 50, 2_000));
    let chosen = shared_reads(&mut chooser, 4_000);
    assert!(shared_reads(&mut chooser, 8_000).is_empty(), "{chosen:?}");
    let standings = chooser.standings();
    let of = |policy: &str| standings.iter().find(|standing| standing.policy == policy).unwrap();
    let last = chosen.last().expect("rd does not suit");
    assert!(of(last).in_force && !of("rd").in_force && chooser.in_force() == *last);
    assert!(of(last).mean * 2 < of("rd").mean, "{standings:#?}");
    assert!(chooser.has_learned() && chooser.reads() == 12_000);
}

/// One node reads what three caches hold. With `rd`, two of them stay empty, however long that takes.
#[test]
fn caches_that_do_not_fill_are_no_reason_to_wait() {
    let mut chooser = Chooser::new(&cluster(4, 400), Some("rd"));
    chooser.set_costs(costs(2, 50, 2_000));
    let chosen = (0..6_000_u64).find_map(|number| {
        chooser.refer(Instant(number * 100_000), 1, (mix(number) % 1_200) as u32, Access::Read);
        chooser.choose()
    });
    let switch = chosen.expect("rd is replaced before all caches have been read four times over");
    assert!(switch.policy != "rd" && chooser.reads() < 4 * 1_600, "{switch:?}");
}

#[test]
fn what_costs_the_same_everywhere_is_no_reason_for_a_change() {
    let mut chooser = Chooser::new(&cluster(4, 200), Some("rd"));
    chooser.set_costs(costs(2, 50, 2_000));
    for number in 0..8_000_u64 {
        // Nothing is ever read again.
        chooser.refer(Instant(number * 100_000), (number % 4) as u16, number as u32, Access::Read);
        assert_eq!(chooser.choose(), None);
    }
}

#[test]
fn a_volume_begins_with_what_suits_its_disk() {
    let first = |disk| {
        let mut chooser = Chooser::new(&cluster(4, 200), None);
        chooser.set_costs(costs(2, 50, disk));
        shared_reads(&mut chooser, 100)
    };
    assert_eq!(first(130), ["rd"]);
    assert!(first(2_000).is_empty(), "a slow disk: homes are asked, as at the start");
    let mut known = Chooser::new(&cluster(4, 200), Some("greedy"));
    known.set_costs(costs(2, 50, 130));
    assert!(shared_reads(&mut known, 100).is_empty() && known.in_force() == "greedy");
}

#[test]
fn costs_that_were_not_measured_are_nominal_and_none_is_negative() {
    let nominal = Costs::of(&Classes::default());
    assert!(nominal.disk > nominal.block && nominal.block > nominal.hop && nominal.hop > nominal.own);
    let odd = costs(100, 10, 1);
    assert!([odd.own, odd.hop, odd.block, odd.disk].iter().all(|cost| *cost > 0.0), "{odd:?}");
}

/// As when the copies of a policy that has just begun are still on their way from the disk.
#[test]
fn blocks_that_waited_for_the_disk_are_no_measure_of_messages() {
    let mut classes = Classes::default();
    classes.add(Origin::Disk, 1_000, Duration::from_secs(500));
    for _ in 0..300 {
        classes.add(Origin::Remote, 1, Duration::from_millis(400));
    }
    assert_eq!(Costs::of(&classes).hop, Costs::default().hop, "the nominal cost until there is a better one");
    for _ in 0..1_000 {
        classes.add(Origin::Remote, 1, Duration::from_micros(1_000));
    }
    let costs = Costs::of(&classes);
    assert!((500_000.0..1_000_000.0).contains(&(costs.hop + costs.block)), "{costs:?}");
    assert!(costs.disk > 400_000_000.0, "what the queue takes is the disk's");
}

#[test]
fn old_costs_fade() {
    let mut classes = Classes::default();
    classes.add(Origin::Disk, 1_000_000, Duration::from_secs(1_000_000));
    classes.add(Origin::Disk, 40_000, Duration::from_millis(40_000));
    assert!(Costs::of(&classes).disk < 1_100_000.0);
}

#[test]
fn small_caches_are_looked_at_whole_and_large_ones_a_little() {
    let scaled = |cache: u64| (rate(cache).weight(), cache / rate(cache).weight());
    assert_eq!(scaled(15), (1, 15));
    assert_eq!(scaled(4096), (32, 128));
    assert_eq!(scaled(65_536), (64, 1024));
    let block = |index| BlockId::new(PgId::plain(NodeId(0), 0), index);
    let taken =
        |salt| (0..64_000).filter(|&index| takes(rate(65_536), block(index), salt)).collect::<Vec<u32>>();
    assert!((800..1200).contains(&taken(0).len()) && (800..1200).contains(&taken(1).len()));
    assert_ne!(taken(0), taken(1));
}
