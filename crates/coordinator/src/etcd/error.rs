//! Why etcd is of no use right now.

use std::path::PathBuf;

use crate::record::Damage;

/// Why a registry in etcd cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum EtcdError {
    /// A setting that cannot work.
    #[error("etcd endpoint `{endpoint}` {problem}; use http://host:port or https://host:port")]
    Endpoint {
        /// The endpoint.
        endpoint: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A certificate or key that cannot be used.
    #[error("{} {problem}; etcd over https needs PEM files", file.display())]
    Certificate {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// No member accepts connections.
    #[error(
        "no etcd member can be reached; the last one tried, {endpoint}, says: {problem}; start etcd or correct the endpoints"
    )]
    Unreachable {
        /// The last endpoint tried.
        endpoint: String,
        /// What it came to.
        problem: String,
    },
    /// A member accepts connections and does not answer.
    #[error(
        "etcd member {endpoint} did not answer within {timeout_ms} ms and no other did; see to its disk and load"
    )]
    Slow {
        /// The endpoint.
        endpoint: String,
        /// How long it had, in milliseconds.
        timeout_ms: u128,
    },
    /// The members do not agree on a leader.
    #[error(
        "etcd member {endpoint} says `{message}`; more than half of the members must run and reach each other"
    )]
    NoQuorum {
        /// The endpoint.
        endpoint: String,
        /// Its words.
        message: String,
    },
    /// The database is full.
    #[error(
        "etcd is full (alarm NOSPACE at {endpoint}); compact and defragment it, then `etcdctl alarm disarm`"
    )]
    Full {
        /// The endpoint.
        endpoint: String,
    },
    /// A lease has ended that was to be used.
    #[error("etcd member {endpoint} says `{message}`; try again")]
    NoLease {
        /// The endpoint.
        endpoint: String,
        /// Its words.
        message: String,
    },
    /// User or password are wrong or missing.
    #[error("etcd does not let {user} in: `{message}`; correct user and password")]
    Login {
        /// The user, or that there is none.
        user: String,
        /// Etcd's words.
        message: String,
    },
    /// Etcd takes no named certificate and a user at once.
    #[error(
        "etcd member {endpoint} refuses a client certificate with a CommonName while it asks for users; use one \
         without (only an O, say)"
    )]
    CommonName {
        /// The endpoint.
        endpoint: String,
    },
    /// The user may not do this.
    #[error(
        "etcd does not let {user} do this: `{message}`; grant its role read and write on all keys of the prefix"
    )]
    Denied {
        /// The user, or that there is none.
        user: String,
        /// Etcd's words.
        message: String,
    },
    /// The other end is no etcd, or a newer kind of it.
    #[error("{endpoint} does not answer as etcd 3.4 or later does: {problem}")]
    Protocol {
        /// The endpoint.
        endpoint: String,
        /// What is other.
        problem: String,
    },
    /// There is no registry of this name.
    #[error("etcd has no registry under `{key}`; correct the cluster's name or the prefix, or create it")]
    NoRegistry {
        /// The key of its head.
        key: String,
    },
    /// There is one already.
    #[error("etcd has a registry under `{key}` already; open it, or give the new cluster another name")]
    Exists {
        /// The key of its head.
        key: String,
    },
    /// A record cannot be trusted.
    #[error("the registry in etcd under `{prefix}` is damaged: {damage}; restore it, nothing is guessed")]
    Damaged {
        /// What its keys begin with.
        prefix: String,
        /// The record.
        damage: Damage,
    },
    /// Others changed the registry all the time.
    #[error("`{key}` in etcd was changed by others as fast as this node could read it; try again")]
    Contended {
        /// The key of the head.
        key: String,
    },
    /// Etcd may or may not have made the change.
    #[error("etcd did not say whether it made the change; ask again, which is safe. {cause}")]
    OutcomeUnknown {
        /// Why it did not say.
        cause: Box<EtcdError>,
    },
}

impl EtcdError {
    /// Whether what was asked may have been done although this came instead of an answer.
    pub(super) const fn may_have_happened(&self) -> bool {
        matches!(
            self,
            Self::Slow { .. } | Self::NoQuorum { .. } | Self::Unreachable { .. } | Self::Protocol { .. }
        )
    }
}
