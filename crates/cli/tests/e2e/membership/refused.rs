//! Nodes that must not join, and registries that must not be used: refused with the reason, and nobody else notices.

use std::fs;

use super::{SEED, cluster, join};
use crate::harness::cluster::{CARDS, Cluster};
use crate::harness::plan::{Coordinator, Disk, Plan};
use crate::harness::process::{Finished, run};
use crate::harness::tools::skip;
use crate::harness::{MIB, SHORT, content, scratch};

pub(super) const FAKETIME: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1";

fn says(finished: Finished, words: &[&str]) {
    let finished = finished.fails();
    for word in words {
        assert!(finished.stderr.contains(word), "no {word:?} in {finished}");
    }
}

fn strings(command: &[String]) -> Vec<&str> {
    command.iter().map(String::as_str).collect()
}

#[test]
fn a_node_of_another_cluster() {
    let dir = scratch();
    let cluster = cluster(dir.path());
    let command = join(dir.path(), &cluster, "other", "n3");
    says(run(&strings(&command), SHORT), &["coordinator of cluster `lab`", "`other`", "correct"]);
    assert!(!dir.path().join("n3-node.toml").exists(), "what was wrong can be corrected");
    cluster.export(2, "disk").check_all(SEED);
}

#[test]
fn a_second_node_of_one_name() {
    let dir = scratch();
    let mut cluster = cluster(dir.path());
    let command = join(dir.path(), &cluster, "lab", "n2");
    says(run(&strings(&command), SHORT), &["the name `n2` is in use", "give this node another name"]);
    assert_eq!(cluster.node(2).status()["healthy"], true);
    cluster.export(2, "disk").check_all(SEED);
}

/// Else nodes would read one disk or the other under one name.
#[test]
fn a_node_with_a_disk_of_another_node_s_name() {
    let dir = scratch();
    let mut cluster = cluster(dir.path());
    let other = dir.path().join("other.img");
    content::image(&other, MIB, SEED + 1);
    let mut command = join(dir.path(), &cluster, "lab", "n3");
    command.extend(["--disk".into(), format!("disk={}", other.display())]);
    says(
        run(&strings(&command), SHORT),
        &["disk \"disk\": node n1 at", "give one of the two another `name`"],
    );
    assert!(!dir.path().join("n3-node.toml").exists(), "what was wrong can be corrected");
    assert_eq!(cluster.node(1).status()["healthy"], true);
    cluster.export(2, "disk").check_all(SEED);
}

#[test]
fn a_node_whose_clock_is_hours_off() {
    if !std::path::Path::new(FAKETIME).is_file() {
        return skip("faketime is not installed");
    }
    let dir = scratch();
    let mut cluster = cluster(dir.path());
    let (preload, dont) = (format!("LD_PRELOAD={FAKETIME}"), "FAKETIME_DONT_FAKE_MONOTONIC=1");
    for off in ["FAKETIME=+3h", "FAKETIME=-2d"] {
        let command = join(dir.path(), &cluster, "lab", "n3");
        let faked = [&["env", &preload, off, dont], &strings(&command)[..]].concat();
        says(run(&faked, SHORT), &["the clock of node `n3`", "NTP"]);
    }
    assert_eq!(cluster.node(1).status()["healthy"], true);
}

#[test]
fn a_registry_that_was_cut_short_or_lost() {
    let dir = scratch();
    let mut cluster = cluster(dir.path());
    cluster.node(2).terminate();
    cluster.node(1).terminate();
    let registry = cluster.plan.runtime_dir(0).join("state/register");
    let whole = fs::read(&registry).expect("the registry");
    let config = dir.path().join("n1.toml").display().to_string();
    let serve = || run(&[CARDS, "serve", "--config", &config], SHORT);
    for length in [0, 100, whole.len() / 2, whole.len() - 1] {
        fs::write(&registry, &whole[..length]).expect("a file");
        says(serve(), &["state/register", "is damaged"]);
    }
    fs::remove_file(&registry).expect("a file");
    says(serve(), &["has no registry", "bring the registry back", "register.moved"]);
    fs::write(registry.with_extension("moved"), &whole).expect("a file");
    cluster.node(1).restart();
    cluster.node(2).restart();
    cluster.export(2, "disk").check_all(SEED);
}

#[test]
fn an_etcd_that_is_not_there_or_is_something_else() {
    let dir = scratch();
    let image = dir.path().join("disk.img");
    content::image(&image, MIB, SEED);
    let mut plan = Plan::new(dir.path(), 1).disk(Disk::file(&image));
    plan.coordinator = Coordinator::Etcd(vec!["http://127.0.0.1:1".into()]);
    (plan.lease, plan.disk_wait) = ("2s", "4s");
    let mut cluster = Cluster::spawn(plan);
    cluster.node(1).says(&["waiting for the coordinator", "etcd at http://127.0.0.1:1"]);
    assert!(cluster.node(1).is_alive());
    cluster.node(1).terminate();
}
