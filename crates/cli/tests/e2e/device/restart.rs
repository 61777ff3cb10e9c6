//! The daemon dies and comes back; who uses the device only waits.

use std::path::Path;
use std::time::Duration;

use super::{Device, cluster, missing_fuse};
use crate::harness::cluster::Cluster;
use crate::harness::plan::{Attach, Disk, Plan};
use crate::harness::process::{Process, sh};
use crate::harness::tools::{need, skip_if};
use crate::harness::{LONG, MIB, scratch};

#[test]
fn fio_sees_no_error_when_the_daemon_is_killed_and_started_again() {
    need!("fio");
    skip_if!(missing_fuse());
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
    skip_if!(missing_fuse());
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

/// Commits to a database, in a file system with a journal of its own, on a volume that this node has for itself or not,
/// while the disk node is away for longer than a lease.
#[test]
fn a_file_system_and_a_database_see_no_error_when_the_disk_node_is_restarted() {
    need!("mkfs.ext4", "fsck.ext4", "losetup", "python3");
    skip_if!(missing_fuse());
    let full = crate::restart::is_full();
    for mode in if full { &["rw", "exclusive"][..] } else { &["exclusive"] } {
        let dir = scratch();
        let image = dir.path().join("disk.img");
        std::fs::File::create(&image).unwrap().set_len(64 * MIB).unwrap();
        let mut plan = Plan { disk_wait: "60s", ..Plan::new(dir.path(), 2).disk(Disk::file(&image)) };
        plan.nodes[0].attach.clear();
        plan.nodes[1].attach[0].mode = mode;
        let mut cluster = Cluster::start(plan);
        let mut device = Device::start(&mut cluster, 2, &["--block"]);
        let (block, mount) = (device.block(), dir.path().join("mnt"));
        std::fs::create_dir(&mount).unwrap();
        let (mount, stop) = (mount.display().to_string(), dir.path().join("stop").display().to_string());
        sh(&format!("set -e; mkfs.ext4 -q {block}; mount {block} {mount}"), LONG).ok();
        let mut database = database(dir.path(), &mount, &stop);
        let away: &[u64] = if full { &[200, 2_000, 4_000, 6_000] } else { &[4_000] };
        for (killed, &millis) in away.iter().flat_map(|away| [(false, away), (true, away)]) {
            std::thread::sleep(Duration::from_secs(1));
            match killed {
                true => cluster.node(1).kill(),
                false => assert!(cluster.node(1).terminate().success()),
            }
            std::thread::sleep(Duration::from_millis(millis));
            cluster.node(1).spawn();
        }
        std::thread::sleep(Duration::from_secs(1));
        std::fs::write(&stop, "").unwrap();
        let status = database.wait(LONG);
        let unmounted = sh(&format!("umount {mount}"), LONG);
        assert!(status.success(), "{mode}: {status}\n{}", database.log());
        unmounted.ok();
        sh(&format!("fsck.ext4 -fn {block}"), LONG).ok();
        device.stop();
    }
}

/// Commits to a database below `mount`, with a journal, until there is a file `stop`; then looks whether all is there.
fn database(dir: &Path, mount: &str, stop: &str) -> Process {
    let script = format!(
        "import os, sqlite3\n\
         db = sqlite3.connect('{mount}/db')\n\
         db.execute('create table t (a integer, b blob)')\n\
         a = 0\n\
         while not os.path.exists('{stop}') or a < 100:\n\
         \x20   with db: db.execute('insert into t values (?, ?)', (a, os.urandom(3000)))\n\
         \x20   a += 1\n\
         assert db.execute('select count(*) from t').fetchone()[0] == a\n\
         assert db.execute('pragma integrity_check').fetchone()[0] == 'ok'\n\
         db.close()"
    );
    let argv = ["python3", "-c", &script].map(String::from);
    Process::spawn(&argv, &dir.join("database.log"))
}

/// What the package does: SIGTERM, and the same program again; at the disk node, at the node with the mount, and at one that has
/// neither, while a file system is made, and under a database. The mount is at the disk node, or at another.
#[test]
fn an_upgrade_of_each_node_in_turn_gives_a_file_system_and_a_database_no_error() {
    need!("mkfs.ext4", "fsck.ext4", "losetup", "python3");
    skip_if!(missing_fuse());
    for place in [2, 1] {
        let dir = scratch();
        let image = dir.path().join("disk.img");
        std::fs::File::create(&image).unwrap().set_len(64 * MIB).unwrap();
        let mut plan = Plan { disk_wait: "60s", ..Plan::new(dir.path(), 3).disk(Disk::file(&image)) };
        plan.nodes.iter_mut().for_each(|node| node.attach.clear());
        plan.nodes[place - 1].attach =
            vec![Attach { volume: "disk".into(), mode: "exclusive", policy: None }];
        let mut cluster = Cluster::start(plan);
        let upgrade = |cluster: &mut Cluster, number: usize| {
            let status = cluster.node(number).terminate();
            assert!(status.success(), "{status}: {}", cluster.node(number).log());
            cluster.node(number).restart();
        };
        let mut device = Device::start(&mut cluster, place, &["--block"]);
        let (block, mount) = (device.block(), dir.path().join("mnt"));
        std::fs::create_dir(&mount).unwrap();
        let (mount, stop) = (mount.display().to_string(), dir.path().join("stop").display().to_string());
        let argv = ["mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", &block];
        let mut made = Process::spawn(&argv.map(String::from), &dir.path().join("mkfs.log"));
        upgrade(&mut cluster, 1);
        let status = made.wait(LONG);
        assert!(status.success(), "{status}: {}", made.log());
        sh(&format!("mount {block} {mount}"), LONG).ok();
        let mut database = database(dir.path(), &mount, &stop);
        for number in [1, 2, 3] {
            std::thread::sleep(Duration::from_millis(700));
            upgrade(&mut cluster, number);
            assert!(database.is_alive(), "node {number}: {}", database.log());
        }
        std::fs::write(&stop, "").unwrap();
        let status = database.wait(LONG);
        let unmounted = sh(&format!("umount {mount}"), LONG);
        assert!(status.success(), "mounted at node {place}: {status}\n{}", database.log());
        unmounted.ok();
        sh(&format!("fsck.ext4 -fn {block}"), LONG).ok();
        device.stop();
    }
}
