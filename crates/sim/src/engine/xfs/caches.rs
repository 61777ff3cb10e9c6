//! The caches of all nodes, and the managers' directory of them, which is exact.
//!
//! One flat table of buffers: the copies of a block are a ring, so that the directory is one number per block; the buffers
//! of a node are a list in order of their use.

mod check;

use hashbrown::HashTable;

use super::errands::Ticket;
use super::key::Key;

/// Names a buffer.
pub(super) type BufferId = u32;

pub(super) const NONE: BufferId = BufferId::MAX;

/// A buffer with a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Buffer {
    key: Key,
    node: u16,
    /// N-Chance: how often it may still be forwarded. 0: it has been used here.
    chances: u8,
    /// It may be changed without asking the manager. There is no other copy then.
    owned: bool,
    /// The disk does not have these contents.
    dirty: bool,
    newer: BufferId,
    older: BufferId,
    next_copy: BufferId,
    last_copy: BufferId,
    /// What brings the contents, if they are still on the way.
    arrival: Ticket,
}

impl Buffer {
    pub(super) const fn key(&self) -> Key {
        self.key
    }

    pub(super) const fn node(&self) -> u16 {
        self.node
    }

    pub(super) const fn chances(&self) -> u8 {
        self.chances
    }

    pub(super) const fn is_owned(&self) -> bool {
        self.owned
    }

    pub(super) const fn is_dirty(&self) -> bool {
        self.dirty
    }

    pub(super) const fn arrival(&self) -> Ticket {
        self.arrival
    }
}

/// The buffers of one node.
#[derive(Clone, Copy, Debug)]
struct Node {
    capacity: u32,
    used: u32,
    newest: BufferId,
    oldest: BufferId,
    /// Buffers with changes that the disk does not have.
    dirty: u32,
    /// Buffers with a block that another node has too.
    duplicates: u32,
    /// Buffers with a forwarded block that has not been used here.
    recirculating: u32,
}

/// All of them.
#[derive(Debug)]
pub(super) struct Caches {
    nodes: Vec<Node>,
    buffers: Vec<Buffer>,
    /// Buffers without a block, linked by `older`.
    vacant: BufferId,
    resident: u64,
    /// By node and block.
    local: HashTable<BufferId>,
    /// The directory: the newest copy of each block.
    blocks: HashTable<BufferId>,
}

impl Caches {
    pub(super) fn new(capacities: impl Iterator<Item = u32>) -> Self {
        let node = |capacity| Node {
            capacity,
            used: 0,
            newest: NONE,
            oldest: NONE,
            dirty: 0,
            duplicates: 0,
            recirculating: 0,
        };
        Self {
            nodes: capacities.map(node).collect(),
            buffers: Vec::new(),
            vacant: NONE,
            resident: 0,
            local: HashTable::new(),
            blocks: HashTable::new(),
        }
    }

    pub(super) const fn resident(&self) -> u64 {
        self.resident
    }

    pub(super) fn table_bytes(&self) -> usize {
        self.buffers.capacity() * size_of::<Buffer>()
            + self.local.allocation_size()
            + self.blocks.allocation_size()
    }

    pub(super) fn get(&self, id: BufferId) -> &Buffer {
        &self.buffers[id as usize]
    }

    /// A node's copy of a block.
    pub(super) fn find(&self, node: u16, key: Key) -> Option<BufferId> {
        let same = |&id: &BufferId| self.get(id).node == node && self.get(id).key == key;
        self.local.find(key.hash_at(node), same).copied()
    }

    /// The newest copy of a block.
    pub(super) fn any(&self, key: Key) -> Option<BufferId> {
        self.blocks.find(key.hash(), |&id| self.get(id).key == key).copied()
    }

    /// All copies of a block, the newest first.
    pub(super) fn copies(&self, key: Key) -> impl Iterator<Item = BufferId> {
        let first = self.any(key);
        std::iter::successors(first, move |&id| {
            let next = self.get(id).next_copy;
            (Some(next) != first).then_some(next)
        })
    }

    /// Whether another node has the block too.
    pub(super) fn is_duplicate(&self, id: BufferId) -> bool {
        self.get(id).next_copy != id
    }

    pub(super) fn has_room(&self, node: u16) -> bool {
        self.nodes[usize::from(node)].used < self.nodes[usize::from(node)].capacity
    }

    pub(super) fn dirty_at(&self, node: u16) -> u32 {
        self.nodes[usize::from(node)].dirty
    }

    /// Forwarded blocks at a node that have not been used there, and blocks that others have too.
    pub(super) fn expendable_at(&self, node: u16) -> (u32, u32) {
        let node = &self.nodes[usize::from(node)];
        (node.recirculating, node.duplicates)
    }

    /// A node's buffers, the least recently used first.
    pub(super) fn oldest_first(&self, node: u16) -> impl Iterator<Item = BufferId> {
        let link = |id: BufferId| (id != NONE).then_some(id);
        std::iter::successors(link(self.nodes[usize::from(node)].oldest), move |&id| link(self.get(id).newer))
    }

