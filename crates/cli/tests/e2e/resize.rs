//! Volumes over several nodes become larger under their clients, whoever is killed meanwhile: the old size or the new one, and never half.

use std::path::Path;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::Value;

use crate::device::missing_fuse;
use crate::harness::client::Client;
use crate::harness::cluster::Cluster;
use crate::harness::export::Export;
use crate::harness::plan::Plan;
use crate::harness::process::{Finished, sh};
use crate::harness::tools::{need, skip};
use crate::harness::{KIB, LONG, MIB, SHORT, content, eventually, scratch};
use crate::mirror::{Scene, Writer, at, check_all, cluster_of, cluster_on, volume};
use crate::restart::is_full;

/// What is written and read at a time: it is in two bundles.
const STEP: u64 = MIB + 64 * KIB;

fn resize(cluster: &mut Cluster, number: usize, size: u64) -> Value {
    let size = size.to_string();
    let done = at(cluster, number, &["volume", "resize", "data", &size, "--json"]).ok();
    serde_json::from_str(&done.stdout).expect("one JSON object")
}

fn size(cluster: &mut Cluster, number: usize) -> u64 {
    volume(cluster, number)["size"].as_u64().unwrap_or_default()
}

/// What a client is told that connects now.
fn exported(export: &Export) -> u64 {
    let client = export.open();
    let size = client.size;
    client.close();
    size
}

fn open(export: &Export) -> Client {
    let client = export.open();
    client.socket.limit(LONG).unwrap();
    client
}

fn all_know(cluster: &mut Cluster, nodes: usize, bytes: u64) {
    for number in 1..=nodes {
        eventually(&format!("n{number} knows the new size"), LONG, || {
            (size(cluster, number) == bytes).then_some(())
        });
        assert_eq!(exported(&cluster.export(number, "data")), bytes, "n{number}");
    }
}

/// These bytes are zero at one node; then all of them are written at another, and read at the first.
fn is_new_space(from: &Export, to: &Export, bytes: std::ops::Range<u64>, seed: u64) {
    let (mut reader, mut writer) = (open(from), open(to));
    let steps = || bytes.clone().step_by(STEP as usize);
    let length = |offset| STEP.min(bytes.end - offset) as usize;
    for offset in steps() {
        let found = reader.read(offset, length(offset)).expect("a read of what is new");
        assert!(found.iter().all(|byte| *byte == 0), "at {offset}: what is new is zero");
    }
    for offset in steps() {
        let written = writer.write(offset, &content::bytes(offset, length(offset), seed));
        written.expect("a write of what is new");
    }
    writer.flush().expect("a flush");
    for offset in steps() {
        content::check(&reader.read(offset, length(offset)).expect("a read"), offset, seed);
    }
    reader.close();
    writer.close();
}

fn check(export: &Export, bytes: std::ops::Range<u64>, seed: u64) {
    let mut client = open(export);
    for offset in bytes.clone().step_by(STEP as usize) {
        let length = STEP.min(bytes.end - offset) as usize;
        content::check(&client.read(offset, length).expect("a read"), offset, seed);
    }
    client.close();
}

