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
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placement {
    /// In ascending order; not empty.
    members: Arc<[NodeId]>,
    /// The winner of each bucket's rendezvous; empty for [`PlacementKind::Modulo`].
    winners: Arc<[NodeId]>,
}

/// Blocks are hashed to buckets and buckets to nodes, so that a lookup does not cost a hash per node.
const BUCKETS: u64 = 1 << 12;

impl Placement {
    /// Homes over the nodes `0..nodes` (at least one).
    #[must_use]
    pub fn new(kind: PlacementKind, nodes: u16) -> Self {
        Self::over(kind, (0..nodes.max(1)).map(NodeId).collect())
    }

    /// Homes over these nodes, in any order; node 0 if there are none.
    #[must_use]
    pub fn over(kind: PlacementKind, mut members: Vec<NodeId>) -> Self {
        members.sort_unstable();
        members.dedup();
        if members.is_empty() {
            members.push(NodeId(0));
        }
        let winners = match kind {
            PlacementKind::Modulo => Vec::new(),
            PlacementKind::Rendezvous => (0..BUCKETS).map(|bucket| winner(bucket, &members)).collect(),
        };
        Self { members: members.into(), winners: winners.into() }
    }

    /// The members, in ascending order.
    #[must_use]
    pub fn members(&self) -> &[NodeId] {
        &self.members
    }

    pub(crate) fn shared_members(&self) -> Arc<[NodeId]> {
        Arc::clone(&self.members)
    }

    /// One more than the highest number of a member.
    #[must_use]
    pub fn bound(&self) -> u16 {
        self.members.last().map_or(1, |last| last.0 + 1)
    }

    /// The home of a block.
    #[must_use]
    pub fn home(&self, block: BlockId) -> NodeId {
        match self.winners.get((block.hash() % BUCKETS) as usize) {
            Some(&node) => node,
            None => {
                let count = self.members.len() as u64;
                let turn = mix(u64::from(block.volume.0)) % count + u64::from(block.index);
                self.members[(turn % count) as usize]
            }
        }
    }
}

fn winner(bucket: u64, members: &[NodeId]) -> NodeId {
    let drawn = |&&node: &&NodeId| (mix(bucket << 16 | u64::from(node.0)), node);
    *members.iter().max_by_key(drawn).unwrap_or(&NodeId(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::PgId;

    fn block(index: u32) -> BlockId {
        BlockId::new(PgId::plain(NodeId(0), 0), index)
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

    #[test]
    fn when_a_node_goes_only_its_blocks_move() {
        let before = Placement::new(PlacementKind::Rendezvous, 6);
        let rest = [5, 0, 1, 3, 4].map(NodeId);
        let after = Placement::over(PlacementKind::Rendezvous, rest.to_vec());
        assert_eq!((after.members(), after.bound()), (&[0, 1, 3, 4, 5].map(NodeId)[..], 6));
        for i in 0..10_000 {
            let (old, new) = (before.home(block(i)), after.home(block(i)));
            assert!(old == new || old == NodeId(2) && rest.contains(&new));
        }
        let modulo = Placement::over(PlacementKind::Modulo, rest.to_vec());
        assert!((0..100).all(|i| rest.contains(&modulo.home(block(i)))));
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
