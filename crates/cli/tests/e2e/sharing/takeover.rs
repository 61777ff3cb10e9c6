//! One node takes the volume for itself while others write.

use super::crowd::Crowd;
use super::history::{CLIENTS, Event};
use super::scene::Scene;
use super::{need_network, play};
use crate::harness::cluster::CARDS;
use crate::harness::process::run;
use crate::harness::{SHORT, eventually};

const TAKER: usize = 4;

#[test]
fn who_lost_a_volume_is_told_so_and_writes_nothing_to_it() {
    need_network!();
    play(7, TAKER, |setting| take_and_give_back(Scene::start(setting, TAKER - 1)));
}

fn take_and_give_back(mut scene: Scene) {
    let others = [1, 2, 3];
    let socket = scene.cluster.node(TAKER).admin_socket();
    let attach = ["volume", "attach", "disk", "--mode", "exclusive", "--takeover", "--socket", &socket];
    run(&[&[CARDS], &attach[..]].concat(), SHORT).ok();
    let taken = scene.clock.now();
    let places = vec![(TAKER, scene.cluster.export(TAKER, "disk")); 4];
    let owner = Crowd::start(scene.clock, places, 101, scene.setting.seed);
    scene.crowd().is_told_at(&others);
    owner.goes_on_at(&[TAKER]);
    assert_eq!(owner.failures(TAKER), 0, "who has a volume for himself has no reason for an error");
    scene.more.0.extend(owner.end().0);
    let released = scene.clock.now();
    eventually("the volume is given back", SHORT, || {
        let detach = ["volume", "detach", "disk", "--socket", &socket];
        run(&[&[CARDS], &detach[..]].concat(), SHORT).status.success().then_some(())
    });
    scene.goes_on();
    let history = scene.end();
    for node in others {
        history.is_silent_at(node, others.len(), (taken, released));
    }
    let refused = |event: &&Event| {
        event.client <= CLIENTS as u64
            && event.op.invoked >= taken
            && event.failed.is_some_and(|failed| failed <= released)
    };
    let refused: Vec<u64> = history.0.iter().filter(refused).map(|event| event.op.tag).collect();
    assert!(!refused.is_empty(), "nobody has tried to write");
    let seen = history.seen();
    for tag in refused {
        assert!(
            !seen.contains(&tag),
            "{tag:#x} was begun after the takeover, refused, and written nevertheless"
        );
    }
}
