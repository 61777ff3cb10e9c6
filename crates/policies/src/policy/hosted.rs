//! The blocks this node keeps for others, by age.
//!
//! A block that comes from another node is as old as it was there, but new in the queue of the replacement. Policies
//! that approximate one LRU over all nodes choose their victims with the help of this.

use alloc::collections::BTreeSet;

use cards_core::policy::{Context, Room};
use cards_core::{BlockId, PgId};

pub(super) struct Hosted {
    /// How much faster they age than others, in percent.
    boost: u32,
    /// When a block was used last (milliseconds), and which it is. Some have been used here, or are gone, since.
    blocks: BTreeSet<(u64, u32)>,
}

impl Hosted {
    pub(super) const fn new(boost: u32) -> Self {
        Self { boost, blocks: BTreeSet::new() }
    }

    pub(super) fn boosted(&self, age_ms: u32) -> u32 {
        u32::try_from(u64::from(age_ms) * u64::from(self.boost) / 100).unwrap_or(u32::MAX)
    }

    /// A block is about to be kept for others.
    pub(super) fn add(&mut self, cx: &Context<'_>, block: BlockId, age_ms: u32) {
        if self.blocks.len() >= 2 * cx.capacity().0 as usize {
            self.blocks.retain(|&entry| is_current(cx, entry, block.volume));
        }
        self.blocks.insert((now_ms(cx).saturating_sub(u64::from(age_ms)), block.index));
    }

    /// Boosted ages of the blocks, the oldest first.
    pub(super) fn ages_ms(&self, cx: &Context<'_>, volume: PgId) -> impl Iterator<Item = u32> {
        self.blocks
            .iter()
            .filter(move |&&entry| is_current(cx, entry, volume))
            .map(move |&(_, index)| self.boosted(cx.age_ms(BlockId::new(volume, index))))
    }

    /// The one to replace next, and its boosted age.
    fn oldest(&mut self, cx: &Context<'_>, volume: PgId) -> Option<(BlockId, u32)> {
        while let Some(&entry) = self.blocks.first() {
            let block = BlockId::new(volume, entry.1);
            if is_current(cx, entry, volume) {
                return cx.has_room(Room::Of(block)).then(|| (block, self.boosted(cx.age_ms(block))));
            }
            self.blocks.pop_first();
        }
        None
    }

    /// The oldest block of all.
    pub(super) fn oldest_of_all(&mut self, cx: &Context<'_>, volume: PgId) -> Option<BlockId> {
        let tail = cx.tail().next();
        match self.oldest(cx, volume) {
            Some((block, age)) if tail.is_none_or(|tail| age >= cx.age_ms(tail)) => Some(block),
            _ => tail,
        }
    }

    /// A block is missing and will displace another: one of these, if that is the oldest.
    pub(super) fn choose_victim(&mut self, cx: &mut Context<'_>, volume: PgId) {
        let (capacity, resident) = cx.capacity();
        if resident >= capacity
            && let Some(oldest) = self.oldest_of_all(cx, volume)
            && cx.tail().next() != Some(oldest)
        {
            cx.cool(oldest);
        }
    }
}

fn now_ms(cx: &Context<'_>) -> u64 {
    cx.now().0 / 1_000_000
}

/// Whether the block is still here for others, and is not another copy that has come since.
fn is_current(cx: &Context<'_>, (used_ms, index): (u64, u32), volume: PgId) -> bool {
    let block = BlockId::new(volume, index);
    cx.is_hosted(block) && u64::from(cx.age_ms(block)) == now_ms(cx) - used_ms
}
