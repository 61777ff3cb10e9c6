//! One device for one volume at one node, and what is left when one is killed or unmounted from outside.

use super::{Device, cluster, missing_fuse};
use crate::harness::cluster::CARDS;
use crate::harness::process::{run, sh};
use crate::harness::tools::skip_if;
use crate::harness::{LONG, MIB, SHORT, scratch};

#[test]
fn a_second_device_is_refused_and_names_the_first() {
    skip_if!(missing_fuse());
    let dir = scratch();
    let mut cluster = cluster(dir.path(), 1, MIB);
    let mut first = Device::start(&mut cluster, 1, &[]);
    let socket = cluster.node(1).admin_socket();
    let second = run(&[CARDS, "device", "disk", "--socket", &socket], SHORT).fails();
    assert!(second.stderr.contains(&first.process.pid().to_string()), "{second}");
    first.stop();
}

#[test]
fn a_device_that_is_unmounted_from_outside_ends() {
    skip_if!(missing_fuse());
    let dir = scratch();
    let mut cluster = cluster(dir.path(), 1, MIB);
    let mut device = Device::start(&mut cluster, 1, &[]);
    sh(&format!("umount {}", device.path.display()), SHORT).ok();
    assert!(device.process.wait(SHORT).success());
    assert!(!device.path.exists());
}

#[test]
fn what_a_killed_device_left_is_cleared_away() {
    skip_if!(missing_fuse());
    let dir = scratch();
    let mut cluster = cluster(dir.path(), 1, MIB);
    let mut killed = Device::start(&mut cluster, 1, &["--block"]);
    killed.process.kill();
    let mut next = Device::start(&mut cluster, 1, &["--block"]);
    sh(&format!("dd if={} of=/dev/null bs=64k count=4 iflag=direct", next.block()), LONG).ok();
    next.stop();
}

#[test]
fn no_daemon_and_no_volume_are_named() {
    let dir = scratch();
    let nowhere = dir.path().join("admin.sock").display().to_string();
    let argv = [CARDS, "device", "disk", "--socket", &nowhere, "--connect-timeout", "50ms"];
    let done = run(&argv, SHORT).fails();
    assert!(done.stderr.contains("is the daemon running"), "{done}");
    let mut cluster = cluster(dir.path(), 1, MIB);
    let socket = cluster.node(1).admin_socket();
    let done = run(&[CARDS, "device", "other", "--socket", &socket], SHORT).fails();
    assert!(done.stderr.contains("other"), "{done}");
}
