//! A machine of the file system's cluster: a User-mode Linux kernel that runs what the test orders.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::lan::Lan;
use crate::harness::process::Process;
use crate::harness::{LONG, eventually};

/// Lines of a console that a failure prints.
const TAIL: usize = 40;

/// A running guest; killed when dropped. `guest.sh` tells what it can be ordered.
pub(super) struct Guest {
    number: usize,
    process: Process,
    orders: PathBuf,
    console: PathBuf,
    given: usize,
}

impl Guest {
    /// Boots node `number` (0 or 1) of the file system's cluster. `life` counts its boots.
    pub(super) fn boot(lan: &Lan, dir: &Path, number: usize, life: usize) -> Guest {
        let name = format!("guest{number}.{life}");
        // The kernel empties the directory that it calls by its own name.
        let orders = dir.join(format!("{name}.orders"));
        fs::create_dir(&orders).expect("a directory for orders");
        let console = dir.join(format!("{name}.log"));
        let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e/ocfs2");
        let (dir, tools) = (dir.display(), tools.display());
        // In a process namespace of its own: the processes of a guest do not end with its kernel.
        let script = format!(
            "exec env LD_PRELOAD={dir}/xsave.so TMPDIR={dir} unshare --pid --fork --kill-child \
             linux.uml mem=192M root=/dev/root rootfstype=hostfs rootflags=/ ro init={tools}/guest.sh \
             con=null con0=null,fd:1 loglevel=6 printk.time=1 uml_dir={dir}/ umid={name} \
             vec0:transport=tap,ifname=tap{number},depth=64,gro=1,mac=02:00:00:00:00:0{number} \
             NODE={number} TOOLS={tools} ORDERS={}",
            orders.display()
        );
        let process = Process::spawn(&lan.command(&script), &console);
        Guest { number, process, orders, console, given: 0 }
    }

    /// Has the guest begin with `commands`.
    pub(super) fn order(&mut self, commands: &str) {
        self.given += 1;
        // Not to be seen before it is whole.
        let draft = self.orders.join("draft");
        fs::write(&draft, commands).expect("room for an order");
        fs::rename(&draft, self.orders.join(self.given.to_string())).expect("room for an order");
    }

    /// Waits until the guest has done its last order, and insists on status 0.
    #[track_caller]
    pub(super) fn done(&mut self, limit: Duration) {
        let line = format!("guest: did {} ", self.given);
        let status = self.answer(&line, limit);
        assert_eq!(status, "0", "order {} of guest {} failed\n{}", self.given, self.number, self.tail());
    }

    /// Orders `commands` and waits until they are done.
    #[track_caller]
    pub(super) fn run(&mut self, commands: &str, limit: Duration) {
        self.order(commands);
        self.done(limit);
    }

    /// The last number the guest has said behind `words`, or 0.
    pub(super) fn last(&self, words: &str) -> u64 {
        let text = self.text();
        let mut said = text.lines().rev().filter_map(|line| line.strip_prefix(words)?.trim().parse().ok());
        said.next().unwrap_or(0)
    }

    /// Waits until [`Guest::last`] of `words` is `least` or more.
    #[track_caller]
    pub(super) fn counts(&mut self, words: &str, least: u64, limit: Duration) {
        eventually(&format!("{words} {least}\n{}", self.tail()), limit, || {
            assert!(self.process.is_alive(), "guest {} died\n{}", self.number, self.tail());
            (self.last(words) >= least).then_some(())
        });
    }

    /// Whether a line on the console is `line`.
    pub(super) fn has_said(&self, line: &str) -> bool {
        self.text().lines().any(|said| said.trim_end() == line)
    }

    /// Everything on the console.
    fn text(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.console).unwrap_or_default()).into_owned()
    }

    /// Switches the machine off without a warning.
    pub(super) fn kill(&mut self) {
        self.process.kill();
    }

    /// Detaches the volume and lets the machine end.
    #[track_caller]
    pub(super) fn leave(mut self) {
        self.order("leave");
        self.process.wait(LONG);
    }

    /// What follows `words` in the first line that begins so.
    #[track_caller]
    fn answer(&mut self, words: &str, limit: Duration) -> String {
        let what = format!("{words:?} from guest {}", self.number);
        eventually(&what, limit, || {
            // Asked before the look: what a guest said last counts.
            let alive = self.process.is_alive();
            let text = self.text();
            let answer =
                text.split_inclusive('\n').find_map(|line| line.strip_suffix('\n')?.strip_prefix(words));
            assert!(
                alive || answer.is_some(),
                "guest {} died before {words:?}\n{}",
                self.number,
                self.tail()
            );
            answer.map(|answer| answer.trim().to_owned())
        })
    }

    fn tail(&self) -> String {
        let text = self.text();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(TAIL)..].join("\n")
    }
}
