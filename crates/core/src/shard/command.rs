//! Writes, zeroes, trims and flushes: at the node whose client asked, and at the disk node.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::ops::Range;

use super::Shard;
use super::coherence::RESEND;
use crate::cache::Mark;
use crate::ids::{BlockId, Generation, NodeId, OpId, RequestId, STRIPE_BLOCKS, Stamp, Token, VolumeId};
use crate::io::{DiskWork, Landing, Output, Patch, Payload};
use crate::message::{Body, CommandKind, IoError, Message};
use crate::mistakes::{Mistake, makes};
use crate::time::Instant;
use crate::timers::Timer;

/// What this node's clients have asked of other nodes' disks.
#[derive(Default)]
pub(super) struct Commands {
    open: BTreeMap<RequestId, Command>,
    /// How many open commands change a block, and whether they ever were more than one at a time.
    writing: BTreeMap<BlockId, (u32, bool)>,
    /// Given up, but the disk node may still do them until the card is attached anew. Their blocks stay
    /// locked: this node gets no invalidation for what it writes itself.
    doubtful: Vec<(VolumeId, Range<u32>)>,
    /// Those that wait for reads of their blocks to end, which have waited for writes before.
    later: VecDeque<Later>,
}

/// A command of a client that has not begun.
struct Later {
    token: Token,
    volume: VolumeId,
    change: Change,
    fua: bool,
    payload: Payload,
}

struct Command {
    token: Token,
    volume: VolumeId,
    change: Change,
    fua: bool,
    payload: Payload,
    /// The card it was sent under first.
    sent_under: Option<Generation>,
    /// The disk node may have done it before somebody else's write to the same blocks.
    overtaken: bool,
    deadline: Instant,
    give_up: Instant,
}

/// What a command does to a volume.
#[derive(Clone, Copy)]
pub(super) struct Change {
    kind: CommandKind,
    offset: u64,
    length: u32,
}

/// A [`Body::Command`].
#[derive(Clone, Copy)]
pub(super) struct PeerCommand {
    pub(super) generation: Generation,
    pub(super) request: RequestId,
    pub(super) oldest: RequestId,
    pub(super) change: Change,
    pub(super) fua: bool,
    pub(super) again: bool,
}

/// A command at the disk node.
pub(super) struct DiskCommand {
    pub(super) volume: VolumeId,
    /// Set once it has begun; never for a flush, which changes nothing.
    pub(super) stamp: Option<Stamp>,
    op: OpId,
    change: Change,
    fua: bool,
    payload: Payload,
    client: Client,
    /// Cards that have not confirmed yet.
    unconfirmed: Vec<NodeId>,
    /// How often they have been asked again.
    repetitions: u32,
    deadline: Instant,
}

#[derive(Clone, Copy)]
enum Client {
    Local(Token),
    Peer {
        node: NodeId,
        request: RequestId,
        generation: Generation,
        /// It was sent to an earlier life of this node.
        again: bool,
    },
}

impl DiskCommand {
    /// The card has not confirmed yet.
    pub(super) fn waits_for(&self, node: NodeId) -> bool {
        self.unconfirmed.contains(&node)
    }
}

impl Client {
    fn is_again(self) -> bool {
        matches!(self, Self::Peer { again: true, .. })
    }
}

/// What a card's commands were answered: a repeated command is not done again.
#[derive(Default)]
pub(super) struct Answered {
    oldest: RequestId,
    /// None while the command is under way.
    results: BTreeMap<RequestId, Option<Outcome>>,
}

#[derive(Clone, Copy)]
struct Outcome {
    stamp: Stamp,
    result: Result<(), IoError>,
}

/// A card that has been asked so often to confirm, every 100 ms, is given up like one that is not renewed.
const SILENT_AFTER: u32 = 20;

/// Commands of one card the disk node takes at the same time.
const OPEN_MAX: usize = 4096;

impl Commands {
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty() && self.later.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    /// The card was attached anew, by the same life of the disk node. Meanwhile others may have written.
    pub(super) fn reattached(&mut self, volume: VolumeId, generation: Generation) {
        for command in self.open.values_mut().filter(|c| c.volume == volume) {
            let before = command.sent_under.filter(|&before| before != generation);
            command.overtaken |= before.is_some_and(|before| before.life() == generation.life());
        }
    }

    /// The lease has run out: others may write without a word.
    pub(super) fn unleased(&mut self, volume: VolumeId) {
        for command in self.open.values_mut().filter(|c| c.volume == volume && c.sent_under.is_some()) {
            command.overtaken = true;
        }
    }

