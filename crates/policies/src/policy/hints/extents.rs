//! Who has opened which part of a volume: the stand-in for opens of files.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use cards_core::policy::Context;
use cards_core::{BlockId, NodeId};

/// Blocks of an extent.
const EXTENT: u32 = 256;

/// Extents one node keeps apart: 64 GiB of blocks of 4 KiB.
const EXTENTS: usize = 1 << 16;

const fn extent(block: BlockId) -> u32 {
    block.index / EXTENT
}

/// Extents of which this node has had blocks.
#[derive(Default)]
pub(super) struct Opened {
    extents: BTreeSet<u32>,
}

impl Opened {
    /// Whether this is the first block of its extent, as far as is remembered.
    pub(super) fn is_first(&mut self, block: BlockId) -> bool {
        if self.extents.len() >= EXTENTS {
            self.extents.clear();
        }
        self.extents.insert(extent(block))
    }
}

/// At the disk node: who has opened an extent.
#[derive(Default)]
pub(super) struct Openers {
    of: BTreeMap<u32, Vec<NodeId>>,
    /// There are more extents than can be kept apart: everybody counts as opener of the others.
    full: bool,
}

impl Openers {
    pub(super) fn add(&mut self, block: BlockId, node: NodeId) {
        if self.of.len() >= EXTENTS && !self.of.contains_key(&extent(block)) {
            self.full = true;
            return;
        }
        let nodes = self.of.entry(extent(block)).or_default();
        if let Err(at) = nodes.binary_search(&node) {
            nodes.insert(at, node);
        }
    }

    pub(super) fn of(&self, cx: &Context<'_>, block: BlockId) -> impl Iterator<Item = NodeId> + use<> {
        let known = self.of.get(&extent(block)).cloned();
        let all = if known.is_none() && self.full { cx.nodes().collect() } else { Vec::new() };
        known.unwrap_or(all).into_iter()
    }
}

#[cfg(test)]
mod tests {
    use cards_core::PgId;

    use super::*;

    #[test]
    fn an_extent_is_opened_once() {
        let block = |index| BlockId::new(PgId(0), index);
        let mut opened = Opened::default();
        assert!(opened.is_first(block(0)));
        assert!(!opened.is_first(block(EXTENT - 1)));
        assert!(opened.is_first(block(EXTENT)));
        for index in 0..2 * EXTENTS as u32 {
            opened.is_first(block(index * EXTENT));
        }
        assert!(opened.extents.len() <= EXTENTS);
    }

    #[test]
    fn openers_do_not_grow_without_bound() {
        let mut openers = Openers::default();
        for index in 0..=EXTENTS as u32 {
            openers.add(BlockId::new(PgId(0), index * EXTENT), NodeId(1));
        }
        assert_eq!((openers.of.len(), openers.full), (EXTENTS, true));
    }
}
