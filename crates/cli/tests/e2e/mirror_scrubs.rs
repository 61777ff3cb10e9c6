//! Scrubs of mirrored volumes that begin by themselves.

use std::path::Path;

use crate::harness::plan::Plan;
use crate::harness::{LONG, MIB, content, eventually, scratch};
use crate::mirror::{Scene, at, cluster_by, volume};
use crate::mirror_rot::{SEED, flip};

fn scene(dir: &Path, keys: &'static str) -> Scene {
    let mut plan = Plan { disk_wait: "60s", ..Plan::new(dir, 3) };
    plan.nodes.iter_mut().for_each(|node| node.keys = keys);
    Scene::of(cluster_by(plan, None))
}

#[test]
fn what_rots_at_a_copy_that_nobody_reads_is_mended_without_being_asked() {
    let dir = scratch();
    let mut scene = scene(dir.path(), "scrub_every = \"2s\"\nscrub_rate = \"16M\"\n");
    let third = scene.third;
    let mut client = scene.cluster.export(third, "data").open();
    client.write(0, &content::bytes(0, MIB as usize, SEED)).unwrap();
    client.flush().unwrap();
    let primary = scene.primary(third);
    let other = scene.other(primary);
    flip(&dir.path().join(format!("fast{other}.img")), MIB / 2);
    scene.cluster.node(primary).says(&["volume=\"data\"", "its scrub begins: 16 MiB to read"]);
    scene.cluster.node(primary).says(&["volume=\"data\"", "16 MiB read, repaired 4 KiB, damaged nothing"]);
    for number in [primary, other, third] {
        eventually(&format!("n{number} says when it was"), LONG, || {
            let shown = at(&mut scene.cluster, number, &["volume", "show", "data"]).ok();
            let is_told = shown.stdout.contains("scrubbed     ") && !shown.stdout.contains("not yet;");
            is_told.then_some(())
        });
    }
    client.close();
}

#[test]
fn a_scrub_goes_on_at_the_next_primary() {
    let dir = scratch();
    let mut scene = scene(dir.path(), "scrub_every = \"1s\"\nscrub_rate = \"512K\"\n");
    let primary = scene.primary(scene.third);
    let other = scene.other(primary);
    eventually("the other node has heard how far it is", LONG, || {
        volume(&mut scene.cluster, other)["scrub"]["percent"].as_u64().filter(|percent| *percent > 0)
    });
    scene.cluster.node(primary).kill();
    scene.cluster.node(other).says(&["volume=\"data\"", "its scrub goes on: ", " of 16 MiB are read"]);
}
