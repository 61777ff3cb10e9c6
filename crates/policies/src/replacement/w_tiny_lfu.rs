//! W-TinyLFU (the paper is in [`ENTRY_1`]).
//!
//! New blocks enter a small LRU window. A block that leaves it is admitted to the main part of the cache only
//! if it was used more often lately than the block it would displace there; a sketch counts the uses of all
//! blocks, cached or not. The main part is a segmented LRU: a *probation* queue, and a *protected* one (80 %)
//! for blocks that were used in it.

use cards_core::Frames;
use cards_core::replacement::{Queue, Replacer, next_in};

use super::climber::Climber;
use super::sketch::Sketch;
use super::{Entry, Parameter};

const PAPER: &str = "G. Einziger, R. Friedman, B. Manes: TinyLFU: a highly efficient cache admission policy, \
                     ACM Transactions on Storage 13(4), 2017";

const SKETCH: Parameter = Parameter {
    name: "counters",
    default: "16",
    meaning: "counters of four bits that the sketch has for each block of the capacity; fixed",
};

const PROTECTED: Parameter = Parameter {
    name: "protected",
    default: "80 %",
    meaning: "share of the main part for blocks used in it; fixed",
};

pub(super) const ENTRY_1: Entry = Entry {
    name: "w-tinylfu",
    title: "W-TinyLFU with a window of 1 %: admits by frequency",
    paper: PAPER,
    parameters: &[
        Parameter { name: "window", default: "1 %", meaning: "share of the cache for new blocks; fixed" },
        PROTECTED,
        SKETCH,
    ],
    when_not: "the cache is small against the data, or uses come in bursts: new blocks leave before they \
               have a chance",
};

pub(super) const ENTRY_10: Entry = Entry {
    name: "w-tinylfu-10",
    title: "W-TinyLFU with a window of 10 %: admits by frequency",
    paper: PAPER,
    parameters: &[
        Parameter { name: "window", default: "10 %", meaning: "share of the cache for new blocks; fixed" },
        PROTECTED,
        SKETCH,
    ],
    when_not: "what is popular changes fast: the blocks that were popular leave late",
};

pub(super) const ENTRY_ADAPTIVE: Entry = Entry {
    name: "w-tinylfu-adaptive",
    title: "W-TinyLFU with a window that adapts itself by hill climbing",
    paper: "G. Einziger, O. Eytan, R. Friedman, B. Manes: Adaptive software cache management, Middleware 2018",
    parameters: &[
        Parameter {
            name: "window",
            default: "1 %",
            meaning: "share of the cache for new blocks at first, then 0 to 80 %",
        },
        PROTECTED,
        SKETCH,
    ],
    when_not: "the cache sees few requests: it learns once in ten times as many as it has blocks",
};

pub(super) struct WTinyLfu {
    /// Made the next victims by [`Replacer::cool`].
    cooled: Queue,
    window: Queue,
    probation: Queue,
    protected: Queue,
    window_capacity: u32,
    main_capacity: u32,
    protected_capacity: u32,
    sketch: Sketch,
    /// What moves the window's capacity, if it adapts.
    climber: Option<Climber>,
}

/// The queue that a block is in. All but the window are marked as main, and have their number as references.
#[derive(Clone, Copy)]
enum Segment {
    Window,
    Probation,
    Protected,
    Cooled,
}

impl WTinyLfu {
    /// The window has so many hundredths of the capacity.
    pub(super) fn new(capacity: u32, window_percent: u32) -> Self {
        let window_capacity = percent(capacity, window_percent).max(1);
        let main_capacity = capacity.saturating_sub(window_capacity);
        let protected_capacity = percent(main_capacity, PROTECTED_PERCENT);
        Self {
            cooled: Queue::default(),
            window: Queue::default(),
            probation: Queue::default(),
            protected: Queue::default(),
            window_capacity,
            main_capacity,
            protected_capacity,
            sketch: Sketch::new(COUNTERS * u64::from(capacity), SAMPLE * u64::from(capacity)),
            climber: None,
        }
    }

    /// The window has a hundredth of the capacity at first, and as much as hits most later.
    pub(super) fn adaptive(capacity: u32) -> Self {
        Self { climber: Some(Climber::new(capacity)), ..Self::new(capacity, 1) }
    }

    /// A block was used, and was there or not.
    fn learn(&mut self, hit: bool) {
        let capacity = self.window_capacity + self.main_capacity;
        if let Some(window) =
            self.climber.as_mut().and_then(|climber| climber.used(hit, self.window_capacity))
        {
            self.window_capacity = window;
            self.main_capacity = capacity - window;
            self.protected_capacity = percent(self.main_capacity, PROTECTED_PERCENT);
        }
    }

    fn segment(frames: &Frames, slot: u32) -> Segment {
        match (frames.is_main(slot), frames.references(slot)) {
            (false, _) => Segment::Window,
            (true, 0) => Segment::Probation,
            (true, 1) => Segment::Protected,
            (true, _) => Segment::Cooled,
        }
    }

