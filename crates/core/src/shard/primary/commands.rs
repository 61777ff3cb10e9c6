//! Writes, zeroes, trims and flushes at the primary.

use alloc::collections::BTreeSet;
use core::ops::Range;

use super::answered::{Outcome, Place};
use super::{PeerCard, Primary, Writer};
use crate::ids::{BlockId, Generation, NodeId, OpId, PgId, RequestId, Stamp, Token};
use crate::io::{CommandOrigin, DiskWork, Landing, Output, Payload};
use crate::message::{Body, CommandKind, Grant, IoError, Message, Numbered};
use crate::mistakes::{Mistake, makes};
use crate::persistence::{Loss, Persistence};
use crate::shard::Shard;
use crate::shard::change::Change;
use crate::time::Instant;
use crate::timers::Timer;
use crate::timing::SILENT_AFTER;

/// A [`Body::Command`].
#[derive(Clone, Copy)]
pub(in crate::shard) struct PeerCommand {
    pub(in crate::shard) generation: Generation,
    pub(in crate::shard) request: RequestId,
    pub(in crate::shard) slot: u16,
    pub(in crate::shard) change: Change,
    pub(in crate::shard) fua: bool,
    pub(in crate::shard) again: bool,
    pub(in crate::shard) turn: u64,
    pub(in crate::shard) origin: Option<Numbered>,
}

/// A command at the primary.
pub(in crate::shard) struct DiskCommand {
    pub(in crate::shard) volume: PgId,
    /// Set once it has begun; never for a flush, which changes nothing.
    pub(in crate::shard) stamp: Option<Stamp>,
    /// Before all stamps of the term in which it was given to the disk: one with more writes than it has stamps has used the
    /// next one's.
    pub(super) term: Stamp,
    /// The life of the disk in which it was given to the disk.
    pub(super) persistence: Persistence,
    pub(super) op: OpId,
    pub(super) change: Change,
    pub(super) fua: bool,
    pub(super) payload: Payload,
    pub(super) client: Client,
    /// Cards that have not confirmed yet; this node, while a kernel here has pages of the blocks.
    unconfirmed: BTreeSet<NodeId>,
    /// How often they have been asked again.
    repetitions: u32,
    pub(super) deadline: Instant,
}

impl DiskCommand {
    /// Nobody has to confirm anything any more.
    pub(super) fn is_at_disk(&self) -> bool {
        self.unconfirmed.is_empty()
    }

    /// A client of this node has asked for it.
    pub(super) fn is_own(&self) -> bool {
        matches!(self.client, Client::Local { .. })
    }
}

/// Whose command it is.
#[derive(Clone, Copy)]
pub(in crate::shard) enum Client {
    Local {
        token: Token,
        /// It was sent to another primary, first under this card.
        sent_under: Option<Generation>,
    },
    Peer {
        node: NodeId,
        life: u64,
        place: Place,
        generation: Generation,
        /// It was sent to an earlier life of this node.
        again: bool,
        turn: u64,
        origin: Option<Numbered>,
    },
}

/// A [`Body::Probe`].
#[derive(Clone, Copy)]
pub(in crate::shard) struct Asked {
    pub(in crate::shard) place: Place,
    /// The first block that the command changes.
    pub(in crate::shard) block: u32,
    pub(in crate::shard) turn: u64,
}

impl DiskCommand {
    /// The blocks it changes, of volumes with blocks of this size.
    pub(super) fn block_ids(&self, block_bytes: u32) -> impl Iterator<Item = BlockId> + use<> {
        let volume = self.volume;
        self.change.blocks(block_bytes).map(move |index| BlockId::new(volume, index))
    }
}

impl Client {
    /// It is this node's command.
    fn is(self, of: NodeId, command: Place) -> bool {
        matches!(self, Self::Peer { node, place, .. } if (node, place) == (of, command))
    }

    fn is_again(self) -> bool {
        matches!(self, Self::Peer { again: true, .. } | Self::Local { sent_under: Some(_), .. })
    }
}

