//! How to reach a coordinator.

use std::time::Duration;

use cards_tls::{Identity, Name};

use crate::ids::{Epoch, History};
use crate::kept::Route;

/// Where the registry is looked for first, and how long to wait for it.
#[derive(Clone, Debug)]
pub struct RemoteConfig {
    /// Where it listens: `host:port`, or `[address]:port` for an IPv6 address.
    pub address: String,
    /// Name of the cluster.
    pub cluster: String,
    /// What this node proves itself with, and the node that keeps the registry. Default: none, in the clear.
    pub identity: Option<(Identity, Name)>,
    /// Other nodes that may know the registry. Default: none.
    pub others: Vec<Route>,
    /// An address that is never asked: this node's own. Default: none.
    pub own: Option<String>,
    /// Which registry it must be. Default: that of the first answer.
    pub history: Option<History>,
    /// The latest epoch that is known: whoever leads the registry and does not know it has an old copy. Default 0.
    pub seen: Epoch,
    /// How long it may take to accept a connection. Default 1 s.
    pub connect_timeout: Duration,
    /// How long it may take to answer; to say that nothing has changed, 20 s more. Default 2 s.
    pub request_timeout: Duration,
    /// How long a request is repeated that gets no answer. Default 10 s.
    pub patience: Duration,
}

impl RemoteConfig {
    /// This address and cluster, and the default of everything else.
    #[must_use]
    pub fn new(address: &str, cluster: &str) -> Self {
        Self {
            address: address.to_owned(),
            cluster: cluster.to_owned(),
            identity: None,
            others: Vec::new(),
            own: None,
            history: None,
            seen: Epoch(0),
            connect_timeout: Duration::from_secs(1),
            request_timeout: Duration::from_secs(2),
            patience: Duration::from_secs(10),
        }
    }
}