    /// Somebody else's write to these blocks begins. What this node has asked for may have been done before.
    pub(super) fn overtaken(&mut self, volume: VolumeId, blocks: &Range<u32>, block_bytes: u32) {
        for command in self.open.values_mut().filter(|c| c.volume == volume && c.sent_under.is_some()) {
            command.overtaken |= overlap(&command.change.blocks(block_bytes), blocks);
        }
    }

    #[cfg(test)]
    pub(super) fn doubtful_len(&self) -> usize {
        self.doubtful.len()
    }
}

impl Change {
    pub(super) const fn new(kind: CommandKind, offset: u64, length: u32) -> Self {
        Self { kind, offset, length }
    }

    /// The blocks it changes, of a volume with blocks of this size.
    fn blocks(&self, block_bytes: u32) -> Range<u32> {
        if self.kind == CommandKind::Flush || self.length == 0 {
            return 0..0;
        }
        let size = u64::from(block_bytes);
        (self.offset / size) as u32..(self.offset + u64::from(self.length)).div_ceil(size) as u32
    }

    /// Within the volume and within one stripe.
    fn is_valid(&self, spec: &crate::volume::VolumeSpec, shard: u16, shards: u16) -> bool {
        if self.kind == CommandKind::Flush {
            return true;
        }
        let inside =
            self.offset.checked_add(u64::from(self.length)).is_some_and(|end| end <= spec.size_bytes);
        if !inside || self.length == 0 {
            return false;
        }
        let blocks = self.blocks(spec.block_bytes);
        blocks.start / STRIPE_BLOCKS == (blocks.end - 1) / STRIPE_BLOCKS
            && BlockId::new(spec.id, blocks.start).shard(shards) == shard
    }
}

