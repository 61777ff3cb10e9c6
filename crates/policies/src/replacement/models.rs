//! The replacements once more, as naively as possible: vectors of block numbers, the oldest first.

use std::boxed::Box;
use std::vec::Vec;

use cards_core::{BlockId, PgId};

use super::Replacement;
use super::climber::Climber;
use super::sketch::Sketch;
use super::w_tiny_lfu::{COUNTERS, SAMPLE};

/// A replacement that knows blocks by their numbers.
pub(super) trait Model {
    fn insert(&mut self, block: u32);
    fn hit(&mut self, block: u32);
    fn cool(&mut self, block: u32);
    fn remove(&mut self, block: u32);
    fn evict(&mut self, block: u32);
    fn victim(&mut self, idle: &dyn Fn(u32) -> bool) -> Option<u32>;
}

/// A model, and a capacity at which the ghosts of the real one fill a single set, so that it is exact.
pub(super) fn model(replacement: Replacement) -> (Box<dyn Model>, u32) {
    match replacement {
        Replacement::Lru => (Box::new(Lru::default()), 8),
        Replacement::Sieve => (Box::new(Sieve::default()), 8),
        Replacement::S3Fifo => (exact_model(replacement, 20), 20),
        Replacement::TwoQ => (exact_model(replacement, 20), 20),
        Replacement::Arc => (exact_model(replacement, 8), 8),
        Replacement::WTinyLfu => (Box::new(WTinyLfu::new(20, 1)), 20),
        Replacement::WTinyLfu10 => (Box::new(WTinyLfu::new(20, 2)), 20),
        Replacement::WTinyLfuAdaptive => {
            (Box::new(WTinyLfu { climber: Some(Climber::new(20)), ..WTinyLfu::new(20, 1) }), 20)
        }
        Replacement::Lirs => (Box::new(Lirs { lir_capacity: 19, ..Lirs::default() }), 20),
    }
}

/// The model of a replacement with ghosts, at any capacity.
pub(super) fn exact_model(replacement: Replacement, capacity: usize) -> Box<dyn Model> {
    match replacement {
        Replacement::S3Fifo => Box::new(S3Fifo { capacity, ..S3Fifo::default() }),
        Replacement::TwoQ => Box::new(TwoQ { capacity, ..TwoQ::default() }),
        Replacement::Arc => Box::new(Arc { capacity, ..Arc::default() }),
        other => unreachable!("{other} remembers nothing"),
    }
}

/// Takes a block out, if it is there.
fn take(blocks: &mut Vec<u32>, block: u32) -> bool {
    let at = blocks.iter().position(|&b| b == block);
    at.map(|at| blocks.remove(at)).is_some()
}

fn first_idle(blocks: &[u32], idle: &dyn Fn(u32) -> bool) -> Option<u32> {
    blocks.iter().copied().find(|&block| idle(block))
}

/// Adds a ghost; forgets the oldest of too many.
fn remember(ghosts: &mut Vec<u32>, block: u32, capacity: usize) {
    ghosts.push(block);
    if ghosts.len() > capacity {
        ghosts.remove(0);
    }
}

#[derive(Default)]
struct Lru(Vec<u32>);

impl Model for Lru {
    fn insert(&mut self, block: u32) {
        self.0.push(block);
    }

    fn hit(&mut self, block: u32) {
        take(&mut self.0, block);
        self.0.push(block);
    }

    fn cool(&mut self, block: u32) {
        take(&mut self.0, block);
        self.0.insert(0, block);
    }

    fn remove(&mut self, block: u32) {
        take(&mut self.0, block);
    }

    fn evict(&mut self, block: u32) {
        self.remove(block);
    }

    fn victim(&mut self, idle: &dyn Fn(u32) -> bool) -> Option<u32> {
        first_idle(&self.0, idle)
    }
}

/// The queue, its visited blocks, and the position of the hand. Capacity 8.
#[derive(Default)]
struct Sieve(Vec<u32>, Vec<u32>, usize);

impl Sieve {
    /// The position after this one; a block that has just come in is not yet there.
    fn beyond(&self, at: usize) -> usize {
        let len = if self.0.len() > 8 { self.0.len() - 1 } else { self.0.len() };
        if at + 1 < len { at + 1 } else { 0 }
    }
}

impl Model for Sieve {
    fn insert(&mut self, block: u32) {
        self.0.push(block);
    }

    fn hit(&mut self, block: u32) {
        take(&mut self.1, block);
        self.1.push(block);
    }

