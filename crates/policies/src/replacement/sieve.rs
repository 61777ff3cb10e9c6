//! SIEVE (the paper is in [`ENTRY`]).
//!
//! One queue in order of arrival; a hit only marks the block. A hand walks from the oldest towards the
//! newest, clears marks and evicts the first block that has none. Unfit where blocks are read in scans.

use cards_core::Frames;
use cards_core::replacement::{Queue, Replacer};

use super::Entry;

pub(super) const ENTRY: Entry = Entry {
    name: "sieve",
    title: "SIEVE: first in, first out, marked blocks are spared",
    paper: "Y. Zhang, J. Yang, Y. Yue, Y. Vigfusson, K. V. Rashmi: SIEVE is simpler than LRU, NSDI 2024",
    parameters: &[],
    when_not: "blocks are read in scans, or recency matters much: on block traces it may lose to LRU",
};

#[derive(Debug)]
pub(super) struct Sieve {
    queue: Queue,
    capacity: u32,
    /// Where the hand stands; at the oldest block when none.
    hand: Option<u32>,
}

impl Sieve {
    pub(super) fn new(capacity: u32) -> Self {
        Self { queue: Queue::default(), capacity, hand: None }
    }

    /// Where the hand goes from here. While the cache is too full the newest block has just come in, and the
    /// hand must not yet come to it: it would follow the newcomers for ever.
    fn beyond(&self, frames: &Frames, slot: u32) -> Option<u32> {
        let newer = frames.newer(slot)?;
        let newcomer = self.queue.len() > self.capacity && frames.newer(newer).is_none();
        (!newcomer).then_some(newer)
    }

    /// The block that the hand is at.
    fn at(&self) -> Option<u32> {
        self.hand.or(self.queue.oldest())
    }
}

impl Replacer for Sieve {
    fn insert(&mut self, frames: &mut Frames, slot: u32) {
        frames.set_references(slot, 0);
        self.queue.push(frames, slot);
    }

    fn hit(&mut self, frames: &mut Frames, slot: u32) {
        frames.set_references(slot, 1);
    }

    fn cool(&mut self, frames: &mut Frames, slot: u32) {
        frames.set_references(slot, 0);
        if self.at() != Some(slot) {
            self.queue.remove(frames, slot);
            self.queue.insert_before(frames, slot, self.at());
        }
        self.hand = Some(slot);
    }

    fn remove(&mut self, frames: &mut Frames, slot: u32) {
        if self.hand == Some(slot) {
            self.hand = self.beyond(frames, slot);
        }
        self.queue.remove(frames, slot);
    }

    fn victim(&mut self, frames: &mut Frames) -> Option<u32> {
        // The first lap may clear every mark, the second then finds a block unless none is idle.
        for _ in 0..2 * self.queue.len() {
            let slot = self.at()?;
            if frames.is_idle(slot) {
                if frames.references(slot) == 0 {
                    self.hand = Some(slot);
                    return Some(slot);
                }
                frames.set_references(slot, 0);
            }
            self.hand = self.beyond(frames, slot);
        }
        // Only the newcomer may be left.
        self.queue.oldest_idle(frames)
    }

    /// One lap of the hand.
    fn next_candidate(&self, frames: &Frames, after: Option<u32>) -> Option<u32> {
        let Some(slot) = after else { return self.at() };
        frames.newer(slot).or(self.queue.oldest()).filter(|&next| self.at() != Some(next))
    }

    fn len(&self) -> u32 {
        self.queue.len()
    }
}
