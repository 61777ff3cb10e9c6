//! The running cluster is asked and told: status, volumes, attach and detach, and what needs no daemon.

use crate::harness::cluster::{CARDS, Cluster};
use crate::harness::plan::{Disk, Plan};
use crate::harness::process::{Finished, run};
use crate::harness::{MIB, SHORT, content, eventually, scratch};

const SEED: u64 = 3;

fn two_nodes(dir: &std::path::Path) -> Cluster {
    let image = dir.join("disk.img");
    content::image(&image, 8 * MIB, SEED);
    Cluster::start(Plan::new(dir, 2).disk(Disk::file(&image)).cache("16M"))
}

fn cards(arguments: &[&str]) -> Finished {
    run(&[&[CARDS], arguments].concat(), SHORT)
}

#[test]
fn a_volume_is_detached_and_attached_while_the_daemon_runs() {
    let dir = scratch();
    let mut cluster = two_nodes(dir.path());
    let socket = cluster.node(2).admin_socket();
    let on = ["--socket", &socket];
    let volume = |verb: &[&str]| cards(&[&["volume"], verb, &on].concat());

    // A client is connected: nobody takes the volume from it.
    let mut client = cluster.export(2, "disk").open();
    client.read(0, 512).expect("a read");
    let busy = volume(&["detach", "disk"]).fails();
    assert!(busy.stderr.contains("disk"), "{busy}");
    client.read(0, 512).expect("a read after a refused detach");
    client.close();
    eventually("the volume is detached", SHORT, || {
        volume(&["detach", "disk"]).status.success().then_some(())
    });
    assert!(!cluster.node(2).opens("disk"), "a detached volume still opens");
    cluster.export(1, "disk").check_all(SEED);

    let wrong = volume(&["attach", "disk", "--policy", "hdc"]).fails();
    assert!(
        ["disk", "policy", "\"hscc", "\"hdc\""].iter().all(|word| wrong.stderr.contains(word)),
        "{wrong}"
    );
    let unknown = volume(&["attach", "dusk"]).fails();
    assert!(unknown.stderr.contains("dusk"), "{unknown}");
    volume(&["attach", "disk", "--mode", "ro"]).ok();
    cluster.node(2).wait_ready();
    cluster.export(2, "disk").check_all(SEED);
    let listed = volume(&["list"]).ok();
    assert!(listed.stdout.contains("disk"), "{listed}");
    volume(&["show", "disk"]).ok();
}

#[test]
fn status_names_members_volumes_and_health() {
    let dir = scratch();
    let mut cluster = two_nodes(dir.path());
    let socket = cluster.node(1).admin_socket();
    let text = eventually("both nodes see each other", SHORT, || {
        let done = cards(&["status", "--socket", &socket]).ok();
        done.stdout.contains("2 of 2 nodes up").then_some(done.stdout)
    });
    assert!(["n1", "n2", "disk", "hscc"].iter().all(|word| text.contains(word)), "{text}");
    cluster.node(2).kill();
    eventually("the dead node is missed", SHORT, || {
        let status = cluster.node(1).status();
        (status["healthy"] == false && status["problems"].to_string().contains("n2")).then_some(())
    });
}

#[test]
fn no_daemon_is_an_error_with_a_remedy() {
    let done = cards(&["status", "--socket", "/nonexistent/admin.sock"]).fails();
    assert!(done.stderr.contains("/nonexistent/admin.sock") && done.stderr.contains("cards serve"), "{done}");
}

#[test]
fn policies_are_listed_with_their_papers() {
    let done = cards(&["policy", "list"]).ok();
    assert!(["rd", "hscc", "hdc", "depth"].iter().all(|word| done.stdout.contains(word)), "{done}");
}

#[test]
fn wrong_usage_exits_with_2() {
    for arguments in [&["frobnicate"][..], &["serve"], &["dev", "--block", "64Q"], &[]] {
        assert_eq!(cards(arguments).status.code(), Some(2), "{arguments:?}");
    }
}
