//! The HTTP API for programs.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Tls;

/// Where the HTTP API answers besides the unix socket `api.sock` in `runtime_dir`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Api {
    /// Address and port.
    pub listen: String,
    /// Whether requests come over TLS: `required`, `offered` or `off`. Default `required`; on an address of the machine
    /// alone `offered`; with `insecure` `off`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
    /// A file with the token in its first line that every request must carry: `Authorization: Bearer TOKEN`.
    pub token_file: PathBuf,
}
