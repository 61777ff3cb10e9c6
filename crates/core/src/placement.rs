//! Which node is a block's home.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use crate::ids::{BlockId, NodeId, mix};

/// How homes are given out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PlacementKind {
    /// Rendezvous hashing: when the members change, only the blocks of the changed node move.
    #[default]
    Rendezvous,
    /// Block number modulo the number of nodes, as the CARDs paper has it (section 3).
    Modulo,
}

impl FromStr for PlacementKind {
    type Err = ();

    fn from_str(s: &str) -> Result<Self, ()> {
        match s {
            "rendezvous" => Ok(Self::Rendezvous),
            "modulo" => Ok(Self::Modulo),
            _ => Err(()),
        }
    }
}

impl fmt::Display for PlacementKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rendezvous => "rendezvous",
            Self::Modulo => "modulo",
        })
    }
}

/// The homes of all blocks; cheap to clone, the shards of a node share one.
#[derive(Clone, Debug)]
pub struct Placement {
    nodes: u16,
    /// The winner of each bucket's rendezvous; empty for [`PlacementKind::Modulo`].
    winners: Arc<[u16]>,
}

/// Blocks are hashed to buckets and buckets to nodes, so that a lookup does not cost a hash per node.
const BUCKETS: u64 = 1 << 12;

impl Placement {
    /// Homes over the nodes `0..nodes` (at least one).
    #[must_use]
    pub fn new(kind: PlacementKind, nodes: u16) -> Self {
        let nodes = nodes.max(1);
        let winners = match kind {
            PlacementKind::Modulo => Vec::new(),
            PlacementKind::Rendezvous => (0..BUCKETS).map(|bucket| winner(bucket, nodes)).collect(),
        };
        Self { nodes, winners: winners.into() }
    }

    /// The number of nodes.
    #[must_use]
    pub const fn nodes(&self) -> u16 {
        self.nodes
    }

    /// The home of a block.
    #[must_use]
    pub fn home(&self, block: BlockId) -> NodeId {
        NodeId(match self.winners.get((block.hash() % BUCKETS) as usize) {
            Some(&node) => node,
            None => {
                ((mix(u64::from(block.volume.0)) % u64::from(self.nodes) + u64::from(block.index))
                    % u64::from(self.nodes)) as u16
            }
        })
    }
}

fn winner(bucket: u64, nodes: u16) -> u16 {
    (0..nodes).max_by_key(|&node| (mix(bucket << 16 | u64::from(node)), node)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::VolumeId;

    fn block(index: u32) -> BlockId {
        BlockId::new(VolumeId::new(NodeId(0), 0), index)
    }

    #[test]
    fn homes_are_even() {
        let placement = Placement::new(PlacementKind::Rendezvous, 5);
        let mut count = [0u32; 5];
        (0..100_000).for_each(|i| count[usize::from(placement.home(block(i)).0)] += 1);
        assert!(count.iter().all(|&n| (17_000..23_000).contains(&n)), "{count:?}");
    }

    #[test]
    fn only_the_new_node_takes_homes() {
        let before = Placement::new(PlacementKind::Rendezvous, 9);
        let after = Placement::new(PlacementKind::Rendezvous, 10);
        for i in 0..10_000 {
            let (old, new) = (before.home(block(i)), after.home(block(i)));
            assert!(old == new || new == NodeId(9));
        }
    }

    /// HSCC-1: home = block number modulo n, the same at every node.
    #[test]
    fn modulo_gives_consecutive_blocks_to_consecutive_nodes() {
        let placement = Placement::new(PlacementKind::Modulo, 3);
        let first = placement.home(block(0)).0;
        assert!((0..100).all(|i| u32::from(placement.home(block(i)).0) == (u32::from(first) + i) % 3));
    }

    /// Placement is part of the protocol: nodes that disagree on it cost hops. Frozen here.
    #[test]
    fn golden() {
        let placement = Placement::new(PlacementKind::Rendezvous, 7);
        let homes: Vec<u16> = (0..16).map(|i| placement.home(block(i)).0).collect();
        assert_eq!(homes, GOLDEN);
    }

    const GOLDEN: [u16; 16] = [3, 2, 2, 0, 5, 0, 0, 5, 4, 1, 0, 1, 3, 4, 5, 4];
}
