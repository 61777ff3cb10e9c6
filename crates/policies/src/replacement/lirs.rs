//! LIRS (the paper is in [`ENTRY`]).
//!
//! A block's *recency* is how many others were used since its last use; its *reuse distance* is what its recency was when it was
//! used again. Nearly all of the cache holds the blocks of short reuse distance (*LIR*), the rest lets others pass through
//! (*resident HIR*). A HIR block that is used again sooner than the LIR block that was unused for longest takes the place of that one.
//! So it must be known for blocks beyond the cache, too, whether they were used since then (*non-resident HIR*).
//!
//! The paper has a stack of all blocks by their last use, whose bottom is always a LIR block. Here each block has the time
//! of its last use instead, and is on the stack if that is later than the one of the oldest LIR block: this gives
//! the same order, and a stack that shortens itself.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use cards_core::Frames;
use cards_core::replacement::{Queue, Replacer, next_in};

use super::{Entry, Parameter};

pub(super) const ENTRY: Entry = Entry {
    name: "lirs",
    title: "LIRS: keeps what was used again soonest, for comparisons",
    paper: "S. Jiang, X. Zhang: LIRS: an efficient low inter-reference recency set replacement policy to improve \
            buffer cache performance, SIGMETRICS 2002",
    parameters: &[
        Parameter {
            name: "hir",
            default: "1 %",
            meaning: "share of the cache for blocks of long reuse distance; fixed",
        },
        Parameter {
            name: "remembers",
            default: "100 %",
            meaning: "blocks remembered, of the capacity; fixed",
        },
    ],
    when_not: "memory is short: what it remembers takes some 70 bytes a block of the capacity; or uses come in bursts",
};

pub(super) struct Lirs {
    /// LIR blocks, by last use.
    lir: Queue,
    /// Resident HIR blocks, as they came in or were used again.
    hir: Queue,
    capacity: u32,
    /// What it had room for at the last eviction: less than the capacity if blocks are retained that it does not know.
    room: u32,
    /// When the block of each slot was used last; 0: it is not on the stack whatever the oldest LIR block is.
    used: Vec<u64>,
    now: u64,
    gone: Gone,
}

impl Lirs {
    pub(super) fn new(capacity: u32) -> Self {
        Self {
            lir: Queue::default(),
            hir: Queue::default(),
            capacity,
            room: capacity,
            used: alloc::vec![0; capacity as usize],
            now: 0,
            gone: Gone { capacity: capacity as usize, ..Gone::default() },
        }
    }

    fn lir_capacity(&self) -> u32 {
        self.room.saturating_sub((self.room / 100).max(1))
    }

    /// The last use of the bottom of the stack.
    fn bottom(&self) -> u64 {
        self.lir.oldest().map_or(0, |slot| self.used[slot as usize])
    }

    /// A use of the block, now.
    fn uses(&mut self, slot: u32) {
        self.now += 1;
        self.set_used(slot, self.now);
    }

    fn set_used(&mut self, slot: u32, time: u64) {
        if self.used.len() <= slot as usize {
            self.used.resize(slot as usize + 1, 0);
        }
        self.used[slot as usize] = time;
    }

    /// A block in no queue becomes LIR, at the cost of the oldest one if there are too many.
    fn promote(&mut self, frames: &mut Frames, slot: u32) {
        frames.set_main(slot, true);
        self.lir.push(frames, slot);
        if self.lir.len() > self.lir_capacity()
            && let Some(oldest) = self.lir.oldest()
        {
            self.lir.remove(frames, oldest);
            frames.set_main(oldest, false);
            self.hir.push(frames, oldest);
        }
        self.gone.prune(self.bottom());
    }

    fn queue(&mut self, frames: &Frames, slot: u32) -> &mut Queue {
        if frames.is_main(slot) { &mut self.lir } else { &mut self.hir }
    }
}

impl Replacer for Lirs {
    fn insert(&mut self, frames: &mut Frames, slot: u32) {
        let was_used = self.gone.take(frames.block(slot).hash());
        self.uses(slot);
        self.room = self.room.max(self.capacity.min(self.len()));
        // The first blocks are LIR: there is nothing yet to compare with.
        if was_used || self.lir.len() < self.lir_capacity() {
            return self.promote(frames, slot);
        }
        frames.set_main(slot, false);
        self.hir.push(frames, slot);
    }

    fn hit(&mut self, frames: &mut Frames, slot: u32) {
        let on_stack = self.used[slot as usize] > self.bottom() || self.lir.len() < self.lir_capacity();
        self.uses(slot);
        if frames.is_main(slot) {
            self.lir.renew(frames, slot);
            self.gone.prune(self.bottom());
        } else if on_stack {
            self.hir.remove(frames, slot);
            self.promote(frames, slot);
        } else {
            self.hir.renew(frames, slot);
        }
    }

    fn cool(&mut self, frames: &mut Frames, slot: u32) {
        self.remove(frames, slot);
        self.set_used(slot, 0);
        frames.set_main(slot, false);
        self.hir.push_oldest(frames, slot);
    }

    fn remove(&mut self, frames: &mut Frames, slot: u32) {
        self.queue(frames, slot).remove(frames, slot);
        self.gone.prune(self.bottom());
    }

    fn evict(&mut self, frames: &mut Frames, slot: u32) {
        // The block that needs room has come in before.
        self.room = self.capacity.min(self.len() - 1);
        let used = self.used[slot as usize];
        if !frames.is_main(slot) && used > self.bottom() {
            self.gone.put(used, frames.block(slot).hash());
        }
        self.remove(frames, slot);
    }

    fn victim(&mut self, frames: &mut Frames) -> Option<u32> {
        self.hir.oldest_idle(frames).or_else(|| self.lir.oldest_idle(frames))
    }

    fn next_candidate(&self, frames: &Frames, after: Option<u32>) -> Option<u32> {
        next_in(&[&self.hir, &self.lir], frames, after)
    }

    fn len(&self) -> u32 {
        self.lir.len() + self.hir.len()
    }

    fn extra_bytes(&self) -> usize {
        (self.used.len() + 4 * self.gone.by_use.len()) * size_of::<u64>()
    }
}

/// Non-resident HIR blocks of the stack, by last use: so many at most, the longest unused is forgotten.
#[derive(Default)]
struct Gone {
    by_use: BTreeMap<u64, u64>,
    uses: BTreeMap<u64, u64>,
    capacity: usize,
}

impl Gone {
    fn put(&mut self, used: u64, hash: u64) {
        self.by_use.insert(used, hash);
        self.uses.insert(hash, used);
        if self.uses.len() > self.capacity {
            self.pop_oldest();
        }
    }

    /// Whether the block was among them. It no longer is.
    fn take(&mut self, hash: u64) -> bool {
        self.uses.remove(&hash).is_some_and(|used| self.by_use.remove(&used).is_some())
    }

    /// Forgets those that fall off the stack.
    fn prune(&mut self, bottom: u64) {
        while self.by_use.first_key_value().is_some_and(|(&used, _)| used < bottom) {
            self.pop_oldest();
        }
    }

    fn pop_oldest(&mut self) {
        if let Some((_, hash)) = self.by_use.pop_first() {
            self.uses.remove(&hash);
        }
    }
}