#[test]
fn a_mirrored_volume_grows_under_its_clients_and_each_copy_has_all_of_it() {
    let dir = scratch();
    let mut scene = Scene::new(dir.path());
    let third = scene.third;
    let writer = Writer::begin(scene.cluster.export(third, "data"), true);
    let reader = writer.reader(scene.cluster.export(third, "data"));
    writer.goes_on(50);
    let mut before = open(&scene.cluster.export(1, "data"));
    let (old, new) = (16 * MIB, 40 * MIB + 4096);
    let told = resize(&mut scene.cluster, 1, new);
    assert_eq!((&told["size"], &told["before"]), (&new.into(), &old.into()), "{told}");
    all_know(&mut scene.cluster, 3, new);
    // It is done, and nothing happens when it is asked for again.
    let text = at(&mut scene.cluster, 2, &["volume", "resize", "data", &new.to_string()]).ok().stdout;
    assert!(text.contains("already"), "{text}");
    // A client that was connected goes on with what it was told.
    assert_eq!(before.size, old);
    before.read(old - 4096, 4096).expect("a read of what was there");
    assert!(before.read(old, 4096).is_err(), "it was told that there is no more");
    before.close();
    writer.goes_on(50);
    let exports = [1, 2, 3].map(|number| scene.cluster.export(number, "data"));
    is_new_space(&exports[third - 1], &exports[scene.primary(1) - 1], old..new, 7);

    // What is new is at each copy: the other one serves it when the primary is dead, and gets all when it is back.
    for _ in 0..2 {
        // On a busy machine one may have been dropped for being slow.
        scene.wait_in_sync();
        let first = scene.primary(third);
        let other = scene.other(first);
        scene.cluster.node(first).kill();
        eventually("the other one is the primary", LONG, || (scene.primary(third) == other).then_some(()));
        check(&scene.cluster.export(other, "data"), old..new, 7);
        writer.writes(20);
        scene.restart(first);
        scene.wait_in_sync();
        all_know(&mut scene.cluster, 3, new);
    }
    let known = writer.end(reader);
    check_all(&scene.cluster.export(third, "data"), &known);
    let scrubbed: Vec<bool> = (1..=3)
        .map(|number| at(&mut scene.cluster, number, &["volume", "scrub", "data", "--json"]))
        .map(|done| done.status.success())
        .collect();
    assert!(scrubbed.contains(&true), "the primary reads all copies, and finds them sound");
}

/// Nodes whose disks need a while to give a copy its space.
fn slow_cluster(dir: &Path) -> Cluster {
    cluster_on(Plan { disk_wait: "60s", ..Plan::new(dir, 3) }, None, "30ms")
}

/// Asks a node for another size of the volume, and goes on.
fn ask(cluster: &mut Cluster, number: usize, size: u64) -> JoinHandle<Finished> {
    let (socket, size) = (cluster.node(number).admin_socket(), size.to_string());
    thread::spawn(move || crate::mirror::cards(&["volume", "resize", "data", &size, "--socket", &socket]))
}

#[test]
fn a_volume_that_grows_as_a_node_dies_has_its_old_size_or_its_new_one() {
    let dir = scratch();
    let mut scene = Scene::of(slow_cluster(dir.path()));
    let third = scene.third;
    let writer = Writer::begin(scene.cluster.export(third, "data"), true);
    let reader = writer.reader(scene.cluster.export(third, "data"));
    let mut before = 16 * MIB;
    let pauses: &[u64] = if is_full() { &[0, 50, 150, 300, 450, 700] } else { &[0, 150, 450] };
    for (round, pause) in pauses.iter().copied().enumerate() {
        let new = before + 4 * MIB;
        let first = scene.primary(third);
        let victim = if round % 2 == 0 { first } else { scene.other(first) };
        let asks = ask(&mut scene.cluster, third, new);
        thread::sleep(Duration::from_millis(pause));
        scene.cluster.node(victim).kill();
        let told = exported(&scene.cluster.export(third, "data"));
        assert!(told == before || told == new, "{told} bytes");
        writer.goes_on(10);
        scene.restart(victim);
        println!("after {pause} ms: {}", asks.join().unwrap());
        scene.wait_in_sync();
        // It may have been refused, if the node was dead first; else nothing happens.
        resize(&mut scene.cluster, third, new);
        all_know(&mut scene.cluster, 3, new);
        let exports = [1, 2, 3].map(|number| scene.cluster.export(number, "data"));
        is_new_space(&exports[victim - 1], &exports[third - 1], before..new, 11);
        before = new;
    }
    let known = writer.end(reader);
    check_all(&scene.cluster.export(third, "data"), &known);
    check(&scene.cluster.export(third, "data"), 16 * MIB..before, 11);
}

