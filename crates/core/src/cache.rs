//! The cache of a shard: which slot holds which block, who uses it, and what may go.
//!
//! Every slot has one [`Frame`] of 21 bytes. A slot is *free*, *resident* (found by its block) or
//! *held* (a block on its way in or out). Pins count the users of a slot; a held slot is free as
//! soon as nobody pins it.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use crate::ids::{BlockId, NodeId, Slot, VolumeId};
use crate::replacement::{Replacement, Replacer};
use crate::table::Table;

const NONE: u32 = u32::MAX;
const NOBODY: u16 = u16::MAX;

/// What is known of one slot. Packed: the index may cost at most 32 bytes per cached block.
#[derive(Clone, Copy)]
#[repr(C, packed)]
struct Frame {
    index: u32,
    /// Neighbours in the replacement's queue, or in the free list (`older`).
    newer: u32,
    older: u32,
    volume: u16,
    /// The two ids of HSCC's cache index (section 3): who delivered this copy, who asked for it next.
    previous: u16,
    next: u16,
    /// Saturates: a slot that was ever pinned that often stays pinned.
    pins: u16,
    marks: u8,
}

/// One-bit facts about a resident block.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark(u8);

impl Mark {
    /// Fetched ahead, not yet read.
    pub(crate) const AHEAD: Self = Self(1 << 2);
    /// Delivered from a disk.
    pub(crate) const FROM_DISK: Self = Self(1 << 3);
    /// Stored here for another node, not yet used.
    pub(crate) const HOSTED: Self = Self(1 << 4);
    /// A write to it is under way: neither read nor evicted.
    pub(crate) const LOCKED: Self = Self(1 << 5);
    /// In the main queue of S3-FIFO.
    pub(crate) const MAIN: Self = Self(1 << 6);
    /// Resident. A slot that is not is held while it is pinned, else free.
    const RESIDENT: Self = Self(1 << 7);
}

/// Bits of `marks` that count references (0 to 3), for the replacement.
const REFERENCES: u8 = 0b11;

/// The frames of all slots: what a replacement may see and link.
pub struct Frames {
    frames: Vec<Frame>,
}

impl Frames {
    pub(crate) fn newer(&self, slot: u32) -> Option<u32> {
        some(self.frames[slot as usize].newer)
    }

    pub(crate) fn older(&self, slot: u32) -> Option<u32> {
        some(self.frames[slot as usize].older)
    }

    pub(crate) fn set_newer(&mut self, slot: u32, to: Option<u32>) {
        self.frames[slot as usize].newer = to.unwrap_or(NONE);
    }

    pub(crate) fn set_older(&mut self, slot: u32, to: Option<u32>) {
        self.frames[slot as usize].older = to.unwrap_or(NONE);
    }

    /// References counted so far, at most 3.
    pub(crate) fn references(&self, slot: u32) -> u8 {
        self.frames[slot as usize].marks & REFERENCES
    }

    pub(crate) fn set_references(&mut self, slot: u32, count: u8) {
        let marks = &mut self.frames[slot as usize].marks;
        *marks = *marks & !REFERENCES | count.min(REFERENCES);
    }

    /// Nobody uses the block: it may be evicted.
    pub(crate) fn is_idle(&self, slot: u32) -> bool {
        let frame = &self.frames[slot as usize];
        frame.pins == 0 && frame.marks & Mark::LOCKED.0 == 0
    }

    pub(crate) fn block(&self, slot: u32) -> BlockId {
        let frame = self.frames[slot as usize];
        BlockId::new(VolumeId(frame.volume), frame.index)
    }

    pub(crate) fn is(&self, slot: u32, mark: Mark) -> bool {
        self.frames[slot as usize].marks & mark.0 != 0
    }

    pub(crate) fn mark(&mut self, slot: u32, mark: Mark, on: bool) {
        let marks = &mut self.frames[slot as usize].marks;
        *marks = if on { *marks | mark.0 } else { *marks & !mark.0 };
    }
}

const fn some(link: u32) -> Option<u32> {
    if link == NONE { None } else { Some(link) }
}

const fn node(id: u16) -> Option<NodeId> {
    if id == NOBODY { None } else { Some(NodeId(id)) }
}

/// See the module's head.
pub(crate) struct Cache {
    frames: Frames,
    free: u32,
    free_len: u32,
    resident: u32,
    capacity: u32,
    replacer: Box<dyn Replacer>,
    table: Table,
}

