//! The daemon dies and comes back; who uses the device only waits.

use std::time::Duration;

use super::{Device, cluster, missing_fuse};
use crate::harness::process::{Process, sh};
use crate::harness::tools::{need, skip};
use crate::harness::{LONG, MIB, scratch};

#[test]
fn fio_sees_no_error_when_the_daemon_is_killed_and_started_again() {
    need!("fio");
    if let Some(reason) = missing_fuse() {
        return skip(&reason);
    }
    let dir = scratch();
    let mut cluster = cluster(dir.path(), 1, 64 * MIB);
    let mut device = Device::start(&mut cluster, 1, &[]);
    let path = device.path.display().to_string();
    let argv = [
        "fio",
        "--name=v",
        "--filename",
        &path,
        "--size=64M",
        "--rw=randwrite",
        "--bs=16k",
        "--ioengine=libaio",
        "--direct=1",
        "--iodepth=8",
        "--verify=crc32c",
        "--verify_fatal=1",
        "--rate_iops=800",
    ];
    let mut fio = Process::spawn(&argv.map(String::from), &dir.path().join("fio.log"));
    for _ in 0..3 {
        std::thread::sleep(Duration::from_millis(700));
        cluster.node(1).kill();
        cluster.node(1).restart();
    }
    assert!(fio.is_alive(), "fio was to run meanwhile\n{}", fio.log());
    let status = fio.wait(LONG);
    assert!(status.success(), "{status}\n{}", fio.log());
    device.stop();
}

#[test]
fn requests_fail_in_the_end_if_the_device_was_told_to_give_up() {
    if let Some(reason) = missing_fuse() {
        return skip(&reason);
    }
    let dir = scratch();
    let mut cluster = cluster(dir.path(), 1, MIB);
    let mut device = Device::start(&mut cluster, 1, &["--give-up", "200ms"]);
    cluster.node(1).kill();
    let path = device.path.display();
    let failed = sh(&format!("dd if={path} of=/dev/null bs=4k count=1 iflag=direct"), LONG).fails();
    assert!(failed.stderr.contains("Input/output error"), "{failed}");
    cluster.node(1).restart();
    let read = || sh(&format!("dd if={path} of=/dev/null bs=4k count=1 iflag=direct"), LONG).status.success();
    crate::harness::eventually("reads work again", LONG, || read().then_some(()));
    device.stop();
}
