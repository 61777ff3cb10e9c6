//! A doubly linked queue threaded through the frames.

use crate::cache::Frames;

/// Blocks in an order: a link to each neighbour in the frame, nothing besides.
#[derive(Debug, Default)]
pub struct Queue {
    newest: Option<u32>,
    oldest: Option<u32>,
    len: u32,
}

impl Queue {
    /// Blocks in it.
    #[must_use]
    pub const fn len(&self) -> u32 {
        self.len
    }

    /// It has no blocks.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The block at its end.
    #[must_use]
    pub const fn oldest(&self) -> Option<u32> {
        self.oldest
    }

    /// Adds a block as the newest.
    pub fn push(&mut self, frames: &mut Frames, slot: u32) {
        self.insert_before(frames, slot, None);
    }

    /// Adds a block as the oldest.
    pub fn push_oldest(&mut self, frames: &mut Frames, slot: u32) {
        self.insert_before(frames, slot, self.oldest);
    }

    /// Adds a block that is just older than `newer`, a block of this queue; without one, as the newest.
    pub fn insert_before(&mut self, frames: &mut Frames, slot: u32, newer: Option<u32>) {
        let older = newer.map_or(self.newest, |newer| frames.older(newer));
        frames.note_entry(slot);
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

    /// Takes a block of this queue out.
    pub fn remove(&mut self, frames: &mut Frames, slot: u32) {
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
    pub fn renew(&mut self, frames: &mut Frames, slot: u32) {
        if self.newest != Some(slot) {
            self.remove(frames, slot);
            self.push(frames, slot);
        }
    }

    /// The oldest block that nobody uses.
    #[must_use]
    pub fn oldest_idle(&self, frames: &Frames) -> Option<u32> {
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
#[must_use]
pub fn next_in(queues: &[&Queue], frames: &Frames, after: Option<u32>) -> Option<u32> {
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
