//! By what this node proves who it is to others.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The files of an identity that somebody else has made, all PEM. The certificate names the node as `NODE.CLUSTER.cards`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// The certificates of the authorities that sign those of nodes.
    pub authority: PathBuf,
    /// This node's certificate.
    pub certificate: PathBuf,
    /// The certificate's key.
    pub key: PathBuf,
}
