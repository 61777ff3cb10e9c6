//! S3-FIFO (the paper is in [`ENTRY`]).
//!
//! New blocks enter a small queue (a tenth of the cache). Those used again before they reach its end
//! move to the main queue, the others leave and are remembered for a while: should they come back,
//! they enter the main queue at once. So a scan passes through the small queue alone. Until something is evicted
//! there is room in the main queue, which then takes what the small one does not, as in the authors' simulator.

use cards_core::Frames;
use cards_core::replacement::{Queue, Replacer, next_in};

use super::ghosts::{GhostKind, Ghosts};
use super::{Entry, GHOSTS, Parameter};

pub(super) const ENTRY: Entry = Entry {
    name: "s3-fifo",
    title: "S3-FIFO: three first-in-first-out queues",
    paper: "J. Yang, Y. Zhang, Z. Qiu, Y. Yue, K. V. Rashmi: FIFO queues are all you need for cache eviction, \
            SOSP 2023",
    parameters: &[
        Parameter { name: "small", default: "10 %", meaning: "share of the cache for new blocks; fixed" },
        Parameter {
            name: "remembers",
            default: "90 %",
            meaning: "blocks remembered, of the capacity; fixed",
        },
        Parameter {
            name: "promote",
            default: "2",
            meaning: "uses that move a block to the main queue; fixed",
        },
        GHOSTS,
    ],
    when_not: "many blocks are used exactly twice, some time apart: the second use comes after they have left",
};

pub(super) struct S3Fifo {
    small: Queue,
    main: Queue,
    small_capacity: u32,
    main_capacity: u32,
    has_evicted: bool,
    ghosts: Ghosts,
}

/// Uses in the small queue that make a block worth keeping.
const PROMOTE: u8 = 2;

impl S3Fifo {
    pub(super) fn new(capacity: u32, ghosts: GhostKind) -> Self {
        let small_capacity = (capacity / 10).max(1);
        Self {
            small: Queue::default(),
            main: Queue::default(),
            small_capacity,
            main_capacity: capacity.saturating_sub(small_capacity),
            has_evicted: false,
            ghosts: Ghosts::new(u64::from(capacity) * 9 / 10, ghosts),
        }
    }

    fn promote(&mut self, frames: &mut Frames, slot: u32) {
        self.small.remove(frames, slot);
        frames.set_main(slot, true);
        frames.set_references(slot, 0);
        self.main.push(frames, slot);
    }

    /// Whether the small queue is to lose the next block. (Its own length would count the block that has just
    /// come in.)
    const fn small_is_next(&self) -> bool {
        self.main.len() <= self.main_capacity
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
        let main = known || !self.has_evicted && self.small.len() >= self.small_capacity;
        frames.set_main(slot, main);
        if main { self.main.push(frames, slot) } else { self.small.push(frames, slot) }
    }

    fn hit(&mut self, frames: &mut Frames, slot: u32) {
        frames.set_references(slot, frames.references(slot) + 1);
    }

    fn cool(&mut self, frames: &mut Frames, slot: u32) {
        self.remove(frames, slot);
        frames.set_references(slot, 0);
        let small = self.small_is_next();
        frames.set_main(slot, !small);
        let queue = if small { &mut self.small } else { &mut self.main };
        queue.push_oldest(frames, slot);
    }

    fn remove(&mut self, frames: &mut Frames, slot: u32) {
        let queue = if frames.is_main(slot) { &mut self.main } else { &mut self.small };
        queue.remove(frames, slot);
    }

    fn evict(&mut self, frames: &mut Frames, slot: u32) {
        self.has_evicted = true;
        if !frames.is_main(slot) {
            self.ghosts.put(frames.block(slot).hash());
        }
        self.remove(frames, slot);
    }

    fn victim(&mut self, frames: &mut Frames) -> Option<u32> {
        let from_small = if self.small_is_next() { self.small_victim(frames) } else { None };
        from_small.or_else(|| self.main_victim(frames)).or_else(|| self.small_victim(frames))
    }

    fn next_candidate(&self, frames: &Frames, after: Option<u32>) -> Option<u32> {
        match self.small_is_next() {
            true => next_in(&[&self.small, &self.main], frames, after),
            false => next_in(&[&self.main, &self.small], frames, after),
        }
    }

    fn oldest(&self, _frames: &Frames) -> Option<u32> {
        self.main.oldest()
    }

    fn len(&self) -> u32 {
        self.small.len() + self.main.len()
    }

    fn extra_bytes(&self) -> usize {
        self.ghosts.bytes()
    }
}
