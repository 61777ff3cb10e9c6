//! What a larger cache would bring, what a boot reads, and blocks that come before anybody asks for them.

use std::path::Path;

use serde_json::Value;

use crate::harness::cluster::{CARDS, Cluster};
use crate::harness::plan::{Disk, Plan};
use crate::harness::process::{Finished, Process, run};
use crate::harness::{KIB, LONG, MIB, SHORT, content, eventually, scratch};

const SEED: u64 = 11;
const BLOCK: u64 = 64 * KIB;

fn cards(arguments: &[&str]) -> Finished {
    run(&[&[CARDS], arguments].concat(), LONG)
}

#[track_caller]
fn json(done: &Finished) -> Value {
    serde_json::from_str(&done.stdout).unwrap_or_else(|error| panic!("{error}: {done}"))
}

/// Nodes that cache 2 MiB each, of a volume of 8 MiB, without read-ahead.
fn cluster(dir: &Path, nodes: usize) -> Cluster {
    let image = dir.join("disk.img");
    content::image(&image, 8 * MIB, SEED);
    let mut plan = Plan::new(dir, nodes).disk(Disk::file(&image)).cache("2M");
    plan.read_ahead = "off";
    Cluster::start(plan)
}

#[test]
fn the_cache_that_a_loop_needs_is_advised() {
    let dir = scratch();
    let mut cluster = cluster(dir.path(), 2);
    let socket = cluster.node(2).admin_socket();
    let nothing = cards(&["advise", "disk", "--socket", &socket]);
    // Whether it is ready was asked with one read.
    assert!(nothing.status.success() || nothing.stderr.contains("no reads"), "{nothing}");
    let mut client = cluster.export(2, "disk").open();
    // What is measured is told once it has been counted often enough to be of the time that is predicted.
    let advice = eventually("what is measured", LONG, || {
        for _ in 0..8 {
            for block in 0..100 {
                client.read(block * BLOCK, 512).expect("a read");
            }
        }
        let advice = json(&cards(&["advise", "disk", "--json", "--socket", &socket]).ok());
        (!advice["own"]["measured"].is_null()).then_some(advice)
    });
    let own = &advice["own"];
    let of_size = |part: &Value, factor: f64, what: &str| -> f64 {
        let sizes = part["sizes"].as_array().unwrap();
        let size = sizes.iter().find(|size| size["factor"].as_f64() == Some(factor));
        size.and_then(|size| size[what].as_f64()).unwrap_or_else(|| panic!("{advice:#}"))
    };
    // Few reads, all known: enough to say so, not enough to be sure.
    assert!(own["error"].as_f64() > Some(0.0) && own["sampled_reads"].as_u64() > Some(100), "{advice:#}");
    // Of a loop over 100 blocks a cache of 32 keeps a part, as does one of 64; one of 128 has them all.
    let measured = own["measured"]["own"].as_f64().unwrap();
    assert!(measured < 0.5 && of_size(own, 1.0, "own") < 0.5 && of_size(own, 2.0, "own") < 0.7, "{advice:#}");
    assert!(of_size(own, 4.0, "own") > 0.98, "{advice:#}");
    // Two caches of 64 have them all.
    let cluster_part = &advice["cluster"];
    assert!(of_size(cluster_part, 2.0, "disk") < of_size(cluster_part, 1.0, "disk"), "{advice:#}");
    assert!(cluster_part["policies"].as_array().is_some_and(|policies| policies.len() > 3), "{advice:#}");
    let text = cards(&["advise", "disk", "--socket", &socket]).ok();
    for word in ["More memory at every node", "all nodes", "measured", "replacement"] {
        assert!(text.stdout.contains(word), "{text}");
    }
    let unknown = cards(&["advise", "dusk", "--socket", &socket]).fails();
    assert!(unknown.stderr.contains("dusk"), "{unknown}");
}

#[test]
fn what_was_recorded_is_fetched_in_its_order() {
    let dir = scratch();
    let mut cluster = cluster(dir.path(), 2);
    let sockets = [cluster.node(1).admin_socket(), cluster.node(2).admin_socket()];
    let file = dir.path().join("boot.profile").display().to_string();
    let argv = ["profile", "record", "disk", "-o", &file, "--json", "--socket", &sockets[0]];
    let argv: Vec<String> = [&[CARDS], &argv[..]].concat().into_iter().map(String::from).collect();
    let mut recorder = Process::spawn(&argv, &dir.path().join("record.log"));
    eventually("the profile is being recorded", SHORT, || recorder.log().contains("recording").then_some(()));
    let other = dir.path().join("other.profile").display().to_string();
    let second = cards(&["profile", "record", "disk", "-o", &other, "--socket", &sockets[0]]).fails();
    assert!(second.stderr.contains("records what"), "{second}");
    let mut client = cluster.export(1, "disk").open();
    for block in [20, 21, 3, 20, 7] {
        client.read(block * BLOCK + 100, 10).expect("a read");
    }
    recorder.signal(libc::SIGINT);
    assert!(recorder.wait(SHORT).success(), "{}", recorder.log());
    let said = recorder.log();
    let said =
        said.lines().find(|line| line.starts_with('{')).unwrap_or_else(|| panic!("no object in {said}"));
    let said: Value = serde_json::from_str(said).expect("one object");
    assert_eq!((&said["ranges"], &said["bytes"], &said["lost"]), (&3.into(), &(4 * BLOCK).into(), &0.into()));
    let profile = std::fs::read_to_string(&file).expect("a profile");
    let ranges: Vec<&str> = profile.lines().skip(3).collect();
    assert_eq!(ranges, ["1310720 131072", "196608 65536", "458752 65536"], "{profile}");
    let again = cards(&["profile", "record", "disk", "-o", &file, "--json", "--socket", &sockets[0]]).fails();
    assert!(again.stderr.contains("--force"), "{again}");
    assert!(
        json(&again)["error"]["message"].as_str().is_some_and(|text| text.contains("--force")),
        "{again}"
    );

    let played = json(&cards(&["profile", "play", &file, "--json", "--socket", &sockets[1]]).ok());
    assert_eq!(
        (&played["from_peers"], &played["from_disk"], &played["here"]),
        (&4.into(), &0.into(), &0.into())
    );
    let disk_reads = cluster.node(2).counter("disk_reads") + cluster.node(2).counter("remote_hits");
    let mut client = cluster.export(2, "disk").open();
    for block in [20, 21, 3, 7] {
        client.read(block * BLOCK, 512).expect("a read");
    }
    let after = cluster.node(2).counter("disk_reads") + cluster.node(2).counter("remote_hits");
    assert_eq!(after, disk_reads, "what was fetched is fetched again");
    let warm = json(&cards(&["warm", "disk", "--from", &file, "--json", "--socket", &sockets[1]]).ok());
    assert_eq!(warm["here"], 4, "{warm}");
}

