//! No copy is left of a volume but earlier images of disks: nobody serves them, every node says so, and a person can force one.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::harness::cluster::Cluster;
use crate::harness::plan::Plan;
use crate::harness::{LONG, MIB, content, eventually, scratch};
use crate::metrics::metrics;
use crate::mirror::{Scene, at, cluster_by, volume};

const OLD: u64 = 81;
const NEW: u64 = 82;

fn scene(dir: &Path) -> Scene {
    Scene::of(cluster_by(Plan { disk_wait: "5s", ..Plan::new(dir, 3) }, None))
}

fn write(scene: &Scene, seed: u64) {
    let mut client = scene.cluster.export(scene.third, "data").open();
    client.socket.limit(LONG).unwrap();
    client.write(0, &content::bytes(0, MIB as usize, seed)).unwrap();
    client.flush().unwrap();
    client.close();
}

/// Sets images of the disks of these nodes aside, with what is written in them; then newer data, and changes of the map, come to them.
fn image_and_go_on(scene: &mut Scene, dir: &Path, nodes: &[usize]) -> Vec<(PathBuf, PathBuf)> {
    write(scene, OLD);
    let image = |node: &usize| {
        let disk = dir.join(format!("fast{node}.img"));
        let aside = dir.join(format!("aside{node}.img"));
        scene.cluster.node(*node).pause();
        fs::copy(&disk, &aside).unwrap();
        scene.cluster.node(*node).resume();
        (aside, disk)
    };
    let images = nodes.iter().map(image).collect();
    scene.wait_in_sync();
    for _ in 0..2 {
        let third = scene.third;
        let primary = scene.primary(third);
        let other = scene.other(primary);
        assert!(scene.cluster.node(other).terminate().success());
        scene.restart(other);
        scene.wait_in_sync();
    }
    write(scene, NEW);
    images
}

/// The machines of these nodes are found in another boot.
fn lose_power(scene: &mut Scene, nodes: [usize; 2]) {
    for number in nodes {
        scene.cluster.node(number).kill();
        scene.cluster.node(number).reboot("b007");
    }
}

