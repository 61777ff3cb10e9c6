//! A cache with LRU replacement, to see what a workload does to one.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Good enough for block numbers, and quick also in a debug build.
#[derive(Default)]
pub(super) struct BlockHasher(u64);

impl Hasher for BlockHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("blocks are u64");
    }

    fn write_u64(&mut self, block: u64) {
        self.0 = block.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(26);
    }
}

/// A place in the list from the newest block to the oldest.
struct Place {
    block: u64,
    newer: usize,
    older: usize,
}

/// Place 0 is the head of the ring: its older neighbour is the newest block.
pub(super) struct Lru {
    capacity: usize,
    places: Vec<Place>,
    free: Vec<usize>,
    index: HashMap<u64, usize, BuildHasherDefault<BlockHasher>>,
}

impl Lru {
    pub(super) fn new(capacity: usize) -> Self {
        let head = Place { block: u64::MAX, newer: 0, older: 0 };
        Self { capacity, places: vec![head], free: Vec::new(), index: HashMap::default() }
    }

    /// Whether the block was there; now it is.
    pub(super) fn touch(&mut self, block: u64) -> bool {
        if let Some(&place) = self.index.get(&block) {
            self.unlink(place);
            self.link(place);
            return true;
        }
        if self.capacity == 0 {
            return false;
        }
        self.shrink(self.capacity - 1);
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place { block, newer: 0, older: 0 });
            self.places.len() - 1
        });
        self.places[place].block = block;
        self.link(place);
        self.index.insert(block, place);
        false
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Has another size from now on.
    pub(super) fn resize(&mut self, capacity: usize) {
        self.capacity = capacity;
        self.shrink(capacity);
    }

    fn shrink(&mut self, count: usize) {
        while self.index.len() > count {
            let oldest = self.places[0].newer;
            self.unlink(oldest);
            self.index.remove(&self.places[oldest].block);
            self.free.push(oldest);
        }
    }

    fn unlink(&mut self, place: usize) {
        let Place { newer, older, .. } = self.places[place];
        self.places[newer].older = older;
        self.places[older].newer = newer;
    }

    fn link(&mut self, place: usize) {
        let newest = self.places[0].older;
        self.places[place].newer = 0;
        self.places[place].older = newest;
        self.places[newest].newer = place;
        self.places[0].older = place;
    }
}

#[test]
fn the_cache_forgets_what_was_used_longest_ago() {
    let mut cache = Lru::new(2);
    assert_eq!([1, 2, 1, 3, 1, 2].map(|block| cache.touch(block)), [false, false, true, false, true, false]);
    cache.resize(1);
    assert_eq!([2, 1].map(|block| cache.touch(block)), [true, false]);
}
