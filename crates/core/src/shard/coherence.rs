//! Which copies may be used: any number of readers and writers, and invalidation acknowledged before each write.
//!
//! The disk node orders the writes to each shard of a volume by a [`Stamp`]. Before a write reaches the disk, every
//! card of another node that may have copies of its blocks ([`super::directory`]) drops them and acknowledges; until the
//! write is complete the disk node serves none of these blocks.
//!
//! A card uses a copy if it holds the lock on the copy's segment ([`super::held`]), and its lease runs. Whether contents
//! are new enough is judged once, when they begin to be usable: when they arrive, or when their segment is locked again.
//! They must include the last write that the card must count with there ([`super::regions::Bounds`]). From then on only
//! an invalidation or the loss of the lock takes them away. So a usable copy includes every complete write to its block,
//! whatever the network does to messages, and a write in one region costs nothing in another.
//!
//! A card that does not acknowledge holds writes up until its lease has ended at the disk node, by when it has ended at
//! the card too and the card uses no copies (see [`crate::Control`]).

use alloc::vec::Vec;

use super::Shard;
use super::held::{Held, Release};
use super::volume::{Volume, Writer};
use crate::cache::Mark;
use crate::ids::{BlockId, Generation, NodeId, OpId, Slot, Stamp, VolumeId};
use crate::message::Body;
use crate::mistakes::{Mistake, makes};
use crate::time::{Duration, Instant};
use crate::timers::Timer;
use crate::volume::{Access, VolumeSpec};

/// How often an unanswered question between a card and the disk node is asked again.
pub(super) const RESEND: Duration = Duration::from_millis(100);

impl Shard {
    pub(super) fn volume_known(&mut self, spec: VolumeSpec) {
        if self.volumes.get(&spec.id).is_some_and(|known| known.spec == spec) {
            return;
        }
        let Some(policy) = self.config.algorithms.policy(&spec.policy) else { return };
        let at_disk_node = spec.id.disk_node() == self.config.node;
        self.drop_copies(spec.id);
        let first = Stamp(self.config.incarnation << 20);
        if policy.needs_frame_data() {
            self.frame_data.enable(self.cache.slots());
        }
        if policy.set_apart() > 0 && !at_disk_node {
            let algorithms = &self.config.algorithms;
            self.cache.set_apart(policy.set_apart(), |capacity| algorithms.replacer(capacity));
            self.make_room();
        }
        let id = spec.id;
        let pages = self.has_pages(id);
        let held = self.volumes.get(&id).map_or_else(Held::default, |known| Held::after(&known.held));
        // Once: they know nothing of what this life has written.
        let marks = self.config.marks.remove(&id).filter(|_| at_disk_node);
        let volume = Volume::new(spec, policy, at_disk_node, self.config.limits, first, marks.as_ref());
        self.volumes.insert(id, Volume { pages, held, ..volume });
        if at_disk_node && self.hands_over(id) {
            self.writers.enable(self.config.limits.writers);
        }
    }

    /// This node's card is attached. It holds nothing yet.
    pub(super) fn attached(&mut self, id: VolumeId, generation: Generation) {
        let Some(volume) = self.volumes.get_mut(&id) else { return };
        let renewed = volume.card != Some(generation);
        volume.card = Some(generation);
        let first = Stamp(generation.life() << 20);
        // An earlier life with more writes than it had stamps has used those of this one.
        let back = volume.life.is_some_and(|before| {
            generation.life() < before || generation.life() > before && volume.heard > first
        });
        if renewed {
            volume.begin_life(generation.life());
        }
        if renewed && back {
            // Its numbers begin again: nothing of what is here can be compared with them.
            volume.forget_order();
            self.drop_copies(id);
        }
        if let Some(volume) = self.volumes.get_mut(&id).filter(|v| !v.at_disk_node) {
            // The writes of a life come after all of earlier ones.
            volume.hear(Stamp(generation.life() << 20));
        }
        if renewed {
            self.commands.reattached(id, generation);
            self.end_doubts(id);
        }
        self.resume_volume(id);
        self.tick_policy(id);
    }

    /// As of which stamp this node's copy of the block is good.
    pub(super) fn as_of(&self, block: BlockId) -> Stamp {
        self.volumes.get(&block.volume).map_or(Stamp(0), |volume| volume.as_of(block.index))
    }

