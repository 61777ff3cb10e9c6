//! Volumes with copies on managed disks of several nodes: created, shown and removed while the daemons run.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::thread;

use serde_json::Value;

use crate::harness::cluster::{CARDS, Cluster};
use crate::harness::plan::{Coordinator, Disk, Plan};
use crate::harness::process::{Finished, run};
use crate::harness::{LONG, MIB, SHORT, eventually, scratch};

/// The file of a node's managed disk `fast`, formatted.
fn disk(dir: &Path, node: usize, bytes: u64) -> PathBuf {
    let path = dir.join(format!("n{node}.img"));
    File::create(&path).unwrap().set_len(bytes).unwrap();
    run(&[CARDS, "disk", "format", path.to_str().unwrap(), "--name", "fast"], LONG).ok();
    path
}

/// Three nodes, each with a managed disk; that of node 3 is the smallest.
fn start(dir: &Path) -> Cluster {
    start_with(dir, "3s")
}

/// The same with leases of this length.
fn start_with(dir: &Path, lease: &'static str) -> Cluster {
    let mut plan = Plan::new(dir, 3);
    // Long, so that no node is declared dead because the machine is busy: one that is has no copies of new volumes.
    (plan.lease, plan.disk_wait) = (lease, "60s");
    plan.coordinator = Coordinator::Embedded { keeper: 1, apart: None, lease };
    for (index, bytes) in [(0, 96 * MIB), (1, 128 * MIB), (2, 64 * MIB)] {
        plan.nodes[index].disks.push(Disk::managed("fast", &disk(dir, index + 1, bytes)));
    }
    let mut cluster = Cluster::start(plan);
    await_disks(&mut cluster);
    cluster
}

/// Each node has told the registry of its disk: a volume with three copies has a place.
fn await_disks(cluster: &mut Cluster) {
    eventually("all disks are in the registry", SHORT, || {
        let refused = cards(cluster, 1, &["volume", "create", "x", "--size", "1T", "--layout", "raid1:3"]);
        refused.stderr.matches(":fast has room for").nth(2).map(drop)
    });
}

fn await_death(cluster: &mut Cluster) {
    eventually("node 3 is declared dead", LONG, || {
        let members = cluster.node(1).status()["members"].clone();
        let n3 = members.as_array()?.iter().find(|member| member["name"] == "n3")?.clone();
        (n3["state"] == "dead").then_some(())
    });
}

fn cards(cluster: &mut Cluster, node: usize, words: &[&str]) -> Finished {
    let socket = cluster.node(node).admin_socket();
    run(&[&[CARDS], words, &["--socket", &socket]].concat(), LONG)
}

#[track_caller]
fn json(cluster: &mut Cluster, node: usize, words: &[&str]) -> Value {
    serde_json::from_str(&cards(cluster, node, &[words, &["--json"]].concat()).ok().stdout).unwrap()
}

/// The volumes on a managed disk whose daemon is stopped, columns included.
fn used(path: &Path) -> Value {
    let shown = run(&[CARDS, "disk", "show", path.to_str().unwrap(), "--json"], SHORT).ok().stdout;
    serde_json::from_str(&shown).unwrap()
}

