//! A cluster whose volume `disk` is attached nowhere, and the machine of all its nodes: this one.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::harness::cluster::{CARDS, Cluster};
use crate::harness::plan::{Disk, Plan};
use crate::harness::process::{Finished, run, sh};
use crate::harness::tools::{is_root, missing};
use crate::harness::{LONG, SHORT, eventually};
use crate::mirror;

/// Running daemons, and what of them is mounted here; all gone with the value.
pub(crate) struct Site {
    pub(crate) cluster: Cluster,
    dir: PathBuf,
}

/// Why volumes cannot be block devices here, if they cannot.
pub(crate) fn missing_devices() -> Option<String> {
    if !is_root() {
        return Some("loop devices and mounts need root".into());
    }
    let opens = |path: &str| fs::File::options().read(true).write(true).open(path);
    let device =
        ["/dev/fuse", "/dev/loop-control"].into_iter().find_map(|path| opens(path).err().map(|e| (path, e)));
    device.map(|(path, error)| format!("{path}: {error}")).or_else(|| missing("losetup"))
}

/// Why this kernel cannot mount `kind`, if it cannot.
pub(crate) fn missing_file_system(kind: &str) -> Option<String> {
    let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    let has = known.lines().any(|line| line.split_whitespace().next_back() == Some(kind));
    (!has).then(|| format!("this kernel has no {kind}"))
}

impl Site {
    /// `count` nodes; the image at `disk.img` in `dir` is the volume `disk`, at node 1.
    pub(crate) fn new(dir: &Path, count: usize) -> Site {
        Site::with(dir, count, |_| {})
    }

    /// The same with an image of zeroes.
    pub(crate) fn blank(dir: &Path, count: usize) -> Site {
        fs::write(dir.join("disk.img"), vec![0; 8 << 20]).unwrap();
        Site::new(dir, count)
    }

    /// The same with an image that is an ext4.
    pub(crate) fn ext4(dir: &Path, count: usize) -> Site {
        sh(&format!("mke2fs -q -t ext4 {}/disk.img 24M", dir.display()), LONG).ok();
        Site::new(dir, count)
    }

    /// [`Self::new`] with a change of the disk.
    pub(crate) fn with(dir: &Path, count: usize, change: impl FnOnce(&mut Disk)) -> Site {
        let mut disk = Disk::file(&dir.join("disk.img"));
        change(&mut disk);
        Site::planned(Plan::new(dir, count).disk(disk).cache("24M"))
    }

    /// The nodes of `plan`, with its disk attached nowhere.
    pub(crate) fn planned(mut plan: Plan) -> Site {
        plan.nodes.iter_mut().for_each(|node| node.attach.clear());
        Site::of(Cluster::start(plan))
    }

