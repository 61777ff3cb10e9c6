//! Nodes are cut off, stopped and killed while clients of all nodes write.

use std::thread;
use std::time::Duration;

use cards_check::history::Step;

use super::probe::Probe;
use super::scene::{LEASE, OUTAGE, Scene};
use super::{need_network, play};
use crate::harness::network::Network;

/// Shorter than a lease: nobody has been given up yet.
const MOMENT: Duration = Duration::from_millis(300);
/// A node that was away for so long uses no copies, but its card has not been given up.
const LAPSE: Duration = Duration::from_millis(1_250);

#[test]
fn a_node_that_is_cut_off_serves_nothing_and_returns() {
    need_network!();
    play(1, 4, |setting| {
        let scene = Scene::start(setting, setting.nodes);
        let outage = outage(&scene, 3, Network::cut);
        scene.end().is_silent_at(3, setting.nodes, outage);
    });
}

/// What a node sends is lost, and then what is sent to another one.
#[test]
fn a_node_that_is_not_heard_or_hears_nothing_serves_nothing_and_returns() {
    need_network!();
    play(2, 4, |setting| {
        let scene = Scene::start(setting, setting.nodes);
        // Not the last node: it keeps the registry, without which a node that was declared dead does not return.
        let mute = outage(&scene, 2, Network::mute);
        let deaf = outage(&scene, 3, Network::deafen);
        let history = scene.end();
        history.is_silent_at(2, setting.nodes, mute);
        history.is_silent_at(3, setting.nodes, deaf);
    });
}

/// Two nodes without disks hear nothing of each other. Policies may have sent them there; hints are hints.
#[test]
fn two_nodes_that_cannot_reach_each_other_go_on() {
    need_network!();
    play(3, 4, |setting| {
        let scene = Scene::start(setting, setting.nodes);
        scene.network.part(&[2, 3]);
        scene.goes_on();
        thread::sleep(OUTAGE);
        scene.goes_on();
        for node in [2, 3] {
            scene.network.heal(node);
        }
        scene.goes_on();
        for node in 1..=setting.nodes {
            assert_eq!(scene.crowd().failures(node), 0, "n{node} reaches the disk node all the time");
        }
        scene.end();
    });
}

/// Node `node` is away for longer than its lease, and then comes back. From when to when its clients can have
/// been served nothing.
fn outage(scene: &Scene, node: usize, begin: fn(&Network, usize)) -> (Step, Step) {
    begin(&scene.network, node);
    let expired = scene.clock.now() + LEASE.as_nanos() as Step;
    scene.goes_on_without(node, OUTAGE);
    let healed = scene.clock.now();
    scene.network.heal(node);
    scene.goes_on();
    (expired, healed)
}

/// Reads wait for the node when it wakes up, before it can have heard what others have written meanwhile.
#[test]
fn a_node_that_was_stopped_for_longer_than_its_lease_serves_nothing_stale() {
    need_network!();
    play(4, 4, |setting| {
        let mut scene = Scene::start(setting, setting.nodes);
        for (probe, away) in (1..).zip([LAPSE, OUTAGE, MOMENT]) {
            let mut waiting = Probe::new(&scene.cluster.export(3, "disk"), scene.clock);
            scene.cluster.node(3).pause();
            scene.goes_on_without(3, away);
            waiting.ask();
            scene.cluster.node(3).resume();
            let answers = waiting.answers(1_000 + probe);
            assert!(!answers.is_empty(), "a node that woke up has answered with errors only");
            scene.more.0.extend(answers);
            scene.goes_on();
        }
        scene.end();
    });
}

#[test]
fn a_node_that_is_killed_while_clients_write_loses_nothing() {
    need_network!();
    play(5, 5, |setting| {
        let mut scene = Scene::start(setting, setting.nodes);
        for (node, away) in [(2, OUTAGE), (3, MOMENT), (2, Duration::ZERO)] {
            scene.kill_during_a_write(node);
            scene.goes_on_without(node, away);
            scene.cluster.node(node).restart();
            scene.goes_on();
        }
        let history = scene.end();
        assert!(history.open() > 0, "no write was under way when nodes were killed");
    });
}

#[test]
fn a_disk_node_that_is_killed_while_clients_write_loses_nothing_and_repeats_nothing() {
    need_network!();
    play(6, 3, |setting| {
        let mut scene = Scene::start(setting, setting.nodes);
        for away in [MOMENT, OUTAGE, Duration::ZERO] {
            scene.kill_during_a_write(1);
            thread::sleep(away);
            scene.cluster.node(1).restart();
            scene.goes_on();
        }
        let history = scene.end();
        assert!(history.open() > 0, "no write was under way when the disk node was killed");
    });
}