    pub(super) fn leased(&mut self, id: VolumeId, until: Instant) {
        if let Some(volume) = self.volumes.get_mut(&id) {
            let was_held_up = !volume.may_use_copies(self.now);
            volume.lease_until = volume.lease_until.max(until);
            if was_held_up {
                self.resume_volume(id);
            }
        }
    }

    /// The card is no longer valid: what is cached may be stale from now on.
    pub(super) fn suspended(&mut self, id: VolumeId) {
        let Some(volume) = self.volumes.get_mut(&id) else { return };
        volume.card = None;
        volume.lease_until = Instant(0);
        if volume.at_disk_node || makes(Mistake::KeepAfterSuspension) {
            return;
        }
        if volume.needs_no_lease() {
            self.drop_copies(id);
            return;
        }
        let leaving: Vec<BlockId> = self.leaving.keys().copied().filter(|b| b.volume == id).collect();
        leaving.into_iter().for_each(|block| self.forget_leaving(block));
        self.park_copies(id);
    }

    pub(super) fn card_attached(
        &mut self,
        id: VolumeId,
        (node, life): (NodeId, u64),
        generation: Generation,
        access: Access,
    ) {
        if let Some(volume) = self.volumes.get_mut(&id) {
            volume.desk.cards.insert(node, generation);
            volume.desk.answered.begin(node, life, self.now);
            volume.desk.directory.forget(node);
            match access.may_write() {
                true => volume.desk.readers.remove(&node),
                false => volume.desk.readers.insert(node),
            };
        }
    }

    pub(super) fn card_fenced(&mut self, id: VolumeId, node: NodeId) {
        if let Some(volume) = self.volumes.get_mut(&id).filter(|_| !makes(Mistake::ForgetFence)) {
            volume.desk.readers.insert(node);
        }
    }

    pub(super) fn card_lost(&mut self, id: VolumeId, node: NodeId) {
        if let Some(volume) = self.volumes.get_mut(&id) {
            volume.desk.readers.insert(node);
            volume.desk.lost.insert(node);
        }
    }

    pub(super) fn card_detached(&mut self, id: VolumeId, node: NodeId) {
        let Some(volume) = self.volumes.get_mut(&id) else { return };
        volume.desk.cards.remove(&node);
        volume.desk.readers.remove(&node);
        volume.desk.lost.remove(&node);
        volume.desk.directory.forget(node);
        volume.desk.answered.rest(node, self.now);
        self.forget_answers(id);
        let ops: Vec<OpId> =
            self.disk_commands.iter().filter(|(_, c)| c.volume == id).map(|(&op, _)| op).collect();
        for op in ops {
            self.confirmed(op, node);
        }
    }

    /// At the disk node: forgets what cards were answered that are gone for so long that nothing can be repeated: no
    /// command is open for longer than [`super::ShardConfig::disk_wait`], by clocks of which none is as slow as two
    /// thirds of another.
    pub(super) fn forget_answers(&mut self, id: VolumeId) {
        let patience = self.config.disk_wait * 3 / 2;
        let Some(volume) = self.volumes.get_mut(&id) else { return };
        let before = core::mem::replace(&mut volume.desk.forget_at, Instant::NEVER);
        self.timers.clear(before, Timer::Answers(id));
        if let Some(next) = volume.desk.answered.forget_resting(self.now, patience) {
            volume.desk.forget_at = next;
            self.timers.set(next, Timer::Answers(id));
        }
    }

    /// At the disk node: a loss of power is a write by nobody, which takes effect when no card can use the contents that
    /// are gone.
    pub(super) fn hold(&mut self, id: VolumeId) {
        let held = !self.writes_allowed;
        if let Some(volume) = self.volumes.get_mut(&id) {
            volume.desk.held = held;
        }
    }

    /// At the disk node: no card of an earlier life is left.
    pub(super) fn release_volumes(&mut self) {
        let held = self.volumes.iter_mut().filter(|(_, volume)| volume.desk.held);
        let held: Vec<VolumeId> = held.map(|(&id, volume)| (id, volume.desk.held = false).0).collect();
        held.into_iter().for_each(|id| self.resume_volume(id));
    }

    /// A write's place in the order of writes. From here on its blocks are served to nobody.
    pub(super) fn open_write(
        &mut self,
        id: VolumeId,
        blocks: core::ops::Range<u32>,
        (writer, op): (Writer, OpId),
    ) -> Stamp {
        let place = self.place(blocks.start);
        let Some(volume) = self.volumes.get_mut(&id) else { return Stamp(0) };
        volume.desk.last_stamp.0 += 1;
        let stamp = volume.desk.last_stamp;
        volume.desk.open.insert(stamp, op);
        volume.desk.touch(blocks.clone(), writer);
        volume.desk.directory.write(place, stamp);
        volume.desk.writing.extend(blocks);
        stamp
    }

