//! A volume with a file system, mounted read-write at node 2 of three.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::SUITE;
use crate::harness::plan::{Disk, Plan};
use crate::harness::process::{Process, run, sh};
use crate::harness::tools::missing;
use crate::harness::{LONG, SHORT, eventually, scratch};
use crate::mount::site::{Site, missing_devices, missing_file_system, sums};

/// The node that has the mount.
pub(super) const HERE: usize = 2;
/// Another one, which has not the disk either.
pub(super) const ELSEWHERE: usize = 3;

/// How a file system is made and checked.
#[derive(Clone, Copy)]
pub(super) struct Kind {
    pub(super) name: &'static str,
    make: &'static str,
    check: &'static str,
    /// Options of a mount that writes nothing.
    read_only: &'static str,
}

pub(super) const EXT4: Kind =
    Kind { name: "ext4", make: "mkfs.ext4 -q -b 4096", check: "e2fsck -fn", read_only: "ro,noload" };
pub(super) const EXT4_1_KIB: Kind = Kind { make: "mkfs.ext4 -q -b 1024", ..EXT4 };
pub(super) const XFS: Kind =
    Kind { name: "xfs", make: "mkfs.xfs -q", check: "xfs_repair -n", read_only: "ro,norecovery" };

impl Kind {
    /// Why it cannot be used on a volume here, if it cannot.
    pub(super) fn missing(&self) -> Option<String> {
        let tool = |command: &str| missing(command.split(' ').next().unwrap());
        missing_devices()
            .or_else(|| missing_file_system(self.name))
            .or_else(|| tool(self.make))
            .or_else(|| tool(self.check))
    }

    /// Makes one on `device`.
    pub(super) fn make(&self, device: &str) {
        sh(&format!("{} {device}", self.make), LONG).ok();
    }
}

/// Three nodes; the image at `disk.img` in `dir` is the volume `disk`. What waits long for a disk that others use
/// too is not given up as soon as in other tests.
pub(super) fn site(dir: &Path) -> Site {
    let mut plan = Plan::new(dir, 3).disk(Disk::file(&dir.join("disk.img"))).cache("24M");
    plan.disk_wait = "30s";
    Site::planned(plan)
}

/// Three nodes, and the mount; all gone with the value.
pub(super) struct Volume {
    kind: Kind,
    site: Site,
    dir: tempfile::TempDir,
}

impl Volume {
    /// A new file system of `kind` on a volume of `size`, as `truncate` takes it.
    pub(super) fn new(kind: Kind, size: &str) -> Volume {
        let dir = scratch();
        // Suites become other users.
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        sh(&format!("truncate -s {size} {}/disk.img", dir.path().display()), SHORT).ok();
        let mut site = site(dir.path());
        kind.make(&site.prints(HERE, "attach disk --block --mode exclusive"));
        site.cards(HERE, "detach disk").ok();
        site.is_bare(HERE);
        site.mount(HERE, "").ok();
        Volume { kind, site, dir }
    }

    /// A directory of this machine, on no volume.
    pub(super) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The mount.
    pub(super) fn point(&self) -> PathBuf {
        self.site.point(HERE)
    }

    /// Starts a job on the mount; what it says is kept in `name.log`.
    pub(super) fn spawn(&self, name: &str, script: &str) -> Process {
        let argv = ["sh", "-c", &format!("exec {script}")].map(String::from);
        Process::spawn(&argv, &self.dir().join(format!("{name}.log")))
    }

    /// `kill -9` of the daemon under the mount, and a new one once a request must wait for it. `job` runs meanwhile;
    /// all that is dirty is written, too, and no error is seen.
    pub(super) fn lose_daemon(&mut self, job: &mut Process) {
        let file = self.site.runtime(HERE).join("dev/disk");
        self.site.cluster.node(HERE).kill();
        let mut sync = self.spawn("sync", &format!("sync -f {}", self.point().display()));
        let mut read =
            self.spawn("read", &format!("dd if={} of=/dev/null bs=4k count=1 iflag=direct", file.display()));
        let input = PathBuf::from(format!("/proc/{}/fd/0", read.pid()));
        let end = Instant::now() + SHORT;
        while fs::read_link(&input).is_ok_and(|path| path != file) && Instant::now() < end {
            thread::sleep(Duration::from_millis(5));
        }
        // Judged when the daemon is back: no process that waits for it could be ended before.
        let waited = read.is_alive() && fs::read_link(&input).is_ok_and(|path| path == file);
        let was_alive = job.is_alive();
        self.site.cluster.node(HERE).spawn();
        self.site.wait_known(HERE);
        assert!(waited, "a read was to wait for the daemon\n{}", read.log());
        assert!(was_alive, "it was to run meanwhile\n{}", job.log());
        for waiter in [&mut sync, &mut read] {
            assert!(waiter.wait(LONG).success(), "{}", waiter.log());
        }
    }

    /// Waits until `job` has made the mount write this many bytes more.
    pub(super) fn wait_written(&self, bytes: u64, job: &mut Process) {
        let stat = self.block().join("stat");
        let written = || {
            let counts = fs::read_to_string(&stat).unwrap();
            let sectors: u64 = counts.split_whitespace().nth(6).unwrap().parse().unwrap();
            sectors * 512
        };
        let before = written();
        eventually("the mount to be written", SUITE, || {
            assert!(job.is_alive(), "it was to run meanwhile\n{}", job.log());
            (written() >= before + bytes).then_some(())
        });
    }

    /// The loop device under the mount, in /sys/block.
    fn block(&self) -> PathBuf {
        let point = self.point().display().to_string();
        let device = run(&["findmnt", "--noheadings", "--output", "SOURCE", &point], SHORT).ok().stdout;
        Path::new("/sys/block").join(Path::new(device.trim()).file_name().expect("a device"))
    }

    /// Unmounts at node `number`, and nothing is left there.
    fn umount(&mut self, number: usize) {
        self.site.umount(number).ok();
        self.site.is_bare(number);
    }

    /// Unmounts, and finds every file again: mounted at another node, where `look` is satisfied too, and on the disk
    /// without a node. The file system is without fault there.
    pub(super) fn compare_elsewhere(mut self, look: impl Fn(&Path)) {
        let expected = sums(&self.point());
        assert!(expected.lines().count() > 1, "nothing to compare: {expected}");
        look(&self.point());
        self.umount(HERE);

        self.site.mount(ELSEWHERE, "").ok();
        let point = self.site.point(ELSEWHERE);
        assert_eq!(sums(&point), expected, "at another node");
        look(&point);
        self.umount(ELSEWHERE);
        let device = self.site.prints(1, "attach disk --block --mode ro");
        sh(&format!("{} {device}", self.kind.check), LONG).ok();
        self.site.cards(1, "detach disk").ok();

        for number in 1..=3 {
            assert!(self.site.cluster.node(number).terminate().success());
        }
        let (image, point) = (self.dir().join("disk.img"), self.site.point(1));
        let (image, mount) = (image.display(), point.display());
        sh(&format!("mount -o loop,{} {image} {mount}", self.kind.read_only), LONG).ok();
        assert_eq!(sums(&point), expected, "on the disk");
        sh(&format!("umount {mount} && {} {image}", self.kind.check), LONG).ok();
    }
}
