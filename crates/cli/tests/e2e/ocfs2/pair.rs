//! Two machines with one file system on one volume.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

use super::guest::Guest;
use super::lan::Lan;
use super::server::{Server, Start};
use crate::harness::process::{run, sh};
use crate::harness::{LONG, MIB, data, scratch};

const SIZE: u64 = 72 * MIB;
/// Bound of what waits for heartbeats, for locks and for the death of a machine.
pub(super) const SETTLE: Duration = Duration::from_secs(150);

/// Both guests have the file system mounted. The fields are dropped in this order.
pub(super) struct Pair {
    pub(super) guests: [Guest; 2],
    pub(super) server: Server,
    lan: Lan,
    dir: TempDir,
    /// Seconds without heartbeat after which a machine is dead to the other.
    patience: u32,
}

impl Pair {
    /// Makes the file system, has it served, boots the guests and mounts it.
    pub(super) fn start(start: Start, attach: &str, patience: u32) -> Pair {
        let dir = scratch();
        let (shim, source) = (dir.path().join("xsave.so"), data("uml/xsave.c"));
        let (shim, source) = (shim.display().to_string(), source.display().to_string());
        run(&["cc", "-O2", "-shared", "-fPIC", "-o", &shim, &source], LONG).ok();
        let image = image(dir.path());
        sh(
            &format!(
                "truncate -s {SIZE} {0} && mkfs.ocfs2 -q --force --cluster-stack=o2cb --cluster-name=cards \
                 --fs-feature-level=max-compat -N 2 -b 4096 -C 4096 -J size=8M {0}",
                image.display()
            ),
            LONG,
        )
        .ok();
        let lan = Lan::new(dir.path());
        let guests = [0, 1].map(|number| Guest::boot(&lan, dir.path(), number, 1));
        let server = start(&lan, dir.path(), &image);
        let mut pair = Pair { guests, server, lan, dir, patience };
        for number in [0, 1] {
            let join = pair.join(number, attach);
            pair.guests[number].order(&join);
        }
        pair.done(SETTLE);
        pair
    }

    /// The order to mount the file system at guest `number`.
    fn join(&self, number: usize, attach: &str) -> String {
        format!("join {} && {attach} {} && enter", self.patience, self.server.port(number))
    }

    /// Orders the same of both guests.
    pub(super) fn order(&mut self, commands: &str) {
        self.guests.iter_mut().for_each(|guest| guest.order(commands));
    }

    /// Waits until both guests have done their last orders.
    #[track_caller]
    pub(super) fn done(&mut self, limit: Duration) {
        for guest in &mut self.guests {
            guest.done(limit);
        }
    }

    /// Orders the same of both guests and waits until it is done.
    #[track_caller]
    pub(super) fn run(&mut self, commands: &str) {
        self.order(commands);
        self.done(SETTLE);
    }

    /// Switches guest 1 off, without a warning, while it makes files; tells how many it had synced.
    pub(super) fn kill(&mut self) -> u64 {
        self.guests[1].kill();
        self.lan.unplugged(1);
        self.guests[1].last("guest: kept ")
    }

    /// Boots guest 1 again, which then mounts the file system as before.
    #[track_caller]
    pub(super) fn reboot(&mut self) {
        self.guests[1] = Guest::boot(&self.lan, self.dir.path(), 1, 2);
        let join = self.join(1, "attach");
        self.guests[1].run(&join, SETTLE);
    }

    /// Ends all in order. Both guests, and then the host, check the file system.
    #[track_caller]
    pub(super) fn end(mut self) {
        self.run("umount $volume");
        self.run("check");
        self.guests.into_iter().for_each(Guest::leave);
        self.server.end();
        let image = image(self.dir.path());
        let checked = sh(&format!("fsck.ocfs2 -fn {}", image.display()), LONG).ok();
        // It calls it a success to have found something.
        assert!(!checked.stdout.lines().any(|line| line.starts_with('[')), "{checked}");
    }
}

fn image(dir: &Path) -> PathBuf {
    dir.join("disk.img")
}
