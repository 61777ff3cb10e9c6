//! The list of members is kept by a coordinator, which goes away, or does not hear of a node.
//!
//! Neither home's leases exclude anybody: a node that was declared dead may not know it and go on. What keeps it from
//! harm is that the disk node compares the generation of its card.

use std::thread;

use super::probe::Probe;
use super::scene::{Home, OUTAGE, Scene, Setting};
use super::{is_full, need_network, play};
use crate::harness::tools::need;
use crate::harness::{SHORT, eventually};

const HOMES: [Home; 2] = [Home::Embedded, Home::Etcd];

/// What node `at` says of the membership of node `of`.
fn state(scene: &mut Scene, at: usize, of: usize) -> String {
    let status = scene.cluster.node(at).status();
    let members = status["members"].as_array().cloned().unwrap_or_default();
    let name = format!("n{of}");
    let member = members.iter().find(|member| member["name"] == name.as_str());
    member.and_then(|member| member["state"].as_str()).unwrap_or("unknown").to_owned()
}

fn becomes(scene: &mut Scene, at: usize, of: usize, wanted: &str) {
    let what = format!("n{of} is {wanted} for n{at}");
    eventually(&what, SHORT, || (state(scene, at, of) == wanted).then_some(()));
}

/// Plays with both homes in the long form, with one of them else.
fn in_homes(number: usize, nodes: usize, scene: impl Fn(Setting)) {
    play(number, nodes, |setting| {
        for home in HOMES.iter().skip(usize::from(!is_full()) * (number % 2)).take(1 + usize::from(is_full()))
        {
            scene(Setting { home: *home, ..setting });
        }
    });
}

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
        let problems = scene.cluster.node(2).status()["problems"].to_string();
        assert!(problems.contains("I/O goes on"), "{problems}");
        scene.cluster.node(4).restart();
        becomes(&mut scene, 2, 4, "up");
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
        scene.etcd[2].kill();
        scene.goes_on();
        scene.cluster.node(3).kill();
        becomes(&mut scene, 1, 3, "dead");
        scene.cluster.node(3).restart();
        becomes(&mut scene, 1, 3, "up");
        scene.goes_on();
        scene.end();
    });
}

#[test]
fn a_node_that_is_declared_dead_while_it_is_cut_off_returns() {
    need_network!();
    need!("etcd", "etcdctl");
    in_homes(23, 5, |setting| {
        // The node that is cut off has no member of etcd.
        let mut scene = Scene::start(setting, 4);
        scene.network.cut(4);
        scene.goes_on_without(4, OUTAGE);
        becomes(&mut scene, 1, 4, "dead");
        scene.network.heal(4);
        scene.goes_on();
        becomes(&mut scene, 1, 4, "up");
        scene.end();
    });
}

#[test]
fn a_node_that_was_stopped_until_it_was_declared_dead_writes_nothing_old() {
    need_network!();
    need!("etcd", "etcdctl");
    in_homes(24, 5, |setting| {
        let mut scene = Scene::start(setting, 4);
        let mut waiting = Probe::new(&scene.cluster.export(4, "disk"), scene.clock);
        scene.cluster.node(4).pause();
        becomes(&mut scene, 1, 4, "dead");
        scene.goes_on_without(4, OUTAGE);
        waiting.ask();
        scene.cluster.node(4).resume();
        scene.more.0.extend(waiting.answers(1_000));
        scene.goes_on();
        becomes(&mut scene, 1, 4, "up");
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