    /// The write is on the disk, or has failed: it is complete either way.
    pub(super) fn close_write(&mut self, id: VolumeId, blocks: core::ops::Range<u32>, stamp: Stamp) {
        let Some(volume) = self.volumes.get_mut(&id) else { return };
        volume.desk.open.remove(&stamp);
        for index in blocks {
            volume.desk.writing.remove(&index);
        }
    }

    /// What a message says of complete writes.
    pub(super) fn hear(&mut self, from: NodeId, id: VolumeId, through: Stamp) {
        if from == id.disk_node()
            && let Some(volume) = self.volumes.get_mut(&id)
        {
            volume.hear(through);
        }
    }

    /// The disk node is about to write: drop all copies, then confirm.
    pub(super) fn invalidate(
        &mut self,
        from: NodeId,
        id: VolumeId,
        generation: Generation,
        stamp: Stamp,
        first: u32,
        count: u16,
    ) {
        let Some(volume) = self.volumes.get(&id) else { return };
        if from != id.disk_node() || count > crate::ids::STRIPE_BLOCKS as u16 {
            return;
        }
        if self.is_confirming(id, stamp) {
            return;
        }
        let blocks = first..first.saturating_add(u32::from(count));
        if volume.card == Some(generation) && !makes(Mistake::KeepInvalidated) {
            self.commands.overtaken(id, &blocks, self.config.block_bytes);
            for index in blocks.clone() {
                let block = BlockId::new(id, index);
                if self.contains(block) || self.leaving.contains_key(&block) {
                    self.stats.invalidations += 1;
                }
                self.drop_copy(block);
                self.index.put(block, crate::index::Entry::default());
            }
        }
        let is_current = self.volumes.get(&id).is_some_and(|v| v.card == Some(generation));
        let Release { segments: released, used, turn } = match is_current {
            true => self.release_around(id, &blocks, stamp),
            false => Release::default(),
        };
        let body = Body::InvalidateAck { generation, stamp, block: first, released, turn };
        self.confirm(from, id, (blocks, used), stamp, body);
    }

    pub(super) fn invalidate_ack(
        &mut self,
        from: NodeId,
        id: VolumeId,
        generation: Generation,
        stamp: Stamp,
        index: u32,
        (released, turn): (u64, u64),
    ) {
        let desk = self.volumes.get(&id).map(|v| &v.desk);
        let current = desk.filter(|desk| !desk.lost.contains(&from)).and_then(|desk| desk.cards.get(&from));
        if current != Some(&generation) {
            return;
        }
        let op = self.volumes.get(&id).and_then(|v| v.desk.open.get(&stamp).copied());
        self.released(from, id, index, released, turn);
        if let Some(op) = op {
            self.confirmed(op, from);
        }
    }

    /// Forgets this node's copy of a block, wherever it is.
    pub(super) fn drop_copy(&mut self, block: BlockId) {
        self.overtake(block);
        if let Some(slot) = self.cache.lookup(block) {
            self.unkeep(slot);
        }
        self.forget_leaving(block);
    }

    fn drop_copies(&mut self, id: VolumeId) {
        let slots: Vec<Slot> =
            self.cache.resident_slots().filter(|&slot| self.cache.block(slot).volume == id).collect();
        for slot in slots {
            self.unkeep(slot);
        }
        let leaving: Vec<BlockId> = self.leaving.keys().copied().filter(|b| b.volume == id).collect();
        for block in leaving {
            self.forget_leaving(block);
        }
    }

    /// Hides this node's copies of blocks while they are written; drops those that somebody is reading.
    pub(super) fn lock_copies(&mut self, id: VolumeId, blocks: core::ops::Range<u32>) {
        for index in blocks {
            let block = BlockId::new(id, index);
            self.overtake(block);
            self.forget_leaving(block);
            let Some(slot) = self.cache.lookup(block) else { continue };
            if self.cache.pins(slot) == 0 && !self.cache.is(slot, Mark::PARKED) {
                self.cache.mark(slot, Mark::LOCKED, true);
            } else {
                self.unkeep(slot);
            }
        }
    }
}
