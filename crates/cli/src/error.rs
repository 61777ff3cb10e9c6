//! Why a verb failed, as printed: the thing, the reason and the remedy.

use std::path::PathBuf;

use cards_admin::ClientError;
use cards_config::ConfigError;

use crate::advise::AdviseError;
use crate::demo::DemoError;
use crate::dev::DevError;
use crate::disk::DiskError;
use crate::layout::LayoutError;
use crate::paper::PaperError;
use crate::profile::ProfileError;
use crate::replay::ReplayError;
use crate::sim::SimError;
use crate::warm::WarmError;

/// A verb failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Admin(#[from] ClientError),
    #[error(transparent)]
    Local(#[from] crate::local::LocalError),
    #[error(transparent)]
    Mount(#[from] crate::mount::MountError),
    #[error(transparent)]
    Serve(#[from] cards_node::ServeError),
    /// The daemon would not start.
    #[error("{}: refused: the start: {source}", path.display())]
    Start { path: PathBuf, source: Box<cards_node::ServeError> },
    #[error(transparent)]
    Identity(#[from] cards_tls::Error),
    #[error(transparent)]
    Admit(#[from] cards_coordinator::AdmitError),
    #[error(transparent)]
    Tokens(#[from] cards_coordinator::TokensError),
    #[error(transparent)]
    Advise(#[from] AdviseError),
    #[error(transparent)]
    Profile(#[from] ProfileError),
    #[error(transparent)]
    Warm(#[from] WarmError),
    #[error(transparent)]
    Device(#[from] cards_device::DeviceError),
    #[error(transparent)]
    Dev(#[from] DevError),
    #[error(transparent)]
    Disk(#[from] DiskError),
    #[error(transparent)]
    Layout(#[from] LayoutError),
    #[error(transparent)]
    Demo(#[from] DemoError),
    #[error(transparent)]
    Sim(#[from] SimError),
    #[error(transparent)]
    Paper(#[from] PaperError),
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// The command line asks for something that cannot be.
    #[error("{problem}")]
    Usage { problem: String },
    /// A file cannot be written.
    #[error("{}: {source}; name a file in a directory that can be written", path.display())]
    Write { path: PathBuf, source: std::io::Error },
    /// The log filter cannot be understood.
    #[error("CARDS_LOG={value:?}: {reason}; write a level such as debug, or target=level pairs")]
    LogFilter { value: String, reason: String },
    /// The log has no thread.
    #[error("no thread for the log: {0}; raise the limit of threads (ulimit -u, TasksMax)")]
    LogThread(std::io::Error),
    /// There is no event loop to talk to another node in.
    #[error("no event loop: {0}; raise the limit of open files (ulimit -n, LimitNOFILE)")]
    EventLoop(std::io::Error),
    /// Standard output does not take what is written.
    #[error("standard output: {0}; is the disk it goes to full?")]
    Output(std::io::Error),
    /// A man page cannot be written.
    #[error("{}: {source}; name a directory that can be written with --out", path.display())]
    Man { path: PathBuf, source: std::io::Error },
    /// The measuring program is missing or cannot be started.
    #[error("{}: {source}; build it with `cargo build --release -p cards-bench`", path.display())]
    Bench { path: PathBuf, source: std::io::Error },
}

impl Error {
    /// For programs: the daemon's, or `usage` if the command line asks for something that cannot be, else `failed`.
    pub(crate) fn kind(&self) -> serde_json::Value {
        match self {
            Self::Admin(ClientError::Refused(refusal)) => {
                serde_json::to_value(refusal.kind).unwrap_or_default()
            }
            _ if self.exit_code() == 2 => "usage".into(),
            _ => "failed".into(),
        }
    }

    /// 2 if the command line asks for something that cannot be, else 1.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Sim(error) => error.exit_code(),
            Self::Replay(error) => error.exit_code(),
            Self::Usage { .. }
            | Self::Dev(DevError::Options(_) | DevError::Uri(_) | DevError::Exclusive { .. }) => 2,
            _ => 1,
        }
    }
}
