//! A doubly linked queue threaded through the frames.

use crate::cache::Frames;

#[derive(Debug, Default)]
pub(super) struct Queue {
    newest: Option<u32>,
    oldest: Option<u32>,
    len: u32,
}

impl Queue {
    pub(super) const fn len(&self) -> u32 {
        self.len
    }

    pub(super) const fn oldest(&self) -> Option<u32> {
        self.oldest
    }

    /// Adds a block as the newest.
    pub(super) fn push(&mut self, frames: &mut Frames, slot: u32) {
        self.insert_before(frames, slot, None);
    }

    /// Adds a block as the oldest.
    pub(super) fn push_oldest(&mut self, frames: &mut Frames, slot: u32) {
        self.insert_before(frames, slot, self.oldest);
    }

    /// Adds a block that is just older than `newer`, a block of this queue; without one, as the newest.
    pub(super) fn insert_before(&mut self, frames: &mut Frames, slot: u32, newer: Option<u32>) {
        let older = newer.map_or(self.newest, |newer| frames.older(newer));
        frames.set_newer(slot, newer);
        frames.set_older(slot, older);
        match newer {
            Some(newer) => frames.set_older(newer, Some(slot)),
            None => self.newest = Some(slot),
        }
        match older {
            Some(older) => frames.set_newer(older, Some(slot)),
            None => self.oldest = Some(slot),
        }
        self.len += 1;
    }

    pub(super) fn remove(&mut self, frames: &mut Frames, slot: u32) {
        let (newer, older) = (frames.newer(slot), frames.older(slot));
        match newer {
            Some(newer) => frames.set_older(newer, older),
            None => self.newest = older,
        }
        match older {
            Some(older) => frames.set_newer(older, newer),
            None => self.oldest = newer,
        }
        frames.set_newer(slot, None);
        frames.set_older(slot, None);
        self.len -= 1;
    }

    /// Makes a block of this queue the newest.
    pub(super) fn renew(&mut self, frames: &mut Frames, slot: u32) {
        if self.newest != Some(slot) {
            self.remove(frames, slot);
            self.push(frames, slot);
        }
    }

    pub(super) fn oldest_idle(&self, frames: &Frames) -> Option<u32> {
        let mut at = self.oldest;
        while let Some(slot) = at {
            if frames.is_idle(slot) {
                return at;
            }
            at = frames.newer(slot);
        }
        None
    }
}

/// The block after `after`, or the first one, when the queues are walked one after another, each from its
/// oldest block.
pub(super) fn next_in(queues: &[&Queue], frames: &Frames, after: Option<u32>) -> Option<u32> {
    let mut queues = queues.iter();
    if let Some(slot) = after {
        let newer = frames.newer(slot);
        if newer.is_some() {
            return newer;
        }
        queues.find(|queue| queue.newest == after);
    }
    queues.find_map(|queue| queue.oldest)
}
