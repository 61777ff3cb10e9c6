//! The cache of a shard: which slot holds which block, who uses it, and what may go.
//!
//! Every slot has one [`Frame`] of 21 bytes. A slot is *free*, *resident* (found by its block) or
//! *held* (a block on its way in or out). Pins count the users of a slot; a held slot is free as
//! soon as nobody pins it.

mod apart;
mod groups;
mod replicas;
mod retained;

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use apart::Apart;
use groups::Groups;
use replicas::Replicas;
use retained::Retained;

use crate::frame_data::FrameData;
use crate::ids::{BlockId, NodeId, PgId, Slot};
use crate::index::{Entry, Index};
use crate::replacement::Replacer;
use crate::table::Table;

const NONE: u32 = u32::MAX;
/// Stands for no node, in ten bits.
const NOBODY: u32 = NodeId::MAX_NODES as u32;

/// What is known of one slot. Packed: all tables may cost at most 36 bytes per cached block.
#[derive(Clone, Copy)]
#[repr(C, packed)]
struct Frame {
    index: u32,
    /// Neighbours in the replacement's queue, or in the free list (`older`).
    newer: u32,
    older: u32,
    /// A number of [`Groups`].
    group: u16,
    /// The two ids of HSCC's cache index (section 3), ten bits each: who delivered this copy, who asked for it next.
    ids: [u8; 3],
    /// Saturates: a slot that was ever pinned that often stays pinned.
    pins: u16,
    marks: u16,
}

/// One-bit facts about a resident block.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark(u16);

impl Mark {
    /// Fetched ahead, not yet read.
    pub(crate) const AHEAD: Self = Self(1 << 2);
    /// Delivered from a disk.
    pub(crate) const FROM_DISK: Self = Self(1 << 3);
    /// Stored here for another node, not yet used.
    pub(crate) const HOSTED: Self = Self(1 << 4);
    /// A write to it is under way: neither read nor evicted.
    pub(crate) const LOCKED: Self = Self(1 << 5);
    /// Of a replacement with several queues: not in the one for new blocks.
    pub(crate) const MAIN: Self = Self(1 << 6);
    /// Resident. A slot that is not is held while it is pinned, else free.
    const RESIDENT: Self = Self(1 << 7);
    /// The node does not hold the lock on it: not read until that is granted.
    pub(crate) const PARKED: Self = Self(1 << 8);
    /// Kept by the node that wrote it, not yet used.
    pub(crate) const WRITTEN: Self = Self(1 << 9);
    /// Read since somebody looked whether its lock is in use.
    pub(crate) const READ: Self = Self(1 << 10);
    /// It stays: in no queue, and counted in [`Retained`].
    pub(crate) const RETAINED: Self = Self(1 << 11);
    /// Of a block that another node keeps: in [`Replicas`].
    pub(crate) const REPLICA: Self = Self(1 << 12);
    /// Not to be read now.
    pub(crate) const HIDDEN: Self = Self(Self::LOCKED.0 | Self::PARKED.0);
    /// Nobody has used it here.
    pub(crate) const UNUSED: Self = Self(Self::HOSTED.0 | Self::WRITTEN.0);
}

/// Bits of `marks` that count references (0 to 3), for the replacement.
const REFERENCES: u16 = 0b11;

/// The frames of all slots: what a replacement may see and link.
pub struct Frames {
    frames: Vec<Frame>,
    groups: Groups,
    /// The turn in which each slot has entered its place in a queue; empty unless ages are kept.
    entered: Vec<u32>,
    /// Blocks that have become resident so far; wraps.
    turn: u32,
}

impl Frames {
    /// The neighbour that came after it.
    #[must_use]
    pub fn newer(&self, slot: u32) -> Option<u32> {
        some(self.frames[slot as usize].newer)
    }

    /// The neighbour that came before it.
    #[must_use]
    pub fn older(&self, slot: u32) -> Option<u32> {
        some(self.frames[slot as usize].older)
    }

    /// Sets the neighbour that came after it.
    pub fn set_newer(&mut self, slot: u32, to: Option<u32>) {
        self.frames[slot as usize].newer = to.unwrap_or(NONE);
    }

    /// Sets the neighbour that came before it.
    pub fn set_older(&mut self, slot: u32, to: Option<u32>) {
        self.frames[slot as usize].older = to.unwrap_or(NONE);
    }

