//! The HTTP API for programs.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Where the HTTP API answers besides the unix socket `api.sock` in `runtime_dir`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Api {
    /// Address and port.
    pub listen: String,
    /// A file with the token in its first line that every request must carry: `Authorization: Bearer TOKEN`.
    pub token_file: PathBuf,
}
