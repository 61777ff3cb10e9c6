//! `cards lock`: a lock that is held while a command runs.

use super::{api, list, lock, plan, wait_for_locks};
use crate::harness::cluster::{CARDS, Cluster};
use crate::harness::plan::{Disk, Plan};
use crate::harness::process::{Process, run};
use crate::harness::{MIB, SHORT, eventually, scratch};

#[test]
fn a_command_runs_under_a_lock_that_others_see_and_do_not_get() {
    let dir = scratch();
    let mut cluster = Cluster::start(plan(dir.path(), &["disk"]));
    wait_for_locks(&mut cluster, &["disk"]);
    let (here, there) = (api(&mut cluster, 2), api(&mut cluster, 3));
    let script = format!(
        "echo $CARDS_LOCK_TOKEN; {CARDS} lock show $CARDS_LOCK_GROUP --socket {here} || exit 8; \
         {CARDS} lock acquire disk 4K+1 --mode read --wait none --socket {there} -- true && exit 9; exit 7"
    );
    let first = lock(&mut cluster, 2, "acquire", &["disk", "0+1M", "--", "sh", "-c", &script]);
    assert_eq!(first.status.code(), Some(7), "{first}");
    let token = first.stdout.lines().next().unwrap().to_owned();
    assert!(first.stdout.contains("held") && first.stdout.matches(&token).count() == 2, "{first}");
    assert!(first.stderr.contains("wait for it or try later"), "{first}");

    let echo = ["disk", "1K+1", "--wait", "5s", "--", "sh", "-c", "echo $CARDS_LOCK_TOKEN"];
    let second = lock(&mut cluster, 3, "acquire", &echo).ok();
    assert!(second.stdout.trim() > token.as_str(), "{} after {token}", second.stdout);
    for number in 1..=3 {
        let left = list(&mut cluster, number);
        assert!(left["sessions"].as_array().unwrap().is_empty(), "{left:#}");
        assert!(left["holdings"].as_array().unwrap().is_empty(), "{left:#}");
    }
    // The socket that all other verbs use is enough.
    let admin = format!("CARDS_SOCKET={}", cluster.node(2).admin_socket());
    run(&["env", &admin, CARDS, "lock", "acquire", "disk", "0..1M", "--wait", "5s", "--", "true"], SHORT)
        .ok();
    // Readers share.
    let inner = format!("{CARDS} lock acquire disk 0+16M --mode read --wait none --socket {there} -- true");
    lock(&mut cluster, 2, "acquire", &["disk", "0..16M", "--mode", "read", "--", "sh", "-c", &inner]).ok();
}

#[test]
fn a_command_that_has_written_lets_readers_in() {
    let dir = scratch();
    let mut cluster = Cluster::start(plan(dir.path(), &["disk"]));
    wait_for_locks(&mut cluster, &["disk"]);
    let (here, there) = (api(&mut cluster, 2), api(&mut cluster, 3));
    let other = format!("{CARDS} lock acquire disk 4K+1 --wait none --socket {there}");
    let script = format!(
        "{other} --mode read -- true && exit 8; \
         {CARDS} lock downgrade $CARDS_LOCK_GROUP --session $CARDS_LOCK_SESSION --socket {here} || exit 9; \
         {other} --mode read -- true || exit 10; {other} --mode write -- true && exit 11; exit 7"
    );
    let held = lock(&mut cluster, 2, "acquire", &["disk", "0+1M", "--", "sh", "-c", &script]);
    assert_eq!(held.status.code(), Some(7), "{held}");
}

/// Nobody says goodbye for a process that is killed: its session is silent, and over after its ttl.
#[test]
fn who_is_killed_while_it_holds_a_lock_frees_it() {
    let dir = scratch();
    let mut cluster = Cluster::start(plan(dir.path(), &["disk"]));
    wait_for_locks(&mut cluster, &["disk"]);
    let socket = api(&mut cluster, 2);
    let arguments = ["acquire", "disk", "0+1M", "--ttl", "2s", "--socket", &socket, "--", "sleep", "600"];
    let argv: Vec<String> =
        [&[CARDS, "lock"], &arguments[..]].concat().into_iter().map(String::from).collect();
    let mut holder = Process::spawn(&argv, &dir.path().join("holder.log"));
    eventually("the lock is held", SHORT, || {
        (list(&mut cluster, 2)["sessions"][0]["groups"][0]["state"] == "held").then_some(())
    });
    let refused = lock(&mut cluster, 3, "acquire", &["disk", "0+1", "--wait", "none", "--", "true"]).fails();
    assert!(refused.stderr.contains("is locked"), "{refused}");
    holder.kill();
    lock(&mut cluster, 3, "acquire", &["disk", "0+1", "--wait", "15s", "--", "true"]).ok();
}

#[test]
fn an_operator_releases_a_group_and_its_command_is_told() {
    let dir = scratch();
    let mut cluster = Cluster::start(plan(dir.path(), &["disk"]));
    wait_for_locks(&mut cluster, &["disk"]);
    let socket = api(&mut cluster, 1);
    let arguments = ["acquire", "disk", "0+1M", "--socket", &socket, "--", "sleep", "600"];
    let argv: Vec<String> =
        [&[CARDS, "lock"], &arguments[..]].concat().into_iter().map(String::from).collect();
    let mut holder = Process::spawn(&argv, &dir.path().join("holder.log"));
    let group = eventually("the lock is held", SHORT, || {
        let group = list(&mut cluster, 1)["sessions"][0]["groups"][0].clone();
        (group["state"] == "held").then_some(group)
    });
    let (name, session) = (group["group"].as_str().unwrap(), group["session"].as_str().unwrap());
    lock(&mut cluster, 1, "release", &[name, "--session", session]).ok();
    assert_eq!(holder.wait(SHORT).code(), Some(1), "{}", holder.log());
    assert!(holder.log().contains("was lost"), "{}", holder.log());
}

#[test]
fn without_a_coordinator_the_operator_is_told_what_to_add() {
    let dir = scratch();
    let image = dir.path().join("disk.img");
    std::fs::File::create(&image).and_then(|file| file.set_len(16 * MIB)).unwrap();
    let mut cluster = Cluster::start(Plan::new(dir.path(), 1).disk(Disk::file(&image)));
    let refused = lock(&mut cluster, 1, "acquire", &["disk", "0+1M"]).fails();
    assert!(refused.stderr.contains("add [coordinator] to node.toml"), "{refused}");
}
