//! Copies of blocks that other nodes keep, of volumes whose policy tells them from the rest: they have a queue of their own, in order
//! of use, and the policy says whether the oldest of them goes or a block that only this node keeps.

use super::{Cache, Frames, Mark};
use crate::ids::Slot;
use crate::policy::Ages;
use crate::replacement::{Lru, Replacer};

#[derive(Default)]
pub(super) struct Replicas {
    pub(super) queue: Lru,
}

impl Replicas {
    pub(super) fn len(&self) -> u32 {
        self.queue.len()
    }

    pub(super) fn insert(&mut self, frames: &mut Frames, slot: u32) {
        frames.mark(slot, Mark::REPLICA, true);
        self.queue.insert(frames, slot);
    }

    pub(super) fn remove(&mut self, frames: &mut Frames, slot: u32) {
        frames.mark(slot, Mark::REPLICA, false);
        self.queue.remove(frames, slot);
    }
}

impl Cache {
    /// From now on ages are known.
    pub(crate) fn keep_ages(&mut self) {
        let slots = self.slots() as usize;
        self.frames.entered.resize(slots, self.frames.turn);
    }

    /// A resident block is the copy of one that another node keeps, or is that no longer. What is retained or set apart is not
    /// counted among replicas.
    pub(crate) fn set_replica(&mut self, slot: Slot, on: bool) {
        let is_elsewhere = self.is(slot, Mark::RETAINED) || self.is_apart(slot);
        if is_elsewhere || self.is(slot, Mark::REPLICA) == on {
            return;
        }
        self.leave_queue(slot.0);
        self.victim.take_if(|victim| *victim == slot.0);
        match on {
            true => self.replicas.insert(&mut self.frames, slot.0),
            false => self.enter_queue(slot.0),
        }
    }

    /// The replica that goes first, if room is needed where it is, with what its policy is to know.
    pub(crate) fn replica_victim(&mut self) -> Option<(Slot, Ages)> {
        if self.replicas.len() == 0 || self.apart.is_some() && !self.is_overfull_here() {
            return None;
        }
        let slot = self.replicas.queue.victim(&mut self.frames)?;
        let other = self.replacer.oldest(&self.frames).map(|other| self.frames.age(other));
        let (replica, replicas) = (self.frames.age(slot), self.replicas.len());
        let block = self.frames.block(slot);
        Some((Slot(slot), Ages { block, replica, other, replicas, capacity: self.capacity }))
    }
}
