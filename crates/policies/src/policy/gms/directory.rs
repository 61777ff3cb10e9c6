//! The global cache directory: which nodes hold a block, as far as its home has heard.

use alloc::collections::BTreeMap;

use cards_core::{BlockId, NodeId};

/// Twelve bytes a block, besides what the tree costs.
#[derive(Default)]
pub(super) struct Directory {
    of: BTreeMap<u32, Holders>,
    /// What is forgotten next lies from here on.
    hand: u32,
}

/// Up to five holders in eight bytes, the newest first, eleven bits each: the node's number plus one, and whether
/// the page is global. The topmost bit says that there are more.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Holders(u64);

/// A node that has a copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Holder {
    pub(super) node: NodeId,
    pub(super) global: bool,
}

const BITS: u32 = 11;
const LISTED: u32 = 5;
const ALL: u64 = (1 << (BITS * LISTED)) - 1;
const GLOBAL: u64 = 1 << 10;
const MORE: u64 = 1 << 63;

impl Holders {
    /// The newest first.
    pub(super) fn iter(self) -> impl Iterator<Item = Holder> {
        (0..LISTED)
            .map(move |at| self.0 >> (BITS * at) & ((1 << BITS) - 1))
            .filter(|&h| h != 0)
            .map(|h| Holder { node: NodeId((h & (GLOBAL - 1)) as u16 - 1), global: h & GLOBAL != 0 })
    }

    /// Whether there were more than can be listed.
    pub(super) const fn are_more(self) -> bool {
        self.0 & MORE != 0
    }

    pub(super) fn add(&mut self, node: NodeId, global: bool) {
        self.remove(node);
        let more = match self.0 >> (BITS * (LISTED - 1)) & ((1 << BITS) - 1) {
            0 => self.0 & MORE,
            _ => MORE,
        };
        self.0 = more | (self.0 << BITS | Holder { node, global }.packed()) & ALL;
    }

    pub(super) fn remove(&mut self, node: NodeId) {
        let rest = *self;
        self.0 &= MORE;
        for (at, holder) in (0..).zip(rest.iter().filter(|h| h.node != node)) {
            self.0 |= holder.packed() << (BITS * at);
        }
    }
}

impl Holder {
    fn packed(self) -> u64 {
        (u64::from(self.node.0) + 1) | if self.global { GLOBAL } else { 0 }
    }
}

impl Directory {
    pub(super) fn get(&self, block: BlockId) -> Holders {
        self.of.get(&block.index).copied().unwrap_or_default()
    }

    /// At a node that caches `capacity` blocks, which bounds the directory. (The node may be small, and others
    /// large.)
    pub(super) fn set(&mut self, block: BlockId, holders: Holders, capacity: u32) {
        if holders == Holders::default() {
            self.of.remove(&block.index);
            return;
        }
        self.of.insert(block.index, holders);
        if self.of.len() > capacity as usize * 8 + 4096 {
            let next =
                self.of.range(self.hand..).map(|(&index, _)| index).find(|&index| index != block.index);
            let next = next.or_else(|| self.of.keys().copied().find(|&index| index != block.index));
            if let Some(index) = next {
                self.of.remove(&index);
                self.hand = index;
            }
        }
    }

    pub(super) fn remove(&mut self, block: BlockId, node: NodeId) {
        let Some(holders) = self.of.get_mut(&block.index) else { return };
        holders.remove(node);
        if *holders == Holders::default() {
            self.of.remove(&block.index);
        }
    }
}

#[cfg(test)]
mod tests {
    use cards_core::PgId;

    use super::*;
    use std::vec::Vec;

    fn nodes(holders: Holders) -> Vec<u16> {
        holders.iter().map(|h| h.node.0).collect()
    }

    #[test]
    fn holders_are_listed_newest_first_and_counted_beyond_five() {
        let mut holders = Holders::default();
        for node in [0, 7, 1022, 3] {
            holders.add(NodeId(node), node == 7);
        }
        assert_eq!(nodes(holders), [3, 1022, 7, 0]);
        holders.add(NodeId(1022), false);
        assert_eq!(nodes(holders), [1022, 3, 7, 0]);
        assert_eq!(holders.iter().filter(|h| h.global).map(|h| h.node.0).collect::<Vec<_>>(), [7]);
        holders.add(NodeId(9), false);
        assert!(!holders.are_more());
        holders.add(NodeId(10), true);
        assert_eq!((nodes(holders), holders.are_more()), (Vec::from([10, 9, 1022, 3, 7]), true));
        for node in [10, 9, 1022, 3, 7] {
            holders.remove(NodeId(node));
        }
        assert!(holders.are_more() && nodes(holders).is_empty());
    }

    #[test]
    fn the_directory_is_bounded() {
        let mut directory = Directory::default();
        let mut holders = Holders::default();
        holders.add(NodeId(1), false);
        for index in 0..10_000 {
            let block = BlockId::new(PgId(0), index);
            directory.set(block, holders, 0);
            assert_eq!(directory.get(block), holders);
        }
        assert_eq!(directory.of.len(), 4096);
    }
}
