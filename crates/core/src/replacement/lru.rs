//! LRU. Unfit for scans larger than the cache: each block is gone before it is wanted again.

use super::{Replacer, queue::Queue};
use crate::cache::Frames;

#[derive(Debug, Default)]
pub(super) struct Lru {
    queue: Queue,
}

impl Replacer for Lru {
    fn insert(&mut self, frames: &mut Frames, slot: u32) {
        self.queue.push(frames, slot);
    }

    fn hit(&mut self, frames: &mut Frames, slot: u32) {
        self.queue.remove(frames, slot);
        self.queue.push(frames, slot);
    }

    fn remove(&mut self, frames: &mut Frames, slot: u32) {
        self.queue.remove(frames, slot);
    }

    fn victim(&mut self, frames: &mut Frames) -> Option<u32> {
        self.queue.oldest_idle(frames)
    }

    fn oldest(&self) -> Option<u32> {
        self.queue.oldest()
    }

    fn len(&self) -> u32 {
        self.queue.len()
    }
}
