//! One node takes the volume for itself while others write.

use super::crowd::Crowd;
use super::scene::Scene;
use super::{in_homes, need_network};
use crate::harness::cluster::CARDS;
use crate::harness::process::run;
use crate::harness::{SHORT, eventually};

const TAKER: usize = 4;

#[test]
fn who_lost_a_volume_is_told_so_and_writes_nothing_to_it() {
    need_network!();
    in_homes(7, TAKER, |setting| take_and_give_back(Scene::start(setting, TAKER - 1)));
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
    scene.cluster.node(1).says(&["its card is given up: another node takes the volume over", "peer=\"n2\""]);
    scene.cluster.node(2).says(&["the card is lost", "node n4 has volume \"disk\" for itself"]);
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
    // Where the disk is, who is connected can go on reading: it sees what the owner writes.
    history.writes_nothing_at(1, others.len(), (taken, released));
    for node in [2, 3] {
        history.is_silent_at(node, others.len(), (taken, released));
    }
    let refused: usize =
        others.map(|node| history.is_refused_at(node, others.len(), (taken, released))).into_iter().sum();
    assert!(refused > 0, "nobody has tried to write");
}
