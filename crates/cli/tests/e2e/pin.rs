//! Blocks that stay: `cards pin`, `cards unpin`.

use std::path::Path;

use serde_json::{Value, json};

use crate::harness::cluster::{CARDS, Cluster};
use crate::harness::plan::{Disk, Plan};
use crate::harness::process::{Finished, run};
use crate::harness::{KIB, LONG, MIB, SHORT, content, eventually, scratch};

const SEED: u64 = 37;
const SIZE: u64 = 24 * MIB;
const BLOCK: u64 = 64 * KIB;
/// What is pinned.
const PINNED: u64 = 2 * MIB;

fn cards(arguments: &[&str]) -> Finished {
    run(&[&[CARDS], arguments].concat(), LONG)
}

fn parse(done: &Finished) -> Value {
    serde_json::from_str(&done.stdout).unwrap_or_else(|error| panic!("{error}: {done}"))
}

/// Two nodes that cache a third of the volume, without read-ahead.
fn cluster(dir: &Path) -> Cluster {
    let image = dir.join("disk.img");
    content::image(&image, SIZE, SEED);
    let mut plan = Plan::new(dir, 2).disk(Disk::file(&image)).cache("8M");
    plan.read_ahead = "off";
    Cluster::start_connected(plan)
}

/// Reads what is pinned; how many of its blocks node 2 did not have.
fn missed(cluster: &mut Cluster) -> u64 {
    let mut client = cluster.export(2, "disk").open();
    let before = cluster.node(2).counter("local_hits");
    for offset in (0..PINNED).step_by(BLOCK as usize) {
        content::check(&client.read(offset, BLOCK as usize).expect("a read"), offset, SEED);
    }
    PINNED / BLOCK - (cluster.node(2).counter("local_hits") - before)
}

/// Reads all the rest, which pushes out whatever may go.
fn scan(cluster: &mut Cluster) {
    let mut client = cluster.export(2, "disk").open();
    for offset in (PINNED..SIZE).step_by(BLOCK as usize) {
        client.read(offset, BLOCK as usize).expect("a read");
    }
}

#[test]
fn a_pinned_range_stays_through_scans_and_a_restart() {
    let dir = scratch();
    let mut cluster = cluster(dir.path());
    let sockets = [cluster.node(1).admin_socket(), cluster.node(2).admin_socket()];
    let profile = dir.path().join("boot.profile");
    std::fs::write(&profile, format!("cards-profile 1\nvolume disk\nsize {SIZE}\n0 {PINNED}\n")).unwrap();
    let profile = profile.display().to_string();
    let pinned =
        cards(&["pin", "disk", "--profile", &profile, "--nodes", "n2", "--json", "--socket", &sockets[0]]);
    assert_eq!(parse(&pinned.ok())["nodes"][0]["volumes"][0]["ranges"], json!([[0, PINNED]]));
    cards(&["warm", "disk", "--from", &profile, "--nodes", "n2", "--socket", &sockets[0]]).ok();
    scan(&mut cluster);
    assert_eq!(missed(&mut cluster), 0);
    assert_eq!(cluster.node(2).status()["cache"]["pinned"], PINNED);
    let status = cards(&["status", "--socket", &sockets[1]]);
    assert!(status.stdout.contains("2 MiB of it pinned"), "{status}");

    cluster.node(2).kill();
    cluster.node(2).restart();
    missed(&mut cluster);
    scan(&mut cluster);
    assert_eq!(missed(&mut cluster), 0, "after a restart");
    let list = cards(&["pin", "list", "--nodes", "all", "--socket", &sockets[0]]).ok();
    for words in [
        "node n1: 0 B pinned of at most 4 MiB",
        "node n2: 2 MiB pinned of at most 4 MiB, 2 MiB of it cached",
        "volume disk: 2 MiB: 0+2M",
    ] {
        assert!(list.stdout.contains(words), "{words}: {list}");
    }
    cards(&["unpin", "disk", "--nodes", "2", "--socket", &sockets[0]]).ok();
    scan(&mut cluster);
    assert!(missed(&mut cluster) > 0, "what is not pinned may go");
}

#[test]
fn what_cannot_be_pinned_is_refused_with_the_numbers() {
    let dir = scratch();
    let mut cluster = cluster(dir.path());
    let socket = cluster.node(1).admin_socket();
    cards(&["pin", "disk", "--range", "0+3M", "--socket", &socket]).ok();
    for (arguments, code, words) in [
        (
            &["pin", "disk"][..],
            1,
            "21 MiB more of volume \"disk\" cannot be pinned: 3 MiB are pinned already, and pin_max is 4 MiB",
        ),
        (&["pin", "disk", "--range", "24M+1"], 1, "has 25165824 bytes"),
        (&["pin", "dusk", "--range", "0+1"], 1, "dusk"),
        (&["pin"], 2, "VOLUME"),
        (&["pin", "disk", "--nodes", "n7"], 2, "no node \"n7\""),
        (
            &["pin", "disk", "--range", "3M+2M", "--nodes", "all"],
            1,
            "not done at 1 of 2 nodes: node n1: 2 MiB more",
        ),
    ] {
        let refused = cards(&[arguments, &["--socket", &socket]].concat()).fails();
        assert!(refused.status.code() == Some(code) && refused.stderr.contains(words), "{words}: {refused}");
    }
    eventually("the volume is detached", SHORT, || {
        cards(&["volume", "detach", "disk", "--socket", &socket]).status.success().then_some(())
    });
    let detached = cards(&["pin", "disk", "--range", "0+1", "--socket", &socket]).fails();
    assert!(detached.stderr.contains("not attached at node n1; run"), "{detached}");
    cards(&["unpin", "disk", "--socket", &socket]).ok();
}

#[test]
fn a_write_at_another_node_drops_what_is_pinned_and_a_detach_ends_it() {
    let dir = scratch();
    let mut cluster = cluster(dir.path());
    let socket = cluster.node(2).admin_socket();
    let range = format!("0+{PINNED}");
    cards(&["pin", "disk", "--range", &range, "--socket", &socket]).ok();
    missed(&mut cluster);
    let mut writer = cluster.export(1, "disk").open();
    // Another content, and then the old one: each time the copy at node 2 is dropped and fetched again.
    let old = content::bytes(3 * BLOCK, BLOCK as usize, SEED);
    let new = vec![0x5a; BLOCK as usize];
    for data in [&new, &old] {
        writer.write(3 * BLOCK, data).expect("a write");
        let read = cluster.export(2, "disk").open().read(3 * BLOCK, BLOCK as usize).expect("a read");
        assert!(&read == data, "node 2 reads what node 1 has written");
    }
    scan(&mut cluster);
    assert_eq!(missed(&mut cluster), 0, "what was fetched again stays");

    eventually("the volume is detached", SHORT, || {
        cards(&["volume", "detach", "disk", "--socket", &socket]).status.success().then_some(())
    });
    let list = parse(&cards(&["pin", "list", "--json", "--socket", &socket]).ok());
    assert_eq!(list["nodes"][0]["volumes"], json!([]));
    assert_eq!(cluster.node(2).status()["cache"]["pinned"], 0, "its blocks are in nobody's way");
}
