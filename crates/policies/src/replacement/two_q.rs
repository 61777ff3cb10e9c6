//! 2Q, the full version (the paper is in [`ENTRY`]).
//!
//! New blocks enter a first-in-first-out queue (*A1in*) where hits count for nothing, for uses in quick
//! succession say little. Those that leave it are remembered (*A1out*); should they come back meanwhile,
//! they enter an LRU queue (*Am*).

use cards_core::Frames;
use cards_core::replacement::{Queue, Replacer, next_in};

use super::ghosts::{GhostKind, Ghosts};
use super::{Entry, GHOSTS, Parameter};

pub(super) const ENTRY: Entry = Entry {
    name: "2q",
    title: "2Q: a queue for new blocks, LRU for those that came back",
    paper: "T. Johnson, D. Shasha: 2Q: a low overhead high performance buffer management replacement algorithm, \
            VLDB 1994",
    parameters: &[
        Parameter { name: "in", default: "25 %", meaning: "share of the cache for new blocks; fixed" },
        Parameter { name: "out", default: "50 %", meaning: "blocks remembered, of the capacity; fixed" },
        GHOSTS,
    ],
    when_not: "the working set shifts often: a block must be read from its disk twice before it is spared",
};

pub(super) struct TwoQ {
    recent: Queue,
    frequent: Queue,
    frequent_capacity: u32,
    ghosts: Ghosts,
}

impl TwoQ {
    pub(super) fn new(capacity: u32, ghosts: GhostKind) -> Self {
        Self {
            recent: Queue::default(),
            frequent: Queue::default(),
            frequent_capacity: capacity - capacity / 4,
            ghosts: Ghosts::new(u64::from(capacity) / 2, ghosts),
        }
    }

    /// Whether A1in is to lose the next block. (Its own length would count the block that has just come in.)
    const fn recent_is_next(&self) -> bool {
        self.frequent.len() < self.frequent_capacity
    }
}

impl Replacer for TwoQ {
    fn insert(&mut self, frames: &mut Frames, slot: u32) {
        let known = self.ghosts.take(frames.block(slot).hash());
        frames.set_main(slot, known);
        if known { self.frequent.push(frames, slot) } else { self.recent.push(frames, slot) }
    }

    fn hit(&mut self, frames: &mut Frames, slot: u32) {
        if frames.is_main(slot) {
            self.frequent.renew(frames, slot);
        }
    }

    fn cool(&mut self, frames: &mut Frames, slot: u32) {
        self.remove(frames, slot);
        let recent = self.recent_is_next();
        frames.set_main(slot, !recent);
        let queue = if recent { &mut self.recent } else { &mut self.frequent };
        queue.push_oldest(frames, slot);
    }

    fn remove(&mut self, frames: &mut Frames, slot: u32) {
        let queue = if frames.is_main(slot) { &mut self.frequent } else { &mut self.recent };
        queue.remove(frames, slot);
    }

    fn evict(&mut self, frames: &mut Frames, slot: u32) {
        if !frames.is_main(slot) {
            self.ghosts.put(frames.block(slot).hash());
        }
        self.remove(frames, slot);
    }

    fn victim(&mut self, frames: &mut Frames) -> Option<u32> {
        let (first, second) = match self.recent_is_next() {
            true => (&self.recent, &self.frequent),
            false => (&self.frequent, &self.recent),
        };
        first.oldest_idle(frames).or_else(|| second.oldest_idle(frames))
    }

    fn next_candidate(&self, frames: &Frames, after: Option<u32>) -> Option<u32> {
        match self.recent_is_next() {
            true => next_in(&[&self.recent, &self.frequent], frames, after),
            false => next_in(&[&self.frequent, &self.recent], frames, after),
        }
    }

    fn len(&self) -> u32 {
        self.recent.len() + self.frequent.len()
    }

    fn extra_bytes(&self) -> usize {
        self.ghosts.bytes()
    }
}