    /// References counted so far, at most 3.
    #[must_use]
    pub fn references(&self, slot: u32) -> u8 {
        (self.frames[slot as usize].marks & REFERENCES) as u8
    }

    /// Sets the references counted; 3 stands for more.
    #[inline]
    pub fn set_references(&mut self, slot: u32, count: u8) {
        let frame = &mut self.frames[slot as usize];
        frame.marks = frame.marks & !REFERENCES | u16::from(count).min(REFERENCES);
    }

    /// Nobody uses the block: it may be evicted.
    #[must_use]
    pub fn is_idle(&self, slot: u32) -> bool {
        let frame = &self.frames[slot as usize];
        frame.pins == 0 && frame.marks & Mark::LOCKED.0 == 0
    }

    /// The block in a slot.
    #[must_use]
    pub fn block(&self, slot: u32) -> BlockId {
        let frame = self.frames[slot as usize];
        BlockId::new(self.groups.id(frame.group), frame.index)
    }

    fn has(&self, slot: u32, block: BlockId) -> bool {
        let frame = &self.frames[slot as usize];
        frame.index == block.index && self.groups.id(frame.group) == block.volume
    }

    /// The block is not in the queue for new ones, where the replacement has several.
    #[must_use]
    pub fn is_main(&self, slot: u32) -> bool {
        self.is(slot, Mark::MAIN)
    }

    /// Notes whether the block is in the queue for new ones or in another.
    pub fn set_main(&mut self, slot: u32, on: bool) {
        self.mark(slot, Mark::MAIN, on);
    }

    /// The block has got its place in a queue now.
    pub(crate) fn note_entry(&mut self, slot: u32) {
        if let Some(entered) = self.entered.get_mut(slot as usize) {
            *entered = self.turn;
        }
    }

    /// Blocks that have become resident since the block got its place in its queue.
    fn age(&self, slot: u32) -> u32 {
        self.entered.get(slot as usize).map_or(0, |&entered| self.turn.wrapping_sub(entered))
    }

    pub(crate) fn is(&self, slot: u32, mark: Mark) -> bool {
        self.frames[slot as usize].marks & mark.0 != 0
    }

    pub(crate) fn mark(&mut self, slot: u32, mark: Mark, on: bool) {
        let frame = &mut self.frames[slot as usize];
        frame.marks = if on { frame.marks | mark.0 } else { frame.marks & !mark.0 };
    }
}

const fn some(link: u32) -> Option<u32> {
    if link == NONE { None } else { Some(link) }
}

impl Frame {
    fn ids(&self) -> (Option<NodeId>, Option<NodeId>) {
        let [low, mid, high] = self.ids.map(u32::from);
        let ids = low | mid << 8 | high << 16;
        let node = |id: u32| (id != NOBODY).then_some(NodeId(id as u16));
        (node(ids >> 10 & NOBODY), node(ids & NOBODY))
    }

    fn set_ids(&mut self, previous: Option<NodeId>, next: Option<NodeId>) {
        let id = |node: Option<NodeId>| node.map_or(NOBODY, |node| u32::from(node.0)) & NOBODY;
        let [low, mid, high, _] = (id(previous) << 10 | id(next)).to_le_bytes();
        self.ids = [low, mid, high];
    }
}

/// Which slot holds which block, who uses it, and what may go. A slot is *free*, *resident* (found by its block) or *held*
/// (a block on its way in or out); a held slot is free as soon as nobody has it pinned.
pub struct Cache {
    frames: Frames,
    free: u32,
    free_len: u32,
    resident: u32,
    capacity: u32,
    replacer: Box<dyn Replacer>,
    apart: Option<Apart>,
    replicas: Replicas,
    retained: Retained,
    /// The block that the replacement has last chosen to go.
    victim: Option<u32>,
    table: Table,
    /// What is known of blocks that are not resident.
    pub(crate) index: Index,
    /// What some policies keep with every resident block.
    pub(crate) data: FrameData,
}