#[test]
fn a_node_that_is_away_is_waited_for_and_the_status_says_so() {
    let dir = scratch();
    let mut scene = Scene::of(slow_cluster(dir.path()));
    let (third, first) = (scene.third, scene.primary(1));
    let other = scene.other(first);
    let (old, new) = (16 * MIB, 48 * MIB);
    if scene.cluster.node(other).status()["registry"]["leader"] == format!("n{other}") {
        // What is asked would wait for an election, and the copy not be in sync by then.
        assert!(scene.cluster.node(other).terminate().success());
        scene.restart(other);
        scene.wait_in_sync();
    }
    // So that it has not given its copy the space when it dies.
    scene.cluster.node(other).pause();
    let asks = ask(&mut scene.cluster, first, new);
    eventually("the volume is to grow", SHORT, || {
        (volume(&mut scene.cluster, first)["mirror"]["grows"]["to"] == new).then_some(())
    });
    scene.cluster.node(other).kill();
    eventually("it is said what is waited for", LONG, || {
        let waits = volume(&mut scene.cluster, third)["mirror"]["grows"]["waits_for"].clone();
        (waits == Value::from(vec![format!("n{other}")])).then_some(())
    });
    let text = at(&mut scene.cluster, third, &["volume", "show", "data"]).ok().stdout;
    assert!(text.contains(&format!("; grows to 48 MiB, waits for n{other}")), "{text}");
    let problems = scene.cluster.node(first).status()["problems"].to_string();
    assert!(
        problems.contains(&format!("it has its old size until n{other} has done its part")),
        "{problems}"
    );
    // What the growth takes is not free any more.
    let disks = at(&mut scene.cluster, first, &["disk", "list", "--json"]).ok().stdout;
    let disks: Vec<Value> = serde_json::from_str(&disks).unwrap();
    let free = |node: usize| {
        let disk = disks.iter().find(|disk| disk["node"] == format!("n{node}"));
        disk.and_then(|disk| disk["free"].as_u64()).unwrap()
    };
    assert!(free(other) + (new - old) <= free(third), "{disks:?}");
    let refused = at(&mut scene.cluster, first, &["volume", "resize", "data", "52M"]).fails();
    assert!(refused.stderr.contains("is growing to 50331648 bytes already"), "{refused}");
    let told = asks.join().unwrap().fails();
    assert!(told.stderr.contains(&format!("until node n{other} has done its part")), "{told}");
    assert_eq!(exported(&scene.cluster.export(first, "data")), old);
    // Another process of the primary goes on with it.
    scene.cluster.node(first).kill();
    scene.cluster.node(first).restart();
    scene.restart(other);
    at(&mut scene.cluster, first, &["volume", "attach", "data"]);
    scene.wait_in_sync();
    all_know(&mut scene.cluster, 3, new);
    let exports = [1, 2, 3].map(|number| scene.cluster.export(number, "data"));
    is_new_space(&exports[other - 1], &exports[third - 1], old..new, 5);
}

