//! What makes a fetch go on: a block, a volume, a peer or a slot has changed, or it has waited for too long.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::{Fetches, State};
use crate::cache::Cache;
use crate::ids::{BlockId, NodeId, PgId, RequestId, Slot};
use crate::message::IoError;
use crate::shard::Shard;
use crate::time::Instant;

impl Shard {
    pub(super) fn make_ready(&mut self, request: RequestId) {
        if let Some(fetch) = self.fetches.get_mut(request)
            && fetch.state != State::Ready
        {
            let block = fetch.block;
            fetch.state = State::Ready;
            self.stats.lock_wait_us += fetch.unlocked_for(self.now).as_micros() as u64;
            self.fetches.ready.push_back(request);
            self.fetches.by_lock.remove(&self.lock_wait(request, block));
        }
    }

    /// The entry of [`Fetches::by_lock`].
    pub(super) fn lock_wait(&self, request: RequestId, block: BlockId) -> (PgId, u32, RequestId) {
        (block.volume, self.place(block.index).region, request)
    }

    pub(in crate::shard) fn fetch_timeout(&mut self, request: RequestId) {
        let Some(fetch) = self.fetches.get_mut(request) else { return };
        if self.now >= fetch.give_up {
            self.fail(request, IoError::NoAnswer);
        } else if fetch.landing {
            // The answer is arriving: its end, or its failure, will be told.
            let asked = fetch.state;
            self.wait_in(request, asked);
        } else if let Some(patient_until) = fetch.asked_at.map(|at| at + self.timing.peer)
            && self.now < patient_until
            && !fetch.from_disk_node
            && !fetch.hedged
        {
            self.hedge(request, patient_until);
        } else {
            self.stats.retries += 1;
            // Whoever waited for a lock has asked nobody for the block.
            fetch.from_disk_node |= fetch.state != State::AwaitingLock;
            self.make_ready(request);
        }
    }

    /// Who was asked is late: the primary is asked as well, if that may be, and whoever answers first is heard.
    fn hedge(&mut self, request: RequestId, patient_until: Instant) {
        let may = self.pace.hedge();
        let Some(fetch) = self.fetches.get_mut(request) else { return };
        if !may {
            return fetch.wake_at(patient_until.min(fetch.give_up), &mut self.timers);
        }
        (fetch.hedged, fetch.from_disk_node) = (true, true);
        self.stats.hedged += 1;
        self.make_ready(request);
    }

    /// A peer is back: what it was asked for it may never have heard of.
    pub(in crate::shard) fn ask_again(&mut self, node: NodeId) {
        self.ask_elsewhere(node);
    }

    /// A peer is gone: what it was asked for is asked of the primary.
    pub(in crate::shard) fn ask_elsewhere(&mut self, node: NodeId) {
        let asked = self.fetches.requests_of(|fetch| fetch.state == State::Asked(node) && !fetch.landing);
        let up = self.is_up(node);
        for request in asked {
            let Some(fetch) = self.fetches.get_mut(request) else { continue };
            fetch.from_disk_node = true;
            let block = fetch.block;
            // Asking a primary that is away is left to the timer.
            if up || self.primary_of(block.volume) != node {
                self.make_ready(request);
            }
        }
    }

    /// The volume has another primary: who was asked may have nothing to say any more, and what this node's disk reads may
    /// be old by the time it is there.
    pub(in crate::shard) fn ask_anew(&mut self, id: PgId) {
        let asked = self.fetches.requests_of(|fetch| fetch.block.volume == id && !fetch.landing);
        for request in asked {
            let Some(fetch) = self.fetches.get_mut(request) else { continue };
            match fetch.state {
                State::Disk(_) => fetch.overtaken = true,
                State::NoSlot | State::Ready => {}
                State::Asked(_) | State::Waiting | State::AwaitingLock => {
                    fetch.from_disk_node |= fetch.is_asked();
                    self.make_ready(request);
                }
            }
        }
    }

    /// The volume can be used (again).
    pub(in crate::shard) fn resume_volume(&mut self, id: PgId) {
        let waiting = self.fetches.requests_of(|fetch| {
            fetch.block.volume == id && matches!(fetch.state, State::Waiting | State::AwaitingLock)
        });
        waiting.into_iter().for_each(|request| self.make_ready(request));
        self.send_commands_again(self.primary_of(id));
    }

    /// This node's card of the volume has the lock on some of a region back.
    pub(in crate::shard) fn resume_locked(&mut self, id: PgId, region: u32) {
        let all = (id, region, RequestId(0))..=(id, region, RequestId(u64::MAX));
        let waiting: Vec<RequestId> = self.fetches.by_lock.range(all).map(|&(.., request)| request).collect();
        waiting.into_iter().for_each(|request| self.make_ready(request));
    }