impl Shard {
    pub(in crate::shard) fn land_command(&mut self, from: NodeId, message: &Message) -> Landing {
        let Body::Command { generation, request, slot, .. } = message.body else { return Landing::Discard };
        let Some(primary) = self.primary(message.volume) else { return Landing::Discard };
        let known = primary.is_current(from, generation);
        let done = primary.answered.to(from).is_some_and(|answers| answers.knows(Place { slot, request }));
        let done = done && !makes(Mistake::RepeatStale);
        if known && !done && !self.closing { Landing::Buffer } else { Landing::Discard }
    }

    /// A command from another node's card.
    pub(in crate::shard) fn peer_command(
        &mut self,
        from: NodeId,
        id: PgId,
        command: PeerCommand,
        payload: Payload,
    ) {
        let PeerCommand { generation, request, slot, change, fua, again, turn, origin } = command;
        let (place, blocks) = (Place { slot, request }, change.blocks(self.config.block_bytes));
        let kind = change.kind;
        let Some(volume) = self.volumes.get_mut(&id) else {
            self.put_back(payload);
            return;
        };
        let is_current = |primary: &Primary| primary.is_current(from, generation);
        let current = volume.primary.as_deref().is_some_and(is_current) || makes(Mistake::AcceptOldCard);
        let refused = if !current {
            Some(IoError::NotAttached)
        } else if !change.is_valid(&volume.spec, self.config.shard, self.config.shards) {
            Some(IoError::Invalid)
        } else if !kind.is_flush() && !volume.may_write(from) {
            Some(IoError::NotPermitted)
        } else {
            None
        };
        let answers = volume.primary.as_mut().and_then(|primary| primary.answered.to_mut(from));
        let answers = answers.filter(|_| refused != Some(IoError::NotAttached));
        let Some((life, answers)) = answers else {
            self.send_done(
                from,
                id,
                (generation, request),
                Outcome::failed(IoError::NotAttached),
                Grant::default(),
            );
            self.put_back(payload);
            return;
        };
        // A repetition gets the answer of the first time, whatever the card may do by now.
        let known = answers.get(place).filter(|_| !makes(Mistake::RepeatCommands));
        if let Some(known) = known {
            if let Some(outcome) = known {
                let grant = self.grant_again(from, id, &blocks, (turn, outcome));
                self.send_done(from, id, (generation, request), outcome, grant);
            }
            self.put_back(payload);
            return;
        }
        if answers.is_stale(place) && !makes(Mistake::RepeatStale) {
            self.put_back(payload);
            return;
        }
        if self.closing {
            self.put_back(payload);
            return;
        }
        // Its bytes came when its card was not yet known.
        let without_bytes = kind == CommandKind::Write && payload == Payload::None;
        if slot >= self.config.limits.slots || without_bytes && refused.is_none() {
            self.send_done(from, id, (generation, request), Outcome::failed(IoError::Busy), Grant::default());
            self.put_back(payload);
            return;
        }
        if let Some(error) = refused {
            // For good: a repetition of it on its way must not be done when the card may write again.
            let outcome = Outcome::failed(error);
            answers.put(place, Some(outcome));
            self.send_done(from, id, (generation, request), outcome, Grant::default());
            self.put_back(payload);
            return;
        }
        if !self.enter_commander((from, generation), id, &blocks, turn) {
            let busy = Outcome::failed(IoError::Busy);
            self.send_done(from, id, (generation, request), busy, Grant::default());
            self.put_back(payload);
            return;
        }
        if let Some((_, answers)) = self.primary_mut(id).and_then(|primary| primary.answered.to_mut(from)) {
            answers.put(place, None);
        }
        let client = Client::Peer { node: from, life, place, generation, again, turn, origin };
        self.disk_command(id, change, fua, payload, client);
    }

