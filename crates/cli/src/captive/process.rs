//! One daemon of a captive cluster.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use cards_admin::{Client, ClientError, Status};
use cards_config::Config;

use super::CaptiveError;
use crate::signals::{self, Signals, with_parent};

/// How much of a log is shown, in bytes.
const LOG_TAIL: u64 = 2048;
/// How long a daemon may take to answer about its state.
const ADMIN_TIMEOUT: Duration = Duration::from_secs(10);

/// One daemon, with its files.
#[derive(Debug)]
pub(crate) struct Daemon {
    pub(crate) config: Config,
    log: PathBuf,
    child: Child,
    ended: Option<ExitStatus>,
}

impl Daemon {
    /// Writes node `number`'s files into `dir` and starts it.
    pub(super) fn start(
        config: Config,
        number: usize,
        dir: &Path,
        verbose: u8,
    ) -> Result<Self, CaptiveError> {
        let path = |suffix: &str| dir.join(format!("node{number}{suffix}"));
        let write = |path: PathBuf, text: &str| {
            std::fs::write(&path, text).map_err(|source| CaptiveError::Directory { path, source })
        };
        let runtime_dir = config.runtime_dir.clone();
        std::fs::create_dir_all(&runtime_dir)
            .map_err(|source| CaptiveError::Directory { path: runtime_dir, source })?;
        write(path(".toml"), &config.to_toml())?;
        let log = path(".log");
        let log_file = File::options().create(true).append(true).open(&log);
        let log_file = log_file.map_err(|source| CaptiveError::Directory { path: log.clone(), source })?;
        let spawn = |source| CaptiveError::Spawn { what: format!("node {}", config.node), source };
        let mut command = Command::new(std::env::current_exe().map_err(spawn)?);
        command
            .args(["serve", "--config"])
            .arg(path(".toml"))
            .args(std::iter::repeat_n("-v", verbose.into()))
            .stdin(Stdio::null())
            .stdout(log_file.try_clone().map_err(spawn)?)
            .stderr(log_file)
            // Ctrl-C goes to the command only; the daemons are ended when it has.
            .process_group(0);
        let child = with_parent(&mut command, libc::SIGKILL).spawn().map_err(spawn)?;
        write(path(".pid"), &format!("{}\n", child.id()))?;
        Ok(Self { config, log, child, ended: None })
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it has.
    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().ok().flatten();
        }
        self.ended
    }

    /// What it says about itself. Asks whoever answers on its socket: the command may have restarted it.
    pub(crate) fn status(&self) -> Result<Status, ClientError> {
        self.client()?.status()
    }

    /// A connection to its admin socket.
    pub(super) fn client(&self) -> Result<Client, ClientError> {
        Client::connect_within(&self.config.admin_socket(), ADMIN_TIMEOUT)
    }

    /// The end of its log.
    pub(crate) fn log_tail(&self) -> String {
        let mut text = Vec::new();
        let read = File::open(&self.log).and_then(|mut file| {
            let end = file.seek(SeekFrom::End(0))?;
            file.seek(SeekFrom::Start(end.saturating_sub(LOG_TAIL)))?;
            file.take(LOG_TAIL).read_to_end(&mut text)
        });
        match read {
            Ok(_) => String::from_utf8_lossy(&text).trim_end().lines().map(|l| format!("  {l}\n")).collect(),
            Err(e) => format!("  {}: {e}\n", self.log.display()),
        }
    }

    /// Asks it to drain and end; also one that the command started in its place.
    pub(super) fn terminate(&mut self) {
        if self.ended().is_none() {
            signals::send(self.child.id(), libc::SIGTERM);
        } else if let Ok(mut successor) = self.client() {
            // One that does not listen to this is the command's to end.
            let _ = successor.shutdown();
        }
    }

    /// Kills it, and waits for its end.
    pub(super) fn kill(&mut self) {
        if self.ended().is_none() {
            // It can only fail for a process that has ended.
            let _ = self.child.kill();
            self.ended = self.child.wait().ok();
        }
    }

    /// Waits for its end until `deadline`, then kills it.
    pub(super) fn reap(&mut self, deadline: Instant, signals: &Signals) {
        while self.ended().is_none() && Instant::now() < deadline {
            signals.wait(Duration::from_millis(50));
        }
        self.kill();
    }
}
