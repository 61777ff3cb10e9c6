//! The disk of the last copy of a volume fails, for its file system is full: requests fail in time at every node, and all that is said names
//! the disk and the remedy.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::thread;

use crate::harness::client::CMD_READ;
use crate::harness::cluster::{CARDS, Cluster};
use crate::harness::plan::Plan;
use crate::harness::process::run;
use crate::harness::small::SmallFs;
use crate::harness::tools::skip;
use crate::harness::{KIB, LONG, MIB, SHORT, content, eventually, scratch};
use crate::mirror::{at, cards, cluster_by, volume};

const SEED: u64 = 41;
const PIECE: u64 = 64 * KIB;

/// Three nodes, of which the first has its disk in a small file system, with a volume on the disks of two. None if the machine has no such
/// file system for us.
struct Scene {
    cluster: Cluster,
    small: SmallFs,
    disk: PathBuf,
}

impl Scene {
    fn new(dir: &Path, layout: &str) -> Option<Self> {
        let small = match SmallFs::mount(&dir.join("small"), "48m") {
            Ok(small) => small,
            Err(reason) => {
                skip(&reason);
                return None;
            }
        };
        let disk = dir.join("fast1.img");
        symlink(dir.join("small/disk.img"), &disk).unwrap();
        let mut cluster = cluster_by(Plan { disk_wait: "5s", ..Plan::new(dir, 3) }, None);
        let words =
            ["volume", "create", "data", "--size", "16M", "--layout", layout, "--on", "n1:fast1,n2:fast2"];
        at(&mut cluster, 1, &words).ok();
        for number in 1..=3 {
            eventually(&format!("n{number} knows the volume"), SHORT, || {
                (volume(&mut cluster, number)["state"] == "ready").then_some(())
            });
            at(&mut cluster, number, &["volume", "attach", "data"]).ok();
        }
        Some(Self { cluster, small, disk })
    }

    /// Writes pieces that were never written until one fails, and returns its error. Those behind it fail as well.
    fn fails(&mut self, number: usize, bytes: std::ops::Range<u64>) {
        let mut client = self.cluster.export(number, "data").open();
        client.socket.limit(LONG).unwrap();
        let errors = bytes
            .step_by(PIECE as usize)
            .filter_map(|offset| client.write(offset, &content::bytes(offset, PIECE as usize, SEED)).err());
        let errors: Vec<_> = errors.map(|error| error.raw_os_error()).collect();
        assert!(!errors.is_empty() && errors.iter().all(|error| *error == Some(libc::EIO)), "{errors:?}");
        client.close();
    }

    /// The log, the status and the volume at the node of the disk name the disk, its error and the remedy.
    fn all_is_told(&mut self, subject: &str) {
        let path = self.disk.to_str().unwrap().to_owned();
        let (full, remedy) =
            ("No space left on device", "make room in the file system that has it, then restart");
        self.cluster.node(1).says(&["data", "fast1", &path, full, remedy]);
        let socket = self.cluster.node(1).admin_socket();
        let status = run(&[CARDS, "status", "--socket", &socket], SHORT);
        let line = status.stdout.lines().next().unwrap_or_default();
        for part in [subject, "copy n1:fast1 is given up", &path, full] {
            assert!(line.contains(part), "{part:?} is not in: {line}");
        }
        assert!(status.stdout.contains(remedy), "{status}");
        let shown = volume(&mut self.cluster, 1);
        let reason = shown["reason"].as_str().unwrap_or_default();
        for part in ["copy n1:fast1 is given up", &path, full, remedy] {
            assert!(reason.contains(part), "{part:?} is not in: {shown:#}");
        }
        assert_eq!(shown["state"], "offline", "{shown:#}");
        // The others say the same of it, and where to look.
        for number in 1..=3 {
            if !self.cluster.node(number).is_alive() {
                continue;
            }
            eventually(&format!("n{number} says that the copy is given up"), LONG, || {
                let text = at(&mut self.cluster, number, &["volume", "show", "data"]).stdout;
                let status = at(&mut self.cluster, number, &["status"]).stdout;
                let line = status.lines().next().unwrap_or_default();
                let told = text.contains("given up") && !text.contains("2 of 2");
                (told && line.contains("n1:fast1 is given up")).then_some(())
            });
        }
        let elsewhere = volume(&mut self.cluster, 3);
        assert_eq!(elsewhere["state"], "offline", "{elsewhere:#}");
        let reason = elsewhere["reason"].as_str().unwrap_or_default();
        assert!(
            reason.contains("n1:fast1 is given up") && reason.contains("`cards status` at node n1"),
            "{reason}"
        );
    }

