//! The machine of a disk loses its power: what was flushed is there, and who loses writes hears of it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::harness::client::Client;
use crate::harness::cluster::{CARDS, Cluster};
use crate::harness::guest::{self, DiskNode, HOST, Namespace, missing_guest};
use crate::harness::plan::{Coordinator, Disk, Plan};
use crate::harness::process::run;
use crate::harness::tools::skip_if;
use crate::harness::{LONG, MIB, SHORT, content, eventually, scratch};

const BLOCK: usize = 64 << 10;

/// `nodes` nodes with a disk at node 1, and a client of node 2 that has written to it.
fn written(dir: &Path, nodes: usize) -> (PathBuf, Cluster, Client) {
    let image = dir.join("disk.img");
    content::image(&image, 8 * MIB, 1);
    let cluster = Cluster::start(Plan::new(dir, nodes).disk(Disk::file(&image)));
    let mut writer = cluster.export(2, "disk").open();
    writer.write(0, &[1; BLOCK]).unwrap();
    (image, cluster, writer)
}

/// Kills node 1, puts its disk back to what was last synced, and starts it as after a reboot.
fn lose_power(cluster: &mut Cluster, image: &Path, synced: &[u8]) {
    cluster.node(1).kill();
    fs::write(image, synced).unwrap();
    cluster.node(1).reboot("another");
    cluster.node(1).restart();
}

#[test]
fn a_flush_after_a_loss_of_power_fails_once() {
    let dir = scratch();
    let (image, mut cluster, mut writer) = written(dir.path(), 3);
    let mut idle = cluster.export(3, "disk").open();
    writer.flush().unwrap();
    let synced = fs::read(&image).unwrap();
    // In other shards than the flush is.
    (1..40).for_each(|block| writer.write(block * BLOCK as u64, &[2; BLOCK]).unwrap());
    lose_power(&mut cluster, &image, &synced);

    let error = writer.flush().expect_err("what was written is gone");
    assert_eq!(error.raw_os_error(), Some(libc::EIO), "{error}");
    cluster.node(2).says(&["flush has failed", "disk", "n1", "lost power"]);
    let lost = &cluster.node(2).status()["losses"][0];
    assert_eq!((lost["volume"].as_str(), lost["disk_node"].as_str()), (Some("disk"), Some("n1")), "{lost}");
    assert_eq!(lost["reason"], "the machine lost power, or the journal of the disk was lost");
    let socket = cluster.node(2).admin_socket();
    let text = run(&[CARDS, "status", "--socket", &socket], SHORT).ok();
    assert!(text.stdout.contains("s ago: at its disk node n1, the machine lost power"), "{text}");

    writer.flush().expect("told once");
    idle.flush().expect("who has nothing unflushed has lost nothing");
    assert!(cluster.node(3).status()["losses"].is_null());
    assert!(writer.read(0, BLOCK).unwrap() == [1; BLOCK], "what was flushed");
    assert!(idle.read(BLOCK as u64, BLOCK).unwrap() == synced[BLOCK..2 * BLOCK], "as the disk has it");
    writer.write(BLOCK as u64, &[3; BLOCK]).unwrap();
    writer.flush().expect("nothing is lost any more");
}

/// Each client of a node hears of it, whoever flushes first.
#[test]
fn a_loss_of_power_is_told_to_all_clients_of_a_node() {
    let dir = scratch();
    let (image, mut cluster, mut first) = written(dir.path(), 2);
    let mut second = cluster.export(2, "disk").open();
    first.flush().unwrap();
    let synced = fs::read(&image).unwrap();
    first.write(BLOCK as u64, &[2; BLOCK]).unwrap();
    second.write(2 * BLOCK as u64, &[3; BLOCK]).unwrap();
    lose_power(&mut cluster, &image, &synced);

    for writer in [&mut first, &mut second] {
        let error = writer.flush().expect_err("what was written is gone");
        assert_eq!(error.raw_os_error(), Some(libc::EIO), "{error}");
    }
    let mut later = cluster.export(2, "disk").open();
    for writer in [&mut first, &mut second, &mut later] {
        writer.flush().expect("each was told once, and who came later has lost nothing");
    }
}

/// The page cache outlives the process.
#[test]
fn a_flush_after_a_death_of_the_process_succeeds() {
    let dir = scratch();
    let (_, mut cluster, mut writer) = written(dir.path(), 2);
    cluster.node(1).kill();
    cluster.node(1).restart();
    writer.flush().expect("nothing is lost");
}

/// A clean stop syncs: the reboot after it loses nothing.
#[test]
fn a_flush_after_a_clean_stop_and_a_reboot_succeeds() {
    let dir = scratch();
    let (_, mut cluster, mut writer) = written(dir.path(), 2);
    assert!(cluster.node(1).terminate().success());
    cluster.node(1).reboot("another");
    cluster.node(1).restart();
    writer.flush().expect("nothing is lost");
}

/// So does a daemon that has nothing to write.
#[test]
fn a_flush_after_a_loss_of_power_at_an_idle_disk_succeeds() {
    let dir = scratch();
    let image = dir.path().join("disk.img");
    content::image(&image, 8 * MIB, 1);
    let mut cluster = Cluster::start(Plan::new(dir.path(), 2).disk(Disk::file(&image)));
    let mut writer = cluster.export(2, "disk").open();
    writer.write(0, &[1; BLOCK]).unwrap();
    crate::restart::await_seal(&cluster);
    cluster.node(1).kill();
    cluster.node(1).reboot("another");
    cluster.node(1).restart();
    writer.flush().expect("nothing is lost");
}

/// A real machine: the disk node runs in User-mode Linux, which is killed with what its page cache has.
#[test]
fn a_flush_after_the_death_of_a_machine_fails_once() {
    skip_if!(missing_guest());
    let dir = scratch();
    let image = dir.path().join("disk.img");
    content::image(&image, 8 * MIB, 1);
    let namespace = Namespace::new(dir.path());
    let mut plan = Plan::new(dir.path(), 2).disk(Disk::file(Path::new("/dev/ubda")));
    plan.namespace = Some(namespace.pid());
    plan.disk_wait = "90s";
    // The registry is not in the machine that dies.
    plan.coordinator = Coordinator::Embedded { keeper: 2, apart: None, lease: "1s" };
    plan.nodes[0].address = (guest::address(0), 7000).into();
    plan.nodes[1].address = (HOST, 7001).into();
    let mut cluster = Cluster::down(plan.clone());
    let node = DiskNode { index: 0, tap: 0, image: &image, writeback: 0 };
    let mut machine = namespace.start_node(&plan, &node, 1);
    cluster.node(2).spawn();
    let export = cluster.export(2, "disk");
    eventually("the volume is served", LONG, || export.read(0, 512).ok());
    let mut writer = export.open();
    writer.write(0, &[1; BLOCK]).unwrap();
    writer.flush().unwrap();
    (1..40).for_each(|block| writer.write(block * BLOCK as u64, &[2; BLOCK]).unwrap());
    machine.kill();
    let _machine = namespace.start_node(&plan, &node, 2);

    let error = writer.flush().expect_err("what was written is gone");
    assert_eq!(error.raw_os_error(), Some(libc::EIO), "{error}");
    cluster.node(2).says(&["flush has failed", "n1", "lost power"]);
    writer.flush().expect("told once");
    assert!(writer.read(0, BLOCK).unwrap() == [1; BLOCK], "what was flushed");
    content::check(&writer.read(BLOCK as u64, 39 * BLOCK).unwrap(), BLOCK as u64, 1);
}
