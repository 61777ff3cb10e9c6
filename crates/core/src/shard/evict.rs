//! A block leaves the cache, or comes here from the node that evicted it.

use alloc::vec::Vec;

use super::Shard;
use super::coherence::Freshness;
use crate::cache::Mark;
use crate::ids::{BlockId, NodeId, Slot, Stamp};
use crate::index::Entry;
use crate::io::{Landing, Payload};
use crate::message::{Body, StoreOutcome};
use crate::policy::{Answer, Eviction, Offer};
use crate::time::Instant;
use crate::timers::Timer;

/// An evicted block on its way to a new host. It can be read until the host has answered.
pub(super) struct Leaving {
    /// Pinned once.
    pub(super) slot: Slot,
    pub(super) to: NodeId,
    deadline: Instant,
}

/// A [`Body::Store`], without the block.
#[derive(Clone, Copy)]
pub(super) struct Store {
    pub(super) class: u8,
    pub(super) depth: u8,
    pub(super) evictor: NodeId,
    pub(super) previous: NodeId,
    pub(super) as_of: Stamp,
    pub(super) age_ms: u32,
    pub(super) oldest_ms: u32,
}

impl Shard {
    /// Evicts until the cache holds no more than it should. The replacement chooses whom (CARD-8).
    pub(super) fn make_room(&mut self) {
        while self.cache.is_overfull() {
            let Some(victim) = self.victim() else { return };
            self.evict(victim, true);
        }
    }

    /// The oldest replica, if its policy has it so; otherwise whatever the replacement chooses.
    pub(super) fn victim(&mut self) -> Option<Slot> {
        let replica = self.cache.replica_victim();
        if let Some((slot, ages)) = replica
            && self.replica_goes(self.cache.block(slot).volume, ages)
        {
            return Some(slot);
        }
        self.cache.victim().or(replica.map(|(slot, _)| slot))
    }

    /// A copy leaves, if its policy wants that and it `may`, for another node.
    pub(super) fn evict(&mut self, victim: Slot, may_send: bool) {
        let block = self.cache.block(victim);
        self.stats.evictions += 1;
        if self.cache.is(victim, Mark::HOSTED) {
            self.stats.stored_in_vain += 1;
        }
        let entry = Entry { previous: self.cache.previous(victim), next: self.cache.next(victim) };
        let age_ms = self.cache.data.age_ms(victim, self.policy_now());
        // What was only written the disk has, and nobody has shown that it is read: to send it about costs as much again.
        let worth_saving = !self.cache.is(victim, Mark::WRITTEN);
        let eviction = match worth_saving && self.freshness(block) == Freshness::Fresh(victim) {
            true => self.with_policy(block.volume, |policy, cx| policy.handle_eviction(cx, block)),
            false => None,
        };
        if self.cache.lookup(block) != Some(victim) {
            // The policy has dropped it itself.
            return;
        }
        match eviction {
            Some(Eviction::Send { to, class, depth })
                if may_send && self.can_send(to) && self.allows(block.volume, to) =>
            {
                let previous = self.previous_holder(victim);
                self.cache.pin(victim);
                self.unkeep(victim);
                self.cache.index.put(block, Entry { previous, next: entry.next });
                self.stats.forwarded += 1;
                // It may have left before, come back, and be gone again before the answer.
                self.forget_leaving(block);
                let deadline = self.now + self.timing.store;
                self.leaving.insert(block, Leaving { slot: victim, to, deadline });
                self.timers.set(deadline, Timer::Leaving(block));
                let me = self.config.node;
                let previous = entry.previous.unwrap_or(me);
                let as_of = self.as_of(block);
                self.send_store(to, block, victim, class, depth, me, previous, age_ms, as_of);
            }
            _ => self.forget_copy(victim),
        }
    }

    /// Drops an idle copy. What can be found by its index entry later is worth remembering: a newer copy, or where an
    /// older one went.
    pub(super) fn forget_copy(&mut self, slot: Slot) {
        let (block, next) = (self.cache.block(slot), self.cache.next(slot));
        let previous = self.previous_holder(slot);
        self.unkeep(slot);
        if next.is_some() {
            self.cache.index.put(block, Entry { previous, next });
        }
    }

    /// Who delivered a copy, unless that was the primary, which everybody finds.
    fn previous_holder(&self, slot: Slot) -> Option<NodeId> {
        let disk_node = self.primary_of(self.cache.block(slot).volume);
        self.cache.previous(slot).filter(|&previous| previous != disk_node)
    }