impl Cache {
    /// A cache that holds `capacity` blocks and has `extra` slots more for blocks on their way.
    #[must_use]
    pub fn new(capacity: u32, extra: u32, replacer: Box<dyn Replacer>) -> Self {
        let slots = capacity + extra;
        let frame =
            Frame { index: 0, newer: NONE, older: NONE, group: 0, ids: [u8::MAX; 3], pins: 0, marks: 0 };
        let mut frames = Frames {
            frames: vec![frame; slots as usize],
            groups: Groups::default(),
            entered: Vec::new(),
            turn: 0,
        };
        for slot in 1..slots {
            frames.set_older(slot - 1, Some(slot));
        }
        Self {
            frames,
            free: if slots == 0 { NONE } else { 0 },
            free_len: slots,
            resident: 0,
            capacity,
            replacer,
            apart: None,
            replicas: Replicas::default(),
            retained: Retained::default(),
            victim: None,
            // All slots could be resident for a moment, when every block is in use.
            table: Table::new((capacity + capacity / 6).max(slots) as usize + 1, slots),
            index: Index::new(capacity),
            data: FrameData::default(),
        }
    }

    /// Sets places apart for blocks that other nodes send, if there are not as many yet: such a block competes with
    /// other such blocks only, by the time of its last use.
    pub fn set_apart(&mut self, percent: u8, replacer: impl FnOnce(u32) -> Box<dyn Replacer>) {
        let most = self.capacity.saturating_sub(1);
        let quota = (u64::from(self.capacity) * u64::from(percent) / 100) as u32;
        let quota = quota.clamp(most.min(1), most);
        if self.apart.as_ref().is_some_and(|apart| apart.quota >= quota) {
            return;
        }
        let slots: Vec<u32> = self.table.slots().collect();
        slots.iter().for_each(|&slot| self.leave_queue(slot));
        self.replacer = replacer(self.capacity - quota);
        self.apart = Some(Apart::new(quota, self.slots()));
        slots.iter().for_each(|&slot| self.enter_queue(slot));
    }

    /// Blocks of a volume that stay from now on, first and last ones, in place of those that were to: a retained block is not
    /// evicted. There is an end to that, so that others have room: at most three quarters of the places are retained.
    pub fn retain(&mut self, volume: PgId, ranges: Vec<(u32, u32)>) {
        if !self.retained.set(volume, ranges) {
            return;
        }
        let of_volume = |&slot: &u32| self.frames.block(slot).volume == volume;
        let slots: Vec<u32> = self.table.slots().filter(of_volume).collect();
        for slot in slots {
            let is = self.frames.is(slot, Mark::RETAINED);
            let is_to_stay = self.retained.covers(self.frames.block(slot));
            if is && !is_to_stay || !is && is_to_stay && self.retained.len < self.retained_max() {
                self.leave_queue(slot);
                self.enter_queue(slot);
            }
        }
    }

    /// Blocks that are retained.
    #[must_use]
    pub const fn retained(&self) -> u32 {
        self.retained.len
    }

    fn retained_max(&self) -> u32 {
        let places = self.capacity - self.apart.as_ref().map_or(0, |apart| apart.quota);
        (u64::from(places) * 3 / 4) as u32
    }

    /// A resident block enters its queue, or none if it is to stay.
    fn enter_queue(&mut self, slot: u32) {
        if self.retained.len < self.retained_max() && self.retained.covers(self.frames.block(slot)) {
            self.frames.mark(slot, Mark::RETAINED, true);
            self.retained.len += 1;
            self.victim.take_if(|victim| *victim == slot);
            self.frames.mark(slot, Mark::REPLICA, false);
        } else if self.frames.is(slot, Mark::REPLICA) {
            self.replicas.insert(&mut self.frames, slot);
        } else {
            self.replacer.insert(&mut self.frames, slot);
        }
    }

    /// A resident block belongs to another node: it goes where such blocks are kept, if places are set apart.
    pub fn move_apart(&mut self, slot: Slot) {
        if let Some(apart) = &mut self.apart
            && !apart.holds(slot.0)
            && !self.frames.is(slot.0, Mark::RETAINED)
            && !self.frames.is(slot.0, Mark::REPLICA)
        {
            self.replacer.remove(&mut self.frames, slot.0);
            apart.insert(&mut self.frames, slot.0);
        }
    }

    pub(crate) fn is_apart(&self, slot: Slot) -> bool {
        self.apart.as_ref().is_some_and(|apart| apart.holds(slot.0))
    }

    /// More blocks are resident, of one kind or the other, than there are places.
    #[must_use]
    pub fn is_overfull(&self) -> bool {
        match &self.apart {
            None => self.resident > self.capacity,
            Some(_) => self.is_overfull_apart() || self.is_overfull_here(),
        }
    }