    fn cool(&mut self, block: u32) {
        let hand = self.0[self.2];
        take(&mut self.1, block);
        if hand != block {
            take(&mut self.0, block);
            self.2 = self.0.iter().position(|&b| b == hand).unwrap();
            self.0.insert(self.2, block);
        }
    }

    fn remove(&mut self, block: u32) {
        let at = self.0.iter().position(|&b| b == block).unwrap();
        if at == self.2 {
            self.2 = self.beyond(at);
        }
        self.2 -= usize::from(at < self.2);
        take(&mut self.0, block);
        take(&mut self.1, block);
    }

    fn evict(&mut self, block: u32) {
        self.remove(block);
    }

    fn victim(&mut self, idle: &dyn Fn(u32) -> bool) -> Option<u32> {
        for _ in 0..2 * self.0.len() {
            let block = self.0[self.2];
            if idle(block) && !take(&mut self.1, block) {
                return Some(block);
            }
            self.2 = self.beyond(self.2);
        }
        first_idle(&self.0, idle)
    }
}

#[derive(Default)]
struct S3Fifo {
    capacity: usize,
    small: Vec<u32>,
    main: Vec<u32>,
    ghosts: Vec<u32>,
    /// A block, as often as it was used; at most three times.
    uses: Vec<u32>,
    has_evicted: bool,
}

impl S3Fifo {
    fn main_capacity(&self) -> usize {
        self.capacity - self.capacity / 10
    }

    fn uses(&self, block: u32) -> usize {
        self.uses.iter().filter(|&&b| b == block).count()
    }

    fn small_victim(&mut self, idle: &dyn Fn(u32) -> bool) -> Option<u32> {
        for block in self.small.clone() {
            if idle(block) && self.uses(block) < 2 {
                return Some(block);
            }
            if idle(block) {
                take(&mut self.small, block);
                self.uses.retain(|&b| b != block);
                self.main.push(block);
            }
        }
        None
    }

    fn main_victim(&mut self, idle: &dyn Fn(u32) -> bool) -> Option<u32> {
        for _ in 0..4 * self.main.len() {
            let block = self.main[0];
            if idle(block) && !take(&mut self.uses, block) {
                return Some(block);
            }
            self.main.rotate_left(1);
        }
        None
    }
}

impl Model for S3Fifo {
    fn insert(&mut self, block: u32) {
        let known = take(&mut self.ghosts, block);
        let filling = !self.has_evicted && self.small.len() >= self.capacity / 10;
        if known || filling { self.main.push(block) } else { self.small.push(block) }
    }

    fn hit(&mut self, block: u32) {
        if self.uses(block) < 3 {
            self.uses.push(block);
        }
    }

    fn cool(&mut self, block: u32) {
        self.remove(block);
        let queue = if self.main.len() <= self.main_capacity() { &mut self.small } else { &mut self.main };
        queue.insert(0, block);
    }

    fn remove(&mut self, block: u32) {
        self.uses.retain(|&b| b != block);
        let _in_either = take(&mut self.small, block) || take(&mut self.main, block);
    }

    fn evict(&mut self, block: u32) {
        self.has_evicted = true;
        if self.small.contains(&block) {
            remember(&mut self.ghosts, block, self.capacity * 9 / 10);
        }
        self.remove(block);
    }

    fn victim(&mut self, idle: &dyn Fn(u32) -> bool) -> Option<u32> {
        let first = if self.main.len() > self.main_capacity() { None } else { self.small_victim(idle) };
        first.or_else(|| self.main_victim(idle)).or_else(|| self.small_victim(idle))
    }
}

#[derive(Default)]
struct TwoQ {
    capacity: usize,
    a1_in: Vec<u32>,
    a1_out: Vec<u32>,
    am: Vec<u32>,
}

impl TwoQ {
    fn am_has_room(&self) -> bool {
        self.am.len() < self.capacity - self.capacity / 4
    }
}

impl Model for TwoQ {
    fn insert(&mut self, block: u32) {
        let known = take(&mut self.a1_out, block);
        if known { self.am.push(block) } else { self.a1_in.push(block) }
    }

    fn hit(&mut self, block: u32) {
        if take(&mut self.am, block) {
            self.am.push(block);
        }
    }

    fn cool(&mut self, block: u32) {
        self.remove(block);
        let queue = if self.am_has_room() { &mut self.a1_in } else { &mut self.am };
        queue.insert(0, block);
    }

    fn remove(&mut self, block: u32) {
        let _in_either = take(&mut self.a1_in, block) || take(&mut self.am, block);
    }

