//! A term: this node is a volume's primary from one change of its [`VolumeSpec`](crate::VolumeSpec) to the next.
//!
//! A plain disk's primary is the disk's node for as long as its process lives. For what several nodes can reach, the role can
//! move while cards are attached. To the cards a move is a restart at another place: they park their copies, attach to the new
//! primary, and send again what was not answered. To the primary's own node, its card's copies begin or cease to need locks,
//! and its clients' commands change sides.
//!
//! Whoever moves the role sees to it that the old primary does nothing for the volume any more when the new one begins: what
//! the disk has not done by then it refuses. The old primary's disk ends what it has in hand: until it has, the commands of
//! that node's clients wait, without a limit.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::Primary;
use super::answered::Outcome;
use super::commands::{Client, DiskCommand};
use crate::cache::Mark;
use crate::ids::{Generation, NodeId, PgId, Slot, Stamp};
use crate::message::IoError;
use crate::persistence::Persistence;
use crate::shard::Shard;
use crate::shard::card::held::Held;
use crate::shard::card::later::Wanted;
use crate::shard::regions::judge;
use crate::time::Instant;
use crate::timers::Timer;

impl Shard {
    /// The node that is asked for locks and blocks, and sent commands.
    pub(in crate::shard) fn primary_of(&self, id: PgId) -> NodeId {
        self.volumes.get(&id).map_or(id.disk_node(), |volume| volume.spec.primary)
    }

    /// This node is the volume's primary from now on.
    pub(in crate::shard) fn begin_term(&mut self, id: PgId) {
        // Once: they know nothing of what this term will write.
        let marks = self.config.marks.remove(&id);
        let Some(volume) = self.volumes.get_mut(&id) else { return };
        let (first, alone) = (volume.spec.first_stamp(), self.config.nodes == 1);
        // Until when a group has no other primary is yet to be told.
        let right = if id.is_plain() { Instant::NEVER } else { Instant(0) };
        let primary = Primary::new(self.config.limits, (first, right), marks.as_ref(), alone);
        volume.primary = Some(Box::new(primary));
        if self.hands_over(id) {
            self.writers.enable(self.config.limits.writers);
        }
        self.judge_parked(id);
        // The disk takes nothing of earlier terms: what was given up will not be done any more.
        self.end_doubts(id);
        self.ask_anew(id);
    }

    /// The primary's own node uses its copies without locks: those that it had parked as a card become usable, or go.
    fn judge_parked(&mut self, id: PgId) {
        // An earlier term with more writes than it has stamps has used some of this one's.
        let first = self.primary(id).map_or(Stamp(0), |primary| primary.first);
        for slot in self.slots_of(id) {
            if !self.cache.is(slot, Mark::PARKED) {
                continue;
            }
            let block = self.cache.block(slot);
            let place = self.place(block.index);
            let as_of = self.card(id).and_then(|card| card.held.parked_as_of(place.region));
            if as_of.is_some_and(|as_of| as_of < first && judge(as_of, self.bound(block))) {
                self.cache.mark(slot, Mark::PARKED, false);
                self.stats.copies_kept += 1;
            } else {
                self.stats.copies_outdated += 1;
                self.unkeep(slot);
            }
        }
        if let Some(card) = self.card_mut(id) {
            card.held = Held::after(&card.held);
        }
    }

    /// This node is the volume's primary no longer. What it has begun for others is theirs to repeat.
    pub(in crate::shard) fn end_term(&mut self, id: PgId) {
        let Some(primary) = self.volumes.get_mut(&id).and_then(|volume| volume.primary.take()) else {
            return;
        };
        // That of a volume whose copies are not confirmed is not suspended before. What goes on from here waits for the next one.
        if let Some(card) = self.card_mut(id) {
            card.generation = None;
        }
        self.timers.clear(primary.forget_at, Timer::Answers(id));
        self.timers.clear(primary.revocations.deadline, Timer::Revoke(id));
        // That the life of the disk has ended is on its way to the journal already.
        for (command, _) in primary.unjudged.into_iter().flatten() {
            if let Client::Local { token, .. } = command.client {
                let (persistence, result) = (Persistence::NONE, Err(IoError::SyncFailed));
                self.tell_done(token, persistence, result);
            }
            self.put_back(command.payload);
        }
        self.forget_leaving_of(id);
        self.park_own(id, primary.last_stamp);
        self.ask_anew(id);
        self.end_commands(id);
    }

