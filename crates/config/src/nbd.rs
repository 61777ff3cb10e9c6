//! The NBD endpoints of a node.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Tls, duration, size};

/// Where the attached volumes are exported over NBD, and what one client may take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nbd {
    /// Path of a unix socket. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unix: Option<PathBuf>,
    /// Address and port of a TCP socket. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<String>,
    /// Whether clients over TCP speak TLS and show a certificate: `required`, `offered` or `off`. Default `required`; on an
    /// address of the machine alone `offered`; with `insecure` `off`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
    /// A file with certificates of authorities whose clients are served beside the cluster's, each as `[[client]]` says.
    /// Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authority: Option<PathBuf>,
    /// Most connections at a time, over both endpoints. Default 100.
    #[serde(default = "default_connections")]
    pub connections: u32,
    /// A client that has not finished its handshake after this long is dropped. Default `10s`.
    #[serde(with = "duration", default = "default_handshake")]
    pub handshake: Duration,
    /// Bytes in flight one connection may hold, in bytes: it is read no further until it takes its
    /// replies. At least the largest request, 32 MiB. Default `64M`.
    #[serde(with = "size", default = "default_in_flight")]
    pub in_flight: u64,
}

impl Nbd {
    /// Smallest allowed `in_flight`: a request of the largest size must fit.
    pub const IN_FLIGHT_MIN: u64 = 32 << 20;
}

impl Default for Nbd {
    fn default() -> Self {
        Self {
            unix: None,
            tcp: None,
            tls: None,
            authority: None,
            connections: default_connections(),
            handshake: default_handshake(),
            in_flight: default_in_flight(),
        }
    }
}

fn default_connections() -> u32 {
    100
}

fn default_handshake() -> Duration {
    Duration::from_secs(10)
}

fn default_in_flight() -> u64 {
    64 << 20
}