    /// One node, whose disk is an ext4, and whose daemon runs as `user`, as the package has it.
    pub(crate) fn run_as(user: u32, dir: &Path) -> Site {
        let image = dir.join("disk.img");
        sh(&format!("mke2fs -q -t ext4 {} 24M", image.display()), LONG).ok();
        fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).unwrap();
        chown(&image, Some(user), Some(user)).unwrap();
        let mut plan = Plan::new(dir, 1).disk(Disk::file(&image)).cache("24M").insecure();
        plan.nodes[0].attach.clear();
        let mut cluster = Cluster::down(plan);
        cluster.node(1).run_as(user);
        cluster.node(1).restart();
        Site::of(cluster)
    }

    /// Three nodes, of which two have a copy of the volume, which is 48 MiB of zeroes.
    pub(crate) fn mirrored(dir: &Path) -> Site {
        Site::laid_out(Plan { disk_wait: "60s", ..Plan::new(dir, 3) }, "raid1:2")
    }

    /// The nodes of a plan, with a volume of this layout, which is 48 MiB of zeroes.
    pub(crate) fn laid_out(plan: Plan, layout: &str) -> Site {
        let mut cluster = mirror::cluster_by(plan, None);
        let socket = cluster.node(1).admin_socket();
        let create = format!("volume create disk --size 48M --layout {layout} --socket {socket}");
        let argv: Vec<&str> = [CARDS].into_iter().chain(create.split(' ')).collect();
        run(&argv, LONG).ok();
        Site::of(cluster)
    }

    /// The node that orders the writes of a mirrored volume, as node `asked` says.
    pub(crate) fn primary(&self, asked: usize) -> usize {
        let told = self.prints(asked, "volume show disk --json");
        let told: Value = serde_json::from_str(&told).unwrap();
        let primary = told["mirror"]["map"]["primary"].as_str().and_then(|name| name.strip_prefix('n'));
        primary.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("no primary: {told}"))
    }

    /// Waits until either copy of a mirrored volume has all of it, as node `asked` says: the other node may be killed then.
    pub(crate) fn wait_in_sync(&self, asked: usize) {
        eventually("both copies are in sync", LONG, || {
            let told = self.prints(asked, "volume show disk --json");
            (told.matches("in_sync").count() == 2).then_some(())
        });
    }

    fn of(cluster: Cluster) -> Site {
        let (dir, count) = (cluster.plan.dir.clone(), cluster.plan.nodes.len());
        let mut site = Site { cluster, dir };
        for number in 1..=count {
            fs::create_dir_all(site.point(number)).unwrap();
            site.wait_known(number);
        }
        site
    }

    /// Waits until node `number` knows the volume.
    pub(crate) fn wait_known(&mut self, number: usize) {
        eventually("the volume is known", SHORT, || {
            let node = self.cluster.node(number);
            (node.answers() && node.status()["volumes"][0]["state"] == "ready").then_some(())
        });
    }

    /// Where node `number` mounts.
    pub(crate) fn point(&self, number: usize) -> PathBuf {
        self.dir.join(format!("m{number}"))
    }

    /// The runtime directory of node `number`.
    pub(crate) fn runtime(&self, number: usize) -> PathBuf {
        self.cluster.plan.runtime_dir(number - 1)
    }

    /// The directory of the devices of node `number`.
    pub(crate) fn dev(&self, number: usize) -> PathBuf {
        let beside = self.dir.join(format!("n{number}-dev"));
        if beside.exists() { beside } else { self.runtime(number).join("dev") }
    }

    /// Runs `cards` with these arguments at node `number`.
    #[track_caller]
    pub(crate) fn cards(&self, number: usize, arguments: &str) -> Finished {
        let socket = self.runtime(number).join("admin.sock").display().to_string();
        let mut argv = vec![CARDS];
        argv.extend(arguments.split_whitespace());
        argv.extend(["--socket", &socket]);
        run(&argv, LONG)
    }

    /// The same, and what it printed, on one line.
    #[track_caller]
    pub(crate) fn prints(&self, number: usize, arguments: &str) -> String {
        self.cards(number, arguments).ok().stdout.trim().to_owned()
    }

    /// Mounts the volume at node `number` with these options.
    #[track_caller]
    pub(crate) fn mount(&self, number: usize, options: &str) -> Finished {
        self.cards(number, &format!("mount disk {} {options}", self.point(number).display()))
    }

    /// Unmounts it. A mount namespace that another test makes just then has a copy of the mount as long as it lives: the
    /// volume stays attached, and the command says so. It is detached when the copy is gone.
    #[track_caller]
    pub(crate) fn umount(&self, number: usize) -> Finished {
        let done = self.cards(number, &format!("umount {}", self.point(number).display()));
        let copied = ["as process", "not seen from here"].iter().any(|words| done.stderr.contains(words));
        if done.status.success() && copied {
            eventually("the copies of the mount to go", LONG, || {
                self.cards(number, "detach disk").status.success().then_some(())
            });
        }
        done
    }

    /// The card of the volume at node `number`.
    pub(crate) fn card(&mut self, number: usize) -> Value {
        self.cluster.node(number).status()["volumes"][0]["attached"].clone()
    }

    /// Nothing of the volume is left at node `number`: no device, no process, no card.
    #[track_caller]
    pub(crate) fn is_bare(&mut self, number: usize) {
        assert_eq!(self.card(number), Value::Null, "the card is still there");
        assert!(!self.dev(number).join("disk.json").exists(), "a process still serves it");
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let here = self.runtime(number).display().to_string();
        assert!(!mounts.contains(&here), "something is still mounted:\n{mounts}");
        let loops = run(&["losetup", "--list", "--noheadings", "--output", "BACK-FILE"], SHORT).ok().stdout;
        assert!(!loops.contains(&here), "a loop device is left:\n{loops}");
    }
}

impl Drop for Site {
    /// Whatever a failed test has left, for loop devices and mounts do not go with a process. First of all the
    /// devices' processes: if their daemon is down, an unmount would wait for it.
    fn drop(&mut self) {
        let dir = self.dir.display();
        let script = format!(
            "loops=$(losetup --list --noheadings --output NAME,BACK-FILE | grep ' {dir}/' | cut -d' ' -f1)\n\
             pids=$(cat {dir}/n*/dev/*.json {dir}/n*-dev/*.json | grep -o '\"pid\":[0-9]*' | cut -d: -f2)\n\
             for pid in $pids; do kill -9 $pid; done\n\
             grep -o ' {dir}/[^ ]*' /proc/self/mountinfo | tac | xargs -r -n1 umount -l\n\
             for device in $loops; do losetup -d $device; done"
        );
        // In a test that has failed already, another failure would hide the first.
        let _ = Command::new("sh").args(["-c", &script]).stderr(Stdio::null()).status();
    }
}

/// A command that prints the checksum of every file below `dir`, its mode and its links.
pub(crate) fn sums(dir: &Path) -> String {
    let dir = dir.display();
    sh(
        &format!(
            "cd {dir} && find . -path ./lost+found -prune -o -printf '%M %n %s %l %p\\n' | sort -k5 | grep -v '^d.* \\.$' | sed 's/^\\(d[^ ]* [0-9]*\\) [0-9]*/\\1/'\n\
             find . -type f -print0 | sort -z | xargs -0r sha256sum"
        ),
        LONG,
    )
    .ok()
    .stdout
}
