//! Why a device does not start, or cannot end.

use std::io;
use std::path::PathBuf;

use crate::directory::DirectoryError;
use crate::fuse::MountError;
use crate::session::SessionError;

/// A device cannot do what it is asked.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// The name cannot be that of a file.
    #[error("{0:?} is no name of a volume")]
    Name(String),
    /// What devices keep on this machine is not to be trusted, or cannot be kept.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// The daemon does not serve the volume.
    #[error("volume {volume}: {source}")]
    Session {
        /// The volume.
        volume: String,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Another device serves it here.
    #[error("volume {volume} has a device here already, of process {pid}, and gets none at {}; use that one, or `cards detach {volume}`", path.display())]
    Taken {
        /// The volume.
        volume: String,
        /// The other process; empty if it has not said.
        pid: String,
        /// Its file.
        path: PathBuf,
    },
    /// Something else is mounted where the file is to be.
    #[error("{}: something is mounted there already; unmount it, or name another --path", path.display())]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// A device that was killed left a loop device, which is still in use.
    #[error(
        "{device} of an earlier device is still in use and gives only errors; unmount it, then try again"
    )]
    StaleLoop {
        /// The loop device.
        device: PathBuf,
    },
    /// The volume cannot be mounted.
    #[error("{}: {source}", path.display())]
    Mount {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// There is no loop device for it.
    #[error("loop device: {source}; {remedy}")]
    Loop {
        /// Why.
        source: io::Error,
        /// What to do.
        remedy: &'static str,
    },
    /// There is no disk of the ublk driver for it.
    #[error("ublk: {doing}: {source}; {remedy}")]
    Ublk {
        /// What failed.
        doing: String,
        /// Why.
        source: io::Error,
        /// What to do.
        remedy: &'static str,
    },
    /// A disk of the ublk driver is mounted or a part of another device.
    #[error("{} is in use (mounted, or part of another device); end that first", path.display())]
    UblkInUse {
        /// The disk.
        path: PathBuf,
    },
    /// Somebody uses it.
    #[error("{} is in use ({what}); end the use, or end the device lazily with SIGHUP", path.display())]
    InUse {
        /// The file or the loop device.
        path: PathBuf,
        /// By what, as far as known.
        what: String,
    },
    /// A file or directory beside the volume's file.
    #[error("{}: {source}", path.display())]
    Io {
        /// It.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The system has no thread, descriptor or the like left.
    #[error("cannot serve: {0}")]
    System(io::Error),
}

impl DeviceError {
    pub(crate) fn session(volume: &str, source: SessionError) -> Self {
        Self::Session { volume: volume.into(), source: Box::new(source) }
    }

    pub(crate) fn mount(path: PathBuf, source: MountError) -> Self {
        Self::Mount { path, source: Box::new(source) }
    }
}
