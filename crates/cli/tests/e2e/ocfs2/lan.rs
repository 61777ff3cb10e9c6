//! A network segment of its own for the daemons and the guests: a namespace with a bridge and a port per guest.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::harness::guest::HOST;
use crate::harness::process::{Process, sh};
use crate::harness::{SHORT, eventually};

/// Longer than any test here runs.
const LIFE: Duration = Duration::from_secs(900);

/// The namespace lives in a process that sleeps, and goes away with everything in it.
pub(super) struct Lan(Process);

impl Lan {
    /// Whether this kernel has bridges and lets us make one.
    pub(super) fn is_possible() -> bool {
        sh("unshare --net ip link add bridge type bridge", SHORT).status.success()
    }

    /// A bridge with the host's address, and the ports `tap0` and `tap1`.
    pub(super) fn new(dir: &Path) -> Lan {
        let [a, b, c, d] = HOST;
        let script = format!(
            "ip link set lo up && ip link add bridge type bridge && ip addr add {a}.{b}.{c}.{d}/24 dev bridge && \
             ip link set bridge up && for tap in tap0 tap1; do ip tuntap add $tap mode tap && \
             ip link set $tap master bridge up || exit; done && echo ready && exec sleep {}",
            LIFE.as_secs()
        );
        let argv = ["unshare", "--net", "sh", "-c", &script].map(String::from);
        let log = dir.join("lan.log");
        let mut holder = Process::spawn(&argv, &log);
        holder.until("the network", || fs::read_to_string(&log).ok()?.contains("ready").then_some(()));
        Lan(holder)
    }

    /// The process to join with `nsenter`.
    pub(super) fn pid(&self) -> u32 {
        self.0.pid()
    }

    /// A shell command to be run inside.
    pub(super) fn command(&self, script: &str) -> Vec<String> {
        let pid = self.pid().to_string();
        ["nsenter", "--target", &pid, "--net", "--", "sh", "-c", script].map(String::from).to_vec()
    }

    /// Waits until the machine at `tap{number}` is gone from it.
    pub(super) fn unplugged(&self, number: usize) {
        let look =
            format!("nsenter --target {} --net -- ip link show tap{number} | grep -q NO-CARRIER", self.pid());
        eventually("a free network port", SHORT, || sh(&look, SHORT).status.success().then_some(()));
    }
}
