//! Why a verb failed, as printed: the thing, the reason and the remedy.

use std::error::Error as StdError;
use std::path::PathBuf;

use cards_admin::ClientError;
use serde::Serialize;
use serde_json::Value;

/// A failure that a verb, or what it uses, words itself.
pub(crate) trait Failure: StdError + Send + Sync + 'static {
    /// The exit status: 2 if the command line asks for something that cannot be, else 1.
    fn exit_code(&self) -> u8 {
        1
    }

    /// Its kind for programs, if that says more than the exit status.
    fn kind(&self) -> Option<Value> {
        None
    }
}

/// A verb failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// In the words of the verb, or of what it uses.
    #[error("{0}")]
    Verb(Box<dyn Failure>),
    /// The command line asks for something that cannot be.
    #[error("{problem}")]
    Usage { problem: String },
    /// The daemon would not start.
    #[error("{}: refused: the start: {source}", path.display())]
    Start { path: PathBuf, source: Box<cards_node::ServeError> },
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

impl<F: Failure> From<F> for Error {
    fn from(failure: F) -> Self {
        Self::Verb(Box::new(failure))
    }
}

impl Failure for cards_config::ConfigError {}
impl Failure for cards_coordinator::AdmitError {}
impl Failure for cards_coordinator::RecoverError {}
impl Failure for cards_coordinator::StoreError {}
impl Failure for cards_coordinator::TokensError {}
impl Failure for cards_device::DeviceError {}
impl Failure for cards_node::ServeError {}
impl Failure for cards_tls::Error {}

impl Failure for ClientError {
    fn kind(&self) -> Option<Value> {
        match self {
            Self::Refused(refusal) => serde_json::to_value(refusal.kind).ok(),
            _ => None,
        }
    }
}

impl Failure for cards_client::Error {
    fn kind(&self) -> Option<Value> {
        match self {
            Self::Refused { kind, .. } => serde_json::to_value(kind).ok(),
            _ => None,
        }
    }
}

/// What is printed of an error with `--json`, as the HTTP API has it.
#[derive(Serialize)]
pub(crate) struct Failed {
    error: Reason,
}

#[derive(Serialize)]
struct Reason {
    kind: Value,
    message: String,
}

impl Failed {
    /// The command line is not understood: of what people read, the first paragraph.
    pub(crate) fn usage(text: &str) -> Self {
        let message = text.trim_start_matches("error: ").split("\n\n").next().unwrap_or_default();
        Self { error: Reason { kind: "usage".into(), message: message.into() } }
    }
}

impl From<&Error> for Failed {
    fn from(error: &Error) -> Self {
        Self { error: Reason { kind: error.kind(), message: error.to_string() } }
    }
}

impl Error {
    /// For programs: the daemon's, or `usage` if the command line asks for something that cannot be, else `failed`.
    fn kind(&self) -> Value {
        let of_verb = match self {
            Self::Verb(failure) => failure.kind(),
            _ => None,
        };
        of_verb.unwrap_or_else(|| if self.exit_code() == 2 { "usage" } else { "failed" }.into())
    }

    /// The exit status.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Verb(failure) => failure.exit_code(),
            Self::Usage { .. } => 2,
            _ => 1,
        }
    }
}