/// Makes the volume and attaches it at all nodes.
/// The node that a growth waits for is gone for good, and no other disk has room for the new size: the growth is given up, and the copy has a place.
#[test]
fn a_growth_is_given_up_and_the_copy_of_a_node_that_is_gone_is_replaced() {
    let dir = scratch();
    let mut scene = Scene::of(cluster_of(dir.path(), 3, None));
    let (third, first) = (scene.third, scene.primary(1));
    let other = scene.other(first);
    let (old, new) = (16 * MIB, 48 * MIB);
    let idle = at(&mut scene.cluster, third, &["volume", "resize", "data", "--cancel"]).fails();
    assert!(idle.stderr.contains("is not growing: there is nothing to cancel"), "{idle}");
    let fills = format!("n{third}:fast{third}");
    let writer = Writer::begin(scene.cluster.export(first, "data"), false);
    let reader = writer.reader(scene.cluster.export(third, "data"));
    scene.cluster.node(other).pause();
    let asks = ask(&mut scene.cluster, first, new);
    eventually("it waits for the other node only", LONG, || {
        let waits = volume(&mut scene.cluster, first)["mirror"]["grows"]["waits_for"].clone();
        (waits == Value::from(vec![format!("n{other}")])).then_some(())
    });
    scene.cluster.node(other).kill();
    let told = asks.join().unwrap().fails();
    assert!(told.stderr.contains("cards volume resize data --cancel"), "{told}");
    // What is left of the third disk is enough for the old size, and not for the new one.
    let made = ["volume", "create", "more", "--size", "48M", "--layout", "linear", "--on", &fills];
    at(&mut scene.cluster, third, &made).ok();
    let replace = ["volume", "replace", "data", "--from", &format!("n{other}")];
    let refused = at(&mut scene.cluster, third, &replace).fails();
    assert!(refused.stderr.contains("needs 50331648 bytes"), "{refused}");
    let kept = at(&mut scene.cluster, third, &["volume", "resize", "data", "--cancel"]).ok();
    assert!(kept.stdout.contains("volume data keeps 16 MiB (16777216 bytes)"), "{kept}");
    at(&mut scene.cluster, third, &replace).ok();
    eventually("the copy is in sync at the third node", LONG, || {
        let told = volume(&mut scene.cluster, third)["mirror"]["copies"].clone();
        let is_it = |copy: &Value| copy["node"] == format!("n{third}") && copy["state"] == "in_sync";
        told.as_array()?.iter().any(is_it).then_some(())
    });
    writer.goes_on(20);
    let known = writer.end(reader);
    assert_eq!(exported(&scene.cluster.export(first, "data")), old);
    // It is back without its copy, and keeps the registry.
    scene.cluster.node(other).restart();
    scene.wait_in_sync();
    scene.cluster.node(first).kill();
    check_all(&scene.cluster.export(third, "data"), &known);
    // A later growth finds the space where it was made before.
    scene.cluster.node(first).restart();
    at(&mut scene.cluster, first, &["volume", "attach", "data"]);
    at(&mut scene.cluster, third, &["volume", "remove", "more", "--force=more"]).ok();
    let later = 24 * MIB;
    eventually("it has grown", LONG, || {
        let done = at(&mut scene.cluster, third, &["volume", "resize", "data", &later.to_string()]);
        done.status.success().then_some(())
    });
    let exports = [first, third].map(|number| scene.cluster.export(number, "data"));
    eventually("its node knows the new size", LONG, || (exported(&exports[0]) == later).then_some(()));
    is_new_space(&exports[0], &exports[1], old..later, 7);
}

fn make(cluster: &mut Cluster, nodes: usize, layout: &str, size: &str) {
    at(cluster, 1, &["volume", "create", "data", "--size", size, "--layout", layout]).ok();
    for number in 1..=nodes {
        eventually(&format!("n{number} knows the volume"), SHORT, || {
            (volume(cluster, number)["state"] == "ready").then_some(())
        });
        at(cluster, number, &["volume", "attach", "data"]).ok();
    }
}

#[test]
fn volumes_over_many_disks_grow_under_their_clients() {
    for layout in ["raid0", "raid10", "linear"] {
        let dir = scratch();
        let mut cluster = slow_cluster(dir.path());
        make(&mut cluster, 3, layout, "20M");
        let writer = Writer::begin(cluster.export(1, "data"), true);
        let reader = writer.reader(cluster.export(3, "data"));
        writer.goes_on(30);
        resize(&mut cluster, 2, 45 * MIB);
        all_know(&mut cluster, 3, 45 * MIB);
        writer.goes_on(30);
        is_new_space(&cluster.export(2, "data"), &cluster.export(3, "data"), 20 * MIB..45 * MIB, 3);
        let refused = at(&mut cluster, 1, &["volume", "resize", "data", "1G"]).fails();
        assert!(refused.stderr.contains("on its disks: disk n"), "{layout}: {refused}");
        let refused = at(&mut cluster, 1, &["volume", "resize", "data", "30M"]).fails();
        assert!(refused.stderr.contains("does not become smaller"), "{layout}: {refused}");
        let known = writer.end(reader);
        check_all(&cluster.export(2, "data"), &known);
        if layout != "linear" {
            // A node dies on the way that has a part.
            let asks = ask(&mut cluster, 1, 60 * MIB);
            eventually("the volume is to grow", SHORT, || {
                (volume(&mut cluster, 1)["striped"]["grows"]["to"] == 60 * MIB).then_some(())
            });
            cluster.node(3).kill();
            let told = exported(&cluster.export(2, "data"));
            assert!(told == 45 * MIB || told == 60 * MIB, "{told} bytes");
            cluster.node(3).restart();
            asks.join().unwrap().ok();
            eventually("n3 has attached it again", LONG, || {
                at(&mut cluster, 3, &["volume", "attach", "data"]).status.success().then_some(())
            });
            all_know(&mut cluster, 3, 60 * MIB);
            let exports = [1, 2, 3].map(|number| cluster.export(number, "data"));
            // Of a part without copies what was open is in doubt, once at each node.
            exports.iter().for_each(|export| drop(open(export).flush()));
            is_new_space(&exports[2], &exports[1], 45 * MIB..60 * MIB, 3);
            check_all(&exports[0], &known);
        }
        check(&cluster.export(2, "data"), 20 * MIB..45 * MIB, 3);
    }
}

