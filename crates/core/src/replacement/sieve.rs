//! SIEVE: "SIEVE is Simpler than LRU" (Zhang, Yang, Yue, Vigfusson, Rashmi, NSDI 2024).
//!
//! One queue in order of arrival; a hit only marks the block. A hand walks from the oldest towards the
//! newest, clears marks and evicts the first block that has none. Unfit where blocks are read in scans.

use super::{Replacer, queue::Queue};
use crate::cache::Frames;

#[derive(Debug, Default)]
pub(super) struct Sieve {
    queue: Queue,
    /// Where the hand stands; at the oldest block when none.
    hand: Option<u32>,
}

impl Replacer for Sieve {
    fn insert(&mut self, frames: &mut Frames, slot: u32) {
        frames.set_references(slot, 0);
        self.queue.push(frames, slot);
    }

    fn hit(&mut self, frames: &mut Frames, slot: u32) {
        frames.set_references(slot, 1);
    }

    fn remove(&mut self, frames: &mut Frames, slot: u32) {
        if self.hand == Some(slot) {
            self.hand = frames.newer(slot);
        }
        self.queue.remove(frames, slot);
    }

    fn victim(&mut self, frames: &mut Frames) -> Option<u32> {
        // The first lap may clear every mark, the second then finds a block unless none is idle.
        for _ in 0..2 * self.queue.len() {
            let slot = self.hand.or(self.queue.oldest())?;
            if frames.is_idle(slot) {
                if frames.references(slot) == 0 {
                    self.hand = Some(slot);
                    return Some(slot);
                }
                frames.set_references(slot, 0);
            }
            self.hand = frames.newer(slot);
        }
        None
    }

    fn oldest(&self) -> Option<u32> {
        self.queue.oldest()
    }

    fn len(&self) -> u32 {
        self.queue.len()
    }
}
