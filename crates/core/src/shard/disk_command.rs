//! Writes, zeroes, trims and flushes at the disk node.

use alloc::vec::Vec;

use super::Shard;
use super::answered::{Outcome, Place};
use super::change::{Change, overlap};
use super::coherence::RESEND;
use super::volume::Writer;
use crate::ids::{BlockId, Generation, NodeId, OpId, RequestId, Stamp, Token, VolumeId};
use crate::io::{DiskWork, Landing, Output, Payload};
use crate::message::{Body, CommandKind, Grant, IoError, Message};
use crate::mistakes::{Mistake, makes};
use crate::persistence::{Loss, Persistence};
use crate::time::Instant;
use crate::timers::Timer;

/// A [`Body::Command`].
#[derive(Clone, Copy)]
pub(super) struct PeerCommand {
    pub(super) generation: Generation,
    pub(super) request: RequestId,
    pub(super) slot: u16,
    pub(super) change: Change,
    pub(super) fua: bool,
    pub(super) again: bool,
    pub(super) turn: u64,
}

/// A command at the disk node.
pub(super) struct DiskCommand {
    pub(super) volume: VolumeId,
    /// Set once it has begun; never for a flush, which changes nothing.
    pub(super) stamp: Option<Stamp>,
    /// The life of the disk in which it was given to the disk.
    persistence: Persistence,
    op: OpId,
    change: Change,
    fua: bool,
    payload: Payload,
    client: Client,
    /// Cards that have not confirmed yet; this node, while a kernel here has pages of the blocks.
    unconfirmed: Vec<NodeId>,
    /// How often they have been asked again.
    repetitions: u32,
    deadline: Instant,
}

/// Whose command it is.
#[derive(Clone, Copy)]
pub(super) enum Client {
    Local(Token),
    Peer {
        node: NodeId,
        life: u64,
        place: Place,
        generation: Generation,
        /// It was sent to an earlier life of this node.
        again: bool,
        turn: u64,
    },
}

impl Client {
    fn is_again(self) -> bool {
        matches!(self, Self::Peer { again: true, .. })
    }
}

/// A card that has been asked so often to confirm, every 100 ms, is given up like one that is not renewed.
const SILENT_AFTER: u32 = 20;

impl Shard {
    pub(super) fn land_command(&mut self, from: NodeId, message: &Message) -> Landing {
        let Body::Command { generation, request, slot, .. } = message.body else { return Landing::Discard };
        let Some(volume) = self.volumes.get(&message.volume) else { return Landing::Discard };
        let known = volume.desk.cards.get(&from) == Some(&generation);
        let done =
            volume.desk.answered.to(from).is_some_and(|answers| answers.knows(Place { slot, request }));
        if known && !done && volume.at_disk_node && !self.closing {
            Landing::Buffer
        } else {
            Landing::Discard
        }
    }

