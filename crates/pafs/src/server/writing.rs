//! Writes, delayed and covered, and the syncer.

use alloc::vec::Vec;

use super::super::partition::Mark;
use super::super::{Access, Action, BufferNumber, Found};
use super::CacheServer;

/// A covered write under way (PAFS-16).
#[derive(Clone, Copy, Debug)]
pub(super) struct Write {
    access: Access,
    /// The buffer has the new bytes.
    modified: bool,
    /// The parity has them.
    covered: bool,
}

impl CacheServer {
    /// A client writes to a block that is in a buffer. Covered writes to one buffer are done one by one.
    pub(super) fn write(&mut self, at: u32, access: Access, found: Found, out: &mut Vec<Action>) {
        let (frame, buffer) = (self.partition.frame(at), BufferNumber(at));
        // What is in the parity, or just being taken out, must not change behind the parity server's back.
        let is_known = self.partition.is(at, Mark::COVERED.or(Mark::UNCOVERING));
        if !self.config.level.covers(access.client, frame.node) && !is_known {
            self.dirty(at);
            out.push(Action::Accept { access, frame, found });
        } else if self.partition.is(at, Mark::WRITING) {
            self.wait(access);
        } else {
            self.partition.mark(at, Mark::WRITING.or(Mark::COVERED), true);
            self.writes.insert(at, Write { access, modified: false, covered: false });
            out.push(Action::Announce { access, frame, buffer, found });
        }
    }

    fn dirty(&mut self, at: u32) {
        self.partition.mark(at, Mark::DIRTY, true);
        if !self.partition.is(at, Mark::LISTED) {
            self.partition.mark(at, Mark::LISTED, true);
            self.dirty.push(at);
        }
    }

    /// The parity server has saved the buffer of an [`Action::Announce`].
    pub fn ready(&mut self, buffer: BufferNumber, out: &mut Vec<Action>) {
        let at = buffer.0;
        let Some(&Write { access, .. }) = self.writes.get(&at) else {
            unreachable!("only an announced write is answered");
        };
        self.dirty(at);
        out.push(Action::Modify { access, frame: self.partition.frame(at), buffer });
        if self.partition.is(at, Mark::FILLING) {
            self.filled(at, Found::Cached, out);
        }
    }

    /// The bytes of an [`Action::Modify`] are in the buffer.
    pub fn modified(&mut self, buffer: BufferNumber, out: &mut Vec<Action>) {
        self.progress(buffer, |write| write.modified = true, out);
    }

    /// The bytes of an [`Action::Modify`] are in the parity.
    pub fn covered(&mut self, buffer: BufferNumber, out: &mut Vec<Action>) {
        self.progress(buffer, |write| write.covered = true, out);
    }

    fn progress(&mut self, buffer: BufferNumber, step: impl FnOnce(&mut Write), out: &mut Vec<Action>) {
        let at = buffer.0;
        let Some(write) = self.writes.get_mut(&at) else {
            unreachable!("only a write under way makes progress");
        };
        step(write);
        if !(write.modified && write.covered) {
            return;
        }
        let access = write.access;
        self.writes.remove(&at);
        self.partition.mark(at, Mark::WRITING, false);
        out.push(Action::Acknowledge { access });
        if self.partition.is(at, Mark::VACATING) {
            self.vacate(at, out);
            return;
        }
        while let Some(waiting) = self.waiting.get_mut(&access.block)
            && !self.partition.is(at, Mark::WRITING)
        {
            let next = waiting.pop_front();
            if waiting.is_empty() {
                self.waiting.remove(&access.block);
            }
            if let Some(next) = next {
                self.serve(at, next, Found::Cached, out);
            }
        }
    }

    /// The syncer's round: all dirty blocks go to their disks (PAFS-7). One that is being written, or written to its
    /// disk, at this moment waits for the next round.
    pub fn sync(&mut self, out: &mut Vec<Action>) {
        for at in core::mem::take(&mut self.dirty) {
            self.partition.mark(at, Mark::LISTED, false);
            if !self.partition.is(at, Mark::DIRTY) {
                continue;
            }
            if self.partition.is(at, Mark::WRITING.or(Mark::FLUSHING)) {
                self.dirty(at);
            } else {
                self.flush(at, out);
            }
        }
    }

    pub(super) fn flush(&mut self, at: u32, out: &mut Vec<Action>) {
        self.partition.mark(at, Mark::DIRTY, false);
        self.partition.mark(at, Mark::FLUSHING, true);
        if let Some(block) = self.partition.block(at) {
            out.push(Action::Flush { block, frame: self.partition.frame(at), buffer: BufferNumber(at) });
        }
    }

    /// The block of an [`Action::Flush`] is on its disk.
    pub fn flushed(&mut self, buffer: BufferNumber, out: &mut Vec<Action>) {
        let at = buffer.0;
        assert!(self.partition.is(at, Mark::FLUSHING), "only what was flushed is on its disk");
        self.partition.mark(at, Mark::FLUSHING, false);
        if self.partition.is(at, Mark::VACATING) {
            self.vacate(at, out);
        } else if self.partition.is(at, Mark::COVERED)
            && !self.partition.is(at, Mark::DIRTY.or(Mark::WRITING))
        {
            self.uncover(at, out);
        }
    }

    pub(super) fn uncover(&mut self, at: u32, out: &mut Vec<Action>) {
        self.partition.mark(at, Mark::COVERED, false);
        self.partition.mark(at, Mark::UNCOVERING, true);
        out.push(Action::Uncover { frame: self.partition.frame(at), buffer: BufferNumber(at) });
    }

    /// The buffer of an [`Action::Uncover`] is out of the parity.
    pub fn uncovered(&mut self, buffer: BufferNumber, out: &mut Vec<Action>) {
        let at = buffer.0;
        assert!(self.partition.is(at, Mark::UNCOVERING), "only what was covered leaves the parity");
        self.partition.mark(at, Mark::UNCOVERING, false);
        if self.partition.is(at, Mark::VACATING) {
            self.vacate(at, out);
        }
    }
}
