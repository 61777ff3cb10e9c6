//! Nodes join and leave a running cluster, and those that must not are told why.

mod arbiters;
mod certificates;
mod clock;
mod packaged;
mod refused;
mod secure;
mod tokens;

use std::path::Path;

use crate::harness::client::Client;
use crate::harness::cluster::{CARDS, Cluster};
use crate::harness::plan::{Coordinator, Disk, Plan, free_port};
use crate::harness::process::{Process, run};
use crate::harness::{MIB, SHORT, content, eventually, scratch};

const SEED: u64 = 41;

/// Two nodes and a registry at the first; the volume `disk` is attached at both. Others join with nothing to show: how they get
/// that is in [`tokens`].
fn cluster(dir: &Path) -> Cluster {
    let image = dir.join("disk.img");
    content::image(&image, 8 * MIB, SEED);
    let mut plan = Plan::new(dir, 2).disk(Disk::file(&image)).insecure();
    plan.coordinator = Coordinator::embedded();
    Cluster::start(plan)
}

/// The command that joins `cluster` under the name `node`, with everything of the node in `dir`.
fn join(dir: &Path, cluster: &Cluster, name: &str, node: &str) -> Vec<String> {
    let own = free_port().to_string();
    join_at(dir, &cluster.plan.nodes[0].address.to_string(), name, node, &["--address", &own])
}

/// The command that joins the cluster `name` whose node n1 is at `keeper`.
fn join_at(dir: &Path, keeper: &str, name: &str, node: &str, more: &[&str]) -> Vec<String> {
    let words =
        format!("join {name} --coordinator n1@{keeper} --node {node} --cache 64M --shards 4 --attach disk");
    let files = [("--config", "node.toml"), ("--state-dir", "state"), ("--runtime-dir", "run")];
    let files = files
        .map(|(option, what)| [option.to_owned(), dir.join(format!("{node}-{what}")).display().to_string()]);
    let words = [CARDS].into_iter().chain(words.split(' ')).chain(more.iter().copied());
    words.map(str::to_owned).chain(files.into_iter().flatten()).collect()
}

fn member(cluster: &mut Cluster, name: &str) -> Option<String> {
    member_at(cluster, 1, name)
}

/// What node `n{asked}` knows of a member.
fn member_at(cluster: &mut Cluster, asked: usize, name: &str) -> Option<String> {
    let status = cluster.node(asked).status();
    let member = status["members"].as_array()?.iter().find(|member| member["name"] == name)?.clone();
    Some(member["state"].as_str()?.to_owned())
}

#[test]
fn a_node_joins_with_one_command_reads_writes_and_leaves() {
    let dir = scratch();
    let mut cluster = cluster(dir.path());
    let command = join(dir.path(), &cluster, "lab", "n3");
    let mut process = Process::spawn(&command, &dir.path().join("n3.log"));
    let socket = dir.path().join("n3-run/nbd.sock");
    let export = crate::harness::export::Export {
        address: crate::harness::export::Address::Unix(socket),
        name: "disk".into(),
        pid: process.pid(),
    };
    process.until("n3 serves", || export.read(0, 512).ok());
    export.check_all(SEED);
    let mut client: Client = export.open();
    client.write(MIB, b"by n3").expect("a write at the node that joined");
    assert_eq!(cluster.export(2, "disk").read(MIB, 5).expect("a read"), b"by n3");
    client.close();

    let admin = dir.path().join("n3-run/admin.sock").display().to_string();
    eventually("n3 leaves", SHORT, || {
        run(&[CARDS, "leave", "--socket", &admin], SHORT).status.success().then_some(())
    });
    assert!(process.wait(SHORT).success());
    eventually("n1 hears of it", SHORT, || {
        (member(&mut cluster, "n3").as_deref() == Some("left")).then_some(())
    });
    assert_eq!(cluster.node(1).status()["healthy"], true);
    let first = cluster.node(1).admin_socket();
    run(&[CARDS, "forget", "n3", "--socket", &first], SHORT).ok();
    eventually("n3 is forgotten", SHORT, || member(&mut cluster, "n3").is_none().then_some(()));
}

/// A disk that was taken out of its node's file is not offered by the others, and its name is free.
#[test]
fn a_disk_is_taken_out_of_the_cluster() {
    let dir = scratch();
    let image = dir.path().join("disk.img");
    content::image(&image, MIB, SEED);
    let mut plan = Plan::new(dir.path(), 2).disk(Disk::file(&image)).insecure();
    plan.coordinator = Coordinator::embedded();
    plan.nodes[1].attach.clear();
    let mut cluster = Cluster::start(plan);
    let listed = |cluster: &mut Cluster| {
        let status = cluster.node(2).answers().then(|| cluster.node(2).status())?;
        let volumes = status["volumes"].as_array()?.clone();
        Some(volumes.iter().any(|volume| volume["name"] == "disk"))
    };
    eventually("n2 knows it", SHORT, || listed(&mut cluster).filter(|&listed| listed));
    cluster.node(1).terminate();
    cluster.plan.nodes[0].disks.clear();
    cluster.plan.nodes[0].attach.clear();
    std::fs::write(dir.path().join("n1.toml"), cluster.plan.toml(0)).expect("a file");
    cluster.node(1).spawn();
    eventually("n2 hears of it", SHORT, || listed(&mut cluster).filter(|&listed| !listed));
    let admin = cluster.node(2).admin_socket();
    let refused = run(&[CARDS, "volume", "attach", "disk", "--socket", &admin], SHORT).fails();
    assert!(refused.stderr.contains("no node of the cluster has a volume"), "{refused}");

    // Where it is now it may have the same name.
    cluster.node(2).terminate();
    cluster.plan.nodes[1].disks.push(Disk::file(&image));
    std::fs::write(dir.path().join("n2.toml"), cluster.plan.toml(1)).expect("a file");
    cluster.node(2).spawn();
    eventually("n2 has it", SHORT, || listed(&mut cluster).filter(|&listed| listed));
    // It answers from its start on, a moment before it is connected to n1.
    eventually("all is well", SHORT, || (cluster.node(2).status()["healthy"] == true).then_some(()));
}

#[test]
fn a_node_without_a_coordinator_says_that_it_cannot_leave() {
    let dir = scratch();
    let image = dir.path().join("disk.img");
    content::image(&image, MIB, SEED);
    let mut cluster = Cluster::start(Plan::new(dir.path(), 1).disk(Disk::file(&image)));
    let socket = cluster.node(1).admin_socket();
    let refused = run(&[CARDS, "leave", "--socket", &socket], SHORT).fails();
    assert!(refused.stderr.contains("[coordinator.embedded]"), "{refused}");
}

/// The keeper of the registry is killed while a node waits to join.
#[test]
fn a_node_waits_for_the_coordinator_and_says_so() {
    let dir = scratch();
    let mut cluster = cluster(dir.path());
    cluster.node(2).kill();
    cluster.node(1).kill();
    cluster.node(2).spawn();
    cluster.node(2).says(&["waiting for the coordinator", "n1"]);
    cluster.node(1).restart();
    cluster.node(2).wait_ready();
    cluster.export(2, "disk").check_all(SEED);
}
