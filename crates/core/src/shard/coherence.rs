//! Which copies may be used: any number of readers and writers, and invalidation confirmed before each write.
//!
//! The disk node orders the writes to each shard of a volume by a [`Stamp`]. Before a write reaches the
//! disk, every card of another node that has a lock on the blocks ([`super::grants`]) drops its copies and confirms;
//! until the write is complete the disk node serves none of these blocks. A *floor* travels with each message: all
//! writes up to it are complete, hence every card has confirmed those of blocks that it has copies of. (The disk
//! node's copies are as new as the last write it has begun, for it uses none that is being written.) So a
//! block delivered by anybody may be used if it is as new as the receiver's floor (and, for a new card or lock, at
//! least the last write that had begun when it was given), and at least the stamp of the last write to that very
//! block which the receiver has confirmed (`recent`). It follows that no copy is ever older than the last complete write, whatever the network does to messages, and
//! that nobody sees a write's new contents while anybody may still see the old.
//!
//! A card that does not confirm holds writes up until its lease has ended at the disk node, by when it has
//! ended at the card too and the card uses no copies (see [`crate::Control`]).
//!
//! Nothing outside this file and [`super::grants`] decides about the use of copies.

use alloc::vec::Vec;

use super::Shard;
use super::volume::{Volume, Writer};
use crate::cache::Mark;
use crate::ids::{BlockId, Generation, NodeId, OpId, Slot, Stamp, VolumeId};
use crate::io::Payload;
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
        self.volumes.insert(id, Volume { pages, ..Volume::new(spec, policy, at_disk_node, first) });
        if at_disk_node && self.hands_over(id) {
            self.writers.enable();
        }
    }

    /// This node's card is attached: learn which writes are complete, then begin.
    pub(super) fn attached(&mut self, id: VolumeId, generation: Generation) {
        let Some(volume) = self.volumes.get_mut(&id) else { return };
        let renewed = volume.card != Some(generation);
        volume.card = Some(generation);
        if renewed {
            volume.given_up.clear();
            volume.begin_life(generation.life());
        }
        volume.synced = volume.at_disk_node || volume.needs_no_lease();
        if !volume.synced {
            self.send_sync(id);
        }
        if renewed {
            self.commands.reattached(id, generation);
            self.end_doubts(id);
        }
        self.resume_volume(id);
        self.tick_policy(id);
    }

    pub(super) fn send_sync(&mut self, id: VolumeId) {
        let Some(volume) = self.volumes.get_mut(&id) else { return };
        self.timers.clear(volume.sync_deadline, Timer::Sync(id));
        if let Some(generation) = volume.card.filter(|_| !volume.synced) {
            volume.sync_deadline = self.now + RESEND;
            self.timers.set(volume.sync_deadline, Timer::Sync(id));
            self.send(id.disk_node(), id, Body::Sync { generation }, Payload::None);
        }
    }

    /// As of which stamp this node's copy of the block is good.
    pub(super) fn as_of(&self, block: BlockId) -> Stamp {
        self.volumes.get(&block.volume).map_or(Stamp(0), |volume| volume.as_of(block.index))
    }

    /// Whether a write of this node, that was complete just now as far as is known, is the last one to its blocks: a
    /// later one that this card was not asked about began before the card, or its lock, was given.
    pub(super) fn was_heard_of(&self, id: VolumeId, stamp: Stamp) -> bool {
        self.volumes.get(&id).is_some_and(|volume| stamp >= volume.accept_from)
    }

    /// At the disk node. The writes under way do not wait for this card, so it must refuse what is older.
    pub(super) fn sync(&mut self, from: NodeId, id: VolumeId, generation: Generation) {
        let Some(volume) = self.volumes.get(&id) else { return };
        if volume.desk.cards.get(&from) != Some(&generation) {
            return;
        }
        let stamp = volume.desk.last_stamp;
        self.send(from, id, Body::Synced { generation, stamp }, Payload::None);
    }

    pub(super) fn synced(&mut self, from: NodeId, id: VolumeId, generation: Generation, stamp: Stamp) {
        let Some(volume) = self.volumes.get_mut(&id) else { return };
        if from == id.disk_node() && volume.card == Some(generation) && !volume.synced {
            volume.synced = true;
            volume.accept_from = if makes(Mistake::SkipSync) { Stamp(0) } else { stamp };
            volume.horizon = volume.horizon.max(stamp);
            self.timers.clear(volume.sync_deadline, Timer::Sync(id));
            self.resume_volume(id);
        }
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
        volume.given_up.clear();
        volume.synced = false;
        volume.lease_until = Instant(0);
        if !volume.at_disk_node && !makes(Mistake::KeepAfterSuspension) {
            volume.recent.clear();
            self.drop_copies(id);
        }
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
            volume.desk.grants.forget(node);
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
        volume.desk.grants.forget(node);
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
        writer: Writer,
    ) -> Stamp {
        let locals = self.locals(&blocks);
        let Some(volume) = self.volumes.get_mut(&id) else { return Stamp(0) };
        volume.desk.last_stamp.0 += 1;
        let stamp = volume.desk.last_stamp;
        volume.desk.open.insert(stamp);
        volume.desk.touch(blocks.clone(), writer);
        volume.desk.grants.write(&locals, stamp);
        for index in blocks {
            volume.recent.insert(index, stamp);
        }
        stamp
    }

    /// The write is on the disk, or has failed: it is complete either way.
    pub(super) fn close_write(&mut self, id: VolumeId, stamp: Stamp) {
        let Some(volume) = self.volumes.get_mut(&id) else { return };
        volume.desk.open.remove(&stamp);
        let complete = volume.desk.open.first().map_or(volume.desk.last_stamp, |&open| Stamp(open.0 - 1));
        self.learn_floor(id, complete);
    }

    /// What a message says of complete writes.
    pub(super) fn hear_floor(&mut self, from: NodeId, id: VolumeId, floor: Stamp) {
        let Some(volume) = self.volumes.get_mut(&id) else { return };
        if volume.is_past(floor) {
            return;
        }
        if from == id.disk_node() {
            volume.horizon = volume.horizon.max(floor);
        }
        let believed = floor.min(volume.horizon);
        self.learn_floor(id, believed);
    }

    /// All writes up to `floor` are complete. At the disk node that is no news.
    pub(super) fn learn_floor(&mut self, id: VolumeId, floor: Stamp) {
        let Some(volume) = self.volumes.get_mut(&id) else { return };
        let known = if volume.at_disk_node {
            volume.desk.open.first().map_or(volume.desk.last_stamp, |&open| Stamp(open.0 - 1))
        } else {
            floor
        };
        if known > volume.floor {
            volume.floor = known;
            volume.recent.retain(|_, &mut stamp| stamp > known);
        }
    }

    /// Remembers a write to blocks that may not be complete yet.
    pub(super) fn learn_write(&mut self, id: VolumeId, blocks: core::ops::Range<u32>, stamp: Stamp) {
        let Some(volume) = self.volumes.get_mut(&id) else { return };
        volume.horizon = volume.horizon.max(stamp);
        if stamp > volume.floor {
            for index in blocks {
                let last = volume.recent.entry(index).or_default();
                *last = stamp.max(*last);
            }
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
            self.learn_write(id, blocks.clone(), stamp);
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
        let (range, counter) = if is_current { self.give_up(id, &blocks) } else { (0..0, 0) };
        let (first, count) = (range.start, range.len() as u16);
        let body = Body::InvalidateAck { generation, stamp, first, count, counter };
        self.confirm(from, id, (blocks, range), stamp, body);
    }

    pub(super) fn invalidate_ack(
        &mut self,
        from: NodeId,
        id: VolumeId,
        generation: Generation,
        stamp: Stamp,
        (first, count, counter): (u32, u16, u64),
    ) {
        let desk = self.volumes.get(&id).map(|v| &v.desk);
        let current = desk.filter(|desk| !desk.lost.contains(&from)).and_then(|desk| desk.cards.get(&from));
        if current != Some(&generation) {
            return;
        }
        let op = self.disk_commands.iter().find(|(_, c)| c.volume == id && c.stamp == Some(stamp));
        if let Some((&op, command)) = op
            && command.waits_for(from)
        {
            let blocks = command.blocks(self.config.block_bytes);
            if let Some((_, answers)) =
                self.volumes.get_mut(&id).and_then(|volume| volume.desk.answered.to_mut(from))
            {
                answers.overtaken(&blocks);
            }
            self.gave_up(from, id, first, count, counter);
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
            if self.cache.pins(slot) == 0 {
                self.cache.mark(slot, Mark::LOCKED, true);
            } else {
                self.unkeep(slot);
            }
        }
    }
}
