//! Why a verb of `cards lock` failed.

use std::path::PathBuf;

use crate::error::Failure;

/// See the module's head.
#[derive(Debug, thiserror::Error)]
pub(super) enum LockError {
    /// The lock was held, and is not any more.
    #[error(
        "the lock on {volume} was lost: the node was silent for too long; what was done since may be undone"
    )]
    Lost { volume: String },
    #[error("{command}: {source}; name a program that can be run behind --")]
    Command { command: String, source: std::io::Error },
    #[error("token_file: {}: {source}; name a file that can be read", path.display())]
    TokenFile { path: PathBuf, source: std::io::Error },
    #[error(
        "{address} is not of this machine, and the token is not sent in the clear: give --authority FILE, the \
         identity/authority.pem of a node; or --in-clear, where nobody else is"
    )]
    InClear { address: String },
}

impl Failure for LockError {}