impl Shard {
    /// The block must not be read or fetched: a write to it is under way that this node knows of.
    pub(super) fn is_being_written(&self, block: BlockId) -> bool {
        self.commands.writing.contains_key(&block)
            || self.volumes.get(&block.volume).is_some_and(|v| {
                v.at_disk_node
                    && !makes(Mistake::ServeUnderWrite)
                    && v.recent.get(&block.index).is_some_and(|s| v.desk.open.contains(s))
            })
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of the input")]
    pub(super) fn client_command(
        &mut self,
        token: Token,
        id: VolumeId,
        kind: CommandKind,
        offset: u64,
        length: u32,
        fua: bool,
        payload: Payload,
    ) {
        let change = Change { kind, offset, length };
        let refused = match self.volumes.get(&id) {
            None => Some(IoError::NotAttached),
            Some(v) if !change.is_valid(&v.spec, self.config.shard, self.config.shards) => {
                Some(IoError::Invalid)
            }
            Some(v) if v.spec.read_only && kind != CommandKind::Flush => Some(IoError::NotPermitted),
            Some(_) => None,
        };
        if let Some(error) = refused {
            self.put_back(payload);
            self.outputs.push_back(Output::Done { token, result: Err(error) });
            return;
        }
        if kind != CommandKind::Flush {
            self.stats.writes += u64::from(change.blocks(self.config.block_bytes).len() as u32);
        }
        if id.disk_node() == self.config.node {
            self.disk_command(id, change, fua, payload, Client::Local(token));
            return;
        }
        let later = Later { token, volume: id, change, fua, payload };
        if self.must_wait(&later) {
            self.commands.later.push_back(later);
        } else {
            self.begin_command(later);
        }
    }

    /// A read of one of the blocks goes first.
    fn must_wait(&self, command: &Later) -> bool {
        let mut blocks = command.change.blocks(self.config.block_bytes);
        blocks.any(|index| self.fetches.goes_first(BlockId::new(command.volume, index)))
    }

    /// Reads have ended that commands may have waited for.
    pub(super) fn start_later_commands(&mut self) {
        for command in core::mem::take(&mut self.commands.later) {
            if self.must_wait(&command) {
                self.commands.later.push_back(command);
            } else {
                self.begin_command(command);
            }
        }
    }

    fn begin_command(&mut self, Later { token, volume: id, change, fua, payload }: Later) {
        let request = self.next_request();
        let blocks = change.blocks(self.config.block_bytes);
        for index in blocks.clone() {
            let writing = self.commands.writing.entry(BlockId::new(id, index)).or_default();
            *writing = (writing.0 + 1, writing.1 || writing.0 > 0);
        }
        self.lock_copies(id, blocks);
        let give_up = self.now + self.config.disk_wait;
        let command = Command {
            token,
            volume: id,
            change,
            fua,
            payload,
            sent_under: None,
            overtaken: false,
            deadline: give_up,
            give_up,
        };
        self.timers.set(give_up, Timer::Command(request));
        self.commands.open.insert(request, command);
        self.send_command(request);
    }

    fn send_command(&mut self, request: RequestId) {
        let oldest = self.commands.open.first_key_value().map_or(request, |(&oldest, _)| oldest);
        let Some(command) = self.commands.open.get_mut(&request) else { return };
        self.timers.clear(command.deadline, Timer::Command(request));
        command.deadline = command.give_up.min(self.now + self.config.peer_timeout);
        self.timers.set(command.deadline, Timer::Command(request));
        let Some(volume) = self.volumes.get(&command.volume) else { return };
        let Some(generation) = volume.card else { return };
        let sent_before = *command.sent_under.get_or_insert(generation);
        let again = sent_before.life() != generation.life();
        // A restarted disk node has forgotten what it has done. To do a command again that others have
        // followed on the same blocks would undo them.
        let followed = |index| {
            self.commands.writing.get(&BlockId::new(command.volume, index)).is_some_and(|&(_, ever)| ever)
        };
        let blocks = command.change.blocks(self.config.block_bytes);
        let doubtful = command.overtaken && !makes(Mistake::RepeatAfterRestart);
        if again && (doubtful || blocks.into_iter().any(followed)) {
            self.end_command(request, Stamp(0), Err(IoError::Io));
            return;
        }
        let Change { kind, offset, length } = command.change;
        let fua = command.fua;
        let body = Body::Command { generation, request, oldest, kind, offset, length, fua, again };
        let (id, payload) = (command.volume, command.payload);
        self.send(id.disk_node(), id, body, payload);
    }

    /// The disk node can be reached (again), or a card is attached.
    pub(super) fn send_commands_again(&mut self, node: NodeId) {
        let open = self.commands.open.iter();
        let again: Vec<RequestId> =
            open.filter(|(_, c)| c.volume.disk_node() == node).map(|(&request, _)| request).collect();
        again.into_iter().for_each(|request| self.send_command(request));
    }

    pub(super) fn command_timeout(&mut self, request: RequestId) {
        let Some(command) = self.commands.open.get(&request) else { return };
        if self.now >= command.give_up {
            self.give_up_command(request);
        } else {
            self.stats.retries += 1;
            self.send_command(request);
        }
    }

    fn give_up_command(&mut self, request: RequestId) {
        let Some(command) = self.commands.open.remove(&request) else { return };
        self.timers.clear(command.deadline, Timer::Command(request));
        let volume = command.volume;
        let blocks = command.change.blocks(self.config.block_bytes);
        // It may have been done, and only its answer lost.
        if self.volumes.get(&volume).is_some_and(|v| !v.confirms()) {
            for index in blocks.clone() {
                let block = BlockId::new(volume, index);
                self.with_policy(volume, |policy, cx| policy.keep_consistency(cx, block, cx.me()));
            }
        }
        if makes(Mistake::ForgetDoubt) {
            blocks.for_each(|index| self.end_writing(BlockId::new(volume, index), None));
        } else if !blocks.is_empty() {
            self.doubt(volume, blocks);
            self.outputs.push_back(Output::Reattach { volume });
        }
        self.put_back(command.payload);
        self.outputs.push_back(Output::Done { token: command.token, result: Err(IoError::Io) });
    }

    /// Keeps blocks locked. The same ones need be kept only once, however often a client tries again.
    fn doubt(&mut self, volume: VolumeId, blocks: Range<u32>) {
        let doubt = (volume, blocks.clone());
        if self.commands.doubtful.contains(&doubt) {
            blocks.for_each(|index| self.end_writing(BlockId::new(volume, index), None));
        } else {
            self.commands.doubtful.push(doubt);
        }
    }

    /// The card is new: what was given up under the old one will not be done any more.
    pub(super) fn end_doubts(&mut self, id: VolumeId) {
        let doubtful = core::mem::take(&mut self.commands.doubtful);
        for (volume, blocks) in doubtful {
            if volume != id {
                self.commands.doubtful.push((volume, blocks));
                continue;
            }
            for index in blocks {
                self.end_writing(BlockId::new(volume, index), None);
            }
        }
    }

    pub(super) fn command_done(
        &mut self,
        from: NodeId,
        request: RequestId,
        stamp: Stamp,
        result: Result<(), IoError>,
    ) {
        let Some(command) = self.commands.open.get(&request) else { return };
        if command.volume.disk_node() != from {
            return;
        }
        if result == Err(IoError::NotAttached) {
            // The card is being attached again; the command follows it.
            return;
        }
        self.end_command(request, stamp, result);
    }

    fn end_command(&mut self, request: RequestId, stamp: Stamp, result: Result<(), IoError>) {
        let Some(command) = self.commands.open.remove(&request) else { return };
        self.timers.clear(command.deadline, Timer::Command(request));
        let blocks = command.change.blocks(self.config.block_bytes);
        self.learn_write(command.volume, blocks.clone(), stamp);
        let policy_tells = self.volumes.get(&command.volume).is_some_and(|v| !v.confirms());
        for index in blocks {
            let block = BlockId::new(command.volume, index);
            self.end_writing(block, result.is_ok().then_some((&command.change, command.payload)));
            if policy_tells {
                self.with_policy(block.volume, |policy, cx| policy.keep_consistency(cx, block, cx.me()));
            }
        }
        self.put_back(command.payload);
        self.outputs.push_back(Output::Done { token: command.token, result });
    }

    /// One command less changes the block. When there is none, it can be read again.
    fn end_writing(&mut self, block: BlockId, done: Option<(&Change, Payload)>) {
        let alone = self.commands.writing.get(&block) == Some(&(1, false)) || makes(Mistake::PatchAfterOther);
        match self.commands.writing.get_mut(&block) {
            Some((open, _)) if *open > 1 => *open -= 1,
            _ => {
                self.commands.writing.remove(&block);
                self.unlock_copy(block, done.filter(|_| alone));
                self.resume_block(block);
            }
        }
    }

    /// A write has ended: its contents go into the copy that was locked, or the copy goes.
    fn unlock_copy(&mut self, block: BlockId, done: Option<(&Change, Payload)>) {
        let Some(slot) = self.cache.lookup(block).filter(|&slot| self.cache.is(slot, Mark::LOCKED)) else {
            return;
        };
        self.cache.mark(slot, Mark::LOCKED, false);
        let patch = done.and_then(|(change, payload)| match (change.kind, payload) {
            (CommandKind::Write, Payload::Buffer(buffer)) => Some((change, Some(buffer))),
            (CommandKind::Zero { .. }, _) => Some((change, None)),
            _ => None,
        });
        let Some((change, buffer)) = patch else {
            self.unkeep(slot);
            return;
        };
        let size = u64::from(self.config.block_bytes);
        let start = u64::from(block.index) * size;
        let from_byte = change.offset.max(start);
        let to_byte = (change.offset + u64::from(change.length)).min(start + size);
        self.outputs.push_back(Output::Patch {
            slot,
            slot_offset: (from_byte - start) as u32,
            length: (to_byte - from_byte) as u32,
            from: match buffer {
                Some(buffer) => Patch::Buffer { buffer, offset: (from_byte - change.offset) as u32 },
                None => Patch::Zero,
            },
        });
    }

    pub(super) fn land_command(&mut self, from: NodeId, message: &Message) -> Landing {
        let Body::Command { generation, request, .. } = message.body else { return Landing::Discard };
        let Some(volume) = self.volumes.get(&message.volume) else { return Landing::Discard };
        let known = volume.desk.cards.get(&from) == Some(&generation);
        let done = volume.desk.answered.get(&from).is_some_and(|answered| answered.knows(request));
        if known && !done && volume.at_disk_node { Landing::Buffer } else { Landing::Discard }
    }

    /// At the disk node: a command from another node's card.
    pub(super) fn peer_command(
        &mut self,
        from: NodeId,
        id: VolumeId,
        command: PeerCommand,
        payload: Payload,
    ) {
        let PeerCommand { generation, request, oldest, change, fua, again } = command;
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
        } else if kind != CommandKind::Flush && !volume.may_write(from) {
            Some(IoError::NotPermitted)
        } else {
            None
        };
        // A repetition gets the answer of the first time, whatever the card may do by now.
        let answered = volume.desk.answered.entry(from).or_default();
        if refused != Some(IoError::NotAttached) {
            let known = answered.results.get(&request).filter(|_| !makes(Mistake::RepeatCommands));
            if let Some(known) = known {
                if let Some(Outcome { stamp, result }) = *known {
                    self.send(from, id, Body::CommandDone { request, stamp, result }, Payload::None);
                }
                self.put_back(payload);
                return;
            }
            if request < answered.oldest {
                self.put_back(payload);
                return;
            }
        }
        if refused == Some(IoError::NotAttached) {
            let body = Body::CommandDone { request, stamp: Stamp(0), result: Err(IoError::NotAttached) };
            self.send(from, id, body, Payload::None);
            self.put_back(payload);
            return;
        }
        answered.forget_below(oldest);
        if answered.results.len() >= OPEN_MAX {
            self.put_back(payload);
            return;
        }
        if let Some(error) = refused {
            // For good: a repetition of it on its way must not be done when the card may write again.
            let (stamp, result) = (Stamp(0), Err(error));
            answered.results.insert(request, Some(Outcome { stamp, result }));
            self.send(from, id, Body::CommandDone { request, stamp, result }, Payload::None);
            self.put_back(payload);
            return;
        }
        if kind == CommandKind::Write && payload == Payload::None {
            return;
        }
        answered.results.insert(request, None);
        let client = Client::Peer { node: from, request, generation, again };
        self.disk_command(id, change, fua, payload, client);
    }

