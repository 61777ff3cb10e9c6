//! A child process that never outlives its owner.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::{affinity, tree};
use crate::{Error, interrupt};

/// How long a process may take to end after SIGTERM before it is killed.
const GRACE: Duration = Duration::from_secs(2);

/// A running server or tool with its output in a log file.
///
/// Dropping it ends the process and everything it started, each by its id. If this program dies without
/// dropping, the kernel ends the child.
#[derive(Debug)]
pub struct Guard {
    name: String,
    child: Child,
    log: PathBuf,
    pid_file: Option<PathBuf>,
}

impl Guard {
    /// Starts `command` pinned to `core`, with standard output and error in `log`.
    pub fn spawn(name: &str, mut command: Command, core: Option<usize>, log: &Path) -> Result<Guard, Error> {
        let file = File::create(log).map_err(Error::io(format!("creating {}", log.display())))?;
        let errors = file.try_clone().map_err(Error::io(format!("creating {}", log.display())))?;
        command.stdin(Stdio::null()).stdout(file).stderr(errors);
        confine(&mut command, core);
        let child = command.spawn().map_err(Error::io(format!("starting {name}")))?;
        Ok(Guard { name: name.to_owned(), child, log: log.to_owned(), pid_file: None })
    }

    /// The process is a launcher that writes the id of the daemon it leaves behind into `path`.
    pub fn with_pid_file(mut self, path: PathBuf) -> Guard {
        self.pid_file = Some(path);
        self
    }

    /// The processes whose trees make up this server.
    pub fn roots(&self) -> Vec<i32> {
        std::iter::once(self.child.id() as i32).chain(self.daemon()).collect()
    }

    /// The end of what the process printed.
    pub fn log_tail(&self) -> String {
        let text = fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let text = text.unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    /// Waits until `ready` answers, the process ends, or `limit` passes.
    pub fn wait_for<T>(&mut self, limit: Duration, mut ready: impl FnMut() -> Option<T>) -> Result<T, Error> {
        let start = Instant::now();
        loop {
            if let Some(value) = ready() {
                return Ok(value);
            }
            let status = self.child.try_wait().map_err(Error::io(format!("waiting for {}", self.name)))?;
            if let Some(status) = status.filter(|_| self.pid_file.is_none()) {
                let (name, status, log) = (self.name.clone(), status.to_string(), self.log_tail());
                return Err(Error::Exited { name, status, log });
            }
            if start.elapsed() > limit {
                return Err(Error::NotReady { name: self.name.clone(), waited: limit, log: self.log_tail() });
            }
            interrupt::sleep(Duration::from_millis(10))?;
        }
    }

    /// Waits for the process to end by itself, calling `tick` about every 20 ms.
    pub fn wait_for_end(&mut self, limit: Duration, mut tick: impl FnMut()) -> Result<ExitStatus, Error> {
        let start = Instant::now();
        loop {
            tick();
            let status = self.child.try_wait().map_err(Error::io(format!("waiting for {}", self.name)))?;
            if let Some(status) = status {
                return Ok(status);
            }
            if start.elapsed() > limit {
                return Err(Error::NotReady { name: self.name.clone(), waited: limit, log: self.log_tail() });
            }
            interrupt::sleep(Duration::from_millis(20))?;
        }
    }

    /// Whether the process ended by itself within `limit`.
    pub fn ends_within(&mut self, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        while Instant::now() < end {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        false
    }

    /// The daemon from the pid file, if it is really ours: the id may have been reused, so the command
    /// line must name the directory of the pid file.
    fn daemon(&self) -> Option<i32> {
        let path = self.pid_file.as_ref()?;
        let pid: i32 = fs::read_to_string(path).ok()?.trim().parse().ok()?;
        let command = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let ours = path.parent()?.to_str()?;
        String::from_utf8_lossy(&command).contains(ours).then_some(pid)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // The tree must be read while the parents still live; afterwards the children belong to init.
        let pids = tree::with_descendants(&self.roots());
        let own = self.child.id() as i32;
        let running = |child: &mut Child, pid: i32| {
            if pid == own { matches!(child.try_wait(), Ok(None)) } else { is_running(pid) }
        };
        for signal in [libc::SIGTERM, libc::SIGKILL] {
            let alive: Vec<i32> = pids.iter().copied().filter(|&pid| running(&mut self.child, pid)).collect();
            if alive.is_empty() {
                break;
            }
            for &pid in &alive {
                // SAFETY: kill has no memory effects; every pid is a process this guard started.
                unsafe { libc::kill(pid, signal) };
            }
            let end = Instant::now() + GRACE;
            while Instant::now() < end && alive.iter().any(|&pid| running(&mut self.child, pid)) {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        // Reaps; the process is dead or unkillable, and neither case has a remedy here.
        let _ = self.child.try_wait();
    }
}

/// Pins the future child and ties its life to this process.
pub fn confine(command: &mut Command, core: Option<usize>) {
    // SAFETY: the closure runs between fork and exec and makes only async-signal-safe system calls.
    unsafe {
        command.pre_exec(move || {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
            core.map_or(Ok(()), |core| affinity::pin_thread(0, core))
        });
    }
}

/// Whether the process exists and is not a zombie that someone else has to reap.
fn is_running(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z')))
}

/// The path of `tool`, if it is installed.
pub fn find_tool(tool: &str) -> Option<PathBuf> {
    if tool.contains('/') {
        return Some(PathBuf::from(tool)).filter(|path| path.is_file());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(tool)).find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropping_a_guard_ends_the_whole_tree() {
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 600 & sleep 600 & echo up; wait"]);
        let log = dir.path().join("log");
        let mut guard = Guard::spawn("sleepers", command, None, &log).unwrap();
        let pids = guard
            .wait_for(Duration::from_secs(10), || {
                fs::read_to_string(&log).ok().filter(|text| text.contains("up"))
            })
            .map(|_| tree::with_descendants(&guard.roots()))
            .unwrap();
        assert_eq!(pids.len(), 3, "{pids:?}");
        drop(guard);
        assert!(pids.iter().all(|&pid| !is_running(pid)), "{pids:?}");
    }

    #[test]
    fn an_early_end_is_reported_with_the_output() {
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo no such disk >&2; exit 3"]);
        let mut guard = Guard::spawn("server", command, None, &dir.path().join("log")).unwrap();
        let error = guard.wait_for(Duration::from_secs(10), || None::<()>).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("no such disk") && text.contains('3'), "{text}");
    }
}
