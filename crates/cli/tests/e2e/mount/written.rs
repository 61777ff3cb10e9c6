//! File systems written through the block device of one node and read at the others.

use std::path::Path;

use super::site::{Site, missing_devices, missing_file_system, sums};
use crate::harness::process::sh;
use crate::harness::tools::{need, skip_if};
use crate::harness::{LONG, scratch};

/// A tree as a build leaves it: files of all sizes, overwritten, appended, renamed, removed, linked.
fn write_tree(point: &Path) {
    let script = format!(
        "set -e; cd {}\n\
         mkdir -p src/deep/er out\n\
         for i in $(seq 200); do seq $i $((i * 13)) > src/f$i; done\n\
         for i in $(seq 0 7 200); do echo more >> src/f$i; done\n\
         for i in $(seq 5 5 200); do mv src/f$i src/deep/er/g$i; done\n\
         for i in $(seq 3 11 200); do rm -f src/f$i; done\n\
         ln -s ../src out/link; ln src/f1 out/hard; chmod 640 src/f2\n\
         dd if=/dev/urandom of=out/large bs=1M count=24 status=none\n\
         dd if=/dev/urandom of=out/large bs=4k seek=777 count=99 conv=notrunc status=none\n\
         truncate -s 9M out/sparse; dd if=/dev/urandom of=out/sparse bs=1k seek=5000 count=3 conv=notrunc,fsync status=none\n\
         cp -r src out/copy",
        point.display()
    );
    sh(&script, LONG).ok();
}

fn written_here_reads_the_same_elsewhere(kind: &str, size: &str, make: &str, check: &str) {
    skip_if!(missing_devices().or_else(|| missing_file_system(kind)));
    let dir = scratch();
    sh(&format!("truncate -s {size} {}/disk.img", dir.path().display()), LONG).ok();
    let mut site = Site::new(dir.path(), 3);
    let device = site.prints(2, "attach disk --block --mode exclusive");
    assert!(device.starts_with("/dev/loop"), "{device}");
    sh(&format!("{make} {device}"), LONG).ok();
    site.cards(2, "detach disk").ok();
    site.is_bare(2);

    site.mount(2, "").ok();
    assert_eq!(site.card(2)["mode"], "exclusive");
    write_tree(&site.point(2));
    let expected = sums(&site.point(2));
    site.umount(2).ok();
    site.is_bare(2);

    site.mount(3, "").ok();
    assert_eq!(sums(&site.point(3)), expected, "at another node");
    site.umount(3).ok();
    for node in [1, 3] {
        let done = site.mount(node, "--read-only -o nodev").ok();
        assert!(!done.stderr.contains("journal"), "it was unmounted: {done}");
        assert_eq!(sums(&site.point(node)), expected, "read-only");
        site.umount(node).ok();
    }
    let device = site.prints(1, "attach disk --block --mode ro");
    sh(&format!("{check} {device}"), LONG).ok();
    site.cards(1, "detach disk").ok();
    site.is_bare(1);
}

#[test]
fn an_ext4_written_here_reads_the_same_elsewhere() {
    need!("mkfs.ext4", "e2fsck");
    written_here_reads_the_same_elsewhere("ext4", "160M", "mkfs.ext4 -q -b 4096", "e2fsck -fn");
}

#[test]
fn an_ext4_with_blocks_of_1_kib_written_here_reads_the_same_elsewhere() {
    need!("mkfs.ext4", "e2fsck");
    written_here_reads_the_same_elsewhere("ext4", "160M", "mkfs.ext4 -q -b 1024", "e2fsck -fn");
}

#[test]
fn an_xfs_written_here_reads_the_same_elsewhere() {
    need!("mkfs.xfs", "xfs_repair");
    written_here_reads_the_same_elsewhere("xfs", "320M", "mkfs.xfs -q", "xfs_repair -n");
}

#[test]
fn an_xfs_with_blocks_of_1_kib_written_here_reads_the_same_elsewhere() {
    need!("mkfs.xfs", "xfs_repair");
    written_here_reads_the_same_elsewhere("xfs", "320M", "mkfs.xfs -q -b size=1024", "xfs_repair -n");
}
