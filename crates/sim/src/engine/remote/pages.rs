//! The page cache of a node: least recently used, and who waits for what is on its way.

use std::collections::HashMap;

const NONE: u32 = u32::MAX;

/// Blocks that are there, and blocks that have been asked for.
#[derive(Debug)]
pub(super) struct Pages {
    capacity: usize,
    index: HashMap<u32, u32>,
    places: Vec<Place>,
    /// At both ends of the list.
    newest: u32,
    oldest: u32,
    coming: HashMap<u32, Vec<u32>>,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    block: u32,
    newer: u32,
    older: u32,
}

/// What is known of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Found {
    Here,
    /// It has been asked for.
    Coming,
    Absent,
}

impl Pages {
    pub(super) fn new(capacity: u32) -> Self {
        Self {
            capacity: capacity as usize,
            index: HashMap::new(),
            places: Vec::new(),
            newest: NONE,
            oldest: NONE,
            coming: HashMap::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    /// Looks a block up, to use it.
    pub(super) fn find(&mut self, block: u32) -> Found {
        if let Some(&place) = self.index.get(&block) {
            self.unlink(place);
            self.link(place);
            return Found::Here;
        }
        if self.coming.contains_key(&block) { Found::Coming } else { Found::Absent }
    }

    /// A block is asked for.
    pub(super) fn expect(&mut self, block: u32) {
        self.coming.entry(block).or_default();
    }

    /// Somebody waits for a block that has been asked for.
    pub(super) fn wait(&mut self, block: u32, who: u32) {
        self.coming.entry(block).or_default().push(who);
    }

    /// A block is there; returns who waits for it.
    pub(super) fn arrived(&mut self, block: u32) -> Vec<u32> {
        let place = if self.index.len() < self.capacity {
            self.places.push(Place { block, newer: NONE, older: NONE });
            (self.places.len() - 1) as u32
        } else {
            let victim = self.oldest;
            self.unlink(victim);
            self.index.remove(&self.places[victim as usize].block);
            self.places[victim as usize].block = block;
            victim
        };
        self.link(place);
        let before = self.index.insert(block, place);
        debug_assert!(before.is_none(), "block {block} was there");
        self.coming.remove(&block).unwrap_or_default()
    }

    fn link(&mut self, place: u32) {
        let older = self.newest;
        self.places[place as usize].newer = NONE;
        self.places[place as usize].older = older;
        match older {
            NONE => self.oldest = place,
            older => self.places[older as usize].newer = place,
        }
        self.newest = place;
    }

    fn unlink(&mut self, place: u32) {
        let Place { newer, older, .. } = self.places[place as usize];
        match newer {
            NONE => self.newest = older,
            newer => self.places[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.places[older as usize].newer = newer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_block_leaves() {
        let mut pages = Pages::new(2);
        for block in [1, 2] {
            assert_eq!(pages.find(block), Found::Absent);
            pages.expect(block);
            pages.wait(block, 7);
            assert_eq!(pages.find(block), Found::Coming);
            assert_eq!(pages.arrived(block), [7]);
        }
        assert_eq!(pages.find(1), Found::Here);
        pages.expect(3);
        assert!(pages.arrived(3).is_empty());
        assert_eq!([1, 2, 3].map(|block| pages.find(block)), [Found::Here, Found::Absent, Found::Here]);
        assert_eq!(pages.len(), 2);
    }
}
