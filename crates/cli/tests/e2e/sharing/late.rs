//! A write that its node has sent, and that comes when the node has been given up and another one has written.
//!
//! The coordinator is away: it declares nobody dead, so nobody ends the connection in which the write comes. What keeps
//! the later write from being undone is what the disk node knows of cards, and nothing else.

use std::thread;
use std::time::{Duration, Instant};

use cards_check::history::Step;

use super::history::BLOCK;
use super::record::Recorder;
use super::scene::{Scene, Setting};
use super::{in_homes, need_network};
use crate::harness::{SHORT, eventually};

/// How long nobody may see a write that has been refused, while its node cannot ask again.
const WATCH: Duration = Duration::from_millis(300);
/// What they write to.
const PLACE: u64 = 5;
const EARLY: u64 = 1_001;
const LATE: u64 = 1_002;

#[test]
fn a_write_that_was_on_its_way_when_its_node_was_given_up_undoes_no_later_one() {
    need_network!();
    in_homes(10, 4, |setting| come_too_late(Scene::start(Setting { insecure: true, ..setting }, 3)));
}

fn come_too_late(mut scene: Scene) {
    scene.rest();
    scene.lose_coordinator();
    let clock = scene.clock;
    let recorder = |client| Recorder { client, clock };
    let exports = [1, 2, 3].map(|node| scene.cluster.export(node, "disk"));
    let [mut at_disk, mut early, mut late] = exports.each_ref().map(|export| export.open());
    // With a copy, its node has to be asked before anybody else writes.
    let seen = recorder(EARLY).read(&mut early, PLACE).expect("a read while all is well");
    scene.network.hold(2);
    let early = {
        let recorder = recorder(EARLY);
        thread::spawn(move || recorder.write(&mut early, PLACE, EARLY << 32).0)
    };
    let half = BLOCK as u64 / 2;
    eventually("the write is on its way", SHORT, || (scene.network.on_the_way(2, 1) > half).then_some(()));
    scene.cluster.node(2).pause();
    let (newer, done) = recorder(LATE).write(&mut late, PLACE, LATE << 32);
    done.expect("a write at n3, which has a good card");
    let all = heard(&mut scene) + scene.network.on_the_way(2, 1);
    scene.network.let_through(2);
    eventually("the write comes to the disk node", SHORT, || (heard(&mut scene) >= all).then_some(()));
    scene.more.0.extend([seen, newer]);
    let end = Instant::now() + WATCH;
    while Instant::now() < end {
        for (client, at) in [(EARLY, &mut at_disk), (LATE, &mut late)] {
            let event = recorder(client).read(at, PLACE).expect("a read");
            assert_eq!(event.op.tag, newer.op.tag, "an old write was done");
            scene.more.0.push(event);
        }
    }
    scene.cluster.node(2).resume();
    scene.network.heal(2);
    let early = early.join().expect("a writer, who has got an answer");
    scene.more.0.push(early);
    scene.regain_coordinator();
    let history = scene.end();
    // Its node may have sent it again, with a new card: then it is a write like any other.
    if early.op.returned == Step::MAX {
        history.never_shows(&[early.op.tag]);
    }
}

/// Bytes that the disk node has received from the node of the early write.
fn heard(scene: &mut Scene) -> u64 {
    scene.member(1, 2)["bytes_received"].as_u64().expect("a number of bytes")
}
