//! A file system made elsewhere is exported, and every file of it reads the same through another node.

use std::fs;
use std::path::Path;

use crate::harness::cluster::Cluster;
use crate::harness::export::Export;
use crate::harness::plan::{Disk, Plan};
use crate::harness::process::sh;
use crate::harness::reference::Reference;
use crate::harness::tools::{is_root, need, skip};
use crate::harness::{LONG, content, scratch};

/// Makes `disk.img` in `dir`, an ext4 file system with files of many sizes, and `sums` of them.
fn make(dir: &Path) {
    let files = dir.join("files");
    for (number, (name, size)) in [
        ("empty", 0),
        ("one-sector", 512),
        ("page", 4096),
        ("deep/er/odd", 1_000_448),
        ("deep/large", 9 << 20),
    ]
    .into_iter()
    .enumerate()
    {
        let path = files.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        content::image(&path, size, number as u64);
    }
    for number in 0..200 {
        fs::write(files.join(format!("deep/small-{number}")), format!("file {number}\n").repeat(number))
            .unwrap();
    }
    let dir = dir.display();
    sh(&format!("cd {dir} && mke2fs -q -t ext4 -d files disk.img 40M && {} > sums", sums("files")), LONG)
        .ok();
}

/// A command that prints the checksums of every file below `dir`.
fn sums(dir: &str) -> String {
    format!("(cd {dir} && find . -type f -print0 | sort -z | xargs -0 sha256sum)")
}

/// Copies the volume out and takes the files from the copy without a kernel.
fn read_with_debugfs(dir: &Path, export: &Export) {
    need!("nbdcopy", "debugfs", "e2fsck");
    let (dir, uri) = (dir.display(), export.uri());
    let script = format!(
        "cd {dir} && nbdcopy '{uri}' copy.img && e2fsck -fn copy.img && mkdir out &&\n\
         debugfs -R 'rdump / out' copy.img && rm -rf out/lost+found && {} | diff sums -",
        sums("out")
    );
    sh(&script, LONG).ok();
}

/// Copies the volume out and lets the kernel mount the copy.
fn read_with_kernel(dir: &Path, export: &Export) {
    need!("nbdcopy", "losetup", "unshare");
    if !is_root() {
        return skip("mounting needs root");
    }
    let (dir, uri) = (dir.display(), export.uri());
    // In a mount namespace of its own: nothing stays mounted, whatever happens.
    let script = format!(
        "cd {dir} && nbdcopy '{uri}' copy.img && mkdir -p mnt && unshare --mount sh -ec '\n\
         mount -o loop,ro copy.img mnt || exit 77\n{} | grep -v lost+found | diff sums -\numount mnt'",
        sums("mnt")
    );
    let done = sh(&script, LONG);
    if done.status.code() == Some(77) {
        return skip("this kernel mounts no loop device here");
    }
    done.ok();
}

fn on_cards(body: fn(&Path, &Export)) {
    need!("mke2fs");
    let dir = scratch();
    make(dir.path());
    let mut disk = Disk::file(&dir.path().join("disk.img"));
    disk.read_only = true;
    let cluster = Cluster::start(Plan::new(dir.path(), 3).disk(disk).cache("24M"));
    body(dir.path(), &cluster.export(3, "disk"));
}

fn on_qemu_nbd(body: fn(&Path, &Export)) {
    need!("mke2fs", "qemu-nbd");
    let dir = scratch();
    make(dir.path());
    let server = Reference::qemu_nbd(dir.path(), &dir.path().join("disk.img"));
    body(dir.path(), &server.export);
}

#[test]
fn every_file_reads_the_same_elsewhere() {
    on_cards(read_with_debugfs);
}

#[test]
fn the_kernel_mounts_what_was_read_elsewhere() {
    on_cards(read_with_kernel);
}

#[test]
#[ignore = "tests the test"]
fn reference_reads_every_file() {
    on_qemu_nbd(read_with_debugfs);
}

#[test]
#[ignore = "tests the test"]
fn reference_mounts() {
    on_qemu_nbd(read_with_kernel);
}