    /// At the disk node: a command from another node's card.
    pub(super) fn peer_command(
        &mut self,
        from: NodeId,
        id: VolumeId,
        command: PeerCommand,
        payload: Payload,
    ) {
        let PeerCommand { generation, request, slot, change, fua, again, turn } = command;
        let (place, blocks) = (Place { slot, request }, change.blocks(self.config.block_bytes));
        let kind = change.kind;
        let Some(volume) = self.volumes.get_mut(&id) else {
            self.put_back(payload);
            return;
        };
        let current = volume.desk.cards.get(&from) == Some(&generation) || makes(Mistake::AcceptOldCard);
        let refused = if !current || !volume.at_disk_node {
            Some(IoError::NotAttached)
        } else if !change.is_valid(&volume.spec, self.config.shard, self.config.shards) {
            Some(IoError::Invalid)
        } else if !kind.is_flush() && !volume.may_write(from) {
            Some(IoError::NotPermitted)
        } else {
            None
        };
        let answers = volume.desk.answered.to_mut(from).filter(|_| refused != Some(IoError::NotAttached));
        let Some((life, answers)) = answers else {
            self.send_done(from, id, request, Outcome::failed(IoError::NotAttached), Grant::default());
            self.put_back(payload);
            return;
        };
        // A repetition gets the answer of the first time, whatever the card may do by now.
        let known = answers.get(place).filter(|_| !makes(Mistake::RepeatCommands));
        if let Some(known) = known {
            if let Some(outcome) = known {
                let grant = self.grant_of(from, id, &blocks, turn);
                self.send_done(from, id, request, outcome, grant);
            }
            self.put_back(payload);
            return;
        }
        if answers.is_stale(place) {
            self.put_back(payload);
            return;
        }
        if self.closing {
            self.put_back(payload);
            return;
        }
        // Its bytes found no room, or came when its card was not yet known.
        let without_bytes = kind == CommandKind::Write && payload == Payload::None;
        if slot >= self.config.limits.slots || without_bytes && refused.is_none() {
            self.send_done(from, id, request, Outcome::failed(IoError::Busy), Grant::default());
            self.put_back(payload);
            return;
        }
        if let Some(error) = refused {
            // For good: a repetition of it on its way must not be done when the card may write again.
            let outcome = Outcome::failed(error);
            answers.put(place, Some(outcome));
            self.send_done(from, id, request, outcome, Grant::default());
            self.put_back(payload);
            return;
        }
        answers.put(place, None);
        self.enter_commander(from, id, &blocks, turn);
        let client = Client::Peer { node: from, life, place, generation, again, turn };
        self.disk_command(id, change, fua, payload, client);
    }

    pub(super) fn disk_command(
        &mut self,
        id: VolumeId,
        change: Change,
        fua: bool,
        payload: Payload,
        client: Client,
    ) {
        let op = self.next_op();
        let command = DiskCommand {
            volume: id,
            stamp: None,
            persistence: Persistence::NONE,
            op,
            change,
            fua,
            payload,
            client,
            unconfirmed: Vec::new(),
            repetitions: 0,
            deadline: Instant::NEVER,
        };
        if change.kind.is_flush() {
            self.disk_commands.insert(op, command);
            self.submit(op);
        } else {
            self.held_commands.push_back(command);
            self.start_held_commands();
        }
    }

    /// Starts every command that waits for no earlier one.
    pub(super) fn start_held_commands(&mut self) {
        if !self.writes_allowed && !makes(Mistake::SkipGrace) {
            return;
        }
        let size = self.config.block_bytes;
        let mut at = 0;
        while let Some(command) = self.held_commands.get(at) {
            let (id, blocks) = (command.volume, command.change.blocks(size));
            let overlaps =
                |other: &DiskCommand| other.volume == id && overlap(&other.change.blocks(size), &blocks);
            let blocked = self.held_commands.iter().take(at).any(overlaps)
                || self.disk_commands.values().any(overlaps)
                || blocks.clone().any(|index| self.fetches.goes_first(BlockId::new(id, index)));
            if blocked {
                at += 1;
            } else if let Some(command) = self.held_commands.remove(at) {
                self.start(command);
            }
        }
    }

