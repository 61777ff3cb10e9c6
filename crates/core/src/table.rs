//! From a block's hash to the slot that holds it: groups of sixteen places of four bytes, each group a line of the processor's cache.
//!
//! A slot lies in the group that its hash names, or, when that one is full, in the next that is not. So a search ends at a group with
//! a free place. The bits of a place that its slot's number leaves free hold a tag, part of the hash, so that a search looks at the frame
//! of the right slot and hardly ever at another one: every frame looked at is likely to be a cache miss of the processor. One bit says
//! that the slot does not lie where its hash names: a removal from a full group has to look at the frames of such slots behind it.

use alloc::vec;
use alloc::vec::Vec;

/// Nothing lies here. Its slot's number is one that no slot has.
const EMPTY: u32 = u32::MAX;
/// The slot lies behind the group that its hash names.
const BEHIND: u32 = 1 << 31;
const PLACES: usize = 16;

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Group([u32; PLACES]);

impl Group {
    /// Whether any place has these bits under a mask: processors compare all at once for it.
    #[inline]
    fn has(&self, bits: u32, mask: u32) -> bool {
        self.0.iter().fold(false, |found, place| found | (place & mask == bits))
    }

    /// The places that have them.
    #[inline]
    fn with(&self, bits: u32, mask: u32) -> impl Iterator<Item = usize> {
        (0..PLACES).filter(move |&at| self.0[at] & mask == bits)
    }

    fn is_full(&self) -> bool {
        !self.has(EMPTY, u32::MAX)
    }
}

/// Finds slots by the hashes of what they hold, at four bytes a place and hardly a look at a wrong slot.
pub struct Table {
    groups: Vec<Group>,
    /// The bits of a place that are the slot's number; those above are the tag, but for the highest.
    slot_mask: u32,
}

impl Table {
    /// A table of at least so many places, one more than will be used, for slots below `slots`. It is quick while a seventh of them
    /// is free.
    ///
    /// # Panics
    /// If there are more than 2^30 slots.
    #[must_use]
    pub fn new(places: usize, slots: u32) -> Self {
        assert!(slots < 1 << 30, "a shard has at most 2^30 slots");
        // One number more than there are slots, so that no entry is `EMPTY`.
        let slot_mask = (slots + 1).next_power_of_two() - 1;
        Self { groups: vec![Group([EMPTY; PLACES]); places.div_ceil(PLACES).max(1)], slot_mask }
    }

    /// Bytes of memory.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.groups.len() * size_of::<Group>()
    }

    /// The slots in it, in no useful order.
    pub fn slots(&self) -> impl Iterator<Item = u32> + '_ {
        let places = self.groups.iter().flat_map(|group| &group.0);
        places.filter(|&&place| place != EMPTY).map(|&place| place & self.slot_mask)
    }

    /// The slot with this hash for which `is_it` says so.
    pub fn find(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let (tag, mask) = (self.tag(hash), !(self.slot_mask | BEHIND));
        let mut at = self.ideal(hash);
        loop {
            let group = &self.groups[at];
            if group.has(tag, mask) {
                let mut slots = group.with(tag, mask).map(|place| group.0[place] & self.slot_mask);
                // `EMPTY` may have the tag that is looked for.
                let found = slots.find(|&slot| slot != self.slot_mask && is_it(slot));
                if found.is_some() {
                    return found;
                }
            }
            if !group.is_full() {
                return None;
            }
            at = self.after(at);
        }
    }

    /// Where a search for this hash begins. What is there is of no use but that it was looked at.
    pub(crate) fn begin(&self, hash: u64) -> u32 {
        self.groups[self.ideal(hash)].0[0]
    }

    /// Adds a slot that is not in it.
    pub fn insert(&mut self, hash: u64, slot: u32) {
        let ideal = self.ideal(hash);
        let mut at = ideal;
        loop {
            let free = self.groups[at].with(EMPTY, u32::MAX).next();
            if let Some(place) = free {
                self.groups[at].0[place] = self.entry(hash, slot, at != ideal);
                return;
            }
            at = self.after(at);
        }
    }

    /// Removes a slot that is in it; `hash_of` gives the hashes of the others.
    ///
    /// # Panics
    /// If the slot is not in it.
    pub fn remove(&mut self, hash: u64, slot: u32, hash_of: impl Fn(u32) -> u64) {
        let mut at = self.ideal(hash);
        let mut place = loop {
            let group = &self.groups[at];
            if let Some(place) = group.with(self.entry(hash, slot, false), !BEHIND).next() {
                break place;
            }
            assert!(group.is_full(), "a resident block is in the table");
            at = self.after(at);
        };
        // Who had no room here, or before, and lies behind moves up.
        while self.groups[at].is_full()
            && let Some((group, behind)) = self.next_behind(at, &hash_of)
        {
            let slot = self.groups[group].0[behind] & self.slot_mask;
            let hash = hash_of(slot);
            self.groups[at].0[place] = self.entry(hash, slot, self.ideal(hash) != at);
            (at, place) = (group, behind);
        }
        self.groups[at].0[place] = EMPTY;
    }

    /// Where the next slot lies that could lie in this full group.
    fn next_behind(&self, group: usize, hash_of: impl Fn(u32) -> u64) -> Option<(usize, usize)> {
        let len = self.groups.len();
        // Groups from one to the other, onwards and around the end.
        let distance = |from: usize, to: usize| if to >= from { to - from } else { to + len - from };
        let mut at = self.after(group);
        while at != group {
            let places = self.groups[at];
            let passed = |&place: &usize| {
                let place = places.0[place];
                let ideal = || self.ideal(hash_of(place & self.slot_mask));
                place != EMPTY && distance(ideal(), at) >= distance(group, at)
            };
            let found = places.with(BEHIND, BEHIND).find(passed);
            if found.is_some() || !places.is_full() {
                return found.map(|place| (at, place));
            }
            at = self.after(at);
        }
        None
    }

    /// The group where a search begins: by the upper bits of the hash.
    fn ideal(&self, hash: u64) -> usize {
        ((u128::from(hash) * self.groups.len() as u128) >> 64) as usize
    }

    /// The tag: of the lower bits.
    const fn tag(&self, hash: u64) -> u32 {
        hash as u32 & !(self.slot_mask | BEHIND)
    }

    const fn entry(&self, hash: u64, slot: u32, is_behind: bool) -> u32 {
        self.tag(hash) | slot | if is_behind { BEHIND } else { 0 }
    }

    const fn after(&self, at: usize) -> usize {
        if at + 1 == self.groups.len() { 0 } else { at + 1 }
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

    #[test]
    fn full_and_emptied_in_any_order_it_finds_what_is_in_it() {
        let slots = 47u32;
        let mut table = Table::new(48, slots);
        let mut hashes: Vec<u64> = Vec::new();
        for round in 0..500u64 {
            for slot in 0..slots {
                let hash = mix(round << 32 | u64::from(slot));
                if let Some(&before) = hashes.get(slot as usize) {
                    table.remove(before, slot, |other| hashes[other as usize]);
                    assert_eq!(table.find(before, |other| other == slot), None);
                    hashes[slot as usize] = hash;
                } else {
                    hashes.push(hash);
                }
                table.insert(hash, slot);
                let is_found =
                    |(&hash, slot): (&u64, u32)| table.find(hash, |other| other == slot) == Some(slot);
                assert!(hashes.iter().zip(0..).all(is_found) && table.slots().count() == hashes.len());
            }
        }
        for slot in 0..slots {
            table.remove(hashes[slot as usize], slot, |other| hashes[other as usize]);
        }
        assert_eq!(table.slots().count(), 0);
    }
}