#[test]
fn a_volume_is_warmed_at_a_rate_and_what_does_not_fit_is_told() {
    let dir = scratch();
    let mut cluster = cluster(dir.path(), 2);
    let socket = cluster.node(1).admin_socket();
    let part = cards(&[
        "warm", "disk", "--range", "1M+512K", "--range", "4M+1", "--rate", "1M", "--socket", &socket,
    ])
    .ok();
    assert!(part.stdout.contains("9 from the disk") && part.stderr.is_empty(), "{part}");
    let part =
        cards(&["warm", "disk", "--range", "1M+512K", "--rate", "1M", "--json", "--socket", &socket]).ok();
    let (blocks, seconds) = (json(&part)["here"].clone(), json(&part)["seconds"].as_f64().unwrap());
    assert!(blocks == 8 && seconds >= 0.45, "{part}");
    let all = cards(&["warm", "disk", "--json", "--socket", &socket]).ok();
    let sum: u64 =
        ["here", "from_peers", "from_disk"].iter().map(|name| json(&all)[name].as_u64().unwrap()).sum();
    assert!(sum == 128 && all.stderr.contains("do not fit"), "{all}");
    cluster.export(1, "disk").check_all(SEED);
}

#[test]
fn warming_ends_at_ctrl_c() {
    let dir = scratch();
    let mut cluster = cluster(dir.path(), 1);
    let socket = cluster.node(1).admin_socket();
    let argv = [CARDS, "warm", "disk", "--rate", "128K", "--json", "--socket", &socket].map(String::from);
    let mut warming = Process::spawn(&argv, &dir.path().join("warm.log"));
    let before = cluster.node(1).counter("disk_reads");
    eventually("blocks come", SHORT, || (cluster.node(1).counter("disk_reads") > before + 1).then_some(()));
    warming.signal(libc::SIGINT);
    assert_eq!(warming.wait(SHORT).code(), Some(130), "{}", warming.log());
    assert!(warming.log().contains("\"interrupted\":true"), "{}", warming.log());
}

#[test]
fn what_makes_no_sense_is_refused() {
    let dir = scratch();
    let mut cluster = cluster(dir.path(), 1);
    let socket = cluster.node(1).admin_socket();
    let write = |name: &str, content: &str| -> String {
        let path = dir.path().join(name);
        std::fs::write(&path, content).expect("a file");
        path.display().to_string()
    };
    let garbage = write("garbage", "\u{1}\u{2}\n");
    let other = write("other", "cards-profile 1\nvolume dusk\nsize 8388608\n0 1\n");
    let larger = write("larger", "cards-profile 1\nvolume disk\nsize 99999999\n9000000 1\n0 70000\n");
    for (arguments, word) in [
        (&["warm", "disk", "--from", &garbage][..], "no profile"),
        (&["warm", "disk", "--from", "/no/such/profile"], "/no/such/profile"),
        (&["warm", "disk", "--from", &other], "\"dusk\""),
        (&["warm", "disk", "--from", &larger], "--force"),
        (&["warm", "disk", "--range", "8M+1"], "8388608"),
        (&["warm", "disk", "--range", "8M"], "OFFSET+LENGTH"),
        (&["warm", "disk", "--rate", "0"], "above 0"),
        (&["warm", "dusk"], "dusk"),
        (&["profile", "play", &other], "dusk"),
        (&["profile", "record", "dusk", "-o", &write("p", "")], "--force"),
    ] {
        let refused = cards(&[arguments, &["--socket", &socket]].concat()).fails();
        assert!(refused.stderr.contains(word), "{refused}");
    }
    let forced = cards(&["warm", "disk", "--from", &larger, "--force", "--json", "--socket", &socket]).ok();
    assert_eq!(json(&forced)["bytes_done"], 70_000);
    eventually("the volume is detached", SHORT, || {
        cards(&["volume", "detach", "disk", "--socket", &socket]).status.success().then_some(())
    });
    let detached = cards(&["warm", "disk", "--socket", &socket]).fails();
    assert!(detached.stderr.contains("volume attach"), "{detached}");
}
