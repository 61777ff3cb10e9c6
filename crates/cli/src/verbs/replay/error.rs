//! Why a replay failed.

use std::path::PathBuf;

use cards_wire::nbd::client::{HandshakeError, ReplyError, SendError};

use crate::error::Failure;
use crate::signals;

/// A replay failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReplayError {
    /// There is nothing to do.
    #[error("{trace}: no request reads, writes or trims anything: name another trace, or a higher --limit")]
    Nothing { trace: String },
    /// Counts would differ by when each of the two chooses.
    #[error(
        "--policy auto with --compare: daemons choose every few seconds, the simulator at once, and counts would differ; \
         name the policy that is meant, such as \"{}\", or use --timing trace",
        cards_policies::policy::START
    )]
    Chosen,
    /// The disk would have more blocks than there are numbers for.
    #[error(
        "{trace}: its volumes have {bytes} bytes together, too many for blocks of {block}: give a larger --block"
    )]
    TooLarge { trace: String, bytes: u64, block: u64 },
    /// A node would have more clients than it serves.
    #[error(
        "{trace}: node {node} has more than {max} processes, and each needs a connection: use --timing serial, or a part of the trace with --limit"
    )]
    Processes { trace: String, node: u32, max: usize },
    /// A process of the trace is on two nodes.
    #[error(
        "{trace}: process {process} is on node {first} and on node {second}: deal the trace out with --spread"
    )]
    TwoNodes { trace: String, process: u32, first: u32, second: u32 },
    /// The NBD connection broke.
    #[error("{}: {source}; see the daemon's log with `cards dev -v`", path.display())]
    Socket { path: PathBuf, source: std::io::Error },
    /// The NBD handshake failed.
    #[error("{}: {source}", path.display())]
    Handshake { path: PathBuf, source: HandshakeError },
    /// The NBD replies make no sense.
    #[error("{}: {source}", path.display())]
    Reply { path: PathBuf, source: ReplyError },
    /// The request cannot be sent.
    #[error("{}: {source}", path.display())]
    Request { path: PathBuf, source: SendError },
    /// The server hung up.
    #[error("{}: the daemon closed the connection", path.display())]
    Closed { path: PathBuf },
    /// A request failed.
    #[error("{}: {what} of {length} bytes at {offset}: {reason}", path.display())]
    Failed { path: PathBuf, what: &'static str, offset: u64, length: u32, reason: String },
    /// The cluster goes on working.
    #[error(
        "the cluster is not at rest after {seconds} s ({sent} messages sent, {received} received, {busy} nodes busy): a message was lost, or a node hangs"
    )]
    Restless { seconds: u64, sent: u64, received: u64, busy: usize },
    /// A thread cannot be had.
    #[error("cannot start a thread for a process of the trace: {0}; use --timing serial")]
    Thread(std::io::Error),
    /// A signal came first.
    #[error("interrupted")]
    Interrupted,
}

impl Failure for ReplayError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Nothing { .. }
            | Self::Chosen
            | Self::TooLarge { .. }
            | Self::Processes { .. }
            | Self::TwoNodes { .. } => 2,
            Self::Interrupted => signals::interrupted(),
            _ => 1,
        }
    }
}