    fn disk_command(&mut self, id: VolumeId, change: Change, fua: bool, payload: Payload, client: Client) {
        let op = self.next_op();
        let command = DiskCommand {
            volume: id,
            stamp: None,
            op,
            change,
            fua,
            payload,
            client,
            unconfirmed: Vec::new(),
            repetitions: 0,
            deadline: Instant::NEVER,
        };
        if change.kind == CommandKind::Flush {
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
        if let Client::Peer { node, request, generation, .. } = command.client
            && volume.desk.cards.get(&node) != Some(&generation)
            && !makes(Mistake::AcceptOldCard)
        {
            // The card was given up while its command was held up. Whoever has the node's new card may have
            // copies that this command would not invalidate. If the same life asks again, it is a new command.
            if let Some(answered) = volume.desk.answered.get_mut(&node) {
                answered.results.remove(&request);
            }
            self.put_back(command.payload);
            return;
        }
        // It may have been fenced meanwhile, too.
        let owner = match command.client {
            Client::Local(_) => self.config.node,
            Client::Peer { node, .. } => node,
        };
        let blocks = command.change.blocks(self.config.block_bytes);
        let refused = match self.volumes.get(&id) {
            Some(volume) if !volume.may_write(owner) => Some(IoError::NotPermitted),
            // If the earlier life did it, it came before what has been written since, and is not to come after it.
            Some(volume) if command.client.is_again() && !volume.desk.is_untouched(blocks.clone()) => {
                Some(IoError::Io)
            }
            _ => None,
        };
        if let Some(error) = refused {
            self.answer(&command, Stamp(0), Err(error));
            self.put_back(command.payload);
            return;
        }
        command.stamp = Some(self.open_write(id, blocks.clone()));
        self.lock_copies(id, blocks.clone());
        if self.volumes.get(&id).is_some_and(|v| v.confirms()) {
            command.unconfirmed = self.holders(id, owner, &blocks);
        }
        if makes(Mistake::ForgetInvalidation) {
            command.unconfirmed.pop();
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
        let Some(command) = self.disk_commands.get(&op) else { return };
        let Change { kind, offset, length } = command.change;
        let work = DiskWork::Command { kind, offset, length, fua: command.fua, payload: command.payload };
        let volume = command.volume;
        self.outputs.push_back(Output::Disk { op, volume, work });
    }

    pub(super) fn disk_command_done(&mut self, op: OpId, result: Result<(), IoError>) {
        let Some(command) = self.disk_commands.remove(&op) else { return };
        let id = command.volume;
        if let Some(stamp) = command.stamp {
            let blocks = command.change.blocks(self.config.block_bytes);
            self.close_write(id, stamp);
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
                self.unlock_copy(block, result.is_ok().then_some((&command.change, command.payload)));
                self.resume_block(block);
            }
        }
        self.answer(&command, command.stamp.unwrap_or_default(), result);
        self.put_back(command.payload);
        // Who has waited for this write goes before the next one.
        self.settle();
        self.start_held_commands();
    }

    fn answer(&mut self, command: &DiskCommand, stamp: Stamp, result: Result<(), IoError>) {
        match command.client {
            Client::Local(token) => self.outputs.push_back(Output::Done { token, result }),
            Client::Peer { node, request, .. } => {
                let Some(volume) = self.volumes.get_mut(&command.volume) else { return };
                let answered = volume.desk.answered.get_mut(&node);
                if let Some(known) = answered.and_then(|a| a.results.get_mut(&request)) {
                    *known = Some(Outcome { stamp, result });
                }
                self.send(node, command.volume, Body::CommandDone { request, stamp, result }, Payload::None);
            }
        }
    }
}

fn overlap(one: &Range<u32>, other: &Range<u32>) -> bool {
    one.start < other.end && other.start < one.end
}

impl Answered {
    fn knows(&self, request: RequestId) -> bool {
        request < self.oldest || self.results.contains_key(&request)
    }

    fn forget_below(&mut self, oldest: RequestId) {
        if oldest > self.oldest {
            self.oldest = oldest;
            self.results = self.results.split_off(&oldest);
        }
    }
}
