//! One LRU list over the buffers of all nodes.

use hashbrown::HashTable;

use super::Found;
use crate::engine::xfs::key::Key;

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Buffer {
    key: Key,
    /// The node that has loaded it.
    node: u16,
    newer: u32,
    older: u32,
}

/// The list.
pub(super) struct GlobalLru {
    capacity: u64,
    buffers: Vec<Buffer>,
    index: HashTable<u32>,
    newest: u32,
    oldest: u32,
    /// Buffers without a block, linked by `older`.
    vacant: u32,
    evictions: u64,
}

impl GlobalLru {
    pub(super) const fn new(capacity: u64) -> Self {
        Self {
            capacity,
            buffers: Vec::new(),
            index: HashTable::new(),
            newest: NONE,
            oldest: NONE,
            vacant: NONE,
            evictions: 0,
        }
    }

    pub(super) fn resident(&self) -> u64 {
        self.index.len() as u64
    }

    pub(super) const fn evictions(&self) -> u64 {
        self.evictions
    }

    pub(super) fn table_bytes(&self) -> usize {
        self.buffers.capacity() * size_of::<Buffer>() + self.index.allocation_size()
    }

    /// A node reads or writes a block, which is in the memory afterwards.
    pub(super) fn refer(&mut self, node: u16, key: Key) -> Found {
        if let Some(id) = self.find(key) {
            self.unlink(id);
            self.link_newest(id);
            let loaded_by = self.buffers[id as usize].node;
            return if loaded_by == node { Found::Local } else { Found::Remote(loaded_by) };
        }
        if self.resident() == self.capacity {
            self.evictions += 1;
            self.forget(self.buffers[self.oldest as usize].key);
        }
        let buffer = Buffer { key, node, newer: NONE, older: NONE };
        let id = match self.vacant {
            NONE => {
                self.buffers.push(buffer);
                (self.buffers.len() - 1) as u32
            }
            id => {
                self.vacant = self.buffers[id as usize].older;
                self.buffers[id as usize] = buffer;
                id
            }
        };
        self.link_newest(id);
        let buffers = &self.buffers;
        self.index.insert_unique(key.hash(), id, |&other| buffers[other as usize].key.hash());
        Found::Nowhere
    }

    /// A block leaves the memory, if it is there.
    pub(super) fn forget(&mut self, key: Key) {
        let buffers = &self.buffers;
        if let Ok(entry) = self.index.find_entry(key.hash(), |&id| buffers[id as usize].key == key) {
            let (id, _) = entry.remove();
            self.unlink(id);
            self.buffers[id as usize].older = self.vacant;
            self.vacant = id;
        }
    }

    fn find(&self, key: Key) -> Option<u32> {
        self.index.find(key.hash(), |&id| self.buffers[id as usize].key == key).copied()
    }

    fn link_newest(&mut self, id: u32) {
        let older = std::mem::replace(&mut self.newest, id);
        match older {
            NONE => self.oldest = id,
            older => self.buffers[older as usize].newer = id,
        }
        let buffer = &mut self.buffers[id as usize];
        (buffer.newer, buffer.older) = (NONE, older);
    }

    fn unlink(&mut self, id: u32) {
        let Buffer { newer, older, .. } = self.buffers[id as usize];
        match newer {
            NONE => self.newest = older,
            newer => self.buffers[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.buffers[older as usize].newer = newer,
        }
    }

    /// Panics when an invariant is broken.
    pub(super) fn check(&self) {
        let link = |id: u32| (id != NONE).then_some(id);
        let listed = std::iter::successors(link(self.oldest), |&id| link(self.buffers[id as usize].newer));
        let mut count = 0;
        for id in listed {
            assert_eq!(self.find(self.buffers[id as usize].key), Some(id));
            count += 1;
        }
        assert!(count == self.resident() && count <= self.capacity);
    }
}
