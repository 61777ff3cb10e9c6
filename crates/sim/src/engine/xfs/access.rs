//! Reads and writes.

use cards_core::Instant;

use super::caches::BufferId;
use super::errands::{ErrandId, Part, Step};
use super::evict::Room;
use super::key::Key;
use super::{Xfs, XfsEvent, disk_node};
use crate::kernel::{Io, Kernel};

/// Copies that a manager looks at to find one that is not on its way itself.
const COPIES_TRIED: usize = 16;

impl Xfs {
    /// Reads a block.
    pub(super) fn read(&mut self, kernel: &mut Kernel<XfsEvent>, io: &Io, key: Key, at: Instant) {
        if let Some(copy) = self.caches.find(io.node, key) {
            self.counts.local_hits += 1;
            self.caches.touch(copy);
            return self.use_local(kernel, io, copy, at);
        }
        let errand = self.errands.open();
        let room = self.make_room(kernel, errand, io.node, at);
        let manager = self.manager(key);
        self.errands.add(errand, Step::Ask { from: io.node, to: manager });
        let mut dirty = false;
        match self.best_copy(key) {
            Some(copy) => {
                self.counts.remote_hits += 1;
                self.counts.remote_hits_forwarding += u64::from(room.is_some_and(|room| room.forwarded));
                self.counts.remote_hits_cleaning += u64::from(room.is_some_and(|room| room.cleaned));
                self.fetch(kernel, errand, manager, io.node, copy);
                self.caches.set_owned(copy, false);
                // N-Chance: a forwarded block moves to where it is used.
                if self.caches.get(copy).chances() > 0 && room.is_some() {
                    dirty = self.caches.get(copy).is_dirty();
                    self.caches.remove(copy);
                }
            }
            None => {
                self.counts.disk_reads += 1;
                self.fetch_from_disk(kernel, errand, manager, io.node, key);
            }
        }
        if let Some(copy) = self.take_in(errand, io.node, key, room) {
            self.caches.set_dirty(copy, dirty);
        }
        self.errands.add(errand, self.deliver(io, key));
        self.errands.start(kernel, errand, at);
    }

    /// Writes a block, or a part of it.
    pub(super) fn write(&mut self, kernel: &mut Kernel<XfsEvent>, io: &Io, key: Key, at: Instant) {
        self.counts.writes += 1;
        match self.caches.find(io.node, key) {
            Some(copy) => {
                self.counts.write_hits += 1;
                self.caches.touch(copy);
                if self.caches.get(copy).is_owned() {
                    self.caches.set_dirty(copy, true);
                    self.use_local(kernel, io, copy, at);
                } else {
                    self.write_shared(kernel, io, copy, at);
                }
            }
            None => self.write_absent(kernel, io, key, at),
        }
    }

    /// The node has the block, and may not change it yet.
    fn write_shared(&mut self, kernel: &mut Kernel<XfsEvent>, io: &Io, copy: BufferId, at: Instant) {
        let key = self.caches.get(copy).key();
        let manager = self.manager(key);
        let errand = self.errands.open();
        self.await_contents(errand, copy);
        self.ask_ownership(errand, io.node, manager);
        self.invalidate_all_but(errand, manager, key, copy);
        self.errands.add(errand, Step::Tell { from: manager, to: io.node });
        self.caches.set_arrival(copy, self.errands.ticket(errand, Part::Own));
        self.own(copy);
        self.errands.add(errand, Step::Settle { part: Part::Own });
        self.errands.add(errand, self.deliver(io, key));
        self.errands.start(kernel, errand, at);
    }

    /// The node does not have the block. Unless all of it is written, it needs the old contents.
    fn write_absent(&mut self, kernel: &mut Kernel<XfsEvent>, io: &Io, key: Key, at: Instant) {
        let errand = self.errands.open();
        let room = self.make_room(kernel, errand, io.node, at);
        let manager = self.manager(key);
        self.ask_ownership(errand, io.node, manager);
        let whole = io.covers(key.index.into(), self.block_bytes);
        let source = self.best_copy(key);
        self.counts.write_hits += u64::from(source.is_some());
        match source {
            Some(copy) if !whole => {
                self.invalidate_all_but(errand, manager, key, copy);
                self.fetch(kernel, errand, manager, io.node, copy);
                self.counts.invalidations += 1;
                self.caches.remove(copy);
            }
            Some(copy) => {
                self.invalidate_all_but(errand, manager, key, copy);
                self.invalidate(errand, manager, copy);
                self.errands.add(errand, Step::Tell { from: manager, to: io.node });
            }
            None if whole => self.errands.add(errand, Step::Tell { from: manager, to: io.node }),
            None => {
                self.counts.write_fills += 1;
                self.fetch_from_disk(kernel, errand, manager, io.node, key);
            }
        }
        match self.take_in(errand, io.node, key, room) {
            Some(copy) => self.own(copy),
            // Nobody keeps it, so it is written at once.
            None => self.clean(kernel, errand, io.node, key),
        }
        self.errands.add(errand, self.deliver(io, key));
        self.errands.start(kernel, errand, at);
    }

