//! A term: this node is a volume's primary from one change of its [`VolumeSpec`](crate::VolumeSpec) to the next.
//!
//! A plain disk's primary is the disk's node for as long as its process lives. For what several nodes can reach, the role can
//! move while cards are attached. To the cards a move is a restart at another place: they park their copies, attach to the new
//! primary, and send again what was not answered. To the primary's own node, its card's copies begin or cease to need locks,
//! and its clients' commands change sides.
//!
//! Whoever moves the role sees to it that the old primary does nothing for the volume any more when the new one begins: what
//! the disk has not done by then it refuses.

use alloc::vec::Vec;

use super::Primary;
use super::commands::{Client, DiskCommand};
use crate::cache::Mark;
use crate::ids::{Generation, NodeId, OpId, PgId, Slot, Stamp};
use crate::io::Output;
use crate::message::IoError;
use crate::persistence::Persistence;
use crate::shard::Shard;
use crate::shard::card::Card;
use crate::shard::card::held::Held;
use crate::shard::card::later::Wanted;
use crate::shard::regions::judge;
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
        volume.primary = Some(Primary::new(self.config.limits, first, marks.as_ref(), alone));
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
        for slot in self.slots_of(id) {
            if !self.cache.is(slot, Mark::PARKED) {
                continue;
            }
            let block = self.cache.block(slot);
            let place = self.place(block.index);
            let as_of = self.card(id).and_then(|card| card.held.parked_as_of(place.region));
            if as_of.is_some_and(|as_of| judge(as_of, self.bound(block))) {
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
        self.timers.clear(primary.forget_at, Timer::Answers(id));
        self.timers.clear(primary.revocations.deadline, Timer::Revoke(id));
        self.forget_leaving_of(id);
        self.park_own(id, primary.last_stamp);
        self.ask_anew(id);
        let begun = self.disk_commands.iter().filter(|(_, c)| c.volume == id && !c.is_at_disk());
        let begun: Vec<OpId> = begun.map(|(&op, _)| op).collect();
        let mut ended: Vec<DiskCommand> =
            begun.iter().filter_map(|op| self.disk_commands.remove(op)).collect();
        let held = self.held_commands.iter().filter(|(_, command)| command.volume == id);
        let held: Vec<OpId> = held.map(|(op, _)| op).collect();
        let block_bytes = self.config.block_bytes;
        ended.extend(held.iter().filter_map(|&op| self.held_commands.remove(op, block_bytes)));
        for command in ended {
            self.timers.clear(command.deadline, Timer::Invalidate(command.op));
            self.return_command(command, None);
        }
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

    /// Nobody here will do the command: one of this node's client goes to the next primary, as others' do.
    fn return_command(&mut self, command: DiskCommand, sent_under: Option<Generation>) {
        match command.client {
            Client::Local { token, sent_under: earlier } => {
                let DiskCommand { volume, change, fua, payload, .. } = command;
                let sent_under = earlier.or(sent_under);
                let awaits_card = self.card(volume).is_some_and(Card::is_awaited);
                if self.primary(volume).is_some() && !awaits_card {
                    // The role has come back meanwhile.
                    self.disk_command(volume, change, fua, payload, Client::Local { token, sent_under });
                } else {
                    self.card_command(volume, Wanted { token, change, fua, payload, sent_under });
                }
            }
            Client::Peer { .. } => self.put_back(command.payload),
        }
    }

    /// What the disk had in hand when the term ended is done, or was refused.
    pub(in crate::shard) fn late_command_done(&mut self, command: DiskCommand, result: Result<(), IoError>) {
        match (command.client, result) {
            (Client::Local { token, .. }, Ok(()) | Err(IoError::SyncFailed)) => {
                let applied = result.is_ok() && !command.change.kind.is_flush();
                let persistence = if applied { command.persistence } else { Persistence::NONE };
                self.outputs.push_back(Output::Done { token, persistence, result });
                self.put_back(command.payload);
            }
            // A part of it may have been done, in the term that its stamp is of.
            _ => {
                let term = command.stamp.map(|stamp| Generation(stamp.0 >> 20 << 20));
                self.return_command(command, term);
            }
        }
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