    fn is_overfull_apart(&self) -> bool {
        self.apart.as_ref().is_some_and(|apart| apart.len() > apart.quota)
    }

    fn is_overfull_here(&self) -> bool {
        let (quota, len) = self.apart.as_ref().map_or((0, 0), |apart| (apart.quota, apart.len()));
        self.resident - len > self.capacity - quota
    }

    /// Free places for blocks that other nodes send.
    #[must_use]
    pub fn free_places(&self) -> u32 {
        match &self.apart {
            None => self.capacity.saturating_sub(self.resident),
            Some(apart) => apart.quota.saturating_sub(apart.len()),
        }
    }

    /// The queue of a resident block; none if it is retained.
    fn queue_of(&mut self, slot: u32) -> Option<(&mut dyn Replacer, &mut Frames)> {
        match &mut self.apart {
            _ if self.frames.is(slot, Mark::RETAINED) => None,
            _ if self.frames.is(slot, Mark::REPLICA) => Some((&mut self.replicas.queue, &mut self.frames)),
            Some(apart) if apart.holds(slot) => Some((apart.queue(), &mut self.frames)),
            _ => Some((self.replacer.as_mut(), &mut self.frames)),
        }
    }

    /// A block leaves its queue, and nothing is learned from it; a retained one is none any more.
    fn leave_queue(&mut self, slot: u32) {
        if self.frames.is(slot, Mark::RETAINED) {
            self.frames.mark(slot, Mark::RETAINED, false);
            self.retained.len -= 1;
            return;
        }
        match &mut self.apart {
            _ if self.frames.is(slot, Mark::REPLICA) => self.replicas.remove(&mut self.frames, slot),
            Some(apart) if apart.holds(slot) => apart.remove(&mut self.frames, slot),
            _ => self.replacer.remove(&mut self.frames, slot),
        }
    }

    pub(crate) fn slots(&self) -> u32 {
        self.frames.frames.len() as u32
    }

    /// Blocks it holds at most.
    #[must_use]
    pub const fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Blocks it holds.
    #[must_use]
    pub const fn resident(&self) -> u32 {
        self.resident
    }

    /// Slots that are free.
    #[must_use]
    pub const fn free_slots(&self) -> u32 {
        self.free_len
    }

    pub(crate) const fn frames(&self) -> &Frames {
        &self.frames
    }

    /// Bytes of index for all slots together.
    pub(crate) fn index_bytes(&self) -> usize {
        self.frames.frames.len() * size_of::<Frame>()
            + self.table.bytes()
            + self.replacer.extra_bytes()
            + self.apart.as_ref().map_or(0, Apart::bytes)
            + self.index.bytes()
            + self.frames.entered.len() * size_of::<u32>()
            + self.data.bytes()
    }

    /// The slot of a resident block.
    #[must_use]
    pub fn lookup(&self, block: BlockId) -> Option<Slot> {
        self.table.find(block.hash(), |slot| self.frames.has(slot, block)).map(Slot)
    }

    /// Has the processor fetch what searches for these blocks look at, for all of them at the same time: in a search for one after
    /// the other, each waits for memory alone.
    pub(crate) fn approach(&self, blocks: impl Iterator<Item = BlockId> + Clone) {
        let begin = |block: BlockId| self.table.begin(block.hash()) ^ self.index.begin(block);
        core::hint::black_box(blocks.clone().map(begin).fold(0, |all, one| all ^ one));
        let pins = |block: BlockId| {
            let slot = self.table.find(block.hash(), |_| true)?;
            self.frames.frames.get(slot as usize).map(|frame| frame.pins)
        };
        core::hint::black_box(blocks.filter_map(pins).fold(0, |all, one| all ^ one));
    }

