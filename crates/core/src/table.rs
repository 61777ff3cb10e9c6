//! From a block's hash to the slot that holds it: open addressing with linear probing, four bytes a place.
//!
//! The bits of a place that its slot's number leaves free hold a tag, part of the hash. So a search looks at
//! the frame of the right slot and hardly ever at another one: every frame looked at is likely to be a cache
//! miss of the processor. A removal has to look at those behind it in the same run, so runs should be short:
//! a seventh of the places stays free, which is what 36 bytes per cached block leave room for.

use alloc::vec;
use alloc::vec::Vec;

/// Nothing lies here. Its slot's number is one that no slot has.
const EMPTY: u32 = u32::MAX;

/// Finds slots by the hashes of what they hold, at four bytes a place and hardly a look at a wrong slot: open addressing,
/// with a tag of the hash beside each slot's number.
pub struct Table {
    places: Vec<u32>,
    /// The bits of a place that are the slot's number; those above are the tag.
    slot_mask: u32,
}

impl Table {
    /// A table of so many places, at least one more than will be used, for slots below `slots`.
    ///
    /// # Panics
    /// If there are more than 2^31 slots.
    #[must_use]
    pub fn new(places: usize, slots: u32) -> Self {
        assert!(slots < 1 << 31, "a shard has at most 2^31 slots");
        // One number more than there are slots, so that no entry is `EMPTY`.
        let slot_mask = (slots + 1).next_power_of_two() - 1;
        Self { places: vec![EMPTY; places], slot_mask }
    }

    /// Bytes of memory.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.places.len() * size_of::<u32>()
    }

    /// The slots in it, in no useful order.
    pub fn slots(&self) -> impl Iterator<Item = u32> + '_ {
        self.places.iter().filter(|&&place| place != EMPTY).map(|&place| place & self.slot_mask)
    }

    /// The slot with this hash for which `is_it` says so.
    pub fn find(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let tag = self.tag(hash);
        let mut at = self.ideal(hash);
        loop {
            let place = self.places[at];
            // `EMPTY` may have the tag that is looked for.
            if place == EMPTY {
                return None;
            }
            let slot = place & self.slot_mask;
            if place & !self.slot_mask == tag && is_it(slot) {
                return Some(slot);
            }
            at = self.after(at);
        }
    }

    /// Where a search for this hash begins. What is there is of no use but that it was looked at.
    pub(crate) fn begin(&self, hash: u64) -> u32 {
        self.places[self.ideal(hash)]
    }

    /// Adds a slot that is not in it.
    pub fn insert(&mut self, hash: u64, slot: u32) {
        let mut at = self.ideal(hash);
        while self.places[at] != EMPTY {
            at = self.after(at);
        }
        self.places[at] = self.tag(hash) | slot;
    }

    /// Removes a slot that is in it; `hash_of` gives the hashes of the others.
    ///
    /// # Panics
    /// If the slot is not in it.
    ///
    /// Backward-shift deletion: later entries of the same run move up, so that no tombstone is needed.
    pub fn remove(&mut self, hash: u64, slot: u32, hash_of: impl Fn(u32) -> u64) {
        let entry = self.tag(hash) | slot;
        let mut gap = self.ideal(hash);
        while self.places[gap] != entry {
            assert!(self.places[gap] != EMPTY, "a resident block is in the table");
            gap = self.after(gap);
        }
        let len = self.places.len();
        // Places from one to the other, onwards and around the end.
        let distance = |from: usize, to: usize| if to >= from { to - from } else { to + len - from };
        let mut at = gap;
        loop {
            at = self.after(at);
            let place = self.places[at];
            if place == EMPTY {
                break;
            }
            let ideal = self.ideal(hash_of(place & self.slot_mask));
            if distance(ideal, at) >= distance(gap, at) {
                self.places[gap] = place;
                gap = at;
            }
        }
        self.places[gap] = EMPTY;
    }

    /// Where a search begins: by the upper bits of the hash.
    fn ideal(&self, hash: u64) -> usize {
        ((u128::from(hash) * self.places.len() as u128) >> 64) as usize
    }

    /// The tag: of the lower bits.
    const fn tag(&self, hash: u64) -> u32 {
        hash as u32 & !self.slot_mask
    }

    const fn after(&self, at: usize) -> usize {
        if at + 1 == self.places.len() { 0 } else { at + 1 }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::vec::Vec;

    use super::*;
    use crate::ids::mix;

    #[test]
    fn nearly_full_it_looks_at_one_frame_a_search() {
        let slots = 1024u32;
        let mut table = Table::new(1024 + 1024 / 8, slots);
        let hashes: Vec<u64> = (0..slots).map(|slot| mix(u64::from(slot))).collect();
        hashes.iter().zip(0..).for_each(|(&hash, slot)| table.insert(hash, slot));
        let looked = Cell::new(0);
        for (&hash, slot) in hashes.iter().zip(0..) {
            let is_it = |other: u32| {
                looked.set(looked.get() + 1);
                hashes[other as usize] == hash
            };
            assert_eq!(table.find(hash, is_it), Some(slot));
        }
        assert!(looked.get() <= slots + 1, "{} frames for {slots} searches", looked.get());
        assert_eq!(table.slots().count(), slots as usize);
    }

    #[test]
    fn the_last_slot_with_the_highest_tag_is_not_empty() {
        for slots in [1, 2, 3, 4, 1023, 1024] {
            let mut table = Table::new(8, slots);
            table.insert(u64::MAX, slots - 1);
            assert_eq!(table.find(u64::MAX, |_| true), Some(slots - 1));
            table.remove(u64::MAX, slots - 1, |_| unreachable!("it is alone"));
            assert_eq!(table.find(u64::MAX, |_| true), None);
        }
    }
}
