//! Who may attach volumes.

use std::sync::Arc;

use cards_core::{Access, Allowed, NodeId, PgId, Rights};

/// Every node may do everything, but for some that may do nothing.
#[derive(Debug)]
pub(super) struct AllBut {
    pub(super) nodes: u16,
    pub(super) strangers: Vec<NodeId>,
}

impl Rights for AllBut {
    fn most(&self, _volume: PgId, node: NodeId) -> Option<Access> {
        (!self.strangers.contains(&node)).then_some(Access::Exclusive)
    }

    fn allowed(&self, _volume: PgId) -> Allowed {
        if self.strangers.is_empty() {
            return Allowed::All;
        }
        let nodes = (0..self.nodes).map(NodeId).filter(|node| !self.strangers.contains(node));
        Allowed::Only(Arc::new(nodes.collect()))
    }
}
