//! Volumes over several groups: raid10 goes on without a node, and is larger than any disk; raid0 is all disks together, and waits for each.

use std::ops::Range;
use std::path::Path;
use std::time::Instant;

use serde_json::Value;

use crate::device::missing_fuse;
use crate::harness::cluster::Cluster;
use crate::harness::export::Export;
use crate::harness::plan::Plan;
use crate::harness::process::sh;
use crate::harness::tools::{need, skip};
use crate::harness::{KIB, LONG, MIB, SHORT, content, eventually, scratch};
use crate::mirror::{Writer, at, check_all, cluster_by, cluster_of, number_of, volume};

/// What is written and read at a time: it is in three bundles, of as many parts.
const STEP: u64 = 2 * MIB + 64 * KIB;

/// Makes the volume and attaches it at all nodes.
fn make(cluster: &mut Cluster, nodes: usize, layout: &str, size: &str) -> Value {
    let words = ["volume", "create", "data", "--size", size, "--layout", layout, "--json"];
    let made = at(cluster, 1, &words).ok();
    for number in 1..=nodes {
        eventually(&format!("n{number} knows the volume"), SHORT, || {
            (volume(cluster, number)["state"] == "ready").then_some(())
        });
        at(cluster, number, &["volume", "attach", "data"]).ok();
    }
    serde_json::from_str(&made.stdout).expect("one JSON object")
}

pub(crate) fn parts(cluster: &mut Cluster, number: usize) -> Vec<Value> {
    let told = volume(cluster, number);
    told["striped"]["parts"].as_array().unwrap_or_else(|| panic!("{told:#}")).clone()
}

/// The nodes that lead a part, in the order of the parts.
fn primaries(cluster: &mut Cluster, number: usize) -> Vec<usize> {
    let led = parts(cluster, number).into_iter().map(|part| number_of(&part["map"]["primary"]));
    led.map(|primary| primary.expect("a primary")).collect()
}

/// Writes these bytes of the volume.
fn fill(export: &Export, bytes: Range<u64>, seed: u64) {
    let mut client = export.open();
    client.socket.limit(LONG).unwrap();
    for offset in bytes.clone().step_by(STEP as usize) {
        let length = STEP.min(bytes.end - offset) as usize;
        client.write(offset, &content::bytes(offset, length, seed)).expect("a write");
    }
    client.flush().expect("a flush");
    client.close();
}

/// Reads them, and finds what was written.
fn check(export: &Export, bytes: Range<u64>, seed: u64) {
    let mut client = export.open();
    client.socket.limit(LONG).unwrap();
    for offset in bytes.clone().step_by(STEP as usize) {
        let length = STEP.min(bytes.end - offset) as usize;
        content::check(&client.read(offset, length).expect("a read"), offset, seed);
    }
    client.close();
}

fn wait_in_sync(cluster: &mut Cluster, nodes: impl IntoIterator<Item = usize>) {
    for number in nodes {
        eventually(&format!("all copies are in sync, says n{number}"), LONG, || {
            let parts = parts(cluster, number);
            let copies = parts.iter().flat_map(|part| part["copies"].as_array().unwrap());
            copies.into_iter().all(|copy| copy["state"] == "in_sync").then_some(())
        });
    }
}

fn disks_are_empty(cluster: &mut Cluster, dir: &Path, nodes: usize) {
    for number in 1..=nodes {
        eventually(&format!("n{number} knows of no volume"), LONG, || {
            let shown = at(cluster, number, &["volume", "list", "--json"]);
            (shown.stdout.trim() == "[]").then_some(())
        });
        let path = dir.join(format!("fast{number}.img"));
        let shown = crate::mirror::cards(&["disk", "show", path.to_str().unwrap(), "--json"]).ok();
        let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
        assert_eq!((&shown["copies"], &shown["columns"]), (&Value::Array(Vec::new()), &0.into()), "{shown}");
    }
}