    const fn queue(&mut self, segment: Segment) -> &mut Queue {
        match segment {
            Segment::Window => &mut self.window,
            Segment::Probation => &mut self.probation,
            Segment::Protected => &mut self.protected,
            Segment::Cooled => &mut self.cooled,
        }
    }

    /// Adds a block that is in no queue.
    fn push(&mut self, frames: &mut Frames, slot: u32, segment: Segment) {
        let (main, number) = match segment {
            Segment::Window => (false, 0),
            Segment::Probation => (true, 0),
            Segment::Protected => (true, 1),
            Segment::Cooled => (true, 2),
        };
        frames.set_main(slot, main);
        frames.set_references(slot, number);
        match segment {
            Segment::Cooled => self.cooled.push_oldest(frames, slot),
            _ => self.queue(segment).push(frames, slot),
        }
    }

    fn shift(&mut self, frames: &mut Frames, slot: u32, to: Segment) {
        self.queue(Self::segment(frames, slot)).remove(frames, slot);
        self.push(frames, slot, to);
    }

    /// What the window has too many goes to the main part, as long as there is room.
    fn settle(&mut self, frames: &mut Frames) {
        while self.window.len() > self.window_capacity
            && self.probation.len() + self.protected.len() < self.main_capacity
            && let Some(slot) = self.window.oldest()
        {
            self.shift(frames, slot, Segment::Probation);
        }
    }

    /// Whether the window's block is to displace the main part's: if it was used more often, or the window is to grow.
    fn admits(&self, frames: &Frames, window: u32, main: u32) -> bool {
        let count = |slot| self.sketch.count(frames.block(slot).hash());
        let grows = self.climber.is_some() && self.window.len() <= self.window_capacity;
        grows || count(window) > count(main)
    }
}

impl Replacer for WTinyLfu {
    fn insert(&mut self, frames: &mut Frames, slot: u32) {
        self.sketch.add(frames.block(slot).hash());
        self.learn(false);
        self.push(frames, slot, Segment::Window);
        self.settle(frames);
    }

    fn hit(&mut self, frames: &mut Frames, slot: u32) {
        self.sketch.add(frames.block(slot).hash());
        self.learn(true);
        match Self::segment(frames, slot) {
            Segment::Window => return self.window.renew(frames, slot),
            Segment::Protected => self.protected.renew(frames, slot),
            Segment::Probation | Segment::Cooled => self.shift(frames, slot, Segment::Protected),
        }
        // One for the block that came; another one in case that the capacity has become smaller.
        for _ in 0..2 {
            if self.protected.len() > self.protected_capacity
                && let Some(oldest) = self.protected.oldest()
            {
                self.shift(frames, oldest, Segment::Probation);
            }
        }
    }

    fn cool(&mut self, frames: &mut Frames, slot: u32) {
        self.shift(frames, slot, Segment::Cooled);
    }

    fn remove(&mut self, frames: &mut Frames, slot: u32) {
        self.queue(Self::segment(frames, slot)).remove(frames, slot);
        self.settle(frames);
    }

    fn victim(&mut self, frames: &mut Frames) -> Option<u32> {
        if let Some(cooled) = self.cooled.oldest_idle(frames) {
            return Some(cooled);
        }
        let window = self.window.oldest_idle(frames);
        let main = self.probation.oldest_idle(frames).or_else(|| self.protected.oldest_idle(frames));
        match (window, main) {
            (Some(window), Some(main)) if self.admits(frames, window, main) => Some(main),
            (window, main) => window.or(main),
        }
    }

    fn next_candidate(&self, frames: &Frames, after: Option<u32>) -> Option<u32> {
        let main = self.probation.oldest().or(self.protected.oldest());
        let admits = self.window.oldest().zip(main).is_some_and(|(w, m)| self.admits(frames, w, m));
        match admits {
            true => next_in(&[&self.cooled, &self.probation, &self.window, &self.protected], frames, after),
            false => next_in(&[&self.cooled, &self.window, &self.probation, &self.protected], frames, after),
        }
    }

    fn len(&self) -> u32 {
        self.cooled.len() + self.window.len() + self.probation.len() + self.protected.len()
    }

    fn extra_bytes(&self) -> usize {
        self.sketch.bytes()
    }
}

/// Hundredths of the main part for blocks that were used in it.
const PROTECTED_PERCENT: u32 = 80;

fn percent(of: u32, percent: u32) -> u32 {
    (u64::from(of) * u64::from(percent) / 100) as u32
}

/// Counters of the sketch, per block of capacity: eight bytes, as in the authors' cache. With a quarter of it, blocks share so many
/// counters that 3 to 5 points of the hit ratio are lost on small caches.
pub(super) const COUNTERS: u64 = 16;

/// Uses after which the sketch is halved, per block of capacity.
pub(super) const SAMPLE: u64 = 10;
