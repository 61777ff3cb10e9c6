//! Writes that are done, and whose answers are lost together with the disk node.

use std::thread;
use std::time::Duration;

use cards_check::history::Step;

use super::record::Recorder;
use super::scene::{Scene, Setting};
use super::{is_full, need_network, play};
use crate::mirror::three_keep_the_registry;

/// Time for a write to reach the disk, and for its answer to be lost.
const DELIVERY: Duration = Duration::from_millis(300);
/// Time for a node to find the disk node again and to send it a write.
const RETURN: Duration = Duration::from_millis(1_500);

/// When it is repeated, it must not undo what the disk node's next life has written before.
#[test]
fn a_write_that_is_repeated_to_the_next_life_of_the_disk_node_undoes_no_later_one() {
    need_network!();
    play(9, 3, |setting| {
        // Long enough that the card of the node that hears nothing stays good.
        let setting = Setting { lease: "8s", disk_wait: "16s", ..setting };
        let mut scene = Scene::start(setting, setting.nodes);
        scene.rest();
        // While the third one is still to be told that it keeps the registry, a deaf node and the death of another are too much for it.
        three_keep_the_registry(&mut scene.cluster, setting.nodes);
        (0..if is_full() { 3 } else { 1 }).for_each(|block| overtake(&mut scene, block));
        scene.end();
    });
}

fn overtake(scene: &mut Scene, block: u64) {
    let clock = scene.clock;
    let recorder = move |client| Recorder { client, clock };
    let exports = [2, 3].map(|node| scene.cluster.export(node, "disk"));
    let [mut early, mut late] = exports.each_ref().map(|export| export.open());
    let mut witness = exports[1].open();
    let [early_tag, late_tag] = [1_000 + block, 2_000 + block];
    scene.network.deafen(2);
    let early = thread::spawn(move || recorder(2).write(&mut early, block, early_tag).0);
    thread::sleep(DELIVERY);
    let seen = recorder(3).read(&mut witness, block).expect("a read while all is well at n3");
    assert!(seen.op.tag == early_tag && !early.is_finished(), "it is written, and its writer does not know");
    scene.cluster.node(1).kill();
    let late = thread::spawn(move || recorder(4).write(&mut late, block, late_tag).0);
    scene.cluster.node(1).restart();
    thread::sleep(RETURN);
    scene.network.heal(2);
    let [early, late] = [early, late].map(|writer| writer.join().expect("a writer"));
    assert_ne!(late.op.returned, Step::MAX, "n3 has a good card and nothing in its way");
    let last = recorder(3).read(&mut witness, block).expect("a read when all is well again");
    scene.more.0.extend([seen, early, late, last]);
}
