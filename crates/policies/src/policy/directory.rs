//! Who holds a copy of which block, as the disk node (or a home) is told: a list of holders for each block, the
//! last one registered first.
//!
//! All copies form one queue besides, the last registered or touched at its end. It grows with what is cached in
//! the cluster, because holders tell when their copies go; should they fail to, it forgets the oldest copies at
//! [`LIMIT`]. A wrong or forgotten copy costs a hop or a disk access.

use alloc::vec::Vec;

use cards_core::policy::{Asker, Context, View};
use cards_core::{BlockId, NodeId, PgId, Table};

use super::words::invalidate;

/// Kind of a [`Note`]: the sender's copy is gone.
pub(super) const GONE: u8 = 0;

/// Copies a directory knows at most: those of 64 GiB in blocks of 4 KiB.
const LIMIT: usize = 1 << 24;

const NONE: u32 = u32::MAX;

/// A copy: 22 bytes, and four and a half in the table if it is the first of its block.
#[derive(Clone, Copy)]
#[repr(C, packed(2))]
struct Copy {
    index: u32,
    volume: u32,
    holder: u16,
    /// The copy of the same block registered before; or the next unused record.
    before: u32,
    newer: u32,
    older: u32,
}

/// See the module's head.
pub(super) struct Directory {
    copies: Vec<Copy>,
    /// From a block to its first copy.
    first: Table,
    unused: u32,
    len: usize,
    newest: u32,
    oldest: u32,
    limit: usize,
}

impl Default for Directory {
    fn default() -> Self {
        Self::with_limit(LIMIT)
    }
}

impl Directory {
    fn with_limit(limit: usize) -> Self {
        Self {
            copies: Vec::new(),
            first: Table::new(1, 0),
            unused: NONE,
            len: 0,
            newest: NONE,
            oldest: NONE,
            limit,
        }
    }

    /// Registers a copy, or registers it anew.
    pub(super) fn add(&mut self, block: BlockId, holder: NodeId) {
        self.remove(block, holder);
        if self.len == self.limit
            && let Some((oldest, holder)) = self.oldest()
        {
            self.remove(oldest, holder);
        }
        let at = self.take();
        let before = self.find(block).unwrap_or(NONE);
        let older = self.newest;
        let copy =
            Copy { index: block.index, volume: block.volume.0, holder: holder.0, before, newer: NONE, older };
        self.copies[at as usize] = copy;
        match self.copies.get_mut(older as usize) {
            Some(older) => older.newer = at,
            None => self.oldest = at,
        }
        self.newest = at;
        if before != NONE {
            self.unlist(block, before);
        }
        self.first.insert(block.hash(), at);
        self.len += 1;
    }

    /// Whether the copy was registered.
    pub(super) fn remove(&mut self, block: BlockId, holder: NodeId) -> bool {
        let Some(first) = self.find(block) else { return false };
        let mut later = None;
        let mut at = first;
        while self.copies[at as usize].holder != holder.0 {
            later = Some(at);
            at = self.copies[at as usize].before;
            if at == NONE {
                return false;
            }
        }
        let Copy { before, newer, older, .. } = self.copies[at as usize];
        match later {
            Some(later) => self.copies[later as usize].before = before,
            None => {
                self.unlist(block, at);
                if before != NONE {
                    self.first.insert(block.hash(), before);
                }
            }
        }
        match self.copies.get_mut(newer as usize) {
            Some(newer) => newer.older = older,
            None => self.newest = older,
        }
        match self.copies.get_mut(older as usize) {
            Some(older) => older.newer = newer,
            None => self.oldest = newer,
        }
        self.copies[at as usize].before = self.unused;
        self.unused = at;
        self.len -= 1;
        true
    }

    /// The block's holders, the last registered first.
    pub(super) fn holders(&self, block: BlockId) -> impl Iterator<Item = NodeId> + '_ {
        let copy = |at: u32| self.copies.get(at as usize);
        let first = self.find(block).and_then(copy);
        core::iter::successors(first, move |c| copy(c.before)).map(|c| NodeId(c.holder))
    }

    /// Makes the block's last registered copy the newest of all.
    pub(super) fn touch(&mut self, block: BlockId) {
        let holder = self.holders(block).next();
        if let Some(holder) = holder {
            self.add(block, holder);
        }
    }

    /// The copy that was registered or touched before all others.
    pub(super) fn oldest(&self) -> Option<(BlockId, NodeId)> {
        let copy = self.copies.get(self.oldest as usize)?;
        Some((BlockId::new(PgId(copy.volume), copy.index), NodeId(copy.holder)))
    }

    fn find(&self, block: BlockId) -> Option<u32> {
        self.first.find(block.hash(), |at| self.block(at) == block)
    }

    fn block(&self, at: u32) -> BlockId {
        let copy = &self.copies[at as usize];
        BlockId::new(PgId(copy.volume), copy.index)
    }

    /// Takes the first copy of a block out of the table.
    fn unlist(&mut self, block: BlockId, first: u32) {
        let copies = &self.copies;
        self.first.remove(block.hash(), first, |at| {
            let copy = &copies[at as usize];
            BlockId::new(PgId(copy.volume), copy.index).hash()
        });
    }

    /// An unused record.
    fn take(&mut self) -> u32 {
        if let Some(copy) = self.copies.get(self.unused as usize) {
            let at = self.unused;
            self.unused = copy.before;
            return at;
        }
        if self.copies.len() == self.copies.capacity() {
            self.grow();
        }
        self.copies.push(Copy { index: 0, volume: 0, holder: 0, before: NONE, newer: NONE, older: NONE });
        self.copies.len() as u32 - 1
    }

    fn grow(&mut self) {
        let known = self.copies.len();
        self.copies.reserve_exact((known / 2).max(64).min(self.limit - known));
        let most = self.copies.capacity();
        let mut first = Table::new(most + most / 8 + 1, most as u32);
        for at in self.first.slots() {
            first.insert(self.block(at).hash(), at);
        }
        self.first = first;
    }
}

