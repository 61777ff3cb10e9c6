//! Where the registry of the cluster is kept.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::duration;

/// The registry of the cluster: `[coordinator.embedded]` or `[coordinator.etcd]`. Nodes join and leave while the cluster
/// runs; without it a node is alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Coordinator {
    /// At the nodes of the cluster; nothing to install.
    Embedded(EmbeddedHome),
    /// In an etcd cluster, 3.4 or later.
    Etcd(EtcdHome),
}

/// The registry at nodes of the cluster, each with a part in the file `register` of its `state_dir`: at one while there are fewer than
/// three, then at three, and at five when there are as many.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EmbeddedHome {
    /// The node that begins it, and has the cluster's authority. The others look for it there first.
    pub keeper: String,
    /// Where the others ask it: the keeper's own `address`. If it is another one, as before there was one port for all, the
    /// keeper answers there, too.
    pub address: String,
    /// A node that is silent for this long is declared dead. For a new registry only. Default `3s`.
    #[serde(with = "duration", default = "default_lease")]
    pub lease: Duration,
}

/// The registry in etcd.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EtcdHome {
    /// URLs of its members: `http://host:2379` or `https://host:2379`.
    pub endpoints: Vec<String>,
    /// What all keys begin with. Default `/cards`.
    #[serde(default = "default_prefix")]
    pub prefix: String,
    /// User, if etcd asks for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// A file with the user's password in its first line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_file: Option<PathBuf>,
    /// Certificates (PEM) of the authorities that may sign those of etcd; for `https`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// This node's certificate (PEM), if etcd asks for one; together with `key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cert: Option<PathBuf>,
    /// The certificate's key (PEM).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
    /// A node that is silent for this long is declared dead: whole seconds, at least `2s`. For a new registry only.
    /// Default `3s`.
    #[serde(with = "duration", default = "default_lease")]
    pub lease: Duration,
}

impl EmbeddedHome {
    /// Kept by the node `keeper`, which answers at `address`.
    #[must_use]
    pub fn new(keeper: &str, address: &str) -> Self {
        Self { keeper: keeper.into(), address: address.into(), lease: default_lease() }
    }
}

impl EtcdHome {
    /// At these endpoints, without TLS or a user.
    #[must_use]
    pub fn new(endpoints: Vec<String>) -> Self {
        Self {
            endpoints,
            prefix: default_prefix(),
            user: None,
            password_file: None,
            ca: None,
            cert: None,
            key: None,
            lease: default_lease(),
        }
    }
}

impl Coordinator {
    /// The lease of a new registry.
    #[must_use]
    pub const fn lease(&self) -> Duration {
        match self {
            Self::Embedded(home) => home.lease,
            Self::Etcd(home) => home.lease,
        }
    }

    /// What it is, for people: `n1 (10.0.0.1:7400)`, or `etcd at http://…`.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Embedded(home) => format!("{} ({})", home.keeper, home.address),
            Self::Etcd(home) => format!("etcd at {}", home.endpoints.join(", ")),
        }
    }
}

fn default_lease() -> Duration {
    Duration::from_secs(3)
}

fn default_prefix() -> String {
    "/cards".into()
}