    /// A node takes a block in as its most recently used one. It has room and does not have the block.
    pub(super) fn insert(&mut self, node: u16, key: Key, arrival: Ticket) -> BufferId {
        debug_assert!(self.has_room(node) && self.find(node, key).is_none());
        let buffer = Buffer {
            key,
            node,
            chances: 0,
            owned: false,
            dirty: false,
            newer: NONE,
            older: NONE,
            next_copy: NONE,
            last_copy: NONE,
            arrival,
        };
        let id = match self.vacant {
            NONE => {
                self.grow();
                self.buffers.push(buffer);
                (self.buffers.len() - 1) as BufferId
            }
            id => {
                self.vacant = self.get(id).older;
                self.buffers[id as usize] = buffer;
                id
            }
        };
        self.nodes[usize::from(node)].used += 1;
        self.resident += 1;
        self.link_newest(id);
        let buffers = &self.buffers;
        let hash_at = |&id: &BufferId| buffers[id as usize].key.hash_at(buffers[id as usize].node);
        self.local.insert_unique(key.hash_at(node), id, hash_at);
        self.link_copy(id);
        id
    }

    /// A block leaves a node.
    pub(super) fn remove(&mut self, id: BufferId) {
        self.set_dirty(id, false);
        self.set_chances(id, 0);
        self.unlink_copy(id);
        self.unlink(id);
        let Buffer { key, node, .. } = *self.get(id);
        if let Ok(entry) = self.local.find_entry(key.hash_at(node), |&other| other == id) {
            entry.remove();
        }
        self.nodes[usize::from(node)].used -= 1;
        self.resident -= 1;
        self.buffers[id as usize].older = self.vacant;
        self.vacant = id;
    }

    /// A process of its node uses a block.
    pub(super) fn touch(&mut self, id: BufferId) {
        self.set_chances(id, 0);
        if self.nodes[usize::from(self.get(id).node)].newest != id {
            self.unlink(id);
            self.link_newest(id);
        }
    }

    pub(super) fn set_arrival(&mut self, id: BufferId, arrival: Ticket) {
        self.buffers[id as usize].arrival = arrival;
    }

    pub(super) fn set_owned(&mut self, id: BufferId, owned: bool) {
        self.buffers[id as usize].owned = owned;
    }

    pub(super) fn set_dirty(&mut self, id: BufferId, dirty: bool) {
        let buffer = &mut self.buffers[id as usize];
        let node = &mut self.nodes[usize::from(buffer.node)];
        node.dirty = node.dirty + u32::from(dirty) - u32::from(buffer.dirty);
        buffer.dirty = dirty;
    }

    pub(super) fn set_chances(&mut self, id: BufferId, chances: u8) {
        let buffer = &mut self.buffers[id as usize];
        let node = &mut self.nodes[usize::from(buffer.node)];
        node.recirculating = node.recirculating + u32::from(chances > 0) - u32::from(buffer.chances > 0);
        buffer.chances = chances;
    }

    /// By half, and never beyond what the nodes have.
    fn grow(&mut self) {
        let used = self.buffers.len();
        if used == self.buffers.capacity() {
            let all: u64 = self.nodes.iter().map(|node| u64::from(node.capacity)).sum();
            self.buffers.reserve_exact((used / 2).max(64).min(all as usize - used));
        }
    }

    fn link_newest(&mut self, id: BufferId) {
        let node = &mut self.nodes[usize::from(self.buffers[id as usize].node)];
        let older = std::mem::replace(&mut node.newest, id);
        match older {
            NONE => node.oldest = id,
            older => self.buffers[older as usize].newer = id,
        }
        let buffer = &mut self.buffers[id as usize];
        (buffer.newer, buffer.older) = (NONE, older);
    }

    fn unlink(&mut self, id: BufferId) {
        let Buffer { node, newer, older, .. } = *self.get(id);
        match newer {
            NONE => self.nodes[usize::from(node)].newest = older,
            newer => self.buffers[newer as usize].older = older,
        }
        match older {
            NONE => self.nodes[usize::from(node)].oldest = newer,
            older => self.buffers[older as usize].newer = newer,
        }
    }

    /// The directory learns of a copy.
    fn link_copy(&mut self, id: BufferId) {
        let key = self.get(id).key;
        let buffers = &self.buffers;
        let same = |&other: &BufferId| buffers[other as usize].key == key;
        let Some(first) = self.blocks.find_mut(key.hash(), same) else {
            self.blocks.insert_unique(key.hash(), id, |&other| buffers[other as usize].key.hash());
            (self.buffers[id as usize].next_copy, self.buffers[id as usize].last_copy) = (id, id);
            return;
        };
        let next = std::mem::replace(first, id);
        let last = self.get(next).last_copy;
        if last == next {
            self.nodes[usize::from(self.buffers[next as usize].node)].duplicates += 1;
        }
        self.nodes[usize::from(self.buffers[id as usize].node)].duplicates += 1;
        (self.buffers[id as usize].next_copy, self.buffers[id as usize].last_copy) = (next, last);
        self.buffers[last as usize].next_copy = id;
        self.buffers[next as usize].last_copy = id;
    }

    /// The directory forgets a copy.
    fn unlink_copy(&mut self, id: BufferId) {
        let Buffer { key, node, next_copy: next, last_copy: last, .. } = *self.get(id);
        if let Ok(mut entry) =
            self.blocks.find_entry(key.hash(), |&other| self.buffers[other as usize].key == key)
        {
            if next == id {
                entry.remove();
                return;
            }
            if *entry.get() == id {
                *entry.get_mut() = next;
            }
        }
        self.buffers[last as usize].next_copy = next;
        self.buffers[next as usize].last_copy = last;
        self.nodes[usize::from(node)].duplicates -= 1;
        if next == last {
            self.nodes[usize::from(self.buffers[next as usize].node)].duplicates -= 1;
        }
    }
}
