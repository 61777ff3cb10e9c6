//! What can go wrong, by who has to act: the asker, the keeper of the file, of etcd, of the network.

use std::path::PathBuf;

use crate::arbiter::StoreError;
use crate::etcd::error::EtcdError;
use crate::record::Damage;
use crate::refusal::Refusal;
use crate::remote::error::RemoteError;

/// Why the coordinator gave no answer but this.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It refused; nothing has changed.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The registry file cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// The store of this node's part of the registry cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Etcd cannot be used.
    #[error(transparent)]
    Etcd(#[from] EtcdError),
    /// The coordinator at another node cannot be used.
    #[error(transparent)]
    Remote(#[from] RemoteError),
}

impl Error {
    /// The refusal, if it is one.
    #[must_use]
    pub const fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            Self::File(_) | Self::Store(_) | Self::Etcd(_) | Self::Remote(_) => None,
        }
    }
}

/// Why a registry file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// There is none.
    #[error("there is no registry at {}; bring it back", file.display())]
    Missing {
        /// Where it was looked for.
        file: PathBuf,
    },
    /// Another process has it.
    #[error("another process has the registry {} open; stop it first", file.display())]
    InUse {
        /// The file.
        file: PathBuf,
    },
    /// It is cut short, overwritten or none of ours.
    #[error("the registry {} is damaged: {problem}; bring back a copy, nothing is guessed", file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// One record is not as it was written, or contradicts another.
    #[error("the registry {} is damaged: {damage}; bring back a copy, nothing is guessed", file.display())]
    Record {
        /// The file.
        file: PathBuf,
        /// The record.
        damage: Damage,
    },
    /// The disk does not do as asked.
    #[error("the registry {} cannot be read or written: {problem}; see to its disk, then restart", file.display())]
    Storage {
        /// The file.
        file: PathBuf,
        /// What the disk or the system said.
        problem: String,
    },
}
