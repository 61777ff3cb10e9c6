//! A good file on a machine that does not fit it.

use std::fs::{self, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

use super::{good_plan, refused, serve};
use crate::harness::cluster::{CARDS, Cluster};
use crate::harness::plan::{Coordinator, Plan, free_port};
use crate::harness::process::run;
use crate::harness::tools::{is_root, need};
use crate::harness::{SHORT, eventually, scratch};

#[test]
fn a_missing_disk_is_named() {
    let dir = scratch();
    let plan = good_plan(dir.path());
    fs::remove_file(dir.path().join("disk.img")).unwrap();
    refused(serve(dir.path(), &plan.toml(0)), &["disk", "disk.img"], &["create it", "correct `path`"]);
}

#[test]
fn an_empty_disk_is_refused() {
    let dir = scratch();
    let plan = good_plan(dir.path());
    fs::write(dir.path().join("disk.img"), b"").unwrap();
    refused(serve(dir.path(), &plan.toml(0)), &["disk", "disk.img"], &["empty", "size", "0 bytes"]);
}

#[test]
fn a_read_only_disk_cannot_be_had_exclusively() {
    let dir = scratch();
    let mut plan = good_plan(dir.path());
    plan.nodes[0].disks[0].read_only = true;
    plan.nodes[0].attach[0].mode = "exclusive";
    refused(serve(dir.path(), &plan.toml(0)), &["disk", "exclusive"], &["read-only", "read_only", "\"ro\""]);
}

#[test]
fn a_cache_beyond_the_memory_is_refused() {
    let dir = scratch();
    for cache in ["1024T", "8388607T"] {
        let plan = good_plan(dir.path()).cache(cache);
        refused(serve(dir.path(), &plan.toml(0)), &["cache", cache, "memory"], &["smaller"]);
    }
}

#[test]
fn a_busy_disk_is_refused() {
    let dir = scratch();
    let first = Cluster::start(good_plan(dir.path()));
    let other = scratch();
    let mut plan = Plan::new(other.path(), 1).cache("16M");
    (plan.nodes[0].disks, plan.nodes[0].attach) =
        (first.plan.nodes[0].disks.clone(), first.plan.nodes[0].attach.clone());
    fs::create_dir_all(other.path().join("n1")).unwrap();
    refused(
        serve(other.path(), &plan.toml(0)),
        &["disk", "disk.img"],
        &["in use", "busy", "another", "locked"],
    );
}

#[test]
fn a_port_in_use_is_named() {
    let dir = scratch();
    // A node that is alone has no port.
    let mut plan = good_plan(dir.path());
    plan.coordinator = Coordinator::embedded();
    let address = plan.nodes[0].address;
    let _taken = TcpListener::bind(address).unwrap();
    refused(serve(dir.path(), &plan.toml(0)), &[&address.to_string()], &["in use", "taken"]);
}

#[test]
fn an_nbd_port_in_use_is_named() {
    let dir = scratch();
    let mut plan = good_plan(dir.path());
    let taken = TcpListener::bind(free_port()).unwrap();
    let address = taken.local_addr().unwrap();
    plan.nodes[0].tcp = Some(address);
    refused(serve(dir.path(), &plan.toml(0)), &[&address.to_string()], &["in use", "taken"]);
}

#[test]
fn a_running_daemon_keeps_its_sockets() {
    let dir = scratch();
    let mut cluster = Cluster::start(good_plan(dir.path()));
    let text = cluster.plan.toml(0);
    refused(serve(dir.path(), &text), &[], &["in use", "running", "already", "busy"]);
    assert!(cluster.node(1).is_alive());
    cluster.export(1, "disk").check_all(1);
}

#[test]
fn a_disk_without_permission_is_named() {
    need!("setpriv");
    let dir = scratch();
    let text = good_plan(dir.path()).toml(0);
    let config = dir.path().join("node.toml");
    fs::write(&config, text).unwrap();
    let mode = |path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    mode(dir.path().to_path_buf(), 0o755);
    mode(config.clone(), 0o644);
    mode(dir.path().join("n1"), 0o777);
    mode(dir.path().join("disk.img"), 0o000);
    let config = config.display().to_string();
    let serve = [CARDS, "serve", "--config", &config];
    // Root may read everything: give up being root.
    let other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    let argv = if is_root() { [other.as_slice(), &serve].concat() } else { serve.to_vec() };
    refused(run(&argv, SHORT), &["disk", "disk.img"], &["ermission"]);
}

/// Waits until node `number` says that it is not well for want of `absent`.
fn reported(cluster: &mut Cluster, number: usize, absent: &str) {
    eventually(&format!("{absent} is reported absent"), SHORT, || {
        let status = cluster.node(number).status();
        (status["healthy"] == false && status["problems"].to_string().contains(absent)).then_some(())
    });
}

#[test]
fn an_unreachable_member_is_reported_and_waited_for() {
    let dir = scratch();
    let mut plan = good_plan(dir.path());
    let absent = Plan::new(dir.path(), 2).nodes.remove(1);
    plan.nodes.push(absent);
    // It is not declared dead meanwhile.
    plan.coordinator = Coordinator::Embedded { keeper: 1, apart: None, lease: "20s" };
    (plan.lease, plan.disk_wait) = ("20s", "40s");
    let mut cluster = Cluster::start(plan);
    cluster.node(2).kill();
    cluster.export(1, "disk").check_all(1);
    reported(&mut cluster, 1, "n2");
    let address = cluster.plan.nodes[1].address.to_string();
    cluster.node(1).says(&["WARN", "n2", &address, "not reached", "start `cards serve` there"]);
    cluster.node(2).restart();
    assert_eq!(cluster.node(1).log().matches("not reached").count(), 1, "said once per outage");
    eventually("the member is found", SHORT, || (cluster.node(1).status()["healthy"] == true).then_some(()));
}

#[test]
fn an_unreachable_disk_node_is_reported_and_waited_for() {
    let dir = scratch();
    let mut plan = good_plan(dir.path());
    let mut reader = Plan::new(dir.path(), 2).nodes.remove(1);
    reader.attach = plan.nodes[0].attach.clone();
    plan.nodes.push(reader);
    plan.coordinator = Coordinator::Embedded { keeper: 2, apart: None, lease: "1s" };
    let mut cluster = Cluster::start(plan);
    cluster.node(1).kill();
    cluster.node(2).kill();
    cluster.node(2).spawn();
    eventually("the admin socket answers", SHORT, || cluster.node(2).answers().then_some(()));
    reported(&mut cluster, 2, "n1");
    assert!(cluster.node(2).is_alive(), "a daemon outwaits the disk node");
    cluster.node(1).restart();
    cluster.node(2).wait_ready();
    cluster.export(2, "disk").check_all(1);
}