impl Cache {
    /// A cache that holds `capacity` blocks and has `extra` slots more for blocks on their way.
    pub(crate) fn new(capacity: u32, extra: u32, replacement: Replacement) -> Self {
        let slots = capacity + extra;
        let frame = Frame {
            index: 0,
            newer: NONE,
            older: NONE,
            volume: 0,
            previous: NOBODY,
            next: NOBODY,
            pins: 0,
            marks: 0,
        };
        let mut frames = Frames { frames: vec![frame; slots as usize] };
        for slot in 1..slots {
            frames.set_older(slot - 1, Some(slot));
        }
        Self {
            frames,
            free: if slots == 0 { NONE } else { 0 },
            free_len: slots,
            resident: 0,
            capacity,
            replacer: replacement.build(capacity),
            // All slots could be resident for a moment, when every block is in use.
            table: Table::new((capacity + capacity / 8).max(slots) as usize + 1, slots),
        }
    }

    pub(crate) fn slots(&self) -> u32 {
        self.frames.frames.len() as u32
    }

    pub(crate) const fn capacity(&self) -> u32 {
        self.capacity
    }

    pub(crate) const fn resident(&self) -> u32 {
        self.resident
    }

    pub(crate) const fn free_slots(&self) -> u32 {
        self.free_len
    }

    pub(crate) const fn frames(&self) -> &Frames {
        &self.frames
    }

    /// Bytes of index for all slots together.
    pub(crate) fn index_bytes(&self) -> usize {
        self.frames.frames.len() * size_of::<Frame>() + self.table.bytes() + self.replacer.extra_bytes()
    }

    pub(crate) fn lookup(&self, block: BlockId) -> Option<Slot> {
        self.table.find(block.hash(), |slot| self.frames.block(slot) == block).map(Slot)
    }

    /// Takes a free slot; it is held and pinned once.
    pub(crate) fn take(&mut self) -> Option<Slot> {
        let slot = some(self.free)?;
        let frame = &mut self.frames.frames[slot as usize];
        self.free = frame.older;
        frame.older = NONE;
        frame.pins = 1;
        frame.marks = 0;
        self.free_len -= 1;
        Some(Slot(slot))
    }

    /// Makes a held slot the resident copy of `block`, which has none yet.
    pub(crate) fn insert(&mut self, slot: Slot, block: BlockId, previous: Option<NodeId>) {
        assert!(self.lookup(block).is_none(), "{block:?} is resident already");
        let frame = &mut self.frames.frames[slot.0 as usize];
        assert!(frame.marks & Mark::RESIDENT.0 == 0 && frame.pins > 0, "only a held slot becomes resident");
        frame.volume = block.volume.0;
        frame.index = block.index;
        frame.previous = previous.map_or(NOBODY, |n| n.0);
        frame.next = NOBODY;
        frame.marks = Mark::RESIDENT.0;
        self.table.insert(block.hash(), slot.0);
        self.resident += 1;
        self.replacer.insert(&mut self.frames, slot.0);
    }

    /// Ends the residence of a block. The slot is held until its users have unpinned it.
    pub(crate) fn remove(&mut self, slot: Slot) {
        let block = self.frames.block(slot.0);
        self.table.remove(block.hash(), slot.0, |slot| self.frames.block(slot).hash());
        self.replacer.remove(&mut self.frames, slot.0);
        self.resident -= 1;
        let frame = &mut self.frames.frames[slot.0 as usize];
        frame.marks = 0;
        if frame.pins == 0 {
            self.release(slot);
        }
    }

    fn release(&mut self, slot: Slot) {
        let frame = &mut self.frames.frames[slot.0 as usize];
        frame.newer = NONE;
        frame.older = self.free;
        self.free = slot.0;
        self.free_len += 1;
    }

    pub(crate) fn pin(&mut self, slot: Slot) {
        let frame = &mut self.frames.frames[slot.0 as usize];
        debug_assert!(frame.pins > 0 || frame.marks & Mark::RESIDENT.0 != 0, "a free slot is not pinned");
        frame.pins = frame.pins.saturating_add(1);
    }

    /// Whether the slot became free by it.
    pub(crate) fn unpin(&mut self, slot: Slot) -> bool {
        let frame = &mut self.frames.frames[slot.0 as usize];
        assert!(frame.pins > 0, "a slot is unpinned as often as it was pinned");
        if frame.pins == u16::MAX {
            return false;
        }
        frame.pins -= 1;
        let freed = frame.pins == 0 && frame.marks & Mark::RESIDENT.0 == 0;
        if freed {
            self.release(slot);
        }
        freed
    }

    pub(crate) fn pins(&self, slot: Slot) -> u16 {
        self.frames.frames[slot.0 as usize].pins
    }

    pub(crate) fn is_resident(&self, slot: Slot) -> bool {
        self.is(slot, Mark::RESIDENT)
    }