#[test]
fn raid10_is_larger_than_any_disk_and_the_death_of_a_node_is_a_pause() {
    const SIZE: u64 = 100 * MIB;
    let dir = scratch();
    let mut cluster = cluster_of(dir.path(), 4, None);
    let made = make(&mut cluster, 4, "raid10", "100M");
    assert_eq!((&made["layout"], &made["parts"]), (&"raid10:2".into(), &8.into()), "{made}");
    assert_eq!(made["disks"].as_array().map(Vec::len), Some(4), "{made}");
    // Each node leads two parts at first. Which does now is another question: on a busy machine one may have stood still.
    let first = parts(&mut cluster, 1).into_iter().map(|part| number_of(&part["copies"][0]["node"]));
    let first: Vec<usize> = first.map(|node| node.expect("a node")).collect();
    for node in 1..=4 {
        assert_eq!(first.iter().filter(|other| **other == node).count(), 2, "{first:?}");
    }
    // The writer below has the bytes before.
    let rest = 16 * MIB..SIZE;
    fill(&cluster.export(1, "data"), rest.clone(), 3);
    check(&cluster.export(3, "data"), rest.clone(), 3);

    let writer = Writer::begin(cluster.export(1, "data"), true);
    let reader = writer.reader(cluster.export(3, "data"));
    writer.goes_on(50);
    cluster.node(2).kill();
    writer.goes_on(200);
    eventually("others lead the parts of n2", LONG, || {
        (!primaries(&mut cluster, 1).contains(&2)).then_some(())
    });
    cluster.node(2).restart();
    at(&mut cluster, 2, &["volume", "attach", "data"]).ok();
    wait_in_sync(&mut cluster, 1..=4);
    writer.goes_on(50);
    let known = writer.end(reader);
    check_all(&cluster.export(4, "data"), &known);

    // What is read now is on the disk that was away.
    cluster.node(3).kill();
    check_all(&cluster.export(2, "data"), &known);
    check(&cluster.export(2, "data"), rest, 3);
    cluster.node(3).restart();
    wait_in_sync(&mut cluster, 1..=4);
    (1..=4).filter(|number| *number != 3).for_each(|number| {
        at(&mut cluster, number, &["volume", "detach", "data"]).ok();
    });
    // The registry hears a moment later that nobody has it, and is waited for.
    at(&mut cluster, 1, &["volume", "remove", "data", "--force=data"]).ok();
    disks_are_empty(&mut cluster, dir.path(), 4);
}

#[test]
fn raid0_is_all_disks_together_and_only_the_part_of_a_node_that_is_away_waits() {
    const SIZE: u64 = 128 * MIB;
    let dir = scratch();
    let mut cluster = cluster_by(Plan { disk_wait: "4s", ..Plan::new(dir.path(), 3) }, None);
    let made = make(&mut cluster, 3, "raid0", "128M");
    assert_eq!((&made["layout"], &made["parts"]), (&"raid0".into(), &3.into()), "{made}");
    let shown = at(&mut cluster, 2, &["volume", "show", "data"]).ok();
    assert!(shown.stdout.contains("survives     no loss"), "{shown}");
    fill(&cluster.export(1, "data"), 0..SIZE, 7);
    (2..=3).for_each(|number| cluster.export(number, "data").check_all(7));

    // With the last node its disk is away: one bundle of three.
    let led = primaries(&mut cluster, 1);
    let away = led.iter().position(|primary| *primary == 3).expect("n3 leads the part on its disk");
    cluster.node(3).kill();
    let mut client = cluster.export(1, "data").open();
    client.socket.limit(LONG).unwrap();
    for bundle in 0..12 {
        let (begun, at) = (Instant::now(), bundle * MIB);
        let written = client.write(at, &content::bytes(at, 64 * KIB as usize, 8));
        if bundle as usize % 3 == away {
            assert_eq!(written.expect_err("it is away").raw_os_error(), Some(libc::EIO));
            assert!(begun.elapsed().as_secs() >= 3, "not before disk_wait");
            if bundle > 3 {
                break;
            }
        } else {
            written.expect("it is there");
            content::check(&client.read(at, 64 * KIB as usize).expect("it is there"), at, 8);
        }
    }
    client.close();
    let told = volume(&mut cluster, 1);
    assert!(
        told["reason"].as_str().unwrap().starts_with(&format!("part {away}: its disk node n3 ")),
        "{told}"
    );
    let lone = "the only copy is on n3:fast3";
    eventually("every node says where the only copy is", SHORT, || {
        let mut each = (1..=2).map(|number| volume(&mut cluster, number)["reason"].to_string());
        each.all(|reason| reason.contains(lone)).then_some(())
    });
    // Who has not attached it cannot: it is attached when all its parts are.
    at(&mut cluster, 2, &["volume", "detach", "data"]).ok();
    let refused = at(&mut cluster, 2, &["volume", "attach", "data"]).fails();
    let named = format!("node n3, which has part {away} of it, does not answer: start it");
    assert!(refused.stderr.contains(&named), "{refused}");
    cluster.node(3).restart();
    eventually("the volume is attached again", LONG, || {
        at(&mut cluster, 2, &["volume", "attach", "data"]).status.success().then_some(())
    });
    eventually("the part is there again", LONG, || {
        let at = away as u64 * MIB;
        cluster.export(1, "data").open().write(at, &content::bytes(at, 4096, 8)).ok()
    });
    // What was flushed there before is there; only the first bundles were written since.
    check(&cluster.export(2, "data"), 12 * MIB..SIZE, 7);
    fill(&cluster.export(1, "data"), 0..SIZE, 8);
    cluster.export(2, "data").check_all(8);
}

