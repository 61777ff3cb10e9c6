//! S3-FIFO: "FIFO queues are all you need for cache eviction" (Yang, Zhang, Qiu, Yue, Vigfusson, SOSP 2023).
//!
//! New blocks enter a small queue (a tenth of the cache). Those used again before they reach its end
//! move to the main queue, the others leave and are remembered for a while: should they come back,
//! they enter the main queue at once. So a scan passes through the small queue alone.

use alloc::vec;
use alloc::vec::Vec;

use super::{Replacer, queue::Queue};
use crate::cache::{Frames, Mark};

pub(super) struct S3Fifo {
    small: Queue,
    main: Queue,
    small_capacity: u32,
    ghosts: Ghosts,
}

/// Uses in the small queue that make a block worth keeping.
const PROMOTE: u8 = 2;

impl S3Fifo {
    pub(super) fn new(capacity: u32) -> Self {
        Self {
            small: Queue::default(),
            main: Queue::default(),
            small_capacity: (capacity / 10).max(1),
            ghosts: Ghosts::new(capacity as usize),
        }
    }

    fn promote(&mut self, frames: &mut Frames, slot: u32) {
        self.small.remove(frames, slot);
        frames.mark(slot, Mark::MAIN, true);
        frames.set_references(slot, 0);
        self.main.push(frames, slot);
    }

    /// The oldest idle block of the small queue that was not used enough; promotes those that were.
    fn small_victim(&mut self, frames: &mut Frames) -> Option<u32> {
        let mut at = self.small.oldest();
        while let Some(slot) = at {
            at = frames.newer(slot);
            if !frames.is_idle(slot) {
                continue;
            }
            if frames.references(slot) < PROMOTE {
                return Some(slot);
            }
            self.promote(frames, slot);
        }
        None
    }

    fn main_victim(&mut self, frames: &mut Frames) -> Option<u32> {
        // A block's count goes down by one each time round: four rounds clear every count.
        for _ in 0..4 * self.main.len() {
            let slot = self.main.oldest()?;
            let idle = frames.is_idle(slot);
            let references = frames.references(slot);
            if idle && references == 0 {
                return Some(slot);
            }
            if idle {
                frames.set_references(slot, references - 1);
            }
            self.main.remove(frames, slot);
            self.main.push(frames, slot);
        }
        None
    }
}

impl Replacer for S3Fifo {
    fn insert(&mut self, frames: &mut Frames, slot: u32) {
        frames.set_references(slot, 0);
        let known = self.ghosts.take(frames.block(slot).hash());
        frames.mark(slot, Mark::MAIN, known);
        if known { self.main.push(frames, slot) } else { self.small.push(frames, slot) }
    }

    fn hit(&mut self, frames: &mut Frames, slot: u32) {
        frames.set_references(slot, frames.references(slot) + 1);
    }

    fn remove(&mut self, frames: &mut Frames, slot: u32) {
        if frames.is(slot, Mark::MAIN) {
            self.main.remove(frames, slot);
        } else {
            self.ghosts.put(frames.block(slot).hash());
            self.small.remove(frames, slot);
        }
    }

    fn victim(&mut self, frames: &mut Frames) -> Option<u32> {
        let from_small = if self.small.len() >= self.small_capacity || self.main.len() == 0 {
            self.small_victim(frames)
        } else {
            None
        };
        from_small.or_else(|| self.main_victim(frames)).or_else(|| self.small_victim(frames))
    }

    fn oldest(&self) -> Option<u32> {
        self.small.oldest().or(self.main.oldest())
    }

    fn len(&self) -> u32 {
        self.small.len() + self.main.len()
    }

    fn extra_bytes(&self) -> usize {
        self.ghosts.prints.len() * size_of::<u16>()
    }
}

/// Blocks that left the small queue lately: 16-bit fingerprints in sets of eight, oldest last. A false
/// match (1 in 8,000) merely promotes a block too early.
struct Ghosts {
    prints: Vec<u16>,
}

const WAYS: usize = 8;

impl Ghosts {
    /// Room for nine tenths of the capacity.
    fn new(capacity: usize) -> Self {
        Self { prints: vec![0; (capacity * 9 / 10).div_ceil(WAYS).max(1) * WAYS] }
    }

    fn set(&mut self, hash: u64) -> (&mut [u16], u16) {
        let sets = self.prints.len() / WAYS;
        let set = (hash >> 16) as usize % sets;
        (&mut self.prints[set * WAYS..][..WAYS], (hash as u16).max(1))
    }

    fn put(&mut self, hash: u64) {
        let (set, print) = self.set(hash);
        set.rotate_right(1);
        set[0] = print;
    }

    fn take(&mut self, hash: u64) -> bool {
        let (set, print) = self.set(hash);
        let Some(at) = set.iter().position(|&p| p == print) else { return false };
        set[at..].rotate_left(1);
        set[WAYS - 1] = 0;
        true
    }
}