    /// Takes a free slot, if there is one; it is held and pinned once.
    pub fn take(&mut self) -> Option<Slot> {
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
    pub fn insert(&mut self, slot: Slot, block: BlockId, previous: Option<NodeId>) {
        assert!(self.lookup(block).is_none(), "{block:?} is resident already");
        let group = self.frames.groups.number(block.volume);
        let frame = &mut self.frames.frames[slot.0 as usize];
        assert!(frame.marks & Mark::RESIDENT.0 == 0 && frame.pins > 0, "only a held slot becomes resident");
        frame.group = group;
        frame.index = block.index;
        frame.set_ids(previous, None);
        frame.marks = Mark::RESIDENT.0;
        self.table.insert(block.hash(), slot.0);
        self.resident += 1;
        self.frames.turn = self.frames.turn.wrapping_add(1);
        self.enter_queue(slot.0);
    }

    /// Ends the residence of a block. The slot is held until its users have unpinned it. The replacement
    /// learns from it only if it has chosen the block itself, by [`Self::victim`].
    pub fn remove(&mut self, slot: Slot) {
        let block = self.frames.block(slot.0);
        self.table.remove(block.hash(), slot.0, |slot| self.frames.block(slot).hash());
        match self.victim.take_if(|victim| *victim == slot.0) {
            Some(_) => self.replacer.evict(&mut self.frames, slot.0),
            None => self.leave_queue(slot.0),
        }
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

    /// A slot has one user more.
    pub fn pin(&mut self, slot: Slot) {
        let frame = &mut self.frames.frames[slot.0 as usize];
        debug_assert!(frame.pins > 0 || frame.marks & Mark::RESIDENT.0 != 0, "a free slot is not pinned");
        frame.pins = frame.pins.saturating_add(1);
    }

    /// Whether the slot became free by it.
    pub fn unpin(&mut self, slot: Slot) -> bool {
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

    /// Users of a slot.
    #[must_use]
    pub fn pins(&self, slot: Slot) -> u16 {
        self.frames.frames[slot.0 as usize].pins
    }

    pub(crate) fn is_resident(&self, slot: Slot) -> bool {
        self.is(slot, Mark::RESIDENT)
    }

    /// A client of this node uses the block.
    pub(crate) fn mark_used(&mut self, slot: Slot) {
        let frame = &mut self.frames.frames[slot.0 as usize];
        frame.marks = frame.marks & !(Mark::AHEAD.0 | Mark::UNUSED.0) | Mark::READ.0;
    }

    /// Tells the replacement of a use.
    #[inline]
    pub fn touch(&mut self, slot: Slot) {
        if let Some((queue, frames)) = self.queue_of(slot.0) {
            queue.hit(frames, slot.0);
        }
    }

    /// The block the replacement would evict now.
    pub fn victim(&mut self) -> Option<Slot> {
        if self.is_overfull_apart()
            && let Some(apart) = &mut self.apart
            && let Some(victim) = apart.queue().victim(&mut self.frames)
        {
            self.victim = None;
            return Some(Slot(victim));
        }
        if self.apart.is_some() && !self.is_overfull_here() {
            return None;
        }
        self.victim = self.replacer.victim(&mut self.frames);
        self.victim.map(Slot)
    }

    /// Makes a resident block the next victim, unless it is retained: it is of no more use here.
    pub fn cool(&mut self, slot: Slot) {
        if let Some((queue, frames)) = self.queue_of(slot.0) {
            queue.cool(frames, slot.0);
        }
    }

    /// The next candidates for eviction, the likeliest first.
    pub fn tail(&self) -> impl Iterator<Item = Slot> + '_ {
        let next = move |at: &Slot| self.replacer.next_candidate(&self.frames, Some(at.0)).map(Slot);
        core::iter::successors(self.replacer.next_candidate(&self.frames, None).map(Slot), next)
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

    /// The block of a resident slot.
    #[must_use]
    pub fn block(&self, slot: Slot) -> BlockId {
        self.frames.block(slot.0)
    }

    pub(crate) fn previous(&self, slot: Slot) -> Option<NodeId> {
        self.frames.frames[slot.0 as usize].ids().0
    }

    pub(crate) fn next(&self, slot: Slot) -> Option<NodeId> {
        self.frames.frames[slot.0 as usize].ids().1
    }

    /// The block's index entry, resident or not.
    pub(crate) fn entry(&self, block: BlockId) -> Entry {
        match self.lookup(block) {
            Some(slot) => Entry { previous: self.previous(slot), next: self.next(slot) },
            None => self.index.get(block),
        }
    }

    pub(crate) fn set_next(&mut self, slot: Slot, to: Option<NodeId>) {
        let frame = &mut self.frames.frames[slot.0 as usize];
        frame.set_ids(frame.ids().0, to);
    }

    /// Panics unless every slot is accounted for.
    pub fn check(&self) {
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
        let apart = self.apart.as_ref().map_or(0, Apart::len);
        let retained: Vec<Slot> =
            self.resident_slots().filter(|&slot| self.is(slot, Mark::RETAINED)).collect();
        assert!(retained.len() == self.retained.len as usize, "as many blocks are retained as counted");
        assert!(self.retained.len <= self.retained_max(), "there is room for other blocks");
        assert!(
            retained.iter().all(|&slot| self.retained.covers(self.block(slot)) && !self.is_apart(slot)),
            "what is retained is to stay"
        );
        assert!(
            self.replacer.len() + apart + self.replicas.len() + self.retained.len == self.resident,
            "the replacement knows every other resident block"
        );
        let held = frames.iter().filter(|f| f.marks & Mark::RESIDENT.0 == 0 && f.pins > 0).count();
        assert!(resident + held + free as usize == frames.len(), "every slot is resident, held or free");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replacement::Lru;

    fn block(index: u32) -> BlockId {
        BlockId::new(crate::ids::PgId(0), index)
    }

    #[test]
    fn a_frame_has_21_bytes() {
        assert_eq!(size_of::<Frame>(), 21);
    }

    #[test]
    fn blocks_that_are_here_or_not_are_approached() {
        let mut cache = Cache::new(2, 0, Box::new(Lru::default()));
        let slot = cache.take().unwrap();
        cache.insert(slot, block(1), None);
        cache.approach((0..16).map(block));
        assert_eq!((cache.lookup(block(1)), cache.lookup(block(0))), (Some(slot), None));
        cache.check();
    }

    fn filled(capacity: u32) -> Cache {
        let mut cache = Cache::new(capacity, 4, Box::new(Lru::default()));
        (0..capacity).for_each(|index| insert(&mut cache, index));
        cache
    }

    fn insert(cache: &mut Cache, index: u32) {
        let slot = cache.take().unwrap();
        cache.insert(slot, block(index), None);
        cache.unpin(slot);
        while cache.is_overfull() {
            let victim = cache.victim().expect("a block that nobody uses");
            cache.remove(victim);
        }
        cache.check();
    }

    #[test]
    fn retained_blocks_are_not_evicted() {
        let mut cache = filled(16);
        cache.retain(crate::ids::PgId(0), vec![(2, 4), (100, 101)]);
        assert_eq!(cache.retained(), 3);
        (50..90).for_each(|index| insert(&mut cache, index));
        assert!(
            (2..=4).all(|index| cache.lookup(block(index)).is_some()) && cache.lookup(block(0)).is_none()
        );
        // What comes later is retained from the start.
        insert(&mut cache, 100);
        assert_eq!(cache.retained(), 4);
        // A write drops the content; the range stays.
        let slot = cache.lookup(block(3)).unwrap();
        cache.touch(slot);
        cache.cool(slot);
        cache.remove(slot);
        assert_eq!((cache.retained(), cache.lookup(block(3))), (3, None));
        insert(&mut cache, 3);
        assert_eq!(cache.retained(), 4);
        cache.retain(crate::ids::PgId(0), vec![(100, 100)]);
        assert_eq!(cache.retained(), 1);
        (150..190).for_each(|index| insert(&mut cache, index));
        assert!(cache.lookup(block(3)).is_none() && cache.lookup(block(100)).is_some());
        cache.retain(crate::ids::PgId(0), vec![]);
        assert_eq!(cache.retained(), 0);
        cache.check();
    }

    #[test]
    fn other_blocks_have_a_quarter_of_the_places_at_least() {
        let mut cache = filled(16);
        cache.retain(crate::ids::PgId(0), vec![(0, u32::MAX)]);
        assert_eq!(cache.retained(), 12);
        (100..200).for_each(|index| insert(&mut cache, index));
        assert_eq!((cache.retained(), cache.resident()), (12, 16));
        // Places that are set apart are none of theirs.
        cache.set_apart(50, |_| Box::new(Lru::default()));
        assert_eq!(cache.retained(), 6);
        cache.check();
    }

    #[test]
    fn a_removed_block_stays_until_its_users_are_done() {
        let mut cache = Cache::new(2, 0, Box::new(Lru::default()));
        let slot = cache.take().unwrap();
        cache.insert(slot, block(1), None);
        cache.remove(slot);
        assert_eq!((cache.lookup(block(1)), cache.free_slots()), (None, 1));
        assert!(cache.unpin(slot));
        assert_eq!(cache.free_slots(), 2);
        cache.check();
    }
}
