//! LRU. Unfit for scans larger than the cache: each block is gone before it is wanted again.

use super::Replacer;
use super::queue::{Queue, next_in};
use crate::cache::Frames;

/// Blocks in the order of their use.
#[derive(Debug, Default)]
pub struct Lru {
    queue: Queue,
}

impl Replacer for Lru {
    fn insert(&mut self, frames: &mut Frames, slot: u32) {
        self.queue.push(frames, slot);
    }

    fn hit(&mut self, frames: &mut Frames, slot: u32) {
        frames.note_entry(slot);
        self.queue.renew(frames, slot);
    }

    fn cool(&mut self, frames: &mut Frames, slot: u32) {
        self.queue.remove(frames, slot);
        self.queue.push_oldest(frames, slot);
    }

    fn remove(&mut self, frames: &mut Frames, slot: u32) {
        self.queue.remove(frames, slot);
    }

    fn victim(&mut self, frames: &mut Frames) -> Option<u32> {
        self.queue.oldest_idle(frames)
    }

    fn next_candidate(&self, frames: &Frames, after: Option<u32>) -> Option<u32> {
        next_in(&[&self.queue], frames, after)
    }

    fn len(&self) -> u32 {
        self.queue.len()
    }
}
