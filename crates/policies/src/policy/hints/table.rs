//! The hints: who probably holds a block's master copy.

use alloc::collections::BTreeMap;

use cards_core::policy::Context;
use cards_core::{BlockId, NodeId};

/// Bounded by what all other nodes together cache, were they as large as this one, but by eight such caches at most.
#[derive(Default)]
pub(super) struct Table {
    holder: BTreeMap<u32, NodeId>,
    /// What is forgotten next lies from here on.
    hand: u32,
}

/// Hints that even the smallest node keeps.
const LEAST: usize = 1024;

impl Table {
    pub(super) fn get(&self, block: BlockId) -> Option<NodeId> {
        self.holder.get(&block.index).copied()
    }

    /// Remembers who has the block, or that nobody is known to have it.
    pub(super) fn set(&mut self, cx: &Context<'_>, block: BlockId, holder: Option<NodeId>) {
        let Some(holder) = holder.filter(|&holder| holder != cx.me()) else {
            self.holder.remove(&block.index);
            return;
        };
        self.holder.insert(block.index, holder);
        let others = cx.nodes().count().saturating_sub(1).min(8);
        if self.holder.len() > others * cx.capacity().0 as usize + LEAST {
            let known = |from| self.holder.range(from..).map(|(&index, _)| index).find(|&i| i != block.index);
            if let Some(index) = known(self.hand).or_else(|| known(0)) {
                self.holder.remove(&index);
                self.hand = index;
            }
        }
    }
}