    /// Tells the replacement of a use.
    pub(crate) fn touch(&mut self, slot: Slot) {
        self.replacer.hit(&mut self.frames, slot.0);
    }

    /// The block the replacement would evict now.
    pub(crate) fn victim(&mut self) -> Option<Slot> {
        self.replacer.victim(&mut self.frames).map(Slot)
    }

    /// The next candidates for eviction, the likeliest first.
    pub(crate) fn tail(&self) -> impl Iterator<Item = Slot> + '_ {
        let mut at = self.replacer.oldest();
        core::iter::from_fn(move || {
            let slot = at?;
            at = self.frames.newer(slot);
            Some(Slot(slot))
        })
    }

    pub(crate) fn resident_slots(&self) -> impl Iterator<Item = Slot> + '_ {
        self.table.slots().map(Slot)
    }

    pub(crate) fn mark(&mut self, slot: Slot, mark: Mark, on: bool) {
        self.frames.mark(slot.0, mark, on);
    }

    pub(crate) fn is(&self, slot: Slot, mark: Mark) -> bool {
        self.frames.is(slot.0, mark)
    }

    pub(crate) fn block(&self, slot: Slot) -> BlockId {
        self.frames.block(slot.0)
    }

    pub(crate) fn previous(&self, slot: Slot) -> Option<NodeId> {
        node(self.frames.frames[slot.0 as usize].previous)
    }

    pub(crate) fn next(&self, slot: Slot) -> Option<NodeId> {
        node(self.frames.frames[slot.0 as usize].next)
    }

    pub(crate) fn set_next(&mut self, slot: Slot, to: Option<NodeId>) {
        self.frames.frames[slot.0 as usize].next = to.map_or(NOBODY, |n| n.0);
    }

    /// Panics unless every slot is accounted for.
    pub(crate) fn check(&self) {
        let mut free = 0;
        let mut at = self.free;
        while let Some(slot) = some(at) {
            assert!(!self.is_resident(Slot(slot)) && self.pins(Slot(slot)) == 0);
            at = self.frames.frames[slot as usize].older;
            free += 1;
        }
        assert!(free == self.free_len, "the free list has as many slots as counted");
        let frames = &self.frames.frames;
        let resident = frames.iter().filter(|f| f.marks & Mark::RESIDENT.0 != 0).count();
        assert!(resident == self.resident as usize && self.resident_slots().count() == resident);
        for slot in self.resident_slots() {
            assert!(self.lookup(self.block(slot)) == Some(slot), "every resident block is found");
        }
        assert!(self.replacer.len() == self.resident, "the replacement knows every resident block");
        let held = frames.iter().filter(|f| f.marks & Mark::RESIDENT.0 == 0 && f.pins > 0).count();
        assert!(resident + held + free as usize == frames.len(), "every slot is resident, held or free");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn block(index: u32) -> BlockId {
        BlockId::new(VolumeId(0), index)
    }

    #[test]
    fn a_frame_has_21_bytes() {
        assert_eq!(size_of::<Frame>(), 21);
    }

    #[test]
    fn a_removed_block_stays_until_its_users_are_done() {
        let mut cache = Cache::new(2, 0, Replacement::Lru);
        let slot = cache.take().unwrap();
        cache.insert(slot, block(1), None);
        cache.remove(slot);
        assert_eq!((cache.lookup(block(1)), cache.free_slots()), (None, 1));
        assert!(cache.unpin(slot));
        assert_eq!(cache.free_slots(), 2);
        cache.check();
    }

    proptest! {
        #[test]
        fn behaves_like_a_map(ops in prop::collection::vec((0u32..40, any::<bool>()), 0..400)) {
            for replacement in Replacement::ALL {
                let mut cache = Cache::new(16, 4, replacement);
                let mut model = BTreeMap::new();
                for &(index, insert) in &ops {
                    assert_eq!(cache.lookup(block(index)), model.get(&index).copied());
                    match (model.get(&index).copied(), insert) {
                        (Some(slot), true) => cache.touch(slot),
                        (Some(slot), false) => { cache.remove(slot); model.remove(&index); }
                        (None, true) => {
                            if cache.resident() == cache.capacity() {
                                let victim = cache.victim().unwrap();
                                model.remove(&cache.block(victim).index);
                                cache.remove(victim);
                            }
                            let slot = cache.take().unwrap();
                            cache.insert(slot, block(index), None);
                            cache.unpin(slot);
                            model.insert(index, slot);
                        }
                        (None, false) => {}
                    }
                    cache.check();
                }
            }
        }
    }
}
