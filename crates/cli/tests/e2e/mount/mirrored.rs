//! A mount from a mirrored volume outlives the nodes that order its writes.

use std::path::Path;

use super::site::{Site, missing_devices, sums};
use crate::harness::process::{Process, sh};
use crate::harness::tools::{need, skip_if};
use crate::harness::{LONG, eventually, scratch};

/// A mirrored volume with an ext4, made through the block device of node `number`, and mounted there.
fn mounted(dir: &Path, number: impl FnOnce(&Site) -> usize) -> (Site, usize) {
    let site = Site::mirrored(dir);
    let number = number(&site);
    let device = site.prints(number, "attach disk --block --mode exclusive");
    sh(&format!("mke2fs -q -t ext4 {device}"), LONG).ok();
    site.cards(number, "detach disk").ok();
    site.mount(number, "").ok();
    (site, number)
}

/// Programs that write, sync and verify.
pub(super) struct Fio(Process);

impl Fio {
    pub(super) fn begin(site: &Site, number: usize) -> Self {
        let (point, log) = (site.point(number), site.point(number).with_extension("log"));
        let fio = format!(
            "fio --name=job --directory={} --rw=randrw --bs=4k --size=8m --io_size=400g --runtime=25 --time_based --direct=1 \
             --ioengine=psync --numjobs=2 --fsync=16 --verify=crc32c --verify_fatal=1 --verify_backlog=256 --randseed=7",
            point.display()
        );
        let fio = Process::spawn(&["sh".into(), "-c".into(), fio], &log);
        for file in ["job.0.0", "job.1.0"] {
            eventually("fio to write", LONG, || point.join(file).exists().then_some(()));
        }
        Self(fio)
    }

    /// A file is written and synced, after all that is under way.
    #[track_caller]
    pub(super) fn goes_on(&mut self, site: &Site, number: usize, what: &str) {
        assert!(self.0.is_alive(), "{what}: {}", self.0.log());
        let point = site.point(number);
        sh(&format!("cd {} && echo {what} > {what} && sync {what}", point.display()), LONG).ok();
    }

    #[track_caller]
    pub(super) fn ends(mut self) {
        assert!(self.0.wait(LONG).success(), "{}", self.0.log());
    }

    /// What it writes to is not there any more.
    #[track_caller]
    pub(super) fn fails(mut self) {
        assert!(!self.0.wait(LONG).success(), "{}", self.0.log());
    }
}

/// What is mounted at node `number` is the same elsewhere, and whole.
pub(super) fn ends_whole(mut site: Site, number: usize) {
    let expected = sums(&site.point(number));
    site.umount(number).ok();
    site.is_bare(number);
    for other in (1..=3).filter(|other| *other != number) {
        // The card that was given up is gone everywhere a moment later, and the primary may be a node that has just started.
        eventually("another node mounts it", LONG, || site.mount(other, "").status.success().then_some(()));
        assert_eq!(sums(&site.point(other)), expected, "at node {other}");
        site.umount(other).ok();
    }
    let device = site.prints(number, "attach disk --block --mode ro");
    sh(&format!("e2fsck -fn {device}"), LONG).ok();
    site.cards(number, "detach disk").ok();
}

#[test]
fn a_mount_survives_the_death_of_each_primary() {
    need!("mke2fs", "fio", "e2fsck");
    skip_if!(missing_devices());
    let dir = scratch();
    let without_copy = |site: &Site| {
        let told = site.prints(1, "volume show disk --json");
        let told: serde_json::Value = serde_json::from_str(&told).unwrap();
        let copies = told["mirror"]["copies"].as_array().unwrap();
        (1..=3).find(|n| !copies.iter().any(|copy| copy["node"] == format!("n{n}"))).unwrap()
    };
    let (mut site, number) = mounted(dir.path(), without_copy);
    let mut fio = Fio::begin(&site, number);
    for what in ["first", "second"] {
        site.wait_in_sync(number);
        let victim = site.primary(number);
        site.cluster.node(victim).kill();
        fio.goes_on(&site, number, what);
        assert_ne!(site.primary(number), victim);
        // The next primary knows who has it.
        let refused = site.mount(site.primary(number), "");
        let names = refused.stderr.contains(&format!("n{number}"));
        assert!(!refused.status.success() && names, "{refused}");
        site.cluster.node(victim).restart();
    }
    fio.ends();
    ends_whole(site, number);
}

/// The node that orders the writes has the mount itself: its device outlives it, and goes on at the next primary.
#[test]
fn a_mount_at_the_primary_survives_its_death() {
    need!("mke2fs", "fio", "e2fsck");
    skip_if!(missing_devices());
    let dir = scratch();
    let (mut site, number) = mounted(dir.path(), |site| site.primary(1));
    let mut fio = Fio::begin(&site, number);
    site.wait_in_sync(number);
    site.cluster.node(number).kill();
    let other = (1..=3).find(|other| *other != number).unwrap();
    eventually("another node is the primary", LONG, || (site.primary(other) != number).then_some(()));
    site.cluster.node(number).restart();
    fio.goes_on(&site, number, "restarted");
    fio.ends();
    ends_whole(site, number);
}

/// Who takes the volume over after the primary's death gets it, and the mount that lost it fails.
#[test]
fn a_takeover_at_the_next_primary_ends_the_mount() {
    need!("mke2fs", "e2fsck");
    skip_if!(missing_devices());
    let dir = scratch();
    let (mut site, number) = mounted(dir.path(), |site| (1..=3).find(|n| *n != site.primary(1)).unwrap());
    let write = |site: &Site, at: usize, what: &str| {
        sh(&format!("cd {} && echo {what} > {what} && sync {what}", site.point(at).display()), LONG)
    };
    write(&site, number, "before").ok();
    site.wait_in_sync(number);
    let victim = site.primary(number);
    site.cluster.node(victim).kill();
    let taker = (1..=3).find(|taker| *taker != number && *taker != victim).unwrap();
    eventually("the other node has the volume", LONG, || {
        site.mount(taker, "--takeover").status.success().then_some(())
    });
    write(&site, taker, "after").ok();
    eventually("what was mounted fails", LONG, || {
        (!write(&site, number, "void").status.success()).then_some(())
    });
    site.umount(number);
    eventually("nothing is left", LONG, || {
        site.cards(number, "detach disk");
        site.card(number).is_null().then_some(())
    });
    let names = sh(&format!("ls {}", site.point(taker).display()), LONG).ok().stdout;
    assert!(names.contains("before") && names.contains("after") && !names.contains("void"), "{names}");
    site.umount(taker).ok();
    site.cluster.node(victim).restart();
    let device = site.prints(victim, "attach disk --block --mode ro");
    sh(&format!("e2fsck -fn {device}"), LONG).ok();
    site.cards(victim, "detach disk").ok();
}
