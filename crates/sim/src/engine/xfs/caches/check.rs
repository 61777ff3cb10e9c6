//! The invariants of caches, directory and tokens.

use super::{BufferId, Caches, NONE};

impl Caches {
    /// Panics when an invariant is broken.
    pub(in crate::engine::xfs) fn check(&self, level_b: bool) {
        let mut resident = 0;
        for (number, node) in self.nodes.iter().enumerate() {
            let (mut used, mut dirty, mut duplicates, mut recirculating) = (0, 0, 0, 0);
            let mut newest = NONE;
            for id in self.oldest_first(number as u16) {
                let buffer = self.get(id);
                assert_eq!(buffer.older, newest, "the list is linked both ways");
                assert_eq!(usize::from(buffer.node), number, "a buffer is in its node's list");
                assert_eq!(
                    self.find(buffer.node, buffer.key),
                    Some(id),
                    "a node finds what it has, and has it once"
                );
                self.check_copies(id, level_b);
                newest = id;
                used += 1;
                dirty += u32::from(buffer.dirty);
                duplicates += u32::from(self.is_duplicate(id));
                recirculating += u32::from(buffer.chances > 0);
            }
            assert_eq!(node.newest, newest);
            assert!(used <= node.capacity, "node {number} has {used} of {} buffers", node.capacity);
            assert_eq!(
                (used, dirty, duplicates, recirculating),
                (node.used, node.dirty, node.duplicates, node.recirculating)
            );
            resident += u64::from(used);
        }
        assert_eq!(resident, self.resident);
        assert_eq!(self.local.len() as u64, resident, "the index has no one else");
        let listed: u64 = self.blocks.iter().map(|&id| self.copies(self.get(id).key).count() as u64).sum();
        assert_eq!(listed, resident, "the directory lists all copies, and no others (XFS-2)");
    }

    fn check_copies(&self, id: BufferId, level_b: bool) {
        let buffer = self.get(id);
        assert!(self.copies(buffer.key).any(|copy| copy == id), "the directory knows the copy (XFS-2)");
        assert!(!buffer.owned || !self.is_duplicate(id), "an owner has the only copy (XFS-2)");
        assert!(buffer.chances == 0 || !buffer.owned, "a forwarded block has no owner");
        assert!(buffer.chances == 0 || !self.is_duplicate(id), "only singlets are forwarded (XFS-3)");
        assert!(!buffer.dirty || !level_b || buffer.owned, "only the writer has it dirty (XFS-4)");
        let dirty = self.copies(buffer.key).filter(|&copy| self.get(copy).dirty).count();
        assert!(dirty <= 1, "one node is responsible for a change");
    }
}
