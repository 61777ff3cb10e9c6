//! What nodes and volumes are called, as the probe asks for it.

use cards_core::{NodeId, PgId};
use cards_probe::Names;

use crate::node::Node;

impl Names for Node {
    fn node(&self, node: NodeId) -> String {
        if node == self.me { self.config.node.clone() } else { self.name(node) }
    }

    fn find_node(&self, name: &str) -> Option<NodeId> {
        self.members().find(name).map(|(node, _)| node)
    }

    fn volume(&self, volume: PgId) -> String {
        let name = self.control().volume(volume).map(|spec| self.volume_name(spec));
        name.unwrap_or_default()
    }
}
