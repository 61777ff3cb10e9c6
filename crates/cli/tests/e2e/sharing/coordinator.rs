//! The list of members is kept by a coordinator, which goes away, or does not hear of a node.
//!
//! Neither home's leases exclude anybody: a node that was declared dead may not know it and go on. What keeps it from
//! harm is that the disk node compares the generation of its card.

use std::thread;

use super::probe::Probe;
use super::record::Recorder;
use super::scene::{Home, OUTAGE, Scene, Setting};
use super::{in_homes, need_network, play};
use crate::harness::tools::need;

/// Number in the history of who writes at a node that was declared dead.
const STRANDED: u64 = 2_000;

#[test]
fn clients_do_not_notice_that_the_coordinator_was_killed() {
    need_network!();
    play(21, 4, |setting| {
        let mut scene = Scene::start(Setting { home: Home::Embedded, ..setting }, 3);
        scene.cluster.node(4).kill();
        scene.goes_on_without(4, OUTAGE * 2);
        for node in 1..=3 {
            assert_eq!(scene.crowd().failures(node), 0, "n{node} needs no coordinator");
        }
        // It was the only one that kept the registry, or there were three by then, and two of them have gone on without it.
        let problems = scene.cluster.node(2).status()["problems"].to_string();
        let is_said = ["I/O goes on", "it was declared dead"].iter().any(|words| problems.contains(words));
        assert!(is_said, "{problems}");
        scene.cluster.node(4).restart();
        scene.becomes(2, 4, "up");
        // Whoever was killed can join again.
        scene.cluster.node(2).kill();
        scene.cluster.node(2).restart();
        scene.goes_on();
        scene.end();
    });
}

#[test]
fn one_member_of_etcd_is_killed_and_a_node_joins() {
    need_network!();
    need!("etcd", "etcdctl");
    play(22, 4, |setting| {
        let mut scene = Scene::start(Setting { home: Home::Etcd, ..setting }, 3);
        scene.etcd().kill(3);
        scene.goes_on();
        scene.cluster.node(3).kill();
        scene.becomes(1, 3, "dead");
        scene.cluster.node(3).restart();
        scene.becomes(1, 3, "up");
        scene.goes_on();
        scene.end();
    });
}

/// More than half of them are away for longer than any lease, and that is no reason to serve nobody.
#[test]
fn most_members_of_etcd_are_killed_and_one_returns() {
    need_network!();
    need!("etcd", "etcdctl");
    play(26, 4, |setting| {
        let mut scene = Scene::start(Setting { home: Home::Etcd, ..setting }, 3);
        scene.lose_coordinator();
        scene.goes_on_without(4, OUTAGE * 2);
        for node in 1..=3 {
            assert_eq!(scene.crowd().failures(node), 0, "n{node} needs no etcd");
            let problems = scene.cluster.node(node).status()["problems"].to_string();
            assert!(problems.contains("I/O goes on"), "{problems}");
        }
        scene.etcd().restart(2);
        scene.cluster.node(3).kill();
        scene.becomes(1, 3, "dead");
        scene.cluster.node(3).restart();
        scene.becomes(1, 3, "up");
        scene.goes_on();
        scene.end();
    });
}

#[test]
fn a_node_that_is_declared_dead_while_it_is_cut_off_is_refused_and_returns() {
    need_network!();
    in_homes(23, 5, |setting| {
        // The node that is cut off has no member of etcd.
        let mut scene = Scene::start(setting, 4);
        scene.network.cut(4);
        scene.becomes(1, 4, "dead");
        let mut client = scene.cluster.export(4, "disk").open();
        let stranded = Recorder { client: STRANDED, clock: scene.clock };
        let (event, done) = stranded.write(&mut client, 0, STRANDED << 32);
        assert_eq!(done.expect_err("a write at a node that is dead").raw_os_error(), Some(libc::EIO));
        scene.more.0.push(event);
        scene.crowd().goes_on_at(&[1, 2, 3]);
        scene.network.heal(4);
        scene.goes_on();
        scene.becomes(1, 4, "up");
        scene.end().never_shows(&[event.op.tag]);
    });
}

#[test]
fn a_node_that_was_stopped_until_it_was_declared_dead_writes_nothing_old() {
    need_network!();
    in_homes(24, 5, |setting| {
        let mut scene = Scene::start(setting, 4);
        let mut waiting = Probe::new(&scene.cluster.export(4, "disk"), scene.clock);
        scene.cluster.node(4).pause();
        scene.becomes(1, 4, "dead");
        scene.goes_on_without(4, OUTAGE);
        waiting.ask();
        scene.cluster.node(4).resume();
        scene.more.0.extend(waiting.answers(1_000));
        scene.goes_on();
        scene.becomes(1, 4, "up");
        scene.end();
    });
}

/// A storm of deaths: whoever is killed is declared dead before it comes back, or just not.
#[test]
fn members_die_and_return_while_clients_write() {
    need_network!();
    play(25, 5, |setting| {
        let mut scene = Scene::start(Setting { home: Home::Embedded, ..setting }, 4);
        for (node, away) in [(2, OUTAGE), (3, OUTAGE / 8), (1, OUTAGE), (4, OUTAGE / 2)] {
            scene.cluster.node(node).kill();
            thread::sleep(away);
            scene.cluster.node(node).restart();
            scene.goes_on();
        }
        let epoch = scene.cluster.node(1).status()["epoch"].as_u64();
        // Five joins, then a death and a join, or a succession, for each.
        assert!(epoch.is_some_and(|epoch| epoch >= 9), "{epoch:?}");
        scene.end();
    });
}
