//! The card: what a node does with a volume for its own clients.
//!
//! Its state is what the primary has told it: under which generation it is attached and until when, which writes are
//! complete ([`Card::heard`]), and in which segments it may use copies ([`held`]). [`commands`] are its clients' writes on
//! their way to the primary; [`withdraw`] has the pages go that a kernel keeps beyond it.

pub(super) mod commands;
pub(super) mod held;
pub(super) mod later;
pub(super) mod withdraw;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::{Limit, Limits, Shard};
use crate::cache::Mark;
use crate::ids::{BlockId, Generation, NodeId, PgId, Stamp};
use crate::index::Entry;
use crate::message::Body;
use crate::mistakes::{Mistake, makes};
use crate::time::Instant;
use crate::volume::Access;
use held::{Held, Release};

/// See the module's head.
pub(super) struct Card {
    /// While it is attached.
    pub(super) generation: Option<Generation>,
    /// What it may do.
    access: Access,
    /// The node has become the primary under it: its clients' commands wait until it is attached.
    pub(super) awaited: bool,
    /// Lives of the primary that this node has had cards of: the latest few by number. They need not follow each other:
    /// its clock may have been set back between two.
    lives: BTreeSet<u64>,
    /// The one that the last card was of.
    life: Option<u64>,
    /// Stamps from here on are of a life of the primary that has a higher number than the card's, and came before it.
    ceiling: Option<Stamp>,
    /// Commands of earlier cards are sent again from this one on, see [`crate::Input::RepeatFrom`].
    pub(super) repeat_from: Generation,
    /// Whether it wants the primary to keep copies of what it reads; none: as the volume has it.
    pub(super) leave_copies: Option<bool>,
    /// Somebody beyond this node's cache keeps pages.
    pub(super) pages: bool,
    /// It may serve cached blocks until then.
    pub(super) lease_until: Instant,
    /// All writes up to this one are complete, by the word of the primary to this card: what may be used here includes them.
    pub(super) heard: Stamp,
    /// Blocks that this node has written later than `heard`.
    own: BTreeMap<u32, Stamp>,
    /// Its locks.
    pub(super) held: Held,
    limits: Limits,
}

impl Card {
    /// One that is not attached.
    pub(super) fn new(limits: Limits, held: Held, pages: bool) -> Self {
        Self {
            generation: None,
            access: Access::Read,
            awaited: false,
            lives: BTreeSet::new(),
            life: None,
            ceiling: None,
            repeat_from: Generation(0),
            leave_copies: None,
            pages,
            lease_until: Instant(0),
            heard: Stamp(0),
            own: BTreeMap::new(),
            held,
            limits,
        }
    }

    /// Commands of the node's clients wait for it, although the node is the primary.
    pub(super) fn is_awaited(&self) -> bool {
        self.awaited && self.generation.is_none()
    }

    /// It is attached, and may write.
    pub(super) fn may_write(&self) -> bool {
        self.generation.is_some() && self.access.may_write()
    }

    pub(super) fn is_leased(&self, now: Instant) -> bool {
        now < self.lease_until
    }

    /// It is of this life of the primary. What another one has said of writes says nothing of this one's. Whether one was
    /// forgotten for it.
    fn begin_life(&mut self, life: u64) -> bool {
        if self.life.replace(life) == Some(life) {
            return false;
        }
        self.lives.insert(life);
        let is_over = self.lives.len() > self.limits.disk_node_lives;
        if is_over {
            self.lives.pop_first();
        }
        self.ceiling = self.lives.range(life + 1..).next().map(|above| Stamp(above << 20));
        is_over
    }

    /// The stamp is of a life of the primary that came before the card's, and had a higher number.
    pub(super) fn is_past(&self, stamp: Stamp) -> bool {
        self.ceiling.is_some_and(|ceiling| stamp >= ceiling)
    }

    /// As of which stamp its copy of a block is good: a usable copy includes all writes that the primary has told this card
    /// are complete, and this node's own last one to the block.
    pub(super) fn as_of(&self, block: u32) -> Stamp {
        self.own.get(&block).map_or(self.heard, |&written| written.max(self.heard))
    }

    /// The primary's word to this card.
    pub(super) fn hear(&mut self, through: Stamp) {
        if through > self.heard && !self.is_past(through) {
            self.heard = through;
            self.own.retain(|_, &mut stamp| stamp > through);
        }
    }

    /// This node's write to a block is complete. Whether there is room for it.
    pub(super) fn wrote(&mut self, block: u32, stamp: Stamp) -> bool {
        let has_room = stamp <= self.heard || self.own.len() < self.limits.own_writes;
        if stamp > self.heard && has_room {
            self.own.insert(block, stamp);
        }
        has_room
    }

    /// Another order of writes begins: its stamps say nothing about those before.
    fn forget_order(&mut self) {
        (self.heard, self.held) = (Stamp(0), Held::after(&self.held));
        self.own.clear();
    }
}

impl Shard {
    pub(super) fn card(&self, id: PgId) -> Option<&Card> {
        self.volumes.get(&id).map(|volume| &volume.card)
    }

    pub(super) fn card_mut(&mut self, id: PgId) -> Option<&mut Card> {
        self.volumes.get_mut(&id).map(|volume| &mut volume.card)
    }

