//! Two processes with one name: while the first stands still a second one comes, and then the first goes on.

use super::crowd::Crowd;
use super::scene::Scene;
use super::{need_network, play};
use crate::harness::cluster::Cluster;
use crate::harness::{SHORT, eventually};

/// Whose name it is.
const NODE: usize = 3;
/// Clients of the second process count from here.
const FIRST: u64 = 101;

#[test]
fn who_lost_its_name_is_told_so_and_has_it_back_when_the_other_ends() {
    need_network!();
    play(18, 4, |setting| {
        let mut scene = Scene::start(setting, NODE);
        scene.cluster.node(NODE).pause();
        scene.becomes(1, NODE, "dead");
        let (mut other, crowd) = second(&scene);
        scene.becomes(1, NODE, "up");
        let taken = scene.clock.now();
        scene.cluster.node(NODE).resume();
        scene.crowd().is_told_at(&[NODE]);
        eventually("the node says why", SHORT, || {
            let problems = scene.cluster.node(NODE).status()["problems"].to_string();
            problems.contains("the name `n3` is in use").then_some(())
        });
        scene.crowd().goes_on_at(&[1, 2]);
        crowd.goes_on_at(&[NODE]);
        assert_eq!(crowd.failures(NODE), 0, "who has the name has no reason for an error");
        scene.more.0.extend(crowd.end().0);
        let given_back = scene.clock.now();
        assert!(other.node(NODE).terminate().success());
        scene.goes_on();
        scene.becomes(1, NODE, "up");
        let history = scene.end();
        history.is_silent_at(NODE, NODE, (taken, given_back));
        let refused = history.is_refused_at(NODE, NODE, (taken, given_back));
        assert!(refused > 0, "nobody has tried to write at the first process");
    });
}

/// The second process, and clients whom it serves.
fn second(scene: &Scene) -> (Cluster, Crowd) {
    let mut other = scene.impostor(NODE);
    other.node(NODE).restart();
    let places = vec![(NODE, other.export(NODE, "disk")); 4];
    let crowd = Crowd::start(scene.clock, places, FIRST, scene.setting.seed);
    crowd.goes_on_at(&[NODE]);
    (other, crowd)
}
