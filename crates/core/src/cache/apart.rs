//! The part of a cache that some policies set apart for blocks which other nodes send.

use alloc::vec;
use alloc::vec::Vec;

use super::Frames;
use crate::replacement::{Lru, Replacer};

/// A queue of its own, in order of use, for so many blocks.
pub(super) struct Apart {
    pub(super) quota: u32,
    queue: Lru,
    /// Which slots are in it: a byte each, only where a policy asks for it.
    holds: Vec<bool>,
}

impl Apart {
    pub(super) fn new(quota: u32, slots: u32) -> Self {
        Self { quota, queue: Lru::default(), holds: vec![false; slots as usize] }
    }

    pub(super) fn len(&self) -> u32 {
        self.queue.len()
    }

    pub(super) fn holds(&self, slot: u32) -> bool {
        self.holds[slot as usize]
    }

    pub(super) fn queue(&mut self) -> &mut dyn Replacer {
        &mut self.queue
    }

    pub(super) fn insert(&mut self, frames: &mut Frames, slot: u32) {
        self.holds[slot as usize] = true;
        self.queue.insert(frames, slot);
    }

    pub(super) fn remove(&mut self, frames: &mut Frames, slot: u32) {
        self.holds[slot as usize] = false;
        self.queue.remove(frames, slot);
    }

    pub(super) fn bytes(&self) -> usize {
        self.holds.len() + self.queue.extra_bytes()
    }
}