/// What the disk node does with its directory of the copies in the clients' caches.
impl Directory {
    /// Where a read goes: at the disk node to the last registered holder that can be reached. Other nodes know none.
    pub(super) fn route(&self, cx: &View<'_>, block: BlockId, asker: Asker) -> Option<NodeId> {
        let is_other = |&node: &NodeId| node != asker.requester && node != cx.me() && cx.is_up(node);
        self.holders(block).find(is_other)
    }

    /// At the disk node: the requester will hold a copy. If its question was passed on before and comes back as failed,
    /// who sends it back has none.
    pub(super) fn asked(&mut self, cx: &Context<'_>, block: BlockId, asker: Asker) {
        if cx.me() != cx.disk_node() {
            return;
        }
        if asker.failed {
            self.remove(block, asker.via);
        }
        if asker.requester != cx.me() {
            self.add(block, asker.requester);
        }
    }

    /// The block was written: all copies go, except the writer's own.
    pub(super) fn written(&mut self, cx: &mut Context<'_>, block: BlockId, writer: NodeId) {
        let mut writer_holds = false;
        while let Some(holder) = { self.holders(block).next() } {
            self.remove(block, holder);
            if holder == writer {
                writer_holds = true;
            } else {
                cx.note(holder, block, invalidate(writer));
            }
        }
        if writer_holds {
            self.add(block, writer);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn block(index: u32) -> BlockId {
        BlockId::new(PgId(3), index)
    }

    fn holders(directory: &Directory, index: u32) -> Vec<u16> {
        directory.holders(block(index)).map(|n| n.0).collect()
    }

    #[test]
    fn the_last_registered_holder_comes_first() {
        let mut directory = Directory::default();
        for node in [1, 2, 3, 2] {
            directory.add(block(7), NodeId(node));
        }
        assert_eq!(holders(&directory, 7), [2, 3, 1]);
        assert!(directory.remove(block(7), NodeId(2)) && !directory.remove(block(7), NodeId(2)));
        assert_eq!(holders(&directory, 7), [3, 1]);
        assert_eq!(holders(&directory, 8), []);
    }

    #[test]
    fn at_its_limit_it_forgets_the_oldest_copy() {
        let mut directory = Directory::with_limit(100);
        (0..100).for_each(|i| directory.add(block(i), NodeId(1)));
        directory.touch(block(0));
        directory.add(block(100), NodeId(1));
        assert_eq!((directory.len, holders(&directory, 0).len(), holders(&directory, 1).len()), (100, 1, 0));
        assert_eq!(directory.oldest(), Some((block(2), NodeId(1))));
    }

    /// 27 bytes a copy when it is full; it grows by half.
    #[test]
    fn a_copy_costs_27_bytes() {
        assert_eq!(size_of::<Copy>(), 22);
        let mut directory = Directory::default();
        (0..10_000).for_each(|i| directory.add(block(i), NodeId(1)));
        let bytes = directory.copies.capacity() * size_of::<Copy>() + directory.first.bytes();
        assert!(bytes as f64 / 10_000.0 <= 26.6 * 1.5, "{bytes}");
    }

    proptest! {
        #[test]
        fn behaves_like_lists_in_a_map(ops in prop::collection::vec((0u32..200, 0u16..5, 0u8..4), 0..500)) {
            let mut directory = Directory::default();
            let mut lists: BTreeMap<u32, Vec<u16>> = BTreeMap::new();
            let mut queue: Vec<(u32, u16)> = Vec::new();
            for &(index, node, op) in &ops {
                let list = lists.entry(index).or_default();
                match op {
                    0 => {
                        let known = list.contains(&node);
                        assert_eq!(directory.remove(block(index), NodeId(node)), known);
                        list.retain(|&n| n != node);
                        queue.retain(|&copy| copy != (index, node));
                    }
                    1 => {
                        directory.touch(block(index));
                        if let Some(&first) = list.first() {
                            queue.retain(|&copy| copy != (index, first));
                            queue.push((index, first));
                        }
                    }
                    _ => {
                        directory.add(block(index), NodeId(node));
                        list.retain(|&n| n != node);
                        list.insert(0, node);
                        queue.retain(|&copy| copy != (index, node));
                        queue.push((index, node));
                    }
                }
                assert_eq!(&holders(&directory, index), list);
                assert_eq!(directory.len, queue.len());
                let oldest = directory.oldest().map(|(b, n)| (b.index, n.0));
                assert_eq!(oldest, queue.first().copied());
            }
            for (&index, list) in &lists {
                assert_eq!(&holders(&directory, index), list);
            }
        }
    }
}
