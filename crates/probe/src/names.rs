//! What nodes and volumes are called.

use cards_core::{NodeId, PgId};

/// The names that a daemon knows; asked for only when something is shown or logged.
pub trait Names {
    /// The name of a member, or words for one that is not known.
    fn node(&self, node: NodeId) -> String;

    /// The member of a name.
    fn find_node(&self, name: &str) -> Option<NodeId>;

    /// The name of a volume; empty if it is not known.
    fn volume(&self, volume: PgId) -> String;
}
