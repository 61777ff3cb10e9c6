//! A mounted volume outlives the daemon that serves it.

use std::fs;

use super::site::{Site, missing_devices, sums};
use crate::harness::process::{Process, sh};
use crate::harness::tools::{need, skip_if};
use crate::harness::{LONG, eventually, scratch};

/// `kill -9` of the daemon of node `victim`, twice, while fio writes and verifies at node 2.
fn killed_under_fio(victim: usize) {
    need!("mke2fs", "fio", "e2fsck");
    skip_if!(missing_devices());
    let dir = scratch();
    sh(&format!("mke2fs -q -t ext4 {}/disk.img 96M", dir.path().display()), LONG).ok();
    let mut site = Site::new(dir.path(), 3);
    site.mount(2, "").ok();
    let point = site.point(2);
    let log = dir.path().join("fio.log");
    let fio = format!(
        "fio --name=job --directory={} --rw=randrw --bs=4k --size=24m --io_size=400g --runtime=5 --time_based --direct=1 \
         --ioengine=psync --numjobs=2 --fsync=64 --verify=crc32c --verify_fatal=1 --verify_backlog=256 --randseed=7",
        point.display()
    );
    let mut fio = Process::spawn(&["sh".into(), "-c".into(), fio], &log);
    for file in ["job.0.0", "job.1.0"] {
        eventually("fio to write", LONG, || point.join(file).exists().then_some(()));
    }
    for _ in 0..2 {
        std::thread::sleep(std::time::Duration::from_millis(1200));
        assert!(fio.is_alive(), "{}", fio.log());
        site.cluster.node(victim).kill();
        site.cluster.node(victim).spawn();
        site.wait_known(victim);
    }
    assert!(fio.wait(LONG).success(), "{}", fio.log());
    let expected = sums(&point);
    site.umount(2).ok();
    site.is_bare(2);

    site.mount(3, "").ok();
    assert_eq!(sums(&site.point(3)), expected, "at another node");
    site.umount(3).ok();
    let device = site.prints(3, "attach disk --block --mode ro");
    sh(&format!("e2fsck -fn {device}"), LONG).ok();
    site.cards(3, "detach disk").ok();
}

#[test]
fn a_mount_survives_the_death_of_its_daemon() {
    killed_under_fio(2);
}

/// A daemon that is refused for its configuration, or killed as soon as it is there, is a life of its node that the disk node never meets.
#[test]
fn a_mount_survives_starts_of_its_daemon_that_come_to_nothing() {
    need!("mke2fs");
    skip_if!(missing_devices());
    let dir = scratch();
    let mut site = Site::ext4(dir.path(), 2);
    site.mount(2, "").ok();
    let point = site.point(2);
    let write = |name: &str| {
        let file = point.join(name);
        sh(&format!("echo {name} > {0} && sync {0}", file.display()), LONG).ok();
    };
    write("before");
    let config = dir.path().join("n2.toml");
    let text = fs::read_to_string(&config).unwrap();
    let image = dir.path().join("other.img");
    fs::write(&image, vec![0; 1 << 20]).unwrap();
    let refused = format!("{text}\n[[disk]]\nname = \"disk\"\npath = {image:?}\n");
    fs::write(&config, refused).unwrap();
    for _ in 0..2 {
        site.cluster.node(2).kill();
        site.cluster.node(2).spawn();
        site.cluster.node(2).says(&["has a disk of this name"]);
    }
    fs::write(&config, text).unwrap();
    for _ in 0..2 {
        site.cluster.node(2).kill();
        site.cluster.node(2).spawn();
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    site.cluster.node(2).kill();
    site.cluster.node(2).spawn();
    site.wait_known(2);
    write("after");
    site.umount(2).ok();
}