    fn evict(&mut self, block: u32) {
        if take(&mut self.a1_in, block) {
            remember(&mut self.a1_out, block, self.capacity / 2);
        }
        self.remove(block);
    }

    fn victim(&mut self, idle: &dyn Fn(u32) -> bool) -> Option<u32> {
        let (new, old) = (first_idle(&self.a1_in, idle), first_idle(&self.am, idle));
        if self.am_has_room() { new.or(old) } else { old.or(new) }
    }
}

#[derive(Default)]
struct Arc {
    capacity: usize,
    t1: Vec<u32>,
    t2: Vec<u32>,
    b1: Vec<u32>,
    b2: Vec<u32>,
    /// In units of 2^-16 blocks.
    p: u64,
    /// The latest block is new; it was in B2.
    new: bool,
    from_b2: bool,
}

impl Arc {
    fn evicts_from_t1(&self, t1: usize) -> bool {
        let before =
            t1.saturating_sub(usize::from(self.new && self.t1.len() + self.t2.len() > self.capacity)) as u64;
        let before = before << 16;
        before > 0 && (before > self.p || before >= self.p && self.from_b2)
    }
}

impl Model for Arc {
    fn insert(&mut self, block: u32) {
        let (b1, b2) = (self.b1.len() as u64, self.b2.len() as u64);
        let one = 1 << 16;
        let from_b1 = take(&mut self.b1, block);
        self.from_b2 = take(&mut self.b2, block);
        self.new = !from_b1 && !self.from_b2;
        if from_b1 {
            self.p = (self.p + (b2 * one / b1).max(one)).min(self.capacity as u64 * one);
        }
        if self.from_b2 {
            self.p = self.p.saturating_sub((b1 * one / b2).max(one));
        }
        if self.new { self.t1.push(block) } else { self.t2.push(block) }
    }

    fn hit(&mut self, block: u32) {
        self.remove(block);
        self.t2.push(block);
    }

    fn cool(&mut self, block: u32) {
        self.remove(block);
        let to_t1 = self.evicts_from_t1(self.t1.len() + 1) || self.t2.is_empty();
        let queue = if to_t1 { &mut self.t1 } else { &mut self.t2 };
        queue.insert(0, block);
    }

    fn remove(&mut self, block: u32) {
        let _in_either = take(&mut self.t1, block) || take(&mut self.t2, block);
    }

    fn evict(&mut self, block: u32) {
        let list = if self.t1.contains(&block) { 1 } else { 2 };
        self.remove(block);
        let too_long = self.t1.len() + self.b1.len() + usize::from(list == 1) > self.capacity;
        match (too_long, self.b1.is_empty()) {
            (true, true) if list == 1 => return,
            (true, false) => drop(self.b1.remove(0)),
            _ if self.b1.len() + self.b2.len() < self.capacity => {}
            _ if self.b2.is_empty() => drop(self.b1.remove(0)),
            _ => drop(self.b2.remove(0)),
        }
        if list == 1 { self.b1.push(block) } else { self.b2.push(block) }
    }

    fn victim(&mut self, idle: &dyn Fn(u32) -> bool) -> Option<u32> {
        let (once, often) = (first_idle(&self.t1, idle), first_idle(&self.t2, idle));
        if self.evicts_from_t1(self.t1.len()) { once.or(often) } else { often.or(once) }
    }
}

struct WTinyLfu {
    capacity: usize,
    window_capacity: usize,
    cooled: Vec<u32>,
    window: Vec<u32>,
    probation: Vec<u32>,
    protected: Vec<u32>,
    sketch: Sketch,
    climber: Option<Climber>,
}

impl WTinyLfu {
    fn new(capacity: usize, window_capacity: usize) -> Self {
        Self {
            capacity,
            window_capacity,
            cooled: Vec::new(),
            window: Vec::new(),
            probation: Vec::new(),
            protected: Vec::new(),
            sketch: Sketch::new(COUNTERS * capacity as u64, SAMPLE * capacity as u64),
            climber: None,
        }
    }

    fn learn(&mut self, hit: bool) {
        let size = self.window_capacity as u32;
        if let Some(window) = self.climber.as_mut().and_then(|climber| climber.used(hit, size)) {
            self.window_capacity = window as usize;
        }
    }

    fn settle(&mut self) {
        let main = self.capacity - self.window_capacity;
        while self.window.len() > self.window_capacity && self.probation.len() + self.protected.len() < main {
            self.probation.push(self.window.remove(0));
        }
    }

    fn detach(&mut self, block: u32) {
        for queue in [&mut self.cooled, &mut self.window, &mut self.probation, &mut self.protected] {
            take(queue, block);
        }
    }

