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

    pub(super) fn push(&mut self, frames: &mut Frames, slot: u32) {
        frames.set_newer(slot, None);
        frames.set_older(slot, self.newest);
        match self.newest {
            Some(newest) => frames.set_newer(newest, Some(slot)),
            None => self.oldest = Some(slot),
        }
        self.newest = Some(slot);
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
