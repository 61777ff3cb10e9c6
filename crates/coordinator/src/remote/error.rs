//! Why the coordinator at another node is of no use right now.

/// Why a registry at another node cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// A setting that cannot work.
    #[error("coordinator address `{address}` {problem}; use host:port")]
    Address {
        /// The address.
        address: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Nobody accepts connections, or the connection broke.
    #[error(
        "the coordinator at {address} cannot be reached: {problem}; start its node or correct the address"
    )]
    Unreachable {
        /// The address.
        address: String,
        /// What the system said.
        problem: String,
    },
    /// One of the two does not believe the other.
    #[error("the coordinator at {address} and this node do not believe each other: {problem}")]
    Unproven {
        /// The address.
        address: String,
        /// Which, why, and what to do.
        problem: String,
    },
    /// Who answers is not the keeper that made a token.
    #[error(
        "{address} does not prove to be {keeper}, of whose authority the token is: {problem}; nothing was said to it. Correct \
         the keeper's name or address, or have a token made on the keeper's machine, with `cards cluster token`; its daemon \
         must run, and have been started since `cards cluster init`"
    )]
    Stranger {
        /// The address.
        address: String,
        /// Who it should be.
        keeper: String,
        /// What happened instead.
        problem: String,
    },
    /// It accepts connections and does not answer.
    #[error("the coordinator at {address} did not answer within {timeout_ms} ms; see to its disk and load")]
    Slow {
        /// The address.
        address: String,
        /// How long it had, in milliseconds.
        timeout_ms: u128,
    },
    /// The other end is no coordinator, or a newer kind of it.
    #[error(
        "{address} does not answer as a coordinator does: {problem}; something else listens there, or another \
         version: correct the address"
    )]
    Protocol {
        /// The address.
        address: String,
        /// What is other.
        problem: String,
    },
    /// It is another cluster's.
    #[error(
        "{address} is the coordinator of cluster `{cluster}`, not of `{wanted}`; correct the address or the \
         cluster's name"
    )]
    WrongCluster {
        /// The address.
        address: String,
        /// The cluster that was asked for.
        wanted: String,
        /// The cluster that answered.
        cluster: String,
    },
    /// It keeps another registry.
    #[error(
        "{address} keeps another registry than the one that this node is a member of, for a cluster of the same name. Remove nothing \
         there: it may be the only one. If the cluster has gone on with that one (`cards cluster recover`) and has forgotten this node, stop \
         this daemon, move `identity` in its state_dir away, and join with a token (`cards cluster token` there). If the cluster \
         has not, and that node has lost its state_dir and begun anew, its own `cards status` says what to do there"
    )]
    OtherRegistry {
        /// The address.
        address: String,
    },
    /// Nobody who was asked leads the registry.
    #[error(
        "the registry has no leader: more than half of the nodes that keep it have to be up and to reach each other; start them. \
         {address} says: {said}"
    )]
    NoLeader {
        /// Who was asked.
        address: String,
        /// What it says.
        said: String,
    },
    /// It cannot use its registry file.
    #[error("the coordinator at {address} says: {message}")]
    File {
        /// The address.
        address: String,
        /// Its words, with what to do there.
        message: String,
    },
    /// A change that no registry would take.
    #[error("the change has {bytes} bytes, the coordinator takes {bytes_max}; shorten what it carries")]
    TooLong {
        /// Length of the change as JSON, in bytes.
        bytes: usize,
        /// Longest that is taken, in bytes.
        bytes_max: usize,
    },
    /// The change may or may not have been made.
    #[error(
        "the coordinator at {address} did not say whether it made the change; ask again, which is safe. {cause}"
    )]
    OutcomeUnknown {
        /// The address.
        address: String,
        /// What came instead of an answer at last.
        cause: Box<RemoteError>,
    },
}

impl RemoteError {
    /// Who was asked; empty if nobody was.
    pub(crate) fn address(&self) -> String {
        match self {
            Self::Address { address, .. }
            | Self::Unreachable { address, .. }
            | Self::Unproven { address, .. }
            | Self::Stranger { address, .. }
            | Self::Slow { address, .. }
            | Self::Protocol { address, .. }
            | Self::WrongCluster { address, .. }
            | Self::OtherRegistry { address }
            | Self::NoLeader { address, .. }
            | Self::File { address, .. }
            | Self::OutcomeUnknown { address, .. } => address.clone(),
            Self::TooLong { .. } => String::new(),
        }
    }
}