    /// What the repeated answer to a command grants. One that has not begun, since it was refused or given up before it came, may have taken no lock: its
    /// node would count what it is giving up just now as given to it anew.
    fn grant_again(
        &self,
        to: NodeId,
        id: PgId,
        blocks: &Range<u32>,
        (turn, outcome): (u64, Outcome),
    ) -> Grant {
        match outcome.stamp {
            Stamp(0) => Grant::default(),
            _ => self.grant_of(to, id, blocks, turn),
        }
    }

    /// A card asks whether its command is here.
    pub(in crate::shard) fn probe(&mut self, from: NodeId, id: PgId, generation: Generation, asked: Asked) {
        let Asked { place, block, turn } = asked;
        let Some(primary) = self.primary(id) else { return };
        let known = primary.answered.to(from).filter(|_| primary.is_current(from, generation));
        let outcome = match known {
            None => Outcome::failed(IoError::NotAttached),
            Some(answers) => match answers.get(place) {
                Some(Some(outcome)) => outcome,
                // It is answered when it is done.
                Some(None) => return,
                None if answers.is_stale(place) || self.closing => return,
                None => Outcome::failed(IoError::Busy),
            },
        };
        let grant = self.grant_again(from, id, &(block..block.saturating_add(1)), (turn, outcome));
        self.send_done(from, id, (generation, place.request), outcome, grant);
    }

    /// A card has given its command up. If it has not begun it never will; one that was not here uses its number up.
    pub(in crate::shard) fn void(&mut self, from: NodeId, id: PgId, generation: Generation, place: Place) {
        let is_it = |command: &DiskCommand| command.volume == id && command.client.is(from, place);
        let is_current = self.primary(id).is_some_and(|primary| primary.is_current(from, generation));
        let held = self.held_commands.iter().find(|(_, command)| is_it(command)).filter(|_| is_current);
        let held = held.map(|(op, _)| op);
        let slots = self.config.limits.slots;
        if makes(Mistake::IgnoreVoid) {
            return;
        }
        let primary = self.primary_mut(id).filter(|_| is_current);
        let answers = primary.and_then(|primary| primary.answered.to_mut(from));
        let outcome = match answers.map(|(_, answers)| (answers.get(place), answers)) {
            None => Outcome::failed(IoError::NotAttached),
            Some((Some(Some(outcome)), _)) => outcome,
            // It has begun: it is answered when it is done.
            Some((Some(None), _)) if held.is_none() => return,
            Some((None, answers)) if answers.is_stale(place) || place.slot >= slots => return,
            Some((known, answers)) => {
                let outcome = Outcome::failed(IoError::NoAnswer);
                if known.is_some() || !makes(Mistake::ForgetVoid) {
                    answers.put(place, Some(outcome));
                }
                outcome
            }
        };
        if let Some(command) = held.and_then(|op| self.held_commands.remove(op, self.config.block_bytes)) {
            self.put_back(command.payload);
        }
        self.send_done(from, id, (generation, place.request), outcome, Grant::default());
        self.start_woken_commands();
    }

    pub(in crate::shard) fn disk_command(
        &mut self,
        id: PgId,
        change: Change,
        fua: bool,
        payload: Payload,
        client: Client,
    ) {
        let op = self.next_op();
        let command = DiskCommand {
            volume: id,
            stamp: None,
            term: Stamp(0),
            persistence: Persistence::NONE,
            op,
            change,
            fua,
            payload,
            client,
            unconfirmed: BTreeSet::new(),
            repetitions: 0,
            deadline: Instant::NEVER,
        };
        if change.kind.is_flush() && self.primary(id).is_some() {
            self.disk_commands.insert(op, command);
            self.submit(op);
        } else if self.may_start(&command) {
            self.start(command);
        } else {
            self.held_commands.push(command, self.config.block_bytes);
        }
    }

    /// Starts every command that waits for nothing.
    pub(in crate::shard) fn start_held_commands(&mut self) {
        self.held_commands.wake_all();
        self.start_woken_commands();
    }

