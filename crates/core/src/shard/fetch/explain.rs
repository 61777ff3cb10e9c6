//! A look at a fetch from outside.

use super::State;
use crate::ids::{BlockId, NodeId};
use crate::shard::Shard;

/// What the fetch of a block waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UnderWay {
    /// For the card, or for a write to the block to end.
    Waits,
    /// For this card's lock.
    Lock,
    /// For a place in the cache.
    Place,
    /// For the answer of a node.
    Asked(NodeId),
    /// For this node's disk.
    Disk,
}

impl Shard {
    /// What the fetch of the block waits for, if there is one.
    pub(in crate::shard) fn under_way(&self, block: BlockId) -> Option<UnderWay> {
        Some(match self.fetches.of_block(block)?.state {
            State::Ready | State::Waiting => UnderWay::Waits,
            State::AwaitingLock => UnderWay::Lock,
            State::NoSlot => UnderWay::Place,
            State::Asked(node) => UnderWay::Asked(node),
            State::Disk(_) => UnderWay::Disk,
        })
    }
}
