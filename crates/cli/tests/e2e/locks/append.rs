//! Processes on two nodes append to one shared volume under locks (`crates/client/examples/append.rs`), while a
//! node is killed.

use std::path::{Path, PathBuf};

use super::{api, list, plan, wait_for_locks};
use crate::harness::cluster::{CARDS, Cluster};
use crate::harness::process::{Process, run};
use crate::harness::{LONG, SHORT, eventually, scratch};

const RECORDS: u64 = 800;
const VOLUMES: [&str; 3] = ["one", "two", "three"];

/// The example, built as the daemons are.
fn example() -> PathBuf {
    let folder = Path::new(CARDS).parent().expect("a folder");
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or("debug");
    let profile = if name == "debug" { "dev" } else { name };
    let target = folder.parent().expect("a target folder").display().to_string();
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    // What cargo tells this test of its package is another build's: build scripts that look at it (ring) would run again, and all that
    // stands on them be compiled again, here and in the next build.
    let told = std::env::vars().map(|(name, _)| name);
    let told = told.filter(|name| name.starts_with("CARGO_MANIFEST_") || name.starts_with("CARGO_PKG_"));
    let without: Vec<String> = told.map(|name| format!("--unset={name}")).collect();
    let mut words: Vec<&str> = vec!["env"];
    words.extend(without.iter().map(String::as_str));
    // With the features that the whole workspace has: `make test` has built it.
    words.extend([&cargo, "build", "--quiet", "--locked", "--workspace", "--example", "append"]);
    words.extend(["--profile", profile, "--target-dir", &target]);
    run(&words, LONG * 4).ok();
    folder.join("examples/append")
}

/// `--at` for node `n{number}`.
fn place(cluster: &mut Cluster, number: usize) -> String {
    let api = api(cluster, number);
    let nbd = api.replace("api.sock", "nbd.sock");
    format!("--at={api},{nbd}")
}

/// The first volume whose locks are looked after by node 2 or 3, and that node.
fn volume_with_home(cluster: &mut Cluster) -> (&'static str, usize) {
    for volume in VOLUMES {
        for number in 2..=3 {
            let socket = api(cluster, number);
            let script = format!("{CARDS} lock list --json --socket {socket}");
            let held = ["--socket", &socket, volume, "0+1", "--", "sh", "-c", &script];
            let listed = run(&[&[CARDS, "lock", "acquire"], &held[..]].concat(), SHORT).ok().stdout;
            let listed: serde_json::Value = serde_json::from_str(&listed).expect("a listing");
            if !listed["holdings"].as_array().expect("a list").is_empty() {
                return (volume, number);
            }
        }
    }
    panic!("node 1 is the home of all of {VOLUMES:?}")
}

/// The node that is killed looks after the locks that both writers use, and one of them is its client.
#[test]
fn two_writers_lose_and_tear_no_record_when_the_home_of_their_locks_is_killed() {
    let append = example();
    let dir = scratch();
    let mut cluster = Cluster::start(plan(dir.path(), &VOLUMES));
    wait_for_locks(&mut cluster, &VOLUMES);
    let (volume, home) = volume_with_home(&mut cluster);
    let other = 5 - home;
    let mut writer = |name: &str, places: &[usize]| {
        let mut argv = vec![append.display().to_string(), "write".into(), name.into(), RECORDS.to_string()];
        argv.extend(["--volume".into(), volume.into()]);
        argv.extend(places.iter().map(|&number| place(&mut cluster, number)));
        Process::spawn(&argv, &dir.path().join(name))
    };
    let mut writers = [writer("loser", &[home, 1]), writer("survivor", &[other])];
    let written = |log: &str| log.lines().count();
    eventually("both have written something", SHORT, || {
        writers.iter().all(|writer| written(&writer.log()) > 20).then_some(())
    });
    cluster.node(home).kill();
    assert!(writers.iter().all(|writer| written(&writer.log()) < RECORDS as usize / 4), "killed too late");
    for writer in &mut writers {
        assert!(writer.wait(LONG).success(), "{}", writer.log());
    }
    for number in [1, other] {
        let expected = ["loser", "survivor"].map(|name| format!("{name}={RECORDS}"));
        let (append, place) = (append.display().to_string(), place(&mut cluster, number));
        let [loser, survivor] = &expected;
        run(&[&append, "verify", "--volume", volume, &place, loser, survivor], SHORT).ok();
    }
    // Back again, it does not stand in the way.
    cluster.node(home).restart();
    let again = [append.display().to_string(), place(&mut cluster, home)];
    run(&[&again[0], "write", "again", "20", "--volume", volume, &again[1]], LONG).ok();
    let left = list(&mut cluster, other);
    assert!(left["sessions"].as_array().unwrap().is_empty(), "{left:#}");
}