/// Of a volume larger than all caches, with requests of which one shard has a whole run: what is not kept is held until they are answered.
#[test]
fn volumes_over_several_disks_are_read_whole_with_policies_that_keep_one_copy() {
    const SIZE: u64 = 120 * MIB;
    let dir = scratch();
    let plan = Plan { disk_wait: "60s", ..Plan::new(dir.path(), 3) };
    let mut cluster = cluster_by(plan.cache("32M"), None);
    make(&mut cluster, 3, "raid0", "120M");
    fill(&cluster.export(1, "data"), 0..SIZE, 20);
    for policy in [
        "single ask=home",
        "single ask=home answers=1",
        "single ask=home admit=0",
        "single admit=1 weigh=10",
        "auto",
    ] {
        at(&mut cluster, 1, &["policy", "set", "data", policy]).ok();
        (2..=3).for_each(|number| cluster.export(number, "data").check_all(20));
        let failed: Vec<u64> = (1..=3)
            .map(|number| cluster.node(number).status()["counters"]["failed"].as_u64().unwrap())
            .collect();
        assert_eq!(failed, [0, 0, 0], "{policy}");
    }
}

#[test]
fn what_cannot_be_of_a_volume_over_several_groups_is_refused_with_a_remedy() {
    let dir = scratch();
    let mut cluster = cluster_of(dir.path(), 3, None);
    let refused =
        at(&mut cluster, 1, &["volume", "create", "data", "--size", "1G", "--layout", "raid0"]).fails();
    assert!(refused.stderr.contains("does not fit: as raid0 it would be 3 parts"), "{refused}");
    assert!(refused.stderr.contains("Make it "), "{refused}");
    let words = ["volume", "create", "data", "--size", "16M", "--layout", "raid10:4"];
    let refused = at(&mut cluster, 1, &words).fails();
    assert!(
        refused
            .stderr
            .contains("which need as many failure domains, and only 3 have a managed disk with room"),
        "{refused}"
    );
    make(&mut cluster, 2, "raid10", "16M");
    let refused = at(&mut cluster, 3, &["volume", "attach", "data", "--mode", "exclusive"]).fails();
    assert!(refused.stderr.contains("so nobody can have it for itself"), "{refused}");
    let refused = at(&mut cluster, 3, &["volume", "attach", "data/1"]).fails();
    assert!(refused.stderr.contains("data/1"), "{refused}");
    let refused = at(&mut cluster, 1, &["volume", "remove", "data", "--force=data"]).fails();
    assert!(refused.stderr.contains("is attached"), "{refused}");
    let text = at(&mut cluster, 3, &["volume", "list"]).ok().stdout;
    assert!(text.contains("data: raid10:2, 6 of 6 parts have all copies in sync"), "{text}");
    assert!(!text.contains("data/"), "{text}");
}