    fn start(&mut self, mut command: DiskCommand) {
        let (id, op) = (command.volume, command.op);
        let Some(volume) = self.volumes.get_mut(&id) else { return };
        if let Client::Peer { node, life, place, generation, .. } = command.client
            && volume.desk.cards.get(&node) != Some(&generation)
            && !makes(Mistake::AcceptOldCard)
        {
            // The card was given up while its command was held up. Whoever has the node's new card may have
            // copies that this command would not invalidate. If the same life asks again, it is a new command.
            volume.desk.answered.forget(node, life, place);
            self.put_back(command.payload);
            return;
        }
        // It may have been fenced meanwhile, too.
        let writer = match command.client {
            Client::Local(_) => Writer { node: self.config.node, life: self.config.incarnation },
            Client::Peer { node, life, .. } => Writer { node, life },
        };
        let owner = writer.node;
        let blocks = command.change.blocks(self.config.block_bytes);
        let refused = match self.volumes.get(&id) {
            Some(volume) if !volume.may_write(owner) => Some(IoError::NotPermitted),
            // If the earlier life did it, it came before what others have written since, and is not to come after it.
            // What its own node writes there concerns other bytes (see `Commands::follows`), or comes later.
            Some(volume)
                if command.client.is_again() && !volume.desk.is_untouched(blocks.clone(), writer) =>
            {
                Some(IoError::Io)
            }
            _ => None,
        };
        if let Some(error) = refused {
            self.answer(&command, Outcome::failed(error));
            self.put_back(command.payload);
            return;
        }
        command.stamp = Some(self.open_write(id, blocks.clone(), (writer, op)));
        self.lock_copies(id, blocks.clone());
        if self.volumes.get(&id).is_some_and(|v| v.confirms()) {
            command.unconfirmed = self.holders(id, owner, &blocks);
        }
        if makes(Mistake::ForgetInvalidation) {
            command.unconfirmed.pop();
        }
        if self.has_pages(id) && !makes(Mistake::ForgetPagesAtDisk) {
            command.unconfirmed.push(self.config.node);
            self.withdraw_for_disk(id, blocks, op);
        }
        let cards = command.unconfirmed.clone();
        self.disk_commands.insert(op, command);
        for card in &cards {
            self.send_invalidation(op, *card);
        }
        match cards.is_empty() || makes(Mistake::WriteUnconfirmed) {
            true => self.submit(op),
            false => self.arm_invalidation(op),
        }
    }

    fn arm_invalidation(&mut self, op: OpId) {
        let Some(command) = self.disk_commands.get_mut(&op) else { return };
        self.timers.clear(command.deadline, Timer::Invalidate(op));
        command.deadline = self.now + RESEND;
        self.timers.set(command.deadline, Timer::Invalidate(op));
    }

    fn send_invalidation(&mut self, op: OpId, card: NodeId) {
        let Some(command) = self.disk_commands.get(&op) else { return };
        let Some(stamp) = command.stamp else { return };
        let id = command.volume;
        let Some(&generation) = self.volumes.get(&id).and_then(|v| v.desk.cards.get(&card)) else { return };
        let blocks = command.change.blocks(self.config.block_bytes);
        let body = Body::Invalidate { generation, stamp, block: blocks.start, count: blocks.len() as u16 };
        self.send(card, id, body, Payload::None);
    }

    pub(super) fn invalidate_timeout(&mut self, op: OpId) {
        let Some(command) = self.disk_commands.get_mut(&op) else { return };
        command.repetitions += 1;
        let (volume, cards) = (command.volume, command.unconfirmed.clone());
        let silent = command.repetitions.is_multiple_of(SILENT_AFTER);
        for card in cards {
            self.send_invalidation(op, card);
            let generation = self.volumes.get(&volume).and_then(|v| v.desk.cards.get(&card));
            if let (true, Some(&generation)) = (silent, generation) {
                self.outputs.push_back(Output::Silent { volume, node: card, generation });
            }
        }
        self.arm_invalidation(op);
    }

    /// A card has no copy of the command's blocks (any more).
    pub(super) fn confirmed(&mut self, op: OpId, card: NodeId) {
        let Some(command) = self.disk_commands.get_mut(&op) else { return };
        let Some(at) = command.unconfirmed.iter().position(|&node| node == card) else { return };
        command.unconfirmed.swap_remove(at);
        if command.unconfirmed.is_empty() && !makes(Mistake::WriteUnconfirmed) {
            self.timers.clear(command.deadline, Timer::Invalidate(op));
            self.submit(op);
        }
    }

    fn submit(&mut self, op: OpId) {
        let Some(command) = self.disk_commands.get_mut(&op) else { return };
        let Change { kind, offset, length } = command.change;
        let desk = self.volumes.get(&command.volume).map(|volume| &volume.desk);
        command.persistence = desk.map_or(Persistence::NONE, |desk| desk.persistence);
        let work = DiskWork::Command { kind, offset, length, fua: command.fua, payload: command.payload };
        let volume = command.volume;
        self.outputs.push_back(Output::Disk { op, volume, work });
    }

