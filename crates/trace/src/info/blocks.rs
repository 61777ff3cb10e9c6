//! The blocks of a trace: who touched them last, and how long ago.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};

use cards_advise::Fenwick;

use super::reuse::Reuse;
use crate::spread::mix;

/// Every block, or, if there are too many, those of a sample that a hash of the block chooses (C. Waldspurger
/// and others, "Efficient MRC construction with SHARDS", FAST 2015, section 3): each block of the sample
/// stands for `weight` blocks.
pub(super) struct Blocks {
    states: HashMap<u64, State, Mixed>,
    /// The positions of the last references of all blocks.
    last: Fenwick,
    position: usize,
    /// The most blocks.
    max: usize,
    /// A block in 2^n is in the sample.
    shift: u32,
    pub(super) reuse: Reuse,
    pub(super) sharing: Sharing,
}

/// Block reads by what came before, in references.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Sharing {
    pub(super) reads: u64,
    pub(super) after_other: u64,
    pub(super) after_write_of_other: u64,
}

struct State {
    /// Position of the last reference.
    position: u32,
    node: u32,
    /// Who wrote it last, or [`NOBODY`].
    writer: u32,
    shared: bool,
}

/// No node has this number: there are at most a million.
const NOBODY: u32 = u32::MAX;

/// Positions before the first renumbering.
const POSITIONS_MIN: usize = 1 << 16;

impl Blocks {
    pub(super) fn new(max: usize) -> Self {
        Self {
            states: HashMap::default(),
            last: Fenwick::new(POSITIONS_MIN, 0),
            position: 0,
            max: max.clamp(1, 1 << 28),
            shift: 0,
            reuse: Reuse::default(),
            sharing: Sharing::default(),
        }
    }

    /// How many blocks each block of the sample stands for: 1 if all are there.
    pub(super) fn weight(&self) -> u64 {
        1 << self.shift
    }

    pub(super) fn distinct(&self) -> u64 {
        self.states.len() as u64 * self.weight()
    }

    pub(super) fn shared(&self) -> u64 {
        self.states.values().filter(|state| state.shared).count() as u64 * self.weight()
    }

    /// A reference. `block` is unique over all volumes.
    pub(super) fn refer(&mut self, block: u64, node: u32, write: bool) {
        if !sampled(block, self.shift) {
            return;
        }
        if self.position == self.last.len() {
            self.renumber();
        }
        let weight = self.weight();
        let position = self.position;
        self.position += 1;
        let present = self.states.len() as u64;
        let mut before = (NOBODY, NOBODY);
        match self.states.entry(block) {
            std::collections::hash_map::Entry::Vacant(entry) => {
                self.reuse.first(weight);
                let writer = if write { node } else { NOBODY };
                entry.insert(State { position: position as u32, node, writer, shared: false });
            }
            std::collections::hash_map::Entry::Occupied(mut entry) => {
                let state = entry.get_mut();
                let old = state.position as usize;
                self.reuse.again(present - u64::from(self.last.up_to(old)), weight);
                self.last.clear(old);
                before = (state.node, state.writer);
                state.position = position as u32;
                state.shared |= state.node != node;
                state.node = node;
                if write {
                    state.writer = node;
                }
            }
        }
        self.last.set(position);
        if !write {
            let other = |who: u32| u64::from(who != NOBODY && who != node) * weight;
            self.sharing.reads += weight;
            self.sharing.after_other += other(before.0);
            self.sharing.after_write_of_other += other(before.1);
        }
        while self.states.len() > self.max {
            self.halve();
        }
    }

    /// Halves the sample.
    fn halve(&mut self) {
        self.shift += 1;
        let shift = self.shift;
        self.states.retain(|&block, _| sampled(block, shift));
        self.reuse.halve();
        self.renumber();
    }

    /// Numbers the last references anew, from 0, with room for as many again.
    fn renumber(&mut self) {
        let mut states: Vec<&mut State> = self.states.values_mut().collect();
        states.sort_unstable_by_key(|state| state.position);
        for (position, state) in states.iter_mut().enumerate() {
            state.position = position as u32;
        }
        let count = states.len();
        self.position = count;
        // At most 2^29 + 2^16 positions: they fit 32 bits.
        self.last = Fenwick::new(2 * count + POSITIONS_MIN, count);
    }
}

fn sampled(block: u64, shift: u32) -> bool {
    // Other bits than those by which the table finds its places.
    mix(block ^ 0x9e37_79b9_7f4a_7c15).trailing_zeros() >= shift
}

/// Block numbers are no secret, and the default hash takes longer than all the rest.
#[derive(Clone, Copy, Default)]
struct Mixed;

struct Mix(u64);

impl BuildHasher for Mixed {
    type Hasher = Mix;

    fn build_hasher(&self) -> Mix {
        Mix(0)
    }
}

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = mix(self.0 ^ value);
    }
}
