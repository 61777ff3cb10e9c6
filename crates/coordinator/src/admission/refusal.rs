//! Why a machine does not become a node.

use serde::{Deserialize, Serialize};

use super::TokenId;

/// Where a machine keeps its key while it joins, in its state_dir.
pub const KEY_FILE: &str = "joining.key";

/// What the keeper says instead of signing. Nothing has changed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "refusal", rename_all = "kebab-case")]
pub enum NotAdmitted {
    /// No such token, or another secret.
    #[error(
        "the keeper knows no token {token} with this secret: it was revoked, or has long expired; have a new one made there \
         with `cards cluster token`"
    )]
    UnknownToken {
        /// The token.
        token: TokenId,
    },
    /// It is too late.
    #[error(
        "token {token} has expired, {ago} s ago; have a new one made with `cards cluster token`, with a longer --ttl if that \
         was too short"
    )]
    Expired {
        /// The token.
        token: TokenId,
        /// How long ago, in seconds.
        ago: u64,
    },
    /// Others have come before.
    #[error(
        "token {token} is used up: as many machines as it was for have joined with it; have a new one made with `cards \
         cluster token`, with --uses for several"
    )]
    UsedUp {
        /// The token.
        token: TokenId,
    },
    /// It is for one that comes again.
    #[error(
        "token {token} is for node `{wanted}` to come again, not for `{node}`; join with `--node {wanted}`, or have another \
         one made with `cards cluster token`"
    )]
    OtherNode {
        /// The token.
        token: TokenId,
        /// Whom it is for.
        wanted: String,
        /// Who came.
        node: String,
    },
    /// Somebody has the name, and lives.
    #[error(
        "the name `{node}` is in use by the live member at {address}; give this node another name with --node. If it is the \
         same machine, stop its daemon and wait until its lease has ended"
    )]
    NameInUse {
        /// The name.
        node: String,
        /// Where the member that has it listens.
        address: String,
    },
    /// It is the keeper's.
    #[error("the name `{node}` is the keeper's own; give this node another one with --node")]
    KeepersName {
        /// The name.
        node: String,
    },
    /// Somebody had the name.
    #[error(
        "the name `{node}` is that of a member that has {state}; give this node another name with --node. If it is that member \
         and has lost its identity, have a token made with `cards cluster token --rejoin {node}`"
    )]
    NameTaken {
        /// The name.
        node: String,
        /// How the member has ended.
        state: String,
    },
    /// Another machine was certified by the name.
    #[error(
        "the name `{node}` was given to another machine, whose certificate is good for {days} more days; give this node another \
         name with --node. If that machine is not to have it any more, run `cards forget {node}`"
    )]
    NameCertified {
        /// The name.
        node: String,
        /// How long that machine's certificate is good.
        days: u64,
    },
    /// A key that must not be certified, for it is known already.
    #[error(
        "the key is that of {name} already, or was revoked; remove {KEY_FILE} in the state_dir, and join again"
    )]
    KeyKnown {
        /// As the certificate says it.
        name: String,
    },
    /// It is no name.
    #[error("{problem}")]
    BadName {
        /// What is wrong with it.
        problem: String,
    },
}