    pub(super) fn disk_command_done(&mut self, op: OpId, result: Result<(), IoError>) {
        let Some(command) = self.disk_commands.remove(&op) else { return };
        let id = command.volume;
        let result = self.judge_persistence(&command, result);
        if let Some(stamp) = command.stamp {
            let blocks = command.change.blocks(self.config.block_bytes);
            self.close_write(id, blocks.clone(), stamp);
            let writer = match command.client {
                Client::Local(_) => self.config.node,
                Client::Peer { node, .. } => node,
            };
            let policy_tells = self.volumes.get(&id).is_some_and(|v| !v.confirms());
            for index in blocks {
                let block = BlockId::new(id, index);
                if policy_tells {
                    self.with_policy(id, |policy, cx| policy.keep_consistency(cx, block, writer));
                }
                let done = result.is_ok().then_some(command.payload);
                self.unlock_copy(block, done.map(|payload| (&command.change, payload)));
                self.after_write(block, &command.change, command.client, done);
                self.resume_block(block);
            }
        }
        let applied = command.stamp.is_some() && result.is_ok();
        let persistence = if applied { command.persistence } else { Persistence::NONE };
        let stamp = command.stamp.unwrap_or_default();
        self.answer(&command, Outcome { stamp, persistence, result });
        self.put_back(command.payload);
        // Who has waited for this write goes before the next one.
        self.settle();
        self.start_held_commands();
    }

    /// A failed sync ends the life of the disk. A flush fails if a life has ended in which its card has unflushed writes:
    /// judged after the sync, since a sync that fails meanwhile takes the error away from this one.
    fn judge_persistence(
        &mut self,
        command: &DiskCommand,
        result: Result<(), IoError>,
    ) -> Result<(), IoError> {
        let volume = command.volume;
        let Some(desk) = self.volumes.get_mut(&volume).map(|volume| &mut volume.desk) else { return result };
        if result == Err(IoError::SyncFailed) && !makes(Mistake::ForgetFailedSync) {
            desk.persistence.0 += 1;
            desk.loss = Loss::Sync;
            self.outputs.push_back(Output::SyncFailed { volume });
            return result;
        }
        match command.change.kind {
            CommandKind::Flush { since }
                if since != Persistence::NONE
                    && since != desk.persistence
                    && !makes(Mistake::IgnorePersistence) =>
            {
                result.and(Err(desk.loss.error()))
            }
            _ => result,
        }
    }

    /// At the disk node: the life of the disk, see [`crate::Input::Persistence`].
    pub(super) fn persistence_is(&mut self, id: VolumeId, life: Persistence, loss: Loss) {
        if let Some(volume) = self.volumes.get_mut(&id)
            && life >= volume.desk.persistence
        {
            (volume.desk.persistence, volume.desk.loss) = (life, loss);
        }
    }

    fn answer(&mut self, command: &DiskCommand, outcome: Outcome) {
        match command.client {
            Client::Local(token) => {
                let Outcome { persistence, result, .. } = outcome;
                self.outputs.push_back(Output::Done { token, persistence, result });
            }
            Client::Peer { node, life, place, generation, turn, .. } => {
                let Some(volume) = self.volumes.get_mut(&command.volume) else { return };
                volume.desk.answered.done(node, life, place, outcome);
                let current = volume.desk.cards.get(&node) == Some(&generation);
                let blocks = command.change.blocks(self.config.block_bytes);
                let grant = match current {
                    true => self.grant_of(node, command.volume, &blocks, turn),
                    false => Grant::default(),
                };
                self.send_done(node, command.volume, place.request, outcome, grant);
            }
        }
    }

    fn send_done(&mut self, to: NodeId, id: VolumeId, request: RequestId, outcome: Outcome, grant: Grant) {
        let Outcome { stamp, persistence, result } = outcome;
        self.send(to, id, Body::CommandDone { request, stamp, persistence, result, grant }, Payload::None);
    }
}
