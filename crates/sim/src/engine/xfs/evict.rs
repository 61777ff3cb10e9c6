//! Making room: N-Chance forwarding, and what has to be written first.

use cards_core::Instant;

use super::caches::BufferId;
use super::errands::{ErrandId, Part, Step};
use super::key::Key;
use super::{Xfs, XfsEvent, disk_node};
use crate::kernel::Kernel;

/// What it took to get a buffer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Room {
    /// Its block has been forwarded: equation 4 of PAFS.
    pub(super) forwarded: bool,
    /// Its block was dirty: equation 5 of PAFS.
    pub(super) cleaned: bool,
}

/// Buffers that a node looks at for one that it can give to a forwarded block. All of them, with caches as
/// in the paper.
const SEARCHED: usize = 2048;

impl Xfs {
    /// Finds a buffer at a node for what the errand is going to bring; what that takes are the errand's next
    /// steps, for whoever waits for the block waits for its buffer first. None if every block there is still on its way.
    pub(super) fn make_room(
        &mut self,
        kernel: &mut Kernel<XfsEvent>,
        errand: ErrandId,
        node: u16,
        at: Instant,
    ) -> Option<Room> {
        if self.caches.has_room(node) {
            return Some(Room::default());
        }
        let victim = self.caches.oldest_first(node).find(|&id| self.is_in_place(id))?;
        let buffer = *self.caches.get(victim);
        let target = self.next_chances(victim).and_then(|chances| {
            let target = self.other_node(node)?;
            self.take_in_forwarded(kernel, target, at).then_some((target, chances))
        });
        self.leaves(victim);
        let stays_dirty = target.is_some() && !self.config.level_b;
        if buffer.is_dirty() && !stays_dirty {
            self.counts.dirty_evictions += 1;
            self.clean(kernel, errand, node, buffer.key());
        }
        if let Some((target, chances)) = target {
            self.counts.forwarded += 1;
            self.counts.stored_for_others += 1;
            self.errands.add(errand, Step::Ask { from: node, to: target });
            self.errands.add(errand, Step::Tell { from: target, to: node });
            self.errands.add(errand, Step::Data { from: node, to: target });
            self.errands.add(errand, Step::Settle { part: Part::Forwarded });
            let arrival = self.errands.ticket(errand, Part::Forwarded);
            let copy = self.caches.insert(target, buffer.key(), arrival);
            self.caches.set_chances(copy, chances);
            self.caches.set_dirty(copy, buffer.is_dirty() && stays_dirty);
            self.arm_syncer(kernel, target);
        }
        Some(Room { forwarded: target.is_some(), cleaned: buffer.is_dirty() && !stays_dirty })
    }

    /// The chances with which a victim is to be forwarded, if it is: it is the only copy, and has some left.
    fn next_chances(&self, victim: BufferId) -> Option<u8> {
        let left = match self.caches.get(victim).chances() {
            0 => self.config.chances,
            chances => chances - 1,
        };
        (left > 0 && !self.caches.is_duplicate(victim)).then_some(left)
    }

    /// Any node but this one, if there is another.
    fn other_node(&mut self, node: u16) -> Option<u16> {
        let others = self.nodes - 1;
        (others > 0).then(|| (node + 1 + self.draw.below(others)) % self.nodes)
    }

    /// A node makes room for a forwarded block without forwarding another one: it drops the oldest block that others have
    /// too, or else the forwarded one with the fewest chances, or else its oldest. The sender does not wait while that is
    /// written, should it be dirty. False if every block there is still on its way.
    fn take_in_forwarded(&mut self, kernel: &mut Kernel<XfsEvent>, node: u16, at: Instant) -> bool {
        if self.caches.has_room(node) {
            return true;
        }
        let Some(victim) = self.least_missed(node) else { return false };
        let buffer = *self.caches.get(victim);
        self.leaves(victim);
        if buffer.is_dirty() {
            self.counts.dirty_evictions += 1;
            self.clean_aside(kernel, node, buffer.key(), at);
        }
        true
    }

    fn least_missed(&self, node: u16) -> Option<BufferId> {
        let (mut recirculating, duplicates) = self.caches.expendable_at(node);
        let mut oldest = None;
        let mut forwarded: Option<(u8, BufferId)> = None;
        for id in self.caches.oldest_first(node).take(SEARCHED) {
            let chances = self.caches.get(id).chances();
            if self.is_in_place(id) {
                if self.caches.is_duplicate(id) {
                    return Some(id);
                }
                oldest = oldest.or(Some(id));
                if chances > 0 && forwarded.is_none_or(|(fewest, _)| chances < fewest) {
                    forwarded = Some((chances, id));
                }
            }
            recirculating -= u32::from(chances > 0);
            let nothing_better = recirculating == 0 || forwarded.is_some_and(|(fewest, _)| fewest == 1);
            if duplicates == 0 && nothing_better && oldest.is_some() {
                break;
            }
        }
        forwarded.map(|(_, id)| id).or(oldest)
    }

    fn is_in_place(&self, id: BufferId) -> bool {
        !self.errands.in_transit(self.caches.get(id).arrival())
    }

    fn leaves(&mut self, victim: BufferId) {
        self.counts.evictions += 1;
        self.counts.stored_in_vain += u64::from(self.caches.get(victim).chances() > 0);
        self.caches.remove(victim);
    }

    /// The errand goes on when the block's disk server has the block, which writes it in its own time; or when that is done,
    /// if the study wants it so.
    pub(super) fn clean(&mut self, kernel: &Kernel<XfsEvent>, errand: ErrandId, node: u16, key: Key) {
        self.send_to_disk(kernel, errand, node, key);
        self.errands.add(errand, Step::DiskWrite { key, wait: self.config.clean_is_written });
    }

    /// As [`Self::clean`], by an errand that nobody waits for.
    pub(super) fn clean_aside(&mut self, kernel: &mut Kernel<XfsEvent>, node: u16, key: Key, at: Instant) {
        let errand = self.errands.open();
        self.clean(kernel, errand, node, key);
        self.errands.start(kernel, errand, at);
    }

    /// Offer, answer and block, as equation 5 of PAFS says. Returns the disk's node.
    pub(super) fn send_to_disk(
        &mut self,
        kernel: &Kernel<XfsEvent>,
        errand: ErrandId,
        node: u16,
        key: Key,
    ) -> u16 {
        let disk = disk_node(kernel, key);
        self.errands.add(errand, Step::Ask { from: node, to: disk });
        self.errands.add(errand, Step::Tell { from: disk, to: node });
        if disk != node {
            self.errands.add(errand, Step::Data { from: node, to: disk });
        }
        disk
    }
}
