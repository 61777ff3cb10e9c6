//! Why something cannot be had.

use crate::body::ErrorKind;

/// A request was not carried out. Each message names the thing, the value and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nobody listens, or the connection broke before an answer came. What was asked for may have been done.
    #[error(
        "{address}: {reason}; is the daemon running there? (`systemctl start cards`, or `cards serve --config /etc/cards/node.toml`; its API is api.sock in runtime_dir)"
    )]
    Unreachable {
        /// The socket or address.
        address: String,
        /// Why.
        reason: String,
    },
    /// Who answers is not who was called, or no node.
    #[error("{address}: TLS: {reason}")]
    Untrusted {
        /// The address.
        address: String,
        /// Why, and what to do.
        reason: String,
    },
    /// Whom to believe cannot be read.
    #[error("{reason}; name a file like identity/authority.pem of a node")]
    Trust {
        /// Which file, and why.
        reason: String,
    },
    /// The answer is none.
    #[error("{address}: the answer is not understood ({reason}); are daemon and client of the same version?")]
    BadAnswer {
        /// The socket or address.
        address: String,
        /// Why.
        reason: String,
    },
    /// The daemon refused.
    #[error("{message}")]
    Refused {
        /// For programs.
        kind: ErrorKind,
        /// For people.
        message: String,
    },
}

impl Error {
    /// The kind of a refusal, if it is one.
    #[must_use]
    pub const fn kind(&self) -> Option<ErrorKind> {
        match self {
            Self::Refused { kind, .. } => Some(*kind),
            Self::Unreachable { .. }
            | Self::Untrusted { .. }
            | Self::Trust { .. }
            | Self::BadAnswer { .. } => None,
        }
    }
}