    /// The daemon ends without waiting for what nobody can do, and serves again when there is room.
    fn serves_again(&mut self, ballast: &Path) {
        // A read waits for a primary.
        let mut waits = self.cluster.export(1, "data").open();
        waits.send(CMD_READ, 0, PIECE as u32, &[]).unwrap();
        assert!(self.cluster.node(1).terminate().success());
        drop(waits);
        let log = self.cluster.node(1).log();
        for waited in ["clients still connected after", "commands of other nodes still open after"] {
            assert!(!log.contains(waited), "{log}");
        }
        fs::remove_file(ballast).unwrap();
        self.cluster.node(1).restart();
        at(&mut self.cluster, 1, &["volume", "attach", "data"]).ok();
        for number in [1, 3] {
            let export = self.cluster.export(number, "data");
            let found = eventually(&format!("n{number} serves"), LONG, || export.read(0, MIB as usize).ok());
            content::check(&found, 0, SEED);
        }
        let offset = 8 * MIB;
        let mut client = self.cluster.export(1, "data").open();
        client.socket.limit(LONG).unwrap();
        client.write(offset, &content::bytes(offset, PIECE as usize, SEED)).expect("there is room");
        client.flush().expect("there is room");
        client.close();
        let status = self.cluster.node(1).status();
        assert!(!status["problems"].to_string().contains("given up"), "{status:#}");
        eventually("the others hear that it is used again", SHORT, || {
            let shown = at(&mut self.cluster, 3, &["volume", "show", "data"]).stdout;
            let problems = self.cluster.node(3).status()["problems"].to_string();
            (!shown.contains("given up") && !problems.contains("given up")).then_some(())
        });
    }

    fn begin(&mut self) {
        let mut client = self.cluster.export(1, "data").open();
        client.socket.limit(LONG).unwrap();
        client.write(0, &content::bytes(0, MIB as usize, SEED)).unwrap();
        client.flush().unwrap();
        client.close();
    }
}

#[test]
fn the_last_copy_in_sync_is_on_a_full_disk_and_every_node_says_eio() {
    let dir = scratch();
    let Some(mut scene) = Scene::new(dir.path(), "raid1:2") else { return };
    scene.begin();
    scene.cluster.node(2).kill();
    eventually("n1 has the last copy in sync", LONG, || {
        let mirror = volume(&mut scene.cluster, 1)["mirror"].clone();
        (mirror["map"]["primary"] == "n1" && mirror["copies"][1]["state"] == "stale").then_some(())
    });
    let ballast = scene.small.fill();
    scene.fails(1, 4 * MIB..8 * MIB);
    scene.fails(3, 12 * MIB..12 * MIB + PIECE);
    scene.all_is_told("volume data: copy");
    // The other copy is not forced while the daemon of this one runs, as every node says.
    for number in [1, 3] {
        let forced = at(&mut scene.cluster, number, &["volume", "force", "data", "--from", "n2"]).fails();
        for part in [
            "n1:fast1, and its node is there",
            "stop its daemon, and try again when `cards status` calls it dead",
        ] {
            assert!(forced.stderr.contains(part), "{part:?} is not in: {forced}");
        }
        let forced = at(&mut scene.cluster, number, &["volume", "force", "data", "--from", "n1"]).fails();
        assert!(forced.stderr.contains("is not to be forced; if the volume is not served"), "{forced}");
    }
    scene.serves_again(&ballast);
    scene.cluster.node(2).restart();
    for number in 1..=3 {
        eventually(&format!("all copies are in sync, says n{number}"), LONG, || {
            let copies = volume(&mut scene.cluster, number)["mirror"]["copies"].clone();
            copies.as_array()?.iter().all(|copy| copy["state"] == "in_sync").then_some(())
        });
    }
}

#[test]
fn a_part_of_raid0_is_on_a_full_disk_and_requests_to_it_fail_at_its_node() {
    let dir = scratch();
    let Some(mut scene) = Scene::new(dir.path(), "raid0") else { return };
    scene.begin();
    let ballast = scene.small.fill();
    scene.fails(1, 4 * MIB..8 * MIB);
    scene.all_is_told("volume data: of ");
    scene.serves_again(&ballast);
}

/// The file system of one copy has no room for what a volume is to grow by: the growth waits and says why, and the disk goes on.
#[test]
fn a_growth_that_finds_no_space_waits_and_its_disk_goes_on() {
    let dir = scratch();
    let Some(mut scene) = Scene::new(dir.path(), "raid1:2") else { return };
    scene.begin();
    let ballast = scene.small.fill();
    let socket = scene.cluster.node(2).admin_socket();
    let asks = thread::spawn(move || cards(&["volume", "resize", "data", "32M", "--socket", &socket]));
    eventually("the growth says what it lacks", LONG, || {
        let problems = scene.cluster.node(1).status()["problems"].to_string();
        (problems.contains("fast1") && problems.contains("may be full")).then_some(())
    });
    for number in 1..=3 {
        let mut client = scene.cluster.export(number, "data").open();
        client.socket.limit(LONG).unwrap();
        content::check(&client.read(0, MIB as usize).unwrap(), 0, SEED);
        client.write(0, &content::bytes(0, MIB as usize, SEED)).expect("it has this space");
        client.flush().expect("it has this space");
        client.close();
    }
    let copies = volume(&mut scene.cluster, 1)["mirror"]["copies"].clone();
    assert!(copies.as_array().unwrap().iter().all(|copy| copy["state"] == "in_sync"), "{copies:#}");
    fs::remove_file(ballast).unwrap();
    for number in 1..=3 {
        eventually(&format!("n{number} knows the new size"), LONG, || {
            (volume(&mut scene.cluster, number)["size"] == 32 * MIB).then_some(())
        });
    }
    asks.join().unwrap();
    let new = scene.cluster.export(3, "data").read(16 * MIB, MIB as usize).unwrap();
    assert!(new.iter().all(|byte| *byte == 0));
}
