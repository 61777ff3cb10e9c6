//! What a daemon says about all nodes of its cluster.

use serde::{Deserialize, Serialize};

use super::{MemberState, Status};

/// All nodes of a cluster, as one of them sees it and as they say themselves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cluster {
    /// Name of the node that was asked.
    pub node: String,
    /// Whether all is well as it sees it, or what to do: see [`Status::headline`].
    pub headline: String,
    /// The members in the order of their numbers, except those that have left.
    pub nodes: Vec<NodeStatus>,
}

/// One member.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeStatus {
    /// Its name.
    pub name: String,
    /// Whether the node that was asked can talk to it.
    pub state: MemberState,
    /// What it says about itself; none if it did not answer. Another node than the one that was asked leaves out the
    /// volumes that it neither has nor uses, and the members but for those that it sends most to.
    pub status: Option<Box<Status>>,
    /// Why there is no status.
    pub error: Option<String>,
}