#[test]
fn a_file_system_grows_into_the_new_space() {
    need!("mkfs.ext4", "e2fsck", "resize2fs", "debugfs");
    if let Some(reason) = missing_fuse() {
        return skip(&reason);
    }
    let dir = scratch();
    let mut cluster = cluster_of(dir.path(), 3, None);
    make(&mut cluster, 3, "raid1", "16M");
    let scratch = dir.path().display().to_string();
    let path = at(&mut cluster, 2, &["attach", "data"]).ok().stdout.trim().to_owned();
    let fill = format!(
        "mkfs.ext4 -q -F -b 4096 {path} && head -c 6M /dev/urandom > {scratch}/in && debugfs -w -R 'write {scratch}/in file' {path}"
    );
    sh(&fill, LONG).ok();
    resize(&mut cluster, 1, 48 * MIB);
    all_know(&mut cluster, 3, 48 * MIB);
    // The device keeps its size, also when its daemon is started anew.
    let same = format!("test $(stat -c %s {path}) = {} && e2fsck -fn {path}", 16 * MIB);
    sh(&same, LONG).ok();
    cluster.node(2).kill();
    cluster.node(2).restart();
    eventually("the device goes on", LONG, || sh(&same, LONG).status.success().then_some(()));
    at(&mut cluster, 2, &["detach", "data"]).ok();
    let path = at(&mut cluster, 2, &["attach", "data"]).ok().stdout.trim().to_owned();
    let grow = format!(
        "test $(stat -c %s {path}) = {} && e2fsck -fp {path} && resize2fs {path} && e2fsck -fn {path} && \
         debugfs -R 'dump file {scratch}/out' {path} && cmp {scratch}/in {scratch}/out && \
         head -c 14M /dev/urandom > {scratch}/more && debugfs -w -R 'write {scratch}/more more' {path} && e2fsck -fn {path}",
        48 * MIB
    );
    sh(&grow, LONG).ok();
    let there = at(&mut cluster, 3, &["attach", "data"]).ok().stdout.trim().to_owned();
    let read = format!("debugfs -R 'dump more {scratch}/out' {there} && cmp {scratch}/more {scratch}/out");
    sh(&read, LONG).ok();
    [2, 3].into_iter().for_each(|number| _ = at(&mut cluster, number, &["detach", "data"]).ok());
}

#[test]
fn what_does_not_grow_is_refused_with_a_remedy() {
    let dir = scratch();
    let mut cluster = cluster_of(dir.path(), 3, None);
    make(&mut cluster, 3, "raid1", "16M");
    let mut refused =
        |words: &[&str]| at(&mut cluster, 1, &[&["volume", "resize"], words].concat()).fails().stderr;
    for (words, wanted) in [
        (["data", "8M"], "cannot have 8388608: a volume does not become smaller"),
        (["data", "20000001"], "use a multiple of 4096, from 4096 to"),
        (["data", "2G"], "Make it "),
        (["nothing", "2G"], "\"nothing\""),
    ] {
        let said = refused(&words);
        assert!(said.contains(wanted), "{words:?}: {said}");
    }
    // What fits by its own word does, and a byte more does not.
    let said = refused(&["data", "2G"]);
    let most: u64 = said.split("Make it ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    refused(&["data", &(most + 4096).to_string()]);
    resize(&mut cluster, 1, most);
    all_know(&mut cluster, 3, most);
    is_new_space(&cluster.export(3, "data"), &cluster.export(2, "data"), 16 * MIB..most, 9);
}