    fn count(&self, block: u32) -> u64 {
        self.sketch.count(hash(block))
    }
}

fn hash(block: u32) -> u64 {
    BlockId::new(PgId(0), block).hash()
}

impl Model for WTinyLfu {
    fn insert(&mut self, block: u32) {
        self.sketch.add(hash(block));
        self.learn(false);
        self.window.push(block);
        self.settle();
    }

    fn hit(&mut self, block: u32) {
        self.sketch.add(hash(block));
        self.learn(true);
        if take(&mut self.window, block) {
            self.window.push(block);
            return;
        }
        self.detach(block);
        self.protected.push(block);
        for _ in 0..2 {
            if self.protected.len() > (self.capacity - self.window_capacity) * 80 / 100 {
                self.probation.push(self.protected.remove(0));
            }
        }
    }

    fn cool(&mut self, block: u32) {
        self.detach(block);
        self.cooled.insert(0, block);
    }

    fn remove(&mut self, block: u32) {
        self.detach(block);
        self.settle();
    }

    fn evict(&mut self, block: u32) {
        self.remove(block);
    }

    fn victim(&mut self, idle: &dyn Fn(u32) -> bool) -> Option<u32> {
        let window = first_idle(&self.window, idle);
        let main = first_idle(&self.probation, idle).or_else(|| first_idle(&self.protected, idle));
        let grows = self.climber.is_some() && self.window.len() <= self.window_capacity;
        first_idle(&self.cooled, idle).or(match (window, main) {
            (Some(window), Some(main)) if grows || self.count(window) > self.count(main) => Some(main),
            (window, main) => window.or(main),
        })
    }
}

/// The stack as the paper has it: each block with whether it is LIR, the bottom first.
#[derive(Default)]
struct Lirs {
    lir_capacity: usize,
    stack: Vec<(u32, bool)>,
    /// Resident HIR blocks.
    queue: Vec<u32>,
}

impl Lirs {
    fn lirs(&self) -> usize {
        self.stack.iter().filter(|(_, lir)| *lir).count()
    }

    /// Takes a block off the stack: whether it was there.
    fn unstack(&mut self, block: u32) -> bool {
        let before = self.stack.len();
        self.stack.retain(|&(b, _)| b != block);
        self.stack.len() < before
    }

    /// The bottom of the stack is a LIR block; it remembers 20 blocks that are gone.
    fn prune(&mut self) {
        let bottom = self.stack.iter().position(|(_, lir)| *lir);
        self.stack.drain(..bottom.unwrap_or(0));
        let gone: Vec<_> =
            self.stack.iter().filter(|(b, lir)| !lir && !self.queue.contains(b)).map(|(b, _)| *b).collect();
        gone.iter().rev().skip(20).for_each(|&b| _ = self.unstack(b));
    }

    fn promote(&mut self, block: u32) {
        self.stack.push((block, true));
        if self.lirs() > self.lir_capacity {
            let oldest = self.stack.iter().find(|(_, lir)| *lir).unwrap().0;
            self.unstack(oldest);
            self.queue.push(oldest);
        }
        self.prune();
    }
}

impl Model for Lirs {
    fn insert(&mut self, block: u32) {
        if self.unstack(block) || self.lirs() < self.lir_capacity {
            return self.promote(block);
        }
        self.stack.push((block, false));
        self.queue.push(block);
    }

    fn hit(&mut self, block: u32) {
        let lir = self.stack.contains(&(block, true));
        if lir {
            self.unstack(block);
            self.stack.push((block, true));
            return self.prune();
        }
        take(&mut self.queue, block);
        if self.unstack(block) || self.lirs() < self.lir_capacity {
            return self.promote(block);
        }
        self.stack.push((block, false));
        self.queue.push(block);
    }

    fn cool(&mut self, block: u32) {
        self.remove(block);
        self.queue.insert(0, block);
    }

    fn remove(&mut self, block: u32) {
        self.unstack(block);
        take(&mut self.queue, block);
        self.prune();
    }

    fn evict(&mut self, block: u32) {
        if self.stack.contains(&(block, true)) {
            self.unstack(block);
        }
        take(&mut self.queue, block);
        self.prune();
    }

    fn victim(&mut self, idle: &dyn Fn(u32) -> bool) -> Option<u32> {
        let lir = || self.stack.iter().find(|(b, lir)| *lir && idle(*b)).map(|(b, _)| *b);
        first_idle(&self.queue, idle).or_else(lir)
    }
}
