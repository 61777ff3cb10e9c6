//! The cache memory of one shard and the buffers of its writes, and who uses which slot.

use std::collections::BTreeMap;

use cards_core::{BufferId, Slot};

/// The contents of some sectors.
pub type Tags = Vec<u64>;

/// Slots and buffers of one shard.
#[derive(Debug)]
pub(crate) struct Memory {
    per_block: usize,
    tags: Vec<u64>,
    users: Vec<Users>,
    buffers: BTreeMap<BufferId, Tags>,
}

#[derive(Clone, Copy, Default, Debug)]
struct Users {
    /// Readers: clients served from the slot, messages that leave from it.
    readers: u32,
    /// A payload or a disk read is landing in it.
    filling: bool,
}

impl Memory {
    pub(crate) fn new(slots: u32, per_block: u32) -> Self {
        Self {
            per_block: per_block as usize,
            tags: vec![0; slots as usize * per_block as usize],
            users: vec![Users::default(); slots as usize],
            buffers: BTreeMap::new(),
        }
    }

    pub(crate) fn slot(&self, slot: Slot) -> &[u64] {
        let from = slot.0 as usize * self.per_block;
        &self.tags[from..from + self.per_block]
    }

    fn slot_mut(&mut self, slot: Slot) -> &mut [u64] {
        let from = slot.0 as usize * self.per_block;
        &mut self.tags[from..from + self.per_block]
    }

    /// The slot is read until [`Self::unpin`].
    pub(crate) fn pin(&mut self, slot: Slot) {
        let users = &mut self.users[slot.0 as usize];
        assert!(!users.filling, "{slot:?} is given to a reader while its bytes are still arriving");
        users.readers += 1;
    }

    pub(crate) fn unpin(&mut self, slot: Slot) {
        self.users[slot.0 as usize].readers -= 1;
    }

    /// Bytes will land in the slot until [`Self::filled`].
    pub(crate) fn fill(&mut self, slot: Slot) {
        let users = &mut self.users[slot.0 as usize];
        assert!(users.readers == 0, "{slot:?} is overwritten while {} readers use it", users.readers);
        assert!(!users.filling, "{slot:?} is filled twice at the same time");
        users.filling = true;
    }

    /// One sector of the slot being filled.
    pub(crate) fn fill_sector(&mut self, slot: Slot, sector: usize, tag: u64) {
        assert!(self.users[slot.0 as usize].filling, "{slot:?} is filled by a stranger");
        self.slot_mut(slot)[sector] = tag;
    }

    pub(crate) fn filled(&mut self, slot: Slot) {
        self.users[slot.0 as usize].filling = false;
    }

    /// Overwrites part of the slot from sector `at` on.
    pub(crate) fn patch(&mut self, slot: Slot, at: usize, tags: &[u64]) {
        let users = self.users[slot.0 as usize];
        assert!(users.readers == 0 && !users.filling, "{slot:?} is patched while it is in use");
        self.slot_mut(slot)[at..at + tags.len()].copy_from_slice(tags);
    }

    pub(crate) fn hold(&mut self, buffer: BufferId, tags: Tags) {
        let old = self.buffers.insert(buffer, tags);
        assert!(old.is_none(), "{buffer:?} exists already");
    }

    pub(crate) fn buffer(&self, buffer: BufferId) -> &[u64] {
        self.buffers.get(&buffer).unwrap_or_else(|| panic!("{buffer:?} is used after its release"))
    }

    pub(crate) fn release(&mut self, buffer: BufferId) {
        assert!(self.buffers.remove(&buffer).is_some(), "{buffer:?} is released twice");
    }

    /// Slots in use and buffers held: both zero when nothing is going on.
    pub(crate) fn in_use(&self) -> (usize, usize) {
        let slots = self.users.iter().filter(|users| users.readers > 0 || users.filling).count();
        (slots, self.buffers.len())
    }
}
