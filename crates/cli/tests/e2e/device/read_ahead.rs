//! How far the kernel reads ahead, and a file system that is mounted from the file without a device between.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use super::{Device, missing_fuse};
use crate::harness::cluster::Cluster;
use crate::harness::plan::{Disk, Plan};
use crate::harness::process::sh;
use crate::harness::tools::{need, skip, skip_if};
use crate::harness::{KIB, LONG, MIB, content, scratch};

const SEED: u64 = 31;
const SIZE: u64 = 16 * MIB;

/// Where the kernel says how far it reads ahead on the device with this number, in KiB.
fn bdi(number: u64) -> PathBuf {
    format!("/sys/class/bdi/{}:{}/read_ahead_kb", libc::major(number), libc::minor(number)).into()
}

fn kib(path: &Path) -> u64 {
    fs::read_to_string(path).expect("a file of sysfs").trim().parse().expect("a number")
}

/// READs that the device has sent to the daemon.
fn requests(cluster: &mut Cluster) -> u64 {
    let status = cluster.node(1).status();
    let io = &status["volumes"][0]["io"];
    let read = io["ops"].as_array().and_then(|ops| ops.iter().find(|op| op["op"] == "read"));
    let counts = read.and_then(|read| read["latency"].as_array());
    // Each a bucket of durations and how many fell into it.
    counts.unwrap_or_else(|| panic!("{io:#}")).iter().filter_map(|bucket| bucket[1].as_u64()).sum()
}

/// Reads the file in order and in pieces of 64 KiB; how many READs came of it.
fn read_in_order(cluster: &mut Cluster, path: &Path) -> u64 {
    let before = requests(cluster);
    let file = File::open(path).expect("the file");
    let mut bytes = vec![0; 64 * KIB as usize];
    for offset in (0..SIZE).step_by(bytes.len()) {
        file.read_exact_at(&mut bytes, offset).expect("a read");
        content::check(&bytes, offset, SEED);
    }
    drop(file);
    requests(cluster) - before
}

#[test]
fn the_kernel_reads_a_mebibyte_ahead() {
    skip_if!(missing_fuse());
    let dir = scratch();
    let image = dir.path().join("disk.img");
    content::image(&image, SIZE, SEED);
    let mut cluster = Cluster::start(Plan::new(dir.path(), 1).disk(Disk::file(&image)).cache("64M"));
    let mut device = Device::start(&mut cluster, 1, &["--block"]);
    let file = bdi(fs::metadata(&device.path).expect("the file").dev());
    if let Err(error) = OpenOptions::new().write(true).open(&file) {
        return skip(&format!("{}: {error}", file.display()));
    }
    let block = bdi(fs::metadata(device.block()).expect("a device").rdev());
    // A loop device keeps what it had with another file, which may be more.
    assert!((kib(&file), kib(&block).min(1024)) == (1024, 1024), "{} and {} KiB", kib(&file), kib(&block));
    // The windows begin small and double.
    let far = read_in_order(&mut cluster, &device.path);
    assert!(far < SIZE / (512 * KIB), "{far} requests");
    fs::write(&file, "128").expect("a file of sysfs");
    let near = read_in_order(&mut cluster, &device.path);
    assert!(near >= SIZE / (256 * KIB), "{near} requests");
    device.stop();
}

/// `mount -t erofs -o ro`, but as the caller says: mount(8) puts a loop device between.
fn mount_erofs(source: &Path, target: &Path) -> io::Result<()> {
    let string = |path: &Path| CString::new(path.as_os_str().as_bytes()).expect("a path");
    let (source, target) = (string(source), string(target));
    // SAFETY: every pointer is a string that outlives the call.
    let done = unsafe {
        libc::mount(source.as_ptr(), target.as_ptr(), c"erofs".as_ptr(), libc::MS_RDONLY, c"".as_ptr().cast())
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[test]
fn an_erofs_is_mounted_straight_from_the_file() {
    need!("mkfs.erofs", "findmnt");
    skip_if!(missing_fuse());
    let dir = scratch();
    let (tree, mount) = (dir.path().join("tree"), dir.path().join("mnt"));
    fs::create_dir_all(tree.join("deep")).expect("a directory");
    fs::create_dir(&mount).expect("a directory");
    content::image(&tree.join("deep/large"), 5 * MIB, SEED);
    fs::write(tree.join("small"), "a file\n").expect("a file");
    let image = dir.path().join("disk.img");
    sh(&format!("mkfs.erofs {} {}", image.display(), tree.display()), LONG).ok();
    let mut cluster = Cluster::start(Plan::new(dir.path(), 2).disk(Disk::file(&image)));
    let mut device = Device::start(&mut cluster, 2, &[]);
    if let Err(error) = mount_erofs(&device.path, &mount) {
        device.stop();
        return skip(&format!("this kernel mounts no EROFS from a file (Linux 6.12 does): {error}"));
    }
    let compared = sh(&format!("diff -r {} {}", tree.display(), mount.display()), LONG);
    let source = sh(&format!("findmnt -no SOURCE {}", mount.display()), LONG);
    sh(&format!("umount {}", mount.display()), LONG).ok();
    compared.ok();
    assert_eq!(source.ok().stdout.trim(), device.path.display().to_string(), "no loop device is between");
    device.stop();
}