fn names(volumes: &Value) -> Vec<String> {
    let volumes = volumes.as_array().unwrap().iter();
    volumes.map(|volume| volume["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_volume_is_created_shown_and_removed_over_three_running_daemons() {
    let dir = scratch();
    let mut cluster = start(dir.path());

    let made = json(&mut cluster, 3, &["volume", "create", "data", "--size", "16M", "--layout", "raid1"]);
    assert_eq!(
        (&made["volume"], &made["size"], &made["layout"]),
        (&"data".into(), &(16 * MIB).into(), &"raid1:2".into())
    );
    assert_eq!(made["disks"], serde_json::json!(["n2:fast", "n1:fast"]), "where most space is");
    // A node that has not heard of it yet waits until it has.
    for node in [1, 2, 3] {
        cards(&mut cluster, node, &["policy", "set", "data", "hdc"]).ok();
    }
    cards(&mut cluster, 1, &["policy", "set", "data", "--reset"]).ok();

    for node in [1, 2, 3] {
        let shown = eventually("each node knows the volume", SHORT, || {
            let shown = run(
                &[CARDS, "volume", "show", "data", "--map", "--socket", &cluster.node(node).admin_socket()],
                SHORT,
            );
            shown.stdout.contains("2 of 2 copies in sync").then_some(shown.stdout)
        });
        for part in [
            "volume       data\n",
            "size         16 MiB (16777216 bytes)\n",
            "layout       raid1:2, 2 of 2",
            "copies       n2:fast in sync\n",
            "             n1:fast in sync\n",
            "primary      n",
            "number       65536\n",
        ] {
            assert!(shown.contains(part), "{part:?} in {shown}");
        }
        let volumes = json(&mut cluster, node, &["volume", "list"]);
        assert_eq!(names(&volumes), ["data"]);
        assert_eq!(volumes[0]["mirror"]["state"], "ready");
        assert_eq!(volumes[0]["mirror"]["copies"][1]["node"], "n1");
    }
    let list = cards(&mut cluster, 1, &["volume", "list"]).ok().stdout;
    assert!(list.contains("  data: raid1:2, 2 of 2 copies in sync\n"), "{list}");

    // A name is one volume's; what has no place is refused with the arithmetic.
    let again = cards(&mut cluster, 1, &["volume", "create", "data", "--size", "16M", "--layout", "raid1"]);
    assert!(
        again.stderr.contains("volume `data` exists, on managed disks of several nodes"),
        "{}",
        again.stderr
    );
    let large = cards(&mut cluster, 1, &["volume", "create", "large", "--size", "1G", "--layout", "raid1:3"]);
    let arithmetic = "volume `large` needs 1073741824 bytes in each of 3 failure domains, and none has that: disk n2:fast has room for";
    assert!(large.stderr.contains(arithmetic), "{}", large.stderr);
    let nowhere = cards(
        &mut cluster,
        1,
        &["volume", "create", "x", "--size", "1M", "--layout", "raid1", "--on", "n1:fast,n9:fast"],
    );
    assert!(
        nowhere.stderr.contains(r#"no node has a managed disk "n9:fast": those of the cluster are"#),
        "{}",
        nowhere.stderr
    );
    let twice = cards(
        &mut cluster,
        1,
        &["volume", "create", "x", "--size", "1M", "--layout", "raid1", "--on", "n1:fast,n1:fast"],
    );
    assert!(twice.stderr.contains("volume `x` cannot have disk n1:fast twice"), "{}", twice.stderr);

    let small = ["volume", "create", "x", "--size", "1M", "--layout", "raid1", "--block", "4K"];
    let small = cards(&mut cluster, 1, &small);
    assert!(small.stderr.contains("`block` of this node is 64 KiB"), "{}", small.stderr);

    let named = json(
        &mut cluster,
        1,
        &[
            "volume",
            "create",
            "log",
            "--size",
            "8M",
            "--layout",
            "raid1",
            "--on",
            "n3:fast,n1:fast",
            "--block",
            "64K",
        ],
    );
    assert_eq!(named["disks"], serde_json::json!(["n3:fast", "n1:fast"]));

    cards(&mut cluster, 2, &["volume", "attach", "data"]).ok();
    let attached = cards(&mut cluster, 2, &["volume", "remove", "data", "--force=data"]);
    assert!(attached.stderr.contains("run `cards volume detach data` first"), "{}", attached.stderr);
    cards(&mut cluster, 2, &["volume", "detach", "data"]).ok();

    let unforced = cards(&mut cluster, 2, &["volume", "remove", "data"]);
    assert!(unforced.stderr.contains("to remove it, add --force=data"), "{}", unforced.stderr);
    // The registry hears a moment later that it is detached, and is waited for.
    let removed = cards(&mut cluster, 2, &["volume", "remove", "data", "--force=data", "--json"]).ok().stdout;
    assert_eq!(removed, "{\"volume\":\"data\",\"waits_for\":[]}\n");
    assert_eq!(names(&json(&mut cluster, 2, &["volume", "list"])), ["log"]);
    let gone = cards(&mut cluster, 2, &["volume", "show", "data"]);
    assert!(gone.stderr.contains("data"), "{}", gone.stderr);

    // The name is free, and its number is another one.
    json(&mut cluster, 1, &["volume", "create", "data", "--size", "4M", "--layout", "raid1:3"]);
    let shown = json(&mut cluster, 1, &["volume", "show", "data"]);
    assert_eq!(shown["mirror"]["number"], 65538);

    // What is on the disks after a clean end.
    let paths: Vec<PathBuf> = (1..=3).map(|node| dir.path().join(format!("n{node}.img"))).collect();
    for node in [3, 2, 1] {
        assert!(cluster.node(node).terminate().success(), "{}", cluster.node(node).log());
    }
    for path in paths {
        assert_eq!(used(&path)["closed"], true);
    }
}

#[test]
fn a_node_that_was_down_removes_and_makes_its_copies_when_it_is_back() {
    let dir = scratch();
    let mut cluster = start(dir.path());
    let create = ["volume", "create", "data", "--size", "4M", "--layout", "raid1:3"];
    json(&mut cluster, 1, &create);

    assert!(cluster.node(3).terminate().success());
    // Its lease has not ended.
    cluster.node(1).says(&["connection lost", "n3"]);
    let disks = json(&mut cluster, 1, &["disk", "list"]);
    let of_third = disks.as_array().unwrap().iter().find(|disk| disk["node"] == "n3").expect("its disk");
    assert_eq!(of_third["is_up"], false, "{disks}");
    await_death(&mut cluster);
    let few = cards(&mut cluster, 1, &["volume", "create", "few", "--size", "1M", "--layout", "raid1:3"]);
    assert!(few.stderr.contains("node n3, which has disk n3:fast, is not joined: start it"), "{few}");
    let removed = json(&mut cluster, 1, &["volume", "remove", "data", "--force=data"]);
    assert_eq!(removed["waits_for"], serde_json::json!(["n3"]));
    let shown = cards(&mut cluster, 1, &["volume", "show", "data"]).ok().stdout;
    assert!(shown.contains("layout       raid1:3, being removed, waits for n3\n"), "{shown}");
    let taken = cards(&mut cluster, 1, &create);
    assert!(
        taken.stderr.contains("volume `data` is being removed, and n3 has still to remove its copy"),
        "{}",
        taken.stderr
    );

    cluster.node(3).restart();
    eventually("the volume is gone", LONG, || {
        let volumes = json(&mut cluster, 1, &["volume", "list"]);
        names(&volumes).is_empty().then_some(())
    });
    json(&mut cluster, 2, &create);
    // A copy that was made before a kill is not made again.
    cluster.node(2).kill();
    cluster.node(2).restart();
    let state = eventually("node 2 knows the volume", LONG, || {
        let shown = json(&mut cluster, 2, &["volume", "list"]);
        shown[0]["mirror"]["state"].as_str().map(str::to_owned)
    });
    assert_eq!(state, "ready");

    // A node with a copy is needed; one that does not come back is forgotten when the volume is not.
    let needed = cards(&mut cluster, 3, &["leave"]);
    assert!(
        needed.stderr.contains(r#"this node has a copy of volume "data" on its managed disks"#),
        "{needed}"
    );
    cluster.node(3).kill();
    await_death(&mut cluster);
    let forget = ["forget", "n3", "--with-disks"];
    let has_copy = cards(&mut cluster, 1, &forget);
    assert!(has_copy.stderr.contains("run `cards volume replace data --from n3:fast`"), "{has_copy}");
    let removed = json(&mut cluster, 1, &["volume", "remove", "data", "--force=data"]);
    assert_eq!(removed["waits_for"], serde_json::json!(["n3"]));
    let forgotten = cards(&mut cluster, 1, &forget).ok();
    assert!(forgotten.stdout.contains("n3:fast"), "{forgotten}");
    eventually("the volume is gone", LONG, || {
        let volumes = json(&mut cluster, 1, &["volume", "list"]);
        names(&volumes).is_empty().then_some(())
    });
}

#[test]
fn a_volume_waits_for_a_node_that_was_killed_before_it_made_its_copy() {
    let dir = scratch();
    // It is not declared dead meanwhile.
    let mut cluster = start_with(dir.path(), "30s");
    cluster.node(3).kill();
    let socket = cluster.node(1).admin_socket();
    let create = thread::spawn(move || {
        let words = ["volume", "create", "data", "--size", "4M", "--layout", "raid1:3", "--socket", &socket];
        run(&[&[CARDS], &words[..]].concat(), LONG)
    });
    let reason = eventually("it waits for node 3", SHORT, || {
        let shown = cards(&mut cluster, 1, &["volume", "show", "data"]);
        shown.stdout.contains("being made, waits for n3\n").then_some(shown.stdout)
    });
    assert!(reason.contains("n3:fast being made"), "{reason}");
    eventually("node 2 knows of it", SHORT, || {
        let shown = cards(&mut cluster, 2, &["volume", "show", "data"]);
        shown.stdout.contains("being made, waits for n3\n").then_some(())
    });
    let early = cards(&mut cluster, 2, &["volume", "attach", "data"]);
    assert!(early.stderr.contains("volume data is being made, waits for n3"), "{early}");
    cluster.node(3).restart();
    let made = create.join().unwrap().ok();
    assert!(made.stdout.contains("layout       raid1:3\n"), "{made}");
}

#[test]
fn what_cannot_be_created_is_refused_before_anything_is_asked() {
    let words = |words: &str| {
        let line = format!("{CARDS} {words}");
        run(&line.split(' ').collect::<Vec<_>>(), SHORT)
    };
    let refused = |line: &str, said: &str| {
        let done = words(line);
        assert_eq!(done.status.code(), Some(2), "{line}");
        assert!(done.stderr.contains(said), "{line}: {}", done.stderr);
    };
    refused("volume create x --size 1M", "--layout");
    refused("volume create x --size 1M --layout raid0 --disk /none", "--disk names one");
    refused("volume create x --size 1M --layout raid5:2+1", "volumes of this layout cannot be made yet");
    refused("volume create x --size 1M --layout raid1 --disk /none", "--disk names one");
    refused("volume create x --size 1M --disk /none --on n1:fast", "--on");
}