    /// Forwarding is for quiet times: when slots run short, evicted blocks are dropped.
    fn can_send(&self, to: NodeId) -> bool {
        let spare = self.cache.slots() - self.cache.capacity();
        to != self.config.node && self.is_up(to) && self.leaving.len() < (spare / 2) as usize
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of the message")]
    fn send_store(
        &mut self,
        to: NodeId,
        block: BlockId,
        slot: Slot,
        class: u8,
        depth: u8,
        evictor: NodeId,
        previous: NodeId,
        age_ms: u32,
        as_of: Stamp,
    ) {
        self.cache.pin(slot);
        let oldest_ms = self.oldest_ms();
        let block_index = block.index;
        let body =
            Body::Store { block: block_index, class, depth, evictor, previous, as_of, age_ms, oldest_ms };
        self.send(to, block.volume, body, Payload::Slot(slot));
    }

    /// The age of this node's oldest block, for policies that keep ages.
    pub(super) fn oldest_ms(&self) -> u32 {
        match self.cache.data.is_enabled() {
            true => {
                self.cache.tail().next().map_or(0, |slot| self.cache.data.age_ms(slot, self.policy_now()))
            }
            false => 0,
        }
    }

    pub(super) fn store_ack(&mut self, from: NodeId, block: BlockId) {
        if self.leaving.get(&block).is_some_and(|leaving| leaving.to == from) {
            self.forget_leaving(block);
        }
    }

    pub(super) fn forget_leaving(&mut self, block: BlockId) {
        if let Some(leaving) = self.leaving.remove(&block) {
            self.timers.clear(leaving.deadline, Timer::Leaving(block));
            self.put_back(Payload::Slot(leaving.slot));
        }
    }

    pub(super) fn forget_leaving_to(&mut self, node: NodeId) {
        let gone: Vec<BlockId> =
            self.leaving.iter().filter(|(_, l)| l.to == node).map(|(&block, _)| block).collect();
        gone.into_iter().for_each(|block| self.forget_leaving(block));
    }

    /// Takes a slot for an evicted block that may be of use here.
    pub(super) fn land_store(&mut self, block: BlockId, as_of: Stamp) -> Landing {
        // The last free slots are for blocks that somebody waits for.
        let spare = self.cache.slots() - self.cache.capacity();
        let scarce = self.cache.free_slots() <= spare / 2;
        let wanted = self.may_store(block, as_of) && self.cache.lookup(block).is_none();
        if !wanted || scarce {
            return Landing::Discard;
        }
        self.cache.take().map_or(Landing::Discard, Landing::Slot)
    }

    fn may_store(&self, block: BlockId, as_of: Stamp) -> bool {
        let exists =
            self.volumes.get(&block.volume).is_some_and(|v| u64::from(block.index) < v.spec.blocks());
        exists
            && match self.freshness(block) {
                Freshness::LeaseExpired | Freshness::BeingWritten => false,
                Freshness::NotHeld => true,
                Freshness::Missing | Freshness::Leaving(_) | Freshness::Fresh(_) => {
                    self.is_fresh(block, as_of)
                }
            }
    }

    /// An evicted block has come from another node.
    pub(super) fn store(&mut self, from: NodeId, block: BlockId, store: Store, payload: Payload) {
        let offer = Offer {
            class: store.class,
            depth: store.depth,
            evictor: store.evictor,
            previous: store.previous,
            age_ms: store.age_ms,
            oldest_ms: store.oldest_ms,
        };
        let nodes = self.up.len() as u16;
        let usable = self.may_store(block, store.as_of)
            && store.evictor.0 < nodes
            && store.previous.0 < nodes
            && (payload != Payload::None || self.cache.lookup(block).is_some());
        let answer = match usable {
            true => self.with_policy(block.volume, |policy, cx| {
                let answer = policy.offered(cx, block, offer);
                match answer {
                    // The block that makes room is named before anything changes.
                    Answer::Keep(room) => (answer, cx.victim_for(room)),
                    _ => (answer, Err(())),
                }
            }),
            false => None,
        };
        let outcome = match (answer, payload) {
            (Some((Answer::Present, _)), _) => StoreOutcome::Present,
            (Some((Answer::Keep(_), Ok(victim))), Payload::Slot(slot))
                if self.cache.lookup(block).is_none() =>
            {
                // The policy may have dropped the victim itself.
                if let Some(victim) = victim.filter(|&victim| self.cache.is_resident(victim)) {
                    self.stats.stored_in_vain += u64::from(self.cache.is(victim, Mark::HOSTED));
                    self.unkeep(victim);
                    self.stats.evictions += 1;
                }
                // A copy that comes back to where it came from has the previous node that it had there.
                let previous = match store.previous == self.config.node {
                    true => self.cache.index.get(block).previous.unwrap_or(self.primary_of(block.volume)),
                    false => store.previous,
                };
                self.keep(slot, block, Some(previous), store.age_ms, true);
                if self.cache.is_resident(slot) {
                    if !self.holds(block) {
                        self.park(slot, block, store.as_of);
                    }
                    self.with_policy(block.volume, |policy, cx| policy.stored(cx, block, store.depth));
                }
                self.stats.stored_for_others += 1;
                // Somebody may be waiting for just this block.
                self.resume_fetch(block);
                StoreOutcome::Stored
            }
            (Some((Answer::Forward(to), _)), Payload::Slot(slot))
                if to != from
                    && self.is_up(to)
                    && to != self.config.node
                    && self.allows(block.volume, to) =>
            {
                let depth = store.depth.saturating_sub(1);
                let Store { class, evictor, previous, age_ms, .. } = store;
                // What this node has heard says nothing of what it holds no lock on.
                let as_of = if self.holds(block) { self.as_of(block) } else { store.as_of };
                self.send_store(to, block, slot, class, depth, evictor, previous, age_ms, as_of);
                StoreOutcome::PassedOn
            }
            _ => StoreOutcome::Dropped,
        };
        self.put_back(payload);
        self.send(from, block.volume, Body::StoreAck { block: block.index, outcome }, Payload::None);
    }
}
