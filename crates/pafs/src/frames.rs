//! Places for blocks, all over the cluster.

use core::fmt;

use cards_core::NodeId;

/// Memory for one block, at some node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Frame {
    /// Where it lies.
    pub node: NodeId,
    /// Which of that node's frames it is, counted from 0.
    pub slot: u32,
}

impl Frame {
    /// A frame of a node.
    #[must_use]
    pub const fn new(node: NodeId, slot: u32) -> Self {
        Self { node, slot }
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}.{}", self.node, self.slot)
    }
}