#[test]
fn a_file_system_on_raid10_is_whole() {
    need!("mkfs.ext4", "fsck.ext4");
    if let Some(reason) = missing_fuse() {
        return skip(&reason);
    }
    let dir = scratch();
    let mut cluster = cluster_of(dir.path(), 3, None);
    make(&mut cluster, 3, "raid10", "64M");
    let path = at(&mut cluster, 2, &["attach", "data"]).ok().stdout.trim().to_owned();
    sh(&format!("mkfs.ext4 -q -F {path} && fsck.ext4 -fn {path}"), LONG).ok();
    // The same, as another node sees it.
    let there = at(&mut cluster, 3, &["attach", "data"]).ok().stdout.trim().to_owned();
    sh(&format!("fsck.ext4 -fn {there} && cmp {path} {there}"), LONG).ok();
    // What one node writes is not hidden by pages that the kernel of another one keeps.
    sh(
        &format!("head -c 3M /dev/urandom | dd of={path} bs=64K seek=32 conv=notrunc,fsync status=none"),
        LONG,
    )
    .ok();
    sh(&format!("cmp {path} {there}"), LONG).ok();
    [2, 3].into_iter().for_each(|number| _ = at(&mut cluster, number, &["detach", "data"]).ok());
}

#[test]
fn copies_of_all_parts_are_replaced_while_clients_write_and_any_node_scrubs_them() {
    let dir = scratch();
    let mut cluster = cluster_of(dir.path(), 4, None);
    let create = ["volume", "create", "data", "--size", "32M", "--layout", "raid10"];
    at(&mut cluster, 1, &[&create[..], &["--on", "n1:fast1,n2:fast2,n3:fast3"]].concat()).ok();
    for number in [1, 4] {
        eventually(&format!("n{number} knows the volume"), SHORT, || {
            (volume(&mut cluster, number)["state"] == "ready").then_some(())
        });
        at(&mut cluster, number, &["volume", "attach", "data"]).ok();
    }
    let writer = Writer::begin(cluster.export(4, "data"), true);
    let reader = writer.reader(cluster.export(1, "data"));
    writer.goes_on(50);
    let said = at(&mut cluster, 2, &["volume", "replace", "data", "--from", "n1"]).ok().stdout;
    assert!(said.contains("parts of volume data at n1 are being replaced"), "{said}");
    eventually("no copy is at n1, and all are in sync", LONG, || {
        let parts = parts(&mut cluster, 2);
        let copies: Vec<&Value> = parts.iter().flat_map(|part| part["copies"].as_array().unwrap()).collect();
        let is_done = |copy: &&Value| copy["node"] != "n1" && copy["state"] == "in_sync";
        (copies.len() == 2 * parts.len() && copies.iter().all(is_done)).then_some(())
    });
    writer.goes_on(50);
    let known = writer.end(reader);
    check_all(&cluster.export(1, "data"), &known);

    // Each part is scrubbed at its primary, whichever node is asked.
    let scrubbed = at(&mut cluster, 1, &["volume", "scrub", "data", "--rate", "0", "--json"]).ok();
    let scrubbed: Value = serde_json::from_str(&scrubbed.stdout).unwrap();
    assert_eq!((&scrubbed["bytes"], &scrubbed["damaged"]), (&(32 * MIB).into(), &0.into()), "{scrubbed}");
    // The way of a block is told of the part that has it.
    let why = at(&mut cluster, 4, &["why", "data", "9M", "--json"]).ok().stdout;
    let why: Value = serde_json::from_str(&why).unwrap();
    assert_eq!(why["block_offset"], 9 * MIB, "{why}");
    let told = parts(&mut cluster, 4);
    assert_eq!(why["disk_node"], told[9 % told.len()]["map"]["primary"], "{why}");
    // What a person has to name of a volume with parts.
    let refused = at(&mut cluster, 4, &["volume", "force", "data", "--from", "n2"]).fails();
    assert!(refused.stderr.contains("name the part, as in data/0"), "{refused}");
    let refused = at(&mut cluster, 4, &["volume", "force", "data/0", "--from", "n4"]).fails();
    assert!(!refused.stderr.contains("name the part"), "{refused}");
}

#[test]
fn a_linear_volume_is_one_disk_after_the_other() {
    const SIZE: u64 = 96 * MIB;
    let dir = scratch();
    let mut cluster = cluster_of(dir.path(), 3, None);
    let made = make(&mut cluster, 3, "linear", "96M");
    assert_eq!(made["layout"], "linear", "{made}");
    let sizes: Vec<u64> = parts(&mut cluster, 1).iter().map(|part| part["size"].as_u64().unwrap()).collect();
    assert!(sizes.len() > 1 && sizes.iter().sum::<u64>() == SIZE, "{sizes:?}");
    fill(&cluster.export(1, "data"), 0..SIZE, 4);
    cluster.export(2, "data").check_all(4);
    cluster.export(3, "data").check_all(4);
}