    /// The block has come by another way: its fetch need not wait for an answer.
    pub(in crate::shard) fn resume_fetch(&mut self, block: BlockId) {
        if let Some(fetch) = self.fetches.of_block(block)
            && !fetch.landing
            && matches!(fetch.state, State::Waiting | State::Asked(_))
        {
            self.make_ready(fetch.request);
        }
    }

    /// A write to the block has ended.
    pub(in crate::shard) fn resume_block(&mut self, block: BlockId) {
        if let Some(fetch) = self.fetches.of_block(block)
            && fetch.state == State::Waiting
        {
            self.make_ready(fetch.request);
        }
    }

    /// At the primary: the fetch of those who wait for a write to the block, with a slot, and how many they are.
    pub(in crate::shard) fn slot_for_waiting(&mut self, block: BlockId) -> Option<(RequestId, Slot, u64)> {
        let fetch = self.fetches.of_block(block)?;
        let waiting = fetch.waiters.iter().count() as u64;
        if fetch.state != State::Waiting || waiting == 0 {
            return None;
        }
        let (request, reserved) = (fetch.request, fetch.slot);
        let slot = reserved.or_else(|| self.cache.take())?;
        self.fetches.give_slot(request, slot);
        Some((request, slot, waiting))
    }

    /// A write to the block begins: what the disk is reading now is old or torn, what is on its way is old.
    pub(in crate::shard) fn overtake(&mut self, block: BlockId) {
        if let Some(fetch) = self.fetches.of_block_mut(block) {
            fetch.overtaken = true;
        }
    }

    /// Slots are free beyond those that reads of this node's own disk may need.
    pub(in crate::shard) fn spare_slots_left(&self) -> bool {
        let spare = self.cache.slots() - self.cache.capacity();
        self.cache.free_slots() > spare / 4
    }

    /// A slot has become free: whoever waits for one goes on, as far as the free ones reach.
    pub(in crate::shard) fn resume_slot_waiters(&mut self) {
        if self.fetches.disk_waiters.is_empty() && self.fetches.peer_waiters.is_empty() {
            return;
        }
        let free = self.cache.free_slots() as usize;
        let kept_back = (self.cache.slots() - self.cache.capacity()) as usize / 4;
        let gone = self.resume_slot_waiters_of(|fetches| &mut fetches.disk_waiters, free);
        let most = (free - gone).saturating_sub(kept_back);
        self.resume_slot_waiters_of(|fetches| &mut fetches.peer_waiters, most);
    }

    /// Slots may be held for long, by readers of blocks that are not kept here: until they have all that they have asked for, which may lack
    /// slots itself. So half of the spare ones' number of fetches always goes on, and of those from this node's own disk a quarter, for
    /// which other nodes' may wait: one takes the place of a block that nobody uses. Returns whether one does.
    pub(super) fn give_way(&mut self) -> bool {
        let spare = (self.cache.slots() - self.cache.capacity()) as usize;
        let Some(request) = self.fetches.first_without_slot() else { return false };
        // Asked after each input while slots are short: nothing here looks at all fetches.
        let is_own = |volume: PgId| self.primary(volume).is_some();
        let is_enough = self.fetches.with_slots(|_| true) >= spare / 2
            && (!self.fetches.get(request).is_some_and(|fetch| is_own(fetch.block.volume))
                || self.fetches.with_slots(is_own) >= spare / 4);
        if is_enough {
            return false;
        }
        // Where places are set apart, there may be no victim unless there are too many blocks.
        let idle = |cache: &Cache| cache.tail().find(|slot| cache.frames().is_idle(slot.0));
        let Some(victim) = self.victim().or_else(|| idle(&self.cache)) else { return false };
        self.evict(victim, false);
        // A slot more may have been enough for it to go on by itself.
        if self.fetches.first_without_slot() == Some(request)
            && let Some(slot) = self.cache.take()
        {
            self.fetches.give_slot(request, slot);
            self.make_ready(request);
        }
        true
    }

    /// At most so many go on; returns how many did. Fetches that have failed meanwhile take nobody's turn.
    fn resume_slot_waiters_of(
        &mut self,
        queue: impl Fn(&mut Fetches) -> &mut VecDeque<RequestId>,
        most: usize,
    ) -> usize {
        let mut gone = 0;
        while gone < most
            && let Some(request) = queue(&mut self.fetches).pop_front()
        {
            if self.fetches.get(request).is_some_and(|fetch| fetch.state == State::NoSlot) {
                self.make_ready(request);
                gone += 1;
            }
        }
        gone
    }
}