    /// Peers repeat their commands to the next primary. Those of this node's clients go there in the order in which they came:
    /// as soon as the disk has said what it has done of those that it has in hand.
    fn end_commands(&mut self, id: PgId) {
        let of_volume = self.disk_commands.values().filter(|command| command.volume == id);
        let (mut late, mut begun) = (BTreeSet::new(), Vec::new());
        for command in of_volume {
            if !command.is_at_disk() {
                begun.push(command.op);
            } else if command.is_own() && command.stamp.is_some() {
                late.insert(command.op);
            }
        }
        if !late.is_empty() {
            self.late_commands.insert(id, late);
        }
        for op in begun {
            let Some(command) = self.disk_commands.remove(&op) else { continue };
            self.timers.clear(command.deadline, Timer::Invalidate(op));
            self.hold_back(command);
        }
        let others = self.held_commands.iter().filter(|(_, c)| c.volume == id && !c.is_own());
        for op in others.map(|(op, _)| op).collect::<Vec<_>>() {
            if let Some(command) = self.held_commands.remove(op, self.config.block_bytes) {
                self.put_back(command.payload);
            }
        }
        // Its card may have been suspended before the term has ended. What came then waits for a card, and came later.
        let is_own = |command: &DiskCommand| command.volume == id && command.is_own();
        if self.held_commands.iter().map(|(_, held)| held).chain(self.disk_commands.values()).any(is_own) {
            self.take_over_commands(id);
        }
        self.return_commands(id);
    }

    /// Copies that the primary's own node used without locks are parked. What is not being written here includes all writes
    /// that have begun.
    fn park_own(&mut self, id: PgId, last: Stamp) {
        if !self.is_locked_by_card(id) {
            self.drop_copies(id);
            return;
        }
        // A term with more writes than it has stamps has used some of the next one's.
        let first = self.volumes.get(&id).map_or(Stamp(0), |volume| volume.spec.first_stamp());
        let as_of = last.min(Stamp(first.0.saturating_sub(1)));
        for slot in self.slots_of(id) {
            if self.cache.is(slot, Mark::LOCKED) {
                continue;
            }
            let (place, now) = (self.place(self.cache.block(slot).index), self.now);
            if let Some(card) = self.card_mut(id) {
                card.held.parked(place.region, as_of, now);
            }
        }
        self.park_copies(id);
        self.limit_regions(id);
    }

    /// The disk has not got the command, or has refused it.
    fn hold_back(&mut self, command: DiskCommand) {
        match command.client {
            Client::Local { .. } => self.held_commands.push(command, self.config.block_bytes),
            Client::Peer { .. } => self.put_back(command.payload),
        }
    }

    /// When the disk has nothing of an earlier term in hand, the commands of this node's clients go to whoever is the primary
    /// now.
    fn return_commands(&mut self, id: PgId) {
        if self.late_commands.contains_key(&id) {
            return;
        }
        let own = self.held_commands.iter().filter(|(_, c)| c.volume == id && c.is_own());
        for op in own.map(|(op, _)| op).collect::<Vec<_>>() {
            let held = self.held_commands.remove(op, self.config.block_bytes);
            if let Some(DiskCommand { change, fua, payload, client, .. }) = held
                && let Client::Local { token, sent_under } = client
            {
                self.own_command(id, Wanted { token, change, fua, payload, sent_under });
            }
        }
        self.start_woken_commands();
    }

    /// What the disk had in hand when the term ended is done, or was refused.
    pub(in crate::shard) fn late_command_done(
        &mut self,
        mut command: DiskCommand,
        result: Result<(), IoError>,
    ) {
        let (id, op) = (command.volume, command.op);
        if result == Err(IoError::SyncFailed) {
            self.sync_failed(id);
        }
        match &mut command.client {
            // Whether a loss is to be told, a primary knows: a flush is done anew.
            &mut Client::Local { token, .. } if result.is_ok() && command.stamp.is_some() => {
                let persistence = command.persistence;
                self.tell_done(token, persistence, result);
                self.put_back(command.payload);
            }
            // If the role is back here, when the end of the disk's life is durable.
            Client::Local { .. } if result == Err(IoError::SyncFailed) => {
                self.answer_judged(command, Outcome::failed(IoError::SyncFailed));
            }
            Client::Local { sent_under, .. } => {
                // A part of it may have been done.
                let term = command.stamp.take().map(|_| Generation(command.term.0));
                *sent_under = sent_under.or(term);
                self.hold_back(command);
            }
            Client::Peer { .. } => {
                self.put_back(command.payload);
                return;
            }
        }
        if let Some(late) = self.late_commands.get_mut(&id) {
            late.remove(&op);
            if late.is_empty() {
                self.late_commands.remove(&id);
            }
        }
        self.return_commands(id);
    }

    /// This node's card of a volume whose primary it has become is attached: its clients' commands are the primary's now.
    /// Of one that an earlier primary may have done, the rule of repetition decides.
    pub(in crate::shard) fn take_over_commands(&mut self, id: PgId) {
        for taken in self.take_commands(id) {
            let client = Client::Local { token: taken.token, sent_under: taken.sent_under };
            self.disk_command(id, taken.change, taken.fua, taken.payload, client);
        }
    }

    pub(in crate::shard) fn slots_of(&self, id: PgId) -> Vec<Slot> {
        self.cache.resident_slots().filter(|&slot| self.cache.block(slot).volume == id).collect()
    }
}
