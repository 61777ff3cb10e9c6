//! File systems that nobody writes, read at three nodes at once.

use std::fs;
use std::path::Path;

use super::site::{Site, missing_devices, missing_file_system, sums};
use crate::harness::process::sh;
use crate::harness::tools::{need, skip_if};
use crate::harness::{LONG, content, scratch};

/// A tree with files of many sizes at `tree` in `dir`.
fn tree(dir: &Path) {
    let files = dir.join("tree");
    for (number, (name, size)) in
        [("empty", 0), ("sector", 512), ("deep/er/odd", 1_000_448), ("deep/large", 9 << 20)]
            .into_iter()
            .enumerate()
    {
        let path = files.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        content::image(&path, size, number as u64);
    }
    for number in 0..100 {
        fs::write(files.join(format!("deep/small-{number}")), format!("file {number}\n").repeat(number))
            .unwrap();
    }
    std::os::unix::fs::symlink("deep/large", files.join("link")).unwrap();
}

fn read_at_three_nodes(kind: &str, make: &str) {
    skip_if!(missing_devices().or_else(|| missing_file_system(kind)));
    let dir = scratch();
    tree(dir.path());
    sh(&format!("cd {} && {make} >make.log 2>&1", dir.path().display()), LONG).ok();
    let mut site = Site::new(dir.path(), 3);
    let expected = sums(&dir.path().join("tree"));
    for node in 1..=3 {
        let done = site.mount(node, "").ok();
        assert!(done.stderr.contains("read-only"), "{done}");
        assert_eq!(site.card(node)["mode"], "ro");
    }
    for node in 1..=3 {
        assert_eq!(sums(&site.point(node)), expected, "at node {node}");
        assert!(fs::write(site.point(node).join("new"), "x").is_err());
    }
    for node in 1..=3 {
        site.umount(node).ok();
        site.is_bare(node);
    }
}

#[test]
fn a_squashfs_is_mounted_at_three_nodes_at_once() {
    need!("mksquashfs");
    read_at_three_nodes("squashfs", "mksquashfs tree disk.img -noappend");
}

#[test]
fn an_erofs_is_mounted_at_three_nodes_at_once() {
    need!("mkfs.erofs");
    read_at_three_nodes("erofs", "mkfs.erofs disk.img tree");
}

#[test]
fn an_ext4_is_read_at_three_nodes_at_once() {
    need!("mke2fs");
    skip_if!(missing_devices());
    let dir = scratch();
    tree(dir.path());
    sh(&format!("cd {} && mke2fs -q -t ext4 -d tree disk.img 40M", dir.path().display()), LONG).ok();
    let mut site = Site::new(dir.path(), 3);
    let expected = sums(&dir.path().join("tree"));
    for node in 1..=3 {
        site.mount(node, "--read-only").ok();
        assert_eq!(sums(&site.point(node)), expected, "at node {node}");
    }
    // Nobody can have it for himself now.
    let refused = site.cards(1, "umount disk").ok();
    assert!(refused.stderr.is_empty(), "{refused}");
    let refused = site.mount(1, "").fails();
    assert!(refused.stderr.contains("nodes n2, n3 have a card"), "{refused}");
    site.is_bare(1);
    for node in 2..=3 {
        site.umount(node).ok();
    }
    site.mount(1, "").ok();
    site.umount(1).ok();
}
