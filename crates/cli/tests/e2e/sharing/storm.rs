//! Faults at random, several at a time, the node with the disk not spared.

use std::thread;
use std::time::Duration;

use super::scene::{OPERATIONS, Scene};
use super::{is_full, need_network, play};
use crate::harness::content::Random;

/// At most this many nodes suffer at a time.
const VICTIMS: usize = 2;
/// Bound of the time between two events: two leases, so that some faults are shorter than a lease.
const STEP_MS_MAX: u64 = 2_000;

#[derive(Clone, Copy)]
enum Fault {
    Cut,
    Mute,
    Deaf,
    Stopped,
    Killed,
}

const FAULTS: [Fault; 5] = [Fault::Cut, Fault::Mute, Fault::Deaf, Fault::Stopped, Fault::Killed];

#[test]
fn after_a_storm_of_faults_all_that_was_done_fits_one_order() {
    need_network!();
    play(8, 5, |setting| {
        let mut scene = Scene::start(setting, setting.nodes);
        let mut random = Random(setting.seed);
        let mut victims: Vec<(usize, Fault)> = Vec::new();
        for _ in 0..if is_full() { 30 } else { 8 } {
            thread::sleep(Duration::from_millis(random.below(STEP_MS_MAX)));
            let node = 1 + random.below(setting.nodes as u64) as usize;
            if victims.len() == VICTIMS || victims.iter().any(|(victim, _)| *victim == node) {
                relieve(&mut scene, victims.remove(0));
            } else {
                let victim = (node, FAULTS[random.below(FAULTS.len() as u64) as usize]);
                strike(&mut scene, victim);
                victims.push(victim);
            }
        }
        for victim in victims {
            relieve(&mut scene, victim);
        }
        scene.goes_on();
        scene.crowd().has_done(OPERATIONS);
        let history = scene.end();
        assert!(history.answered() as u64 >= OPERATIONS);
        assert!(history.open() > 0, "no write was under way when a node failed");
    });
}

fn strike(scene: &mut Scene, (node, fault): (usize, Fault)) {
    match fault {
        Fault::Cut => scene.network.cut(node),
        Fault::Mute => scene.network.mute(node),
        Fault::Deaf => scene.network.deafen(node),
        Fault::Stopped => scene.cluster.node(node).pause(),
        Fault::Killed => scene.cluster.node(node).kill(),
    }
}

fn relieve(scene: &mut Scene, (node, fault): (usize, Fault)) {
    match fault {
        Fault::Cut | Fault::Mute | Fault::Deaf => scene.network.heal(node),
        Fault::Stopped => scene.cluster.node(node).resume(),
        // It may not be served before others are relieved.
        Fault::Killed => scene.cluster.node(node).spawn(),
    }
}
