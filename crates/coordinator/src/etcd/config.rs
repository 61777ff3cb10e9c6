//! How to reach etcd.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Where etcd is and how long to wait for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EtcdConfig {
    /// Client URLs of its members: `http://host:port` or `https://host:port`. The next is tried when one fails.
    pub endpoints: Vec<String>,
    /// What all keys begin with; the name of the cluster follows after a slash. Default `/cards`.
    pub prefix: String,
    /// User and password, if etcd asks for them.
    pub login: Option<Login>,
    /// Certificates, needed for `https`.
    pub tls: Option<TlsFiles>,
    /// How long one member may take to accept a connection. Default 1 s.
    pub connect_timeout: Duration,
    /// How long one member may take to answer. Default 2 s.
    pub request_timeout: Duration,
    /// After how long, over all members, nobody is asked any more. Default 10 s.
    pub patience: Duration,
}

impl EtcdConfig {
    /// These endpoints, and the default of everything else.
    #[must_use]
    pub fn new(endpoints: Vec<String>) -> Self {
        Self {
            endpoints,
            prefix: "/cards".to_owned(),
            login: None,
            tls: None,
            connect_timeout: Duration::from_secs(1),
            request_timeout: Duration::from_secs(2),
            patience: Duration::from_secs(10),
        }
    }
}

/// A user of etcd. Prints without the password.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// The user.
    pub user: String,
    /// The password.
    pub password: String,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("user", &self.user).finish_non_exhaustive()
    }
}

/// PEM files for TLS.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TlsFiles {
    /// Certificates of the authorities that may have signed etcd's certificate. No others are trusted.
    pub authorities: PathBuf,
    /// Certificate chain and private key of this client, if etcd asks for them.
    pub client: Option<(PathBuf, PathBuf)>,
}
