//! Managed disks of the cluster.

use serde::{Deserialize, Serialize};

/// A managed disk, as the registry has it: those of nodes that are away are there, too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManagedDisk {
    /// The node that has it.
    pub node: String,
    /// What it is called there.
    pub name: String,
    /// Its UUID.
    pub uuid: String,
    /// Its failure domain: copies of one volume are in different ones.
    pub domain: String,
    /// Bytes that it has for data.
    pub bytes: u64,
    /// Bytes of them that new volumes and copies can have.
    pub free: u64,
    /// Its node is a member of the cluster, and not dead.
    pub is_up: bool,
    /// The volumes with a copy on it, in the order of their names. Those on it alone are not among them.
    pub copies: Vec<String>,
    /// Those of them whose copy leaves: another one takes its place.
    pub leaving: Vec<String>,
}

impl ManagedDisk {
    /// Its name and its node's, as `NODE:DISK`.
    #[must_use]
    pub fn place(&self) -> String {
        format!("{}:{}", self.node, self.name)
    }
}
