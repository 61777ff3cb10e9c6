//! Child processes: daemons that never outlive their test, and commands that always end.

use std::fs::{self, OpenOptions};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use super::{SHORT, eventually};

/// A long-running child; killed and reaped when dropped.
pub(crate) struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `argv`, output appended to `log`.
    pub(crate) fn spawn(argv: &[String], log: &Path) -> Process {
        let file = OpenOptions::new().create(true).append(true).open(log).expect("a log file");
        let mut command = Command::new(&argv[0]);
        command.args(&argv[1..]).stdin(Stdio::null()).stderr(file.try_clone().unwrap()).stdout(file);
        // SAFETY: prctl is async-signal-safe, and the closure touches nothing of the parent. The signal comes
        // when the thread of the test ends, so that a killed test run leaves no daemon behind.
        unsafe {
            command.pre_exec(|| {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            });
        }
        let child = command.spawn().unwrap_or_else(|error| panic!("cannot start {}: {error}", argv[0]));
        Process { child, log: log.to_path_buf() }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Everything the process has said.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub(crate) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Sends `signal`; the process is our unreaped child, so the number cannot belong to another one.
    pub(crate) fn signal(&self, signal: i32) {
        // SAFETY: kill takes plain numbers; the pid is that of a child not yet waited for.
        let sent = unsafe { libc::kill(self.pid() as i32, signal) };
        assert_eq!(sent, 0, "cannot signal {}", self.pid());
        if signal == libc::SIGSTOP {
            // Threads on other processors run on until the signal reaches them.
            eventually("every thread to stop", Duration::from_secs(10), || self.is_stopped().then_some(()));
        }
    }

    /// Whether every thread is stopped.
    fn is_stopped(&self) -> bool {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid())).expect("a process has threads");
        tasks.flatten().all(|task| {
            let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
            stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('T'))
        })
    }

    /// Waits for the end, for at most `limit`.
    pub(crate) fn wait(&mut self, limit: Duration) -> ExitStatus {
        let what = format!("end of process {}", self.pid());
        eventually(&what, limit, || self.child.try_wait().expect("wait for a child"))
    }

    /// `kill -9`, and gone.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// The answer of `probe`, as long as the process lives.
    pub(crate) fn until<T>(&mut self, what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
        eventually(what, SHORT, || {
            let answer = probe();
            if answer.is_none() && !self.is_alive() {
                panic!("process ended before: {what}\n{}", self.log());
            }
            answer
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("--- {}\n{}", self.log.display(), tail(&self.log()));
        }
    }
}

/// A command that has ended.
pub(crate) struct Finished {
    command: String,
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Finished {
    /// Insists on exit status 0.
    #[track_caller]
    pub(crate) fn ok(self) -> Finished {
        assert!(self.status.success(), "{self}");
        self
    }

    /// Insists on a failure that is the command's own: not a signal, not the time limit.
    #[track_caller]
    pub(crate) fn fails(self) -> Finished {
        assert!(self.status.code().is_some_and(|code| code != 0), "should have failed: {self}");
        self
    }
}

impl std::fmt::Display for Finished {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (out, err) = (tail(&self.stdout), tail(&self.stderr));
        write!(f, "{}\n{}\n--- stdout\n{out}\n--- stderr\n{err}", self.command, self.status)
    }
}

fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(60)..].join("\n")
}

/// Runs a shell script to its end.
#[track_caller]
pub(crate) fn sh(script: &str, limit: Duration) -> Finished {
    run(&["sh", "-c", script], limit)
}

/// Runs `argv` to its end; coreutils' `timeout` ends it, and its children, at `limit`.
#[track_caller]
pub(crate) fn run(argv: &[&str], limit: Duration) -> Finished {
    let command = argv.join(" ");
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let mut wrapped = Command::new("timeout");
    wrapped.arg("--kill-after=5").arg(limit.as_secs().to_string()).args(argv);
    let done = wrapped.env("PATH", path).stdin(Stdio::null()).output().expect("coreutils' timeout");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let done =
        Finished { command, status: done.status, stdout: text(done.stdout), stderr: text(done.stderr) };
    let late = done.status.code() == Some(124) || done.status.signal() == Some(libc::SIGKILL);
    assert!(!late, "not within {limit:?}: {done}");
    assert!(!matches!(done.status.code(), Some(125..=127)), "cannot be run: {done}");
    done
}
