//! The cache index (CARDs, section 3: HSCC): for each block two node ids, whoever delivered the copy
//! (*previous*) and whoever asked for it next (*next*).
//!
//! The entry of a resident block lies in its frame. This table keeps entries of blocks that are not
//! resident: those a home only knows a holder of, and those of copies that have left. It is small and
//! forgets: entries are hints, a lost or wrong one costs a hop to the disk node. Its size does not
//! depend on the number of nodes (HSCC-4, HSCC-5).

use alloc::vec;
use alloc::vec::Vec;

use crate::ids::{BlockId, NodeId};

/// An index entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Entry {
    /// Who delivered the copy here.
    pub previous: Option<NodeId>,
    /// Who was last heard to ask for the block.
    pub next: Option<NodeId>,
}

/// An entry in four bytes: a tag of 12 bits (part of the block's hash, never zero; zero marks an empty place)
/// and two node ids of 10 bits.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Packed(u32);

const EMPTY: Packed = Packed(0);
const NOBODY: u32 = NodeId::MAX_NODES as u32;
const WAYS: usize = 8;
/// Entries for each block that the cache can hold.
const PER_BLOCK: usize = 2;

impl Packed {
    fn new(tag: u32, entry: Entry) -> Self {
        let id = |node: Option<NodeId>| node.map_or(NOBODY, |n| u32::from(n.0)) & NOBODY;
        Self(tag << 20 | id(entry.previous) << 10 | id(entry.next))
    }

    const fn tag(self) -> u32 {
        self.0 >> 20
    }

    fn entry(self) -> Entry {
        let node = |id: u32| (id != NOBODY).then_some(NodeId(id as u16));
        Entry { previous: node(self.0 >> 10 & NOBODY), next: node(self.0 & NOBODY) }
    }
}

/// Entries of blocks that are not resident. Sets of eight, the latest first.
pub(crate) struct Index {
    entries: Vec<Packed>,
}

impl Index {
    /// A table that belongs to a cache of `capacity` blocks: twice as many entries. A home knows of as many blocks elsewhere as it
    /// caches itself, where all caches are full and equal; the links of copies that have left take the other half.
    /// With one entry a block, a scan that fits into all caches together finds 4 points less of its blocks there.
    pub(crate) fn new(capacity: u32) -> Self {
        Self { entries: vec![EMPTY; (PER_BLOCK * capacity as usize).div_ceil(WAYS).max(1) * WAYS] }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.entries.len() * size_of::<Packed>()
    }

    fn set(&self, block: BlockId) -> (usize, u32) {
        let hash = block.hash();
        let set = (hash >> 16) as usize % (self.entries.len() / WAYS);
        (set * WAYS, (hash as u32 & 0xfff).max(1))
    }

    /// Where an entry of the block would be. What is there is of no use but that it was looked at.
    pub(crate) fn begin(&self, block: BlockId) -> u32 {
        self.entries[self.set(block).0].0
    }

    pub(crate) fn get(&self, block: BlockId) -> Entry {
        let (start, tag) = self.set(block);
        let found = self.entries[start..][..WAYS].iter().find(|e| e.tag() == tag);
        found.map_or_else(Entry::default, |e| e.entry())
    }

    /// Keeps the entry, or forgets the block if there is nothing in it. Whether another block was forgotten for it.
    pub(crate) fn put(&mut self, block: BlockId, entry: Entry) -> bool {
        let (start, tag) = self.set(block);
        let set = &mut self.entries[start..][..WAYS];
        let at = set.iter().position(|e| e.tag() == tag);
        if entry == Entry::default() {
            if let Some(at) = at {
                set[at..].rotate_left(1);
                set[WAYS - 1] = EMPTY;
            }
            return false;
        }
        let is_full = at.is_none() && set[WAYS - 1] != EMPTY;
        set[..=at.unwrap_or(WAYS - 1)].rotate_right(1);
        set[0] = Packed::new(tag, entry);
        is_full
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::PgId;

    fn block(index: u32) -> BlockId {
        BlockId::new(PgId(0), index)
    }

    #[test]
    fn keeps_the_latest_and_forgets_the_rest() {
        let mut index = Index::new(8);
        for i in 0..1000 {
            index.put(block(i), Entry { previous: None, next: Some(NodeId(i as u16)) });
            assert_eq!(index.get(block(i)).next, Some(NodeId(i as u16)));
        }
        let known = (0..1000).filter(|&i| index.get(block(i)).next == Some(NodeId(i as u16))).count();
        assert!((1..=16).contains(&known), "{known}");
    }

    /// Twice as many blocks as the cache has, with sets that are not all equally full.
    #[test]
    fn there_are_two_entries_for_each_block_of_the_cache() {
        let mut index = Index::new(1 << 12);
        (0..1 << 13).for_each(|i| _ = index.put(block(i), Entry { previous: None, next: Some(NodeId(1)) }));
        let known = (0..1 << 13).filter(|&i| index.get(block(i)).next.is_some()).count();
        assert!(known > 6500, "{known}");
        assert_eq!(index.bytes(), 8 << 12);
    }

    #[test]
    fn an_empty_entry_is_forgotten() {
        let mut index = Index::new(16);
        index.put(block(1), Entry { previous: Some(NodeId(3)), next: None });
        index.put(block(1), Entry::default());
        assert_eq!(index.get(block(1)), Entry::default());
    }

    /// HSCC-5: what a bitmap of the holders would cost, and what two ids cost.
    #[test]
    fn an_entry_does_not_grow_with_the_cluster() {
        let bitmap_bytes = |nodes: u64| nodes / 8;
        assert_eq!((bitmap_bytes(128), bitmap_bytes(1024)), (16, 128));
        let blocks = 1024 * (256 << 20) / 4096u64;
        assert_eq!(blocks * bitmap_bytes(1024), 8 << 30);
        assert_eq!(size_of::<Packed>(), 4);
        let entry = Entry { previous: Some(NodeId(1022)), next: None };
        assert_eq!(Packed::new(7, entry).entry(), entry);
    }
}