    /// This node's card is attached. It holds nothing yet.
    pub(super) fn attached(&mut self, id: PgId, generation: Generation, access: Access) {
        let Some(volume) = self.volumes.get_mut(&id) else { return };
        let (card, is_primary) = (&mut volume.card, volume.primary.is_some());
        let renewed = card.generation != Some(generation);
        (card.generation, card.access) = (Some(generation), access);
        let first = Stamp(generation.life() << 20);
        // An earlier life with more writes than it had stamps has used those of this one.
        let back = card.life.is_some_and(|before| {
            generation.life() < before || generation.life() > before && card.heard > first
        });
        self.reached.note(Limit::DiskNodeLives, renewed && card.begin_life(generation.life()));
        if renewed && back {
            // Its numbers begin again: nothing of what is here can be compared with them.
            card.forget_order();
            self.drop_copies(id);
        }
        if let Some(card) = self.card_mut(id).filter(|_| !is_primary) {
            // The writes of a life come after all of earlier ones.
            card.hear(first);
        }
        if renewed {
            self.commands.reattached(id, generation);
            self.end_doubts(id);
        }
        if is_primary {
            self.take_over_commands(id);
        }
        self.resume_volume(id);
        self.tick_policy(id);
    }

    pub(super) fn leased(&mut self, id: PgId, until: Instant) {
        if let Some(volume) = self.volumes.get_mut(&id) {
            let was_held_up = !volume.may_use_copies(self.now);
            volume.card.lease_until = volume.card.lease_until.max(until);
            if was_held_up {
                self.resume_volume(id);
            }
        }
    }

    /// The card is no longer valid: what is cached may be stale from now on.
    pub(super) fn suspended(&mut self, id: PgId) {
        let Some(volume) = self.volumes.get_mut(&id) else { return };
        volume.card.generation = None;
        volume.card.lease_until = Instant(0);
        if volume.primary.is_some() || makes(Mistake::KeepAfterSuspension) {
            return;
        }
        if volume.spec.read_only {
            // Nothing was written since they were read, and nothing will be: without a card no copy is used, and with the next
            // one they are good again. Other contents come with another description of the volume, which drops them.
            self.forget_leaving_of(id);
            return;
        }
        if volume.needs_no_lease() {
            self.drop_copies(id);
            return;
        }
        self.forget_leaving_of(id);
        self.park_copies(id);
    }

    /// What a message says of complete writes.
    pub(super) fn hear(&mut self, from: NodeId, id: PgId, through: Stamp) {
        if from == self.primary_of(id)
            && let Some(card) = self.card_mut(id)
        {
            card.hear(through);
        }
    }

    /// The primary is about to write: drop all copies, then confirm. Without blocks: it revokes the lock on the region.
    pub(super) fn invalidate(
        &mut self,
        from: NodeId,
        id: PgId,
        generation: Generation,
        stamp: Stamp,
        first: u32,
        count: u16,
    ) {
        let Some(card) = self.card(id) else { return };
        if from != self.primary_of(id) || count > crate::ids::STRIPE_BLOCKS as u16 {
            return;
        }
        let is_current = card.generation == Some(generation);
        if self.is_confirming(id, (stamp, first)) {
            return;
        }
        let blocks = first..first.saturating_add(u32::from(count));
        // Also when the card is suspended: that it has confirmed nobody else may remember.
        if !makes(Mistake::KeepInvalidated) {
            self.commands.overtaken(id, &blocks, generation);
        }
        if is_current && !makes(Mistake::KeepInvalidated) {
            for index in blocks.clone() {
                let block = BlockId::new(id, index);
                if self.contains(block) || self.leaving.contains_key(&block) {
                    self.stats.invalidations += 1;
                }
                self.drop_copy(block);
                self.cache.index.put(block, Entry::default());
            }
        }
        let Release { segments: released, used, turn } = match is_current {
            true if blocks.is_empty() => self.release_region(id, self.place(first).region),
            true => self.release_around(id, &blocks, stamp),
            false => Release::default(),
        };
        let body = Body::InvalidateAck { generation, stamp, block: first, released, turn };
        self.confirm(from, id, (blocks, used), stamp, body);
    }

    /// Forgets this node's copy of a block, wherever it is.
    pub(super) fn drop_copy(&mut self, block: BlockId) {
        self.overtake(block);
        if let Some(slot) = self.cache.lookup(block) {
            self.unkeep(slot);
        }
        self.forget_leaving(block);
    }

    pub(super) fn drop_copies(&mut self, id: PgId) {
        self.slots_of(id).into_iter().for_each(|slot| self.unkeep(slot));
        self.forget_leaving_of(id);
    }

    pub(super) fn forget_leaving_of(&mut self, id: PgId) {
        let leaving: Vec<BlockId> = self.leaving.keys().copied().filter(|b| b.volume == id).collect();
        leaving.into_iter().for_each(|block| self.forget_leaving(block));
    }

    /// Hides this node's copies of blocks while they are written; drops those that somebody is reading.
    pub(super) fn lock_copies(&mut self, id: PgId, blocks: core::ops::Range<u32>) {
        let blocks = blocks.map(|index| BlockId::new(id, index));
        let mut parked = false;
        for block in blocks.clone() {
            self.overtake(block);
            let Some(slot) = self.cache.lookup(block) else { continue };
            match self.cache.pins(slot) {
                0 => {
                    self.cache.mark(slot, Mark::LOCKED, true);
                    parked |= self.cache.is(slot, Mark::PARKED);
                }
                _ => self.unkeep(slot),
            }
        }
        // With a slot that gets free here a read goes on, and may evict a copy: all are locked by then.
        for block in blocks {
            self.forget_leaving(block);
            if parked
                && let Some(slot) = self.cache.lookup(block)
                && self.cache.is(slot, Mark::PARKED)
            {
                self.unkeep(slot);
            }
        }
    }
}
