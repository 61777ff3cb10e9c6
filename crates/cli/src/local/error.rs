//! Why a volume does not become a device or a mount of this machine, or does not cease to be one.

use std::path::{Path, PathBuf};

use cards_admin::{ClientError, RefusalKind};
use cards_config::Mode;
use cards_device::DirectoryError;

use crate::error::Failure;
use crate::signals;

/// What was asked for was not done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LocalError {
    #[error(transparent)]
    Daemon(#[from] ClientError),
    /// What is kept of it here is not to be trusted, or cannot be kept.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// The name of the volume cannot be used.
    #[error("volume {volume:?}: {reason}")]
    Name { volume: String, reason: &'static str },
    /// The user may not.
    #[error("{what} needs root: run it with sudo{instead}")]
    NotRoot { what: &'static str, instead: &'static str },
    /// The kernel's side is missing.
    #[error("{path}: {source}; {remedy}")]
    Missing { path: &'static str, source: std::io::Error, remedy: &'static str },
    /// A file or device of the volume's.
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: std::io::Error },
    /// Somebody else is at it.
    #[error("volume {volume:?}: process {pid} attaches, detaches or mounts it just now; wait for its end")]
    TurnOfAnother { volume: String, pid: String },
    /// A signal asked this program to end.
    #[error("interrupted; everything is as it was before")]
    Interrupted,
    /// The same, while the daemon had not answered.
    #[error(
        "interrupted before the daemon has answered: it may make the card of volume {volume:?} yet; `cards volume detach {volume}` \
         gives that up when it does"
    )]
    Unanswered { volume: String },
    /// The server has its lock and says nothing yet.
    #[error("volume {volume:?}: a process is starting or ending that serves it here; try again, or see {}", log.display())]
    Starting { volume: String, log: PathBuf },
    /// The server is gone, and what it served is in use.
    #[error(
        "volume {volume:?}: the process that served it here was killed, and what it served is still {users}; \
         end that, or run `cards detach --lazy {volume}`"
    )]
    DeadInUse { volume: String, users: String },
    /// The card is another one than was asked for.
    #[error("volume {volume:?} is attached here in mode {has}, and {why} needs {wants}; {remedy}", has = has.name(), wants = wants.name())]
    OtherMode { volume: String, has: Mode, why: String, wants: Mode, remedy: String },
    /// The card is there, and the disk node has refused it.
    #[error("volume {volume:?}: {reason}")]
    CardRefused { volume: String, reason: String },
    /// The device is there, but as a file.
    #[error("volume {volume:?} is attached as the file {} only; run `cards detach {volume}` first, then ask for the block device", path.display())]
    OnlyFile { volume: String, path: PathBuf },
    /// The device is there, but as a loop device.
    #[error("volume {volume:?} is attached as the loop device {}; run `cards detach {volume}` first, then ask for the ublk disk", path.display())]
    OnlyLoop { volume: String, path: PathBuf },
    /// The server cannot be started.
    #[error("cannot start `cards device {volume}`: {source}")]
    Start { volume: String, source: std::io::Error },
    /// The server has ended before it served.
    #[error("{said}")]
    Ended { said: String },
    /// The server does not serve in time.
    #[error("volume {volume:?}: nothing serves it after {seconds} s; see {}", log.display())]
    Silent { volume: String, seconds: u64, log: PathBuf },
    /// The volume is not here.
    #[error(
        "volume {volume:?} is no device here; a card that `cards volume attach` or node.toml has made is detached \
         by `cards volume detach {volume}`"
    )]
    NotHere { volume: String },
    /// Something is using it.
    #[error("volume {volume:?} is {users}; end that first, or see what `cards detach --lazy` does")]
    InUse { volume: String, users: String },
    /// The process of the record is another one.
    #[error("{}: process {pid} does not serve the volume; remove the file if nothing does", record.display())]
    NotTheServer { record: PathBuf, pid: u32 },
    /// The server cannot be asked to end.
    #[error("process {pid}: {source}; run it as the user of that process, or root")]
    Signal { pid: u32, source: std::io::Error },
    /// The server does not end.
    #[error("volume {volume:?}: process {pid} does not end: {said}")]
    GoesOn { volume: String, pid: u32, said: String },
    /// The server does not end, and cannot before its daemon is back.
    #[error(
        "volume {volume:?}: process {pid}, which serves it here, does not end: its daemon does not run, and reads or writes that are under way wait for \
         it; start the daemon (`systemctl start cards`) and run this again"
    )]
    Stuck { volume: String, pid: u32 },
    /// The first bytes cannot be read.
    #[error("volume {volume:?} cannot be read: {reason}")]
    Unreadable { volume: String, reason: String },
    /// The daemon exports nothing.
    #[error(
        "this daemon has no NBD socket, and the volume is read through it; give node.toml [nbd] unix = \"/run/cards/nbd.sock\" and restart it"
    )]
    NoNbd,
}

impl Failure for LocalError {
    fn exit_code(&self) -> u8 {
        if matches!(self, Self::Interrupted | Self::Unanswered { .. }) { signals::interrupted() } else { 1 }
    }
}

impl LocalError {
    /// Another node's card is in the way.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self, Self::Daemon(ClientError::Refused(refusal)) if refusal.kind == RefusalKind::Busy)
    }

    pub(crate) fn file(path: &Path, source: std::io::Error) -> Self {
        Self::File { path: path.into(), source }
    }
}
