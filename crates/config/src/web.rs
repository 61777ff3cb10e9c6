//! The web listener: the dashboard and the metrics, for whoever may reach it.

use serde::{Deserialize, Serialize};

use super::Tls;

/// Where this node shows itself over HTTP without a token: `GET /metrics`, the dashboard and the routes of the API
/// that only read. Nothing can be changed there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Web {
    /// Address and port; port 0 is one that is free, which `cards status` shows. Default `127.0.0.1:7480`.
    #[serde(default = "default_listen")]
    pub listen: String,
    /// Whether requests come over TLS: `required`, `offered` or `off`. Default `required`; on an address of the machine
    /// alone `offered`; with `insecure` `off`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
    /// Names that requests may call this node by, besides addresses, `localhost`, the node's name, those of its certificate
    /// and the hosts of `listen` and of its peer address. A page from elsewhere that has its own name resolve to this machine could
    /// read what is shown here otherwise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
}

impl Default for Web {
    fn default() -> Self {
        Self { listen: default_listen(), tls: None, hosts: Vec::new() }
    }
}

fn default_listen() -> String {
    "127.0.0.1:7480".into()
}