    /// Starts those that waited for what has just ended, and for nothing else.
    pub(in crate::shard) fn start_woken_commands(&mut self) {
        while let Some(op) = self.held_commands.next_woken() {
            if self.held_commands.get(op).is_some_and(|command| self.may_start(command))
                && let Some(command) = self.held_commands.remove(op, self.config.block_bytes)
            {
                self.start(command);
            }
        }
    }

    /// A command goes before all later ones on its blocks, also while it is held itself.
    fn may_start(&self, command: &DiskCommand) -> bool {
        let Some(primary) = self.primary(command.volume) else { return false };
        if !primary.writes_allowed && !makes(Mistake::SkipGrace) {
            return false;
        }
        // A part of what goes before it may have been done already.
        if command.is_own() && self.late_commands.contains_key(&command.volume) {
            return false;
        }
        command.block_ids(self.config.block_bytes).all(|block| {
            self.held_commands.is_first(block, command.op)
                && !primary.writing.contains(&block.index)
                && !self.fetches.goes_first(block)
        })
    }

    fn start(&mut self, mut command: DiskCommand) {
        let (id, op) = (command.volume, command.op);
        let Some(primary) = self.primary_mut(id) else { return };
        if let Client::Peer { node, life, place, generation, .. } = command.client
            && !primary.is_current(node, generation)
            && !makes(Mistake::AcceptOldCard)
        {
            // The card was given up while its command was held up. Whoever has the node's new card may have
            // copies that this command would not invalidate. If the same life asks again, it is a new command.
            primary.answered.forget(node, life, place);
            self.put_back(command.payload);
            return;
        }
        // It may have been fenced meanwhile, too.
        let writer = match command.client {
            Client::Local { .. } => Writer { node: self.config.node, life: self.config.incarnation },
            Client::Peer { node, life, .. } => Writer { node, life },
        };
        let owner = writer.node;
        let blocks = command.change.blocks(self.config.block_bytes);
        let refused = match self.volumes.get(&id) {
            Some(volume) if !volume.may_write(owner) => Some(IoError::NotPermitted),
            // If the earlier life did it, it came before what others have written since, and is not to come after it.
            // What its own node writes there concerns other bytes (see `Commands::follows`), or comes later.
            // A medium that keeps account of origins does nothing twice.
            Some(volume)
                if id.is_plain()
                    && command.client.is_again()
                    && !volume.primary.as_ref().is_some_and(|p| p.is_untouched(blocks.clone(), writer)) =>
            {
                Some(IoError::OutcomeUnknown)
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
            command.unconfirmed = self.holders(id, owner, &blocks).into_iter().collect();
        }
        if makes(Mistake::ForgetInvalidation) {
            command.unconfirmed.pop_last();
        }
        if self.has_pages(id) && !makes(Mistake::ForgetPagesAtDisk) {
            command.unconfirmed.insert(self.config.node);
            self.withdraw_for_disk(id, blocks, op);
        }
        command.unconfirmed.extend(self.ask_journal(id));
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
        command.deadline = self.now + self.timing.resend;
        self.timers.set(command.deadline, Timer::Invalidate(op));
    }

    fn send_invalidation(&mut self, op: OpId, card: NodeId) {
        let Some(command) = self.disk_commands.get(&op) else { return };
        let Some(stamp) = command.stamp else { return };
        let id = command.volume;
        let Some(&PeerCard { generation, .. }) = self.primary(id).and_then(|p| p.cards.get(&card)) else {
            return;
        };
        let blocks = command.change.blocks(self.config.block_bytes);
        let body = Body::Invalidate { generation, stamp, block: blocks.start, count: blocks.len() as u16 };
        self.send(card, id, body, Payload::None);
    }

    pub(in crate::shard) fn invalidate_timeout(&mut self, op: OpId) {
        let Some(command) = self.disk_commands.get_mut(&op) else { return };
        command.repetitions += 1;
        let (volume, cards) = (command.volume, command.unconfirmed.clone());
        let silent = command.repetitions.is_multiple_of(SILENT_AFTER);
        for card in cards {
            self.send_invalidation(op, card);
            let generation =
                self.primary(volume).and_then(|p| p.cards.get(&card)).map(|card| card.generation);
            if let (true, Some(generation)) = (silent, generation) {
                self.outputs.push_back(Output::Silent { volume, node: card, generation });
            }
        }
        self.arm_invalidation(op);
    }

    /// A card has no copy of the command's blocks (any more).
    pub(in crate::shard) fn confirmed(&mut self, op: OpId, card: NodeId) {
        let Some(command) = self.disk_commands.get_mut(&op) else { return };
        if command.unconfirmed.remove(&card)
            && command.unconfirmed.is_empty()
            && !makes(Mistake::WriteUnconfirmed)
        {
            self.timers.clear(command.deadline, Timer::Invalidate(op));
            self.submit(op);
        }
    }

    fn submit(&mut self, op: OpId) {
        let Some(command) = self.disk_commands.get_mut(&op) else { return };
        let Change { kind, offset, length } = command.change;
        command.persistence = Persistence::NONE;
        if let Some(primary) =
            self.volumes.get_mut(&command.volume).and_then(|volume| volume.primary.as_mut())
        {
            (command.term, command.persistence) = (primary.first, primary.persistence);
            primary.quiet.commands += 1;
        }
        let (volume, fua, payload, client) = (command.volume, command.fua, command.payload, command.client);
        let origin = if kind.is_flush() { None } else { self.origin_of(volume, client) };
        let work = DiskWork::Command { kind, offset, length, fua, payload, origin };
        let card = match client {
            Client::Local { .. } => self.config.node,
            Client::Peer { node, .. } => node,
        };
        self.outputs.push_back(Output::Disk { op, volume, card, work });
    }

    /// What the command is known by at all primaries of the volume, if that is no plain disk.
    fn origin_of(&self, volume: PgId, client: Client) -> Option<CommandOrigin> {
        let shard = self.config.shard;
        match client {
            _ if volume.is_plain() => None,
            Client::Local { token, sent_under } => {
                let (node, life) = (self.config.node, self.config.incarnation);
                let (number, oldest) = self.numbers.of(token)?;
                let epoch = self.volumes.get(&volume)?.spec.epoch;
                let first_epoch = sent_under.map_or(epoch, Generation::life);
                Some(CommandOrigin { node, life, shard, number, oldest, first_epoch })
            }
            Client::Peer { node, life, origin, .. } => {
                let Numbered { number, oldest, first_epoch } = origin?;
                Some(CommandOrigin { node, life, shard, number, oldest, first_epoch })
            }
        }
    }

    pub(in crate::shard) fn disk_command_done(&mut self, op: OpId, result: Result<(), IoError>) {
        let Some(command) = self.disk_commands.remove(&op) else { return };
        let id = command.volume;
        let is_late = |primary: &Primary| command.term != primary.first;
        if self.primary(id).is_none_or(is_late) {
            self.late_command_done(command, result);
            return;
        }
        if result == Err(IoError::SyncFailed) && !makes(Mistake::ForgetFailedSync) {
            self.sync_failed(id);
        }
        if let Some(stamp) = command.stamp {
            let blocks = command.change.blocks(self.config.block_bytes);
            let now = self.now;
            if let Some(primary) = self.primary_mut(id) {
                primary.close_write(blocks.clone(), stamp);
                primary.quiet.since = now;
            }
            let writer = match command.client {
                Client::Local { .. } => self.config.node,
                Client::Peer { node, .. } => node,
            };
            let policy_tells = self.volumes.get(&id).is_some_and(|v| !v.confirms());
            // By an earlier primary, perhaps, and others may have written since: what is there now, the disk knows.
            let was_done = !id.is_plain() && command.client.is_again() && !makes(Mistake::KeepRepeated);
            for index in blocks {
                let block = BlockId::new(id, index);
                if policy_tells {
                    self.with_policy(id, |policy, cx| policy.keep_consistency(cx, block, writer));
                }
                let done = (result.is_ok() && !was_done).then_some(command.payload);
                self.unlock_copy(block, done.map(|payload| (&command.change, payload)));
                self.after_write(block, &command.change, command.client, done);
                self.resume_block(block);
                self.held_commands.wake(block);
            }
        }
        let applied = command.stamp.is_some() && result.is_ok();
        let persistence = if applied { command.persistence } else { Persistence::NONE };
        let stamp = command.stamp.unwrap_or_default();
        self.answer_judged(command, Outcome { stamp, persistence, result });
        // Who has waited for this write goes before the next one.
        self.settle();
        self.start_woken_commands();
    }

    /// Each failed sync ends a life of the disk, as soon as that is durable: also one that an ended term has asked for.
    pub(super) fn sync_failed(&mut self, volume: PgId) {
        if let Some(primary) = self.primary_mut(volume) {
            primary.unjudged.get_or_insert_default();
            // Other shards may have written in the life that the one before begins.
            primary.syncs_failed += 1;
        }
        self.outputs.push_back(Output::SyncFailed { volume });
    }

    /// While the end of a life is not durable, no flush is answered: a failed sync takes the error away from others.
    pub(super) fn answer_judged(&mut self, command: DiskCommand, outcome: Outcome) {
        let id = command.volume;
        let is_flush = command.change.kind.is_flush();
        if is_flush || outcome.result == Err(IoError::SyncFailed) {
            let unjudged = self.primary_mut(id).and_then(|primary| primary.unjudged.as_mut());
            if let Some(unjudged) = unjudged {
                unjudged.push((command, outcome));
                return;
            }
        }
        let result = if is_flush { self.judge_flush(&command, outcome.result) } else { outcome.result };
        self.answer(&command, Outcome { result, ..outcome });
        self.put_back(command.payload);
    }

    /// A flush fails if a life has ended in which its card has unflushed writes.
    fn judge_flush(&self, command: &DiskCommand, result: Result<(), IoError>) -> Result<(), IoError> {
        match (command.change.kind, self.primary(command.volume)) {
            (CommandKind::Flush { since }, Some(primary))
                if since != Persistence::NONE
                    && since != primary.persistence
                    && !makes(Mistake::IgnorePersistence) =>
            {
                result.and(Err(primary.loss.error()))
            }
            _ => result,
        }
    }

    /// See [`crate::Input::Persistence`].
    pub(in crate::shard) fn persistence_is(&mut self, id: PgId, life: Persistence, loss: Loss) {
        let Some(primary) = self.primary_mut(id) else { return };
        if life >= primary.persistence {
            (primary.persistence, primary.loss) = (life, loss);
        }
        primary.syncs_failed = primary.syncs_failed.saturating_sub(1);
        if primary.syncs_failed > 0 {
            return;
        }
        for (command, outcome) in primary.unjudged.take().into_iter().flatten() {
            self.answer_judged(command, outcome);
        }
    }

    fn answer(&mut self, command: &DiskCommand, outcome: Outcome) {
        match command.client {
            Client::Local { token, .. } => {
                let Outcome { persistence, result, .. } = outcome;
                self.tell_done(token, persistence, result);
            }
            Client::Peer { node, life, place, generation, turn, .. } => {
                let Some(primary) = self.primary_mut(command.volume) else { return };
                primary.answered.done(node, life, place, outcome);
                let current = primary.is_current(node, generation);
                let blocks = command.change.blocks(self.config.block_bytes);
                let grant = match current {
                    true => self.grant_of(node, command.volume, &blocks, turn),
                    false => Grant::default(),
                };
                self.send_done(node, command.volume, (generation, place.request), outcome, grant);
            }
        }
    }

    fn send_done(
        &mut self,
        to: NodeId,
        id: PgId,
        (generation, request): (Generation, RequestId),
        Outcome { stamp, persistence, result }: Outcome,
        Grant { turn, bounds, .. }: Grant,
    ) {
        let body = Body::CommandDone { generation, request, stamp, persistence, result, turn, bounds };
        self.send(to, id, body, Payload::None);
    }
}
