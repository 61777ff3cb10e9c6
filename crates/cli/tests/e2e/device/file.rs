//! What can be done with the file and the block device.

use super::{Device, cluster, missing_fuse};
use crate::harness::process::sh;
use crate::harness::tools::{need, skip_if};
use crate::harness::{LONG, MIB, content, scratch};

#[test]
fn what_is_written_through_the_file_is_read_at_another_node() {
    skip_if!(missing_fuse());
    let dir = scratch();
    let mut cluster = cluster(dir.path(), 2, 32 * MIB);
    content::image(&dir.path().join("want"), 32 * MIB, 7);
    let mut one = Device::start(&mut cluster, 1, &[]);
    let (want, path) = (dir.path().join("want").display().to_string(), one.path.display().to_string());
    sh(&format!("dd if={want} of={path} bs=1M conv=notrunc,fsync && cmp {want} {path}"), LONG).ok();
    sh(&format!("stat -c %s:%F {path} | grep -x '{}:regular file'", 32 * MIB), LONG).ok();
    one.stop();
    let mut other = Device::start(&mut cluster, 2, &[]);
    sh(&format!("cmp {want} {}", other.path.display()), LONG).ok();
    other.stop();
}

#[test]
fn the_file_keeps_its_size_like_a_disk() {
    skip_if!(missing_fuse());
    let dir = scratch();
    let mut cluster = cluster(dir.path(), 1, MIB);
    let mut device = Device::start(&mut cluster, 1, &[]);
    let path = device.path.display();
    let script = format!(
        "set -e; echo x > {path}; test $(stat -c %s {path}) = {MIB}
         dd if=/dev/zero of={path} bs=1M seek=1 count=1 conv=notrunc 2>&1 | grep -q 'No space left'
         dd if={path} bs=1M skip=1 | wc -c | grep -qx 0
         fallocate --punch-hole --offset 0 --length 65536 {path}
         test $(head -c 2 {path} | tr -d '\\0' | wc -c) = 0"
    );
    sh(&script, LONG).ok();
    device.stop();
}

#[test]
fn fio_verifies_the_file_at_depth_and_in_many_sizes() {
    need!("fio");
    skip_if!(missing_fuse());
    let dir = scratch();
    let mut cluster = cluster(dir.path(), 2, 64 * MIB);
    let mut device = Device::start(&mut cluster, 2, &["--connections", "2"]);
    let script = format!(
        "fio --name=v --filename={} --size=64M --rw=randwrite --bsrange=512-1M --bs_unaligned=0 --blockalign=512 \
         --ioengine=libaio --direct=1 --iodepth=16 --verify=crc32c --verify_fatal=1",
        device.path.display()
    );
    sh(&script, LONG).ok();
    device.stop();
}

#[test]
fn a_file_system_on_the_block_device_is_whole_at_another_node() {
    need!("mkfs.ext4", "fsck.ext4", "losetup");
    skip_if!(missing_fuse());
    let dir = scratch();
    let mut cluster = cluster(dir.path(), 2, 64 * MIB);
    let mut device = Device::start(&mut cluster, 1, &["--block"]);
    let (block, mount) = (device.block(), dir.path().join("mnt"));
    std::fs::create_dir(&mount).unwrap();
    content::image(&dir.path().join("want"), 20 * MIB, 3);
    let (mount, want) = (mount.display().to_string(), dir.path().join("want").display().to_string());
    sh(&format!("set -e; mkfs.ext4 -q {block}; mount {block} {mount}; cp {want} {mount}/file"), LONG).ok();
    // It goes on while something is mounted.
    device.process.signal(libc::SIGTERM);
    let log = dir.path().join("device1.log");
    crate::harness::eventually("a refusal", LONG, || {
        std::fs::read_to_string(&log).unwrap().contains("is in use").then_some(())
    });
    sh(&format!("set -e; cmp {want} {mount}/file; umount {mount}; fsck.ext4 -fn {block}"), LONG).ok();
    device.stop();
    let mut other = Device::start(&mut cluster, 2, &["--block"]);
    let block = other.block();
    let script =
        format!("set -e; fsck.ext4 -fn {block}; mount -o ro {block} {mount}; cmp {want} {mount}/file");
    let done = sh(&script, LONG);
    sh(&format!("umount {mount}"), LONG);
    done.ok();
    other.stop();
}