/// The first line of the status, the volume, the doctor and the metrics of a node say what has happened, and what helps.
fn is_told(scene: &mut Scene, number: usize, copies: &[usize]) {
    let told = eventually(&format!("n{number} says what has happened"), LONG, || {
        let told = volume(&mut scene.cluster, number);
        let old = |copy: &Value| (copy["state"] == "put_back").then(|| copy["node"].clone());
        let found: Vec<Value> = told["mirror"]["copies"].as_array()?.iter().filter_map(old).collect();
        (found.len() == copies.len() && told["state"] == "offline").then_some(told)
    });
    let reason = told["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("earlier image") && reason.contains("cards volume force data"), "{told:#}");
    let status = at(&mut scene.cluster, number, &["status"]);
    let line = status.stdout.lines().next().unwrap_or_default();
    for node in copies {
        let copy = format!("n{node}:fast{node} (of epoch ");
        assert!(line.contains("volume data:") && line.contains(&copy), "{copy:?} is not in: {line}");
    }
    assert!(status.stdout.contains("cards volume force data --from NODE"), "{status}");
    let shown = at(&mut scene.cluster, number, &["volume", "show", "data"]);
    assert!(shown.stdout.contains(" an earlier image, of epoch "), "{shown}");
    assert!(shown.stdout.contains(", 0 of 2 copies in sync"), "{shown}");
    let metrics = metrics(&mut scene.cluster, number);
    assert!(metrics.contains(&format!("\ncards_copies_put_back {}\n", copies.len())), "{metrics}");
}

/// What `cards volume force` wants to be typed.
fn typed(scene: &mut Scene, asked: usize, node: usize) -> String {
    let untyped = at(&mut scene.cluster, asked, &["volume", "force", "data", "--from", &format!("n{node}")]);
    let said = &untyped.stderr;
    assert!(!untyped.status.success(), "{untyped}");
    assert!(said.contains("was put back to an earlier image, of epoch "), "{untyped}");
    assert!(said.contains("What was written since is lost for ever"), "{untyped}");
    let word = said.split("--force=").nth(1).expect("what to type").trim();
    format!("--force={word}")
}

#[test]
fn images_of_all_copies_are_served_only_when_one_is_forced() {
    let dir = scratch();
    let mut scene = scene(dir.path());
    let third = scene.third;
    let first = scene.primary(third);
    let other = scene.other(first);
    let images = image_and_go_on(&mut scene, dir.path(), &[first, other]);
    for number in [first, other] {
        scene.cluster.node(number).kill();
    }
    for (aside, disk) in images {
        fs::rename(aside, disk).unwrap();
    }
    for number in [first, other] {
        scene.cluster.node(number).restart();
    }
    for number in 1..=3 {
        at(&mut scene.cluster, number, &["volume", "attach", "data"]);
        is_told(&mut scene, number, &[first, other]);
    }
    for number in [first, third] {
        assert!(scene.cluster.export(number, "data").read(0, 4096).is_err(), "n{number} serves an image");
    }
    let from = format!("n{first}");
    let replaced = at(&mut scene.cluster, third, &["volume", "replace", "data", "--from", &from]);
    assert!(replaced.stderr.contains("were put back to earlier images"), "{replaced}");

    // A daemon that is started again finds the same.
    scene.cluster.node(other).restart();
    is_told(&mut scene, other, &[first, other]);
    let typed = typed(&mut scene, third, first);
    let wrong =
        at(&mut scene.cluster, third, &["volume", "force", "data", "--from", &from, "--force=data@77"]);
    assert!(!wrong.status.success() && wrong.stderr.contains(&typed), "{wrong}");
    at(&mut scene.cluster, third, &["volume", "force", "data", "--from", &from, &typed]).ok();
    let export = scene.cluster.export(third, "data");
    let found = eventually("what was forced is served", LONG, || export.read(0, MIB as usize).ok());
    content::check(&found, 0, OLD);
    scene.wait_in_sync();
    let map = volume(&mut scene.cluster, third)["mirror"]["map"].clone();
    assert_eq!((&map["generation"], &map["forced"]), (&Value::from(2), &Value::from(true)), "{map}");
    write(&scene, NEW + 1);
    scene.cluster.node(first).kill();
    let found = scene.cluster.export(third, "data").read(0, MIB as usize).expect("the other one has it");
    content::check(&found, 0, NEW + 1);
    assert!(metrics(&mut scene.cluster, third).contains("\ncards_copies_put_back 0\n"));
}

#[test]
fn the_only_copy_in_sync_is_an_image() {
    let dir = scratch();
    let mut scene = scene(dir.path());
    let third = scene.third;
    let first = scene.primary(third);
    let other = scene.other(first);
    let images = image_and_go_on(&mut scene, dir.path(), &[first]);
    scene.cluster.node(other).kill();
    write(&scene, NEW);
    scene.cluster.node(first).kill();
    let newest = dir.path().join("newest.img");
    for (aside, disk) in &images {
        fs::rename(disk, &newest).unwrap();
        fs::rename(aside, disk).unwrap();
    }
    scene.cluster.node(first).restart();
    at(&mut scene.cluster, first, &["volume", "attach", "data"]);
    for number in [first, third] {
        is_told(&mut scene, number, &[first]);
        assert!(scene.cluster.export(number, "data").read(0, 4096).is_err(), "n{number} serves an image");
    }
    // The disk as it was last is all that is needed.
    assert!(scene.cluster.node(first).terminate().success());
    let (aside, disk) = &images[0];
    fs::rename(disk, aside).unwrap();
    fs::rename(&newest, disk).unwrap();
    scene.restart(first);
    let export = scene.cluster.export(third, "data");
    let found = eventually("the disk as it was last is served", LONG, || export.read(0, MIB as usize).ok());
    content::check(&found, 0, NEW);
    assert_eq!(volume(&mut scene.cluster, third)["mirror"]["map"]["forced"], false);
    let needless =
        at(&mut scene.cluster, third, &["volume", "force", "data", "--from", &format!("n{first}")]);
    assert!(needless.stderr.contains("is in sync, and is not to be forced"), "{needless}");

    // It is gone for good.
    scene.cluster.node(first).kill();
    fs::rename(aside, disk).unwrap();
    scene.cluster.node(first).restart();
    is_told(&mut scene, third, &[first]);
    let typed = typed(&mut scene, third, first);
    let force = ["volume", "force", "data", "--from", &format!("n{first}"), &typed];
    eventually("it is forced when its node is connected", LONG, || {
        at(&mut scene.cluster, third, &force).status.success().then_some(())
    });
    let found = eventually("the image is served", LONG, || export.read(0, MIB as usize).ok());
    content::check(&found, 0, OLD);
    scene.restart(other);
    scene.wait_in_sync();
    scene.cluster.node(first).kill();
    let found = export.read(0, MIB as usize).expect("the other one was filled");
    content::check(&found, 0, OLD);
}

/// The only copy of a part is from before the volume has grown.
#[test]
fn a_part_of_raid0_that_is_smaller_than_the_volume_is_served_only_when_it_is_forced() {
    let dir = scratch();
    let mut cluster = cluster_by(Plan { disk_wait: "5s", ..Plan::new(dir.path(), 3) }, None);
    let create =
        ["volume", "create", "data", "--size", "16M", "--layout", "raid0", "--on", "n1:fast1,n2:fast2"];
    at(&mut cluster, 1, &create).ok();
    for number in 1..=3 {
        eventually(&format!("n{number} knows the volume"), LONG, || {
            (volume(&mut cluster, number)["state"] == "ready").then_some(())
        });
        at(&mut cluster, number, &["volume", "attach", "data"]).ok();
    }
    let export = cluster.export(3, "data");
    let mut client = export.open();
    client.socket.limit(LONG).unwrap();
    client.write(0, &content::bytes(0, MIB as usize, OLD)).unwrap();
    client.flush().unwrap();
    client.close();
    let (disk, aside) = (dir.path().join("fast1.img"), dir.path().join("aside.img"));
    cluster.node(1).pause();
    fs::copy(&disk, &aside).unwrap();
    cluster.node(1).resume();
    at(&mut cluster, 3, &["volume", "resize", "data", "32M"]).ok();
    cluster.node(1).kill();
    fs::rename(aside, disk).unwrap();
    cluster.node(1).restart();
    let part = eventually("n3 says which part is an image", LONG, || {
        let parts = volume(&mut cluster, 3)["striped"]["parts"].as_array()?.clone();
        let old = |part: &Value| part["copies"][0]["state"] == "put_back";
        parts.into_iter().find(old).map(|part| part["part"].clone())
    });
    for number in [1, 3] {
        let status = at(&mut cluster, number, &["status"]).stdout;
        let line = status.lines().next().unwrap_or_default();
        assert!(line.contains("volume data:") && line.contains("n1:fast1 (of epoch "), "{status}");
        assert!(status.contains(&format!("cards volume force data/{part} --from NODE")), "{status}");
    }
    let force = |cluster: &mut Cluster, more: &[&str]| {
        let name = format!("data/{part}");
        at(cluster, 3, &[&["volume", "force", &name, "--from", "n1"], more].concat())
    };
    let untyped = force(&mut cluster, &[]).fails();
    let word = untyped.stderr.split("--force=").nth(1).expect("what to type").trim().to_owned();
    eventually("it is forced when its node is connected", LONG, || {
        force(&mut cluster, &[&format!("--force={word}")]).status.success().then_some(())
    });
    let found = eventually("the image is served", LONG, || export.read(0, MIB as usize).ok());
    content::check(&found, 0, OLD);
    let found = eventually("what is new is there", LONG, || export.read(16 * MIB, 16 * MIB as usize).ok());
    assert!(found.iter().all(|byte| *byte == 0), "what is new is zero");
}

/// The machines of both copies lose their power, and one is gone for good: the other one may have lost what that had.
#[test]
fn a_copy_whose_machine_lost_power_is_forced_when_the_other_one_is_gone() {
    let dir = scratch();
    let mut scene = scene(dir.path());
    let third = scene.third;
    let first = scene.primary(third);
    let other = scene.other(first);
    write(&scene, OLD);
    let (from, gone) = (format!("n{first}"), format!("n{other}:fast{other}"));
    let force = ["volume", "force", "data", "--from", &from];
    let needless = at(&mut scene.cluster, third, &force);
    assert!(needless.stderr.contains("is in sync, and is not to be forced"), "{needless}");
    lose_power(&mut scene, [first, other]);
    scene.cluster.node(first).restart();
    let reason = eventually("the primary says what it waits for", LONG, || {
        let told = volume(&mut scene.cluster, first);
        let reason = told["reason"].as_str()?.to_owned();
        (told["state"] == "offline" && reason.contains("have lost their power")).then_some(reason)
    });
    assert!(reason.contains(&gone) && reason.contains("cards volume force data --from"), "{reason}");
    let status = at(&mut scene.cluster, first, &["status"]);
    let line = status.stdout.lines().next().unwrap_or_default();
    assert!(line.contains("volume data:") && line.contains(&gone), "{status}");
    eventually("another node says where to look", LONG, || {
        let told = at(&mut scene.cluster, third, &["status"]).stdout;
        told.contains(&format!(
            "{gone} counts as in sync, and its node is away; `cards status` at node {from} says"
        ))
        .then_some(())
    });

    let untyped = at(&mut scene.cluster, third, &force);
    assert!(untyped.stderr.contains(&format!("is lost for ever, also if {gone} comes back")), "{untyped}");
    let typed = untyped.stderr.split("--force=").nth(1).expect("what to type").trim().to_owned();
    at(&mut scene.cluster, third, &[&force[..], &[&format!("--force={typed}")]].concat()).ok();
    let export = scene.cluster.export(third, "data");
    let found = eventually("what was forced is served", LONG, || export.read(0, MIB as usize).ok());
    content::check(&found, 0, OLD);
    scene.restart(other);
    scene.wait_in_sync();
    let map = volume(&mut scene.cluster, third)["mirror"]["map"].clone();
    assert_eq!((&map["generation"], &map["forced"]), (&Value::from(2), &Value::from(true)), "{map}");
}

/// The machines of both copies lose their power, and the disk of one is put back besides: the other one goes on.
#[test]
fn a_copy_whose_machine_lost_power_goes_on_without_one_that_was_put_back() {
    let dir = scratch();
    let mut scene = scene(dir.path());
    let third = scene.third;
    let first = scene.primary(third);
    let other = scene.other(first);
    let images = image_and_go_on(&mut scene, dir.path(), &[first]);
    lose_power(&mut scene, [first, other]);
    for (aside, disk) in images {
        fs::rename(aside, disk).unwrap();
    }
    for number in [first, other] {
        scene.cluster.node(number).restart();
    }
    let export = scene.cluster.export(third, "data");
    let found = eventually("the other copy is served", LONG, || export.read(0, MIB as usize).ok());
    content::check(&found, 0, NEW);
    scene.wait_in_sync();
    let map = volume(&mut scene.cluster, third)["mirror"]["map"].clone();
    assert_eq!(map["generation"], Value::from(1), "{map}");
}