    /// The node has the block, though perhaps still on its way, and needs nobody's leave.
    fn use_local(&mut self, kernel: &mut Kernel<XfsEvent>, io: &Io, copy: BufferId, at: Instant) {
        let key = self.caches.get(copy).key();
        if !self.errands.in_transit(self.caches.get(copy).arrival()) {
            let bytes = io.bytes_in(key.index.into(), self.block_bytes);
            let at = kernel.model.local_copy(at, io.node, bytes);
            return self.errands.part_done(kernel, io.token, at);
        }
        let errand = self.errands.open();
        self.await_contents(errand, copy);
        self.errands.add(errand, self.deliver(io, key));
        self.errands.start(kernel, errand, at);
    }

    /// The newest copy that is in place; if there is none, the newest on its way.
    fn best_copy(&self, key: Key) -> Option<BufferId> {
        let in_place = |&copy: &BufferId| !self.errands.in_transit(self.caches.get(copy).arrival());
        self.caches.copies(key).take(COPIES_TRIED).find(in_place).or(self.caches.any(key))
    }

    /// A manager has another node send its copy to a node: all of the block, whatever was asked for.
    fn fetch(
        &mut self,
        kernel: &Kernel<XfsEvent>,
        errand: ErrandId,
        manager: u16,
        node: u16,
        copy: BufferId,
    ) {
        let buffer = *self.caches.get(copy);
        let holder = buffer.node();
        self.errands.add(errand, Step::Ask { from: manager, to: holder });
        self.await_contents(errand, copy);
        if buffer.is_dirty() && self.config.level_b {
            // Another node is going to depend on it (XFS-4).
            self.clean(kernel, errand, holder, buffer.key());
            self.caches.set_dirty(copy, false);
        }
        self.errands.add(errand, Step::Data { from: holder, to: node });
    }

    fn fetch_from_disk(
        &mut self,
        kernel: &Kernel<XfsEvent>,
        errand: ErrandId,
        manager: u16,
        node: u16,
        key: Key,
    ) {
        let disk = disk_node(kernel, key);
        self.errands.add(errand, Step::Ask { from: manager, to: disk });
        self.errands.add(errand, Step::DiskRead { key });
        self.errands.add(errand, Step::Data { from: disk, to: node });
    }

    fn await_contents(&mut self, errand: ErrandId, copy: BufferId) {
        let ticket = self.caches.get(copy).arrival();
        if self.errands.in_transit(ticket) {
            self.errands.add(errand, Step::Await { ticket });
        }
    }

    /// The block is put where room has been made for it, if there was any to make.
    fn take_in(&mut self, errand: ErrandId, node: u16, key: Key, room: Option<Room>) -> Option<BufferId> {
        room?;
        let copy = self.caches.insert(node, key, self.errands.ticket(errand, Part::Own));
        self.errands.add(errand, Step::Settle { part: Part::Own });
        Some(copy)
    }

    fn ask_ownership(&mut self, errand: ErrandId, node: u16, manager: u16) {
        self.counts.ownership_requests += 1;
        self.errands.add(errand, Step::Ask { from: node, to: manager });
    }

    /// The manager lets a node change a block: no other has it any more.
    fn own(&mut self, copy: BufferId) {
        self.caches.set_owned(copy, true);
        self.caches.set_dirty(copy, true);
    }

    fn invalidate_all_but(&mut self, errand: ErrandId, manager: u16, key: Key, kept: BufferId) {
        loop {
            let other = self.caches.copies(key).find(|&copy| copy != kept);
            let Some(copy) = other else { return };
            self.invalidate(errand, manager, copy);
        }
    }

    /// The manager has a node drop its copy, before it lets another change the block.
    fn invalidate(&mut self, errand: ErrandId, manager: u16, copy: BufferId) {
        self.counts.invalidations += 1;
        let holder = self.caches.get(copy).node();
        self.caches.remove(copy);
        self.notify(errand, manager, holder);
    }

    fn deliver(&self, io: &Io, key: Key) -> Step {
        let bytes = io.bytes_in(key.index.into(), self.block_bytes) as u32;
        Step::Deliver { node: io.node, token: io.token, bytes }
    }
}
