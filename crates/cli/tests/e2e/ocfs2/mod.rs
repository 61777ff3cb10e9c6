//! The hardest client of a shared volume: two Linux kernels mount one OCFS2 file system from it, each at a node of
//! its own. They arrange locks, hand-over and recovery among themselves. Of the volume they expect that each
//! reads what the other has written before.

mod guest;
mod lan;
mod pair;
mod server;

use std::panic::catch_unwind;
use std::path::Path;

use self::lan::Lan;
use self::pair::{Pair, SETTLE};
use self::server::{Server, Start};
use crate::harness::guest::missing_guest;
use crate::harness::tools::{PYTHON, need, skip, skip_if};

/// Seconds without heartbeat after which a machine is dead, where none is meant to die.
const PATIENT: u32 = 60;
/// The same, where one is.
const HASTY: u32 = 12;
/// The same, where one is, and a node's restart must not look like it.
const CAREFUL: u32 = 20;

/// Leaves the test with a `SKIP` line unless there can be guests with this file system.
macro_rules! need_guests {
    () => {
        skip_if!(missing_guest());
        need!("mkfs.ocfs2", "fsck.ocfs2", "mount.ocfs2", "o2cb");
        if !Lan::is_possible() {
            return skip("this kernel has no network bridges");
        }
    };
}

/// Takes turns with files, and both append to one.
fn share(start: Start) {
    let mut pair = Pair::start(start, "attach", PATIENT);
    pair.run("rally 5");
    pair.guests[0].run("logged 5", SETTLE);
    pair.end();
}

/// Guest 1 is switched off while it makes files. Guest 0 recovers, and has every file that was synced; then
/// guest 1 comes back.
fn crash(start: Start) {
    let mut pair = Pair::start(start, "attach", HASTY);
    pair.run("rally 10");
    pair.guests[1].order("create");
    pair.guests[1].counts("guest: kept ", 120, SETTLE);
    let kept = pair.kill();
    pair.guests[0].run(&format!("kept {kept} && logged 10"), SETTLE);
    pair.reboot();
    pair.run(&format!("kept {kept} && rally 5"));
    pair.end();
}

#[test]
fn two_kernels_share_a_cluster_file_system() {
    need_guests!();
    share(Server::cards);
}

#[test]
#[ignore = "long"]
fn a_killed_kernel_leaves_all_that_it_synced() {
    need_guests!();
    crash(Server::cards);
}

/// The node with the disk dies and comes back while the guests take turns, then the coordinator. Then a whole machine
/// dies, the node together with the kernel that uses it, and comes back when the coordinator does.
#[test]
#[ignore = "long"]
fn a_cluster_file_system_outlives_its_disk_node_and_a_machine() {
    need_guests!();
    let mut pair = Pair::start(Server::cards, "attach", CAREFUL);
    pair.order("rally 10");
    pair.guests[1].counts("guest: played ", 3, SETTLE);
    pair.server.cluster().node(1).kill();
    pair.server.cluster().node(1).restart();
    pair.done(SETTLE);
    pair.guests[0].run("logged 10", SETTLE);
    pair.server.cluster().node(4).kill();
    pair.run("rally 5");
    pair.guests[1].order("create");
    pair.guests[1].counts("guest: kept ", 120, SETTLE);
    pair.server.cluster().node(3).kill();
    let kept = pair.kill();
    pair.guests[0].run(&format!("kept {kept} && logged 5"), SETTLE);
    pair.server.cluster().node(4).restart();
    pair.server.cluster().node(3).restart();
    pair.reboot();
    pair.run("rally 5");
    pair.end();
}

/// The volume has copies at two nodes that no guest uses. The primary dies while the guests take turns, and when it is back and its copy
/// filled the next one does.
#[test]
#[ignore = "long"]
fn a_cluster_file_system_on_a_mirror_outlives_the_nodes_with_its_copies() {
    need_guests!();
    need!("qemu-img");
    let mut pair = Pair::start(Server::mirror, "attach", CAREFUL);
    for _ in 0..2 {
        pair.order("rally 8");
        pair.guests[1].counts("guest: played ", 3, SETTLE);
        let primary = pair.server.primary();
        pair.server.cluster().node(primary).kill();
        pair.done(SETTLE);
        pair.guests[0].run("logged 8", SETTLE);
        pair.server.cluster().node(primary).restart();
        pair.server.wait_in_sync();
    }
    pair.end();
}

#[test]
#[ignore = "long"]
fn a_kernel_goes_on_when_its_node_comes_back() {
    need_guests!();
    if !Path::new(PYTHON).is_file() {
        return skip(&format!("{PYTHON} is not installed"));
    }
    let mut pair = Pair::start(Server::cards, "attach_for_ever", PATIENT);
    pair.order("rally 12");
    for least in [3, 7] {
        pair.guests[1].counts("guest: played ", least, SETTLE);
        pair.server.cluster().node(3).kill();
        pair.server.cluster().node(3).restart();
    }
    pair.done(SETTLE);
    assert!(pair.guests[1].has_said("guest: connected again"));
    pair.guests[0].run("logged 12", SETTLE);
    pair.end();
}

#[test]
#[ignore = "tests the test"]
fn reference_two_kernels_share_a_cluster_file_system() {
    need_guests!();
    need!("nbdkit");
    share(Server::nbdkit);
}

#[test]
#[ignore = "tests the test"]
fn reference_killed_kernel_leaves_all_that_it_synced() {
    need_guests!();
    need!("nbdkit");
    crash(Server::nbdkit);
}

#[test]
#[ignore = "tests the test"]
fn reference_incoherent_servers_are_noticed() {
    need_guests!();
    need!("nbdkit");
    let panic = catch_unwind(|| share(Server::incoherent)).expect_err("two caches without coherence");
    let reason = panic.downcast_ref::<String>().expect("a message");
    assert!(reason.contains("guest: no /run/volume/turn"), "failed, but not for a lost file: {reason}");
}
