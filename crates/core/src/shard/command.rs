//! Writes, zeroes, trims and flushes at the node whose client asked. What the disk node does is in [`super::disk_command`].

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::ops::Range;

use super::Shard;
use super::change::{Change, overlap};
use super::disk_command::Client;
use crate::cache::Mark;
use crate::ids::{BlockId, Generation, NodeId, RequestId, Stamp, Token, VolumeId};
use crate::io::{Output, Payload};
use crate::message::{Body, CommandKind, Grant, IoError};
use crate::mistakes::{Mistake, makes};
use crate::persistence::Persistence;
use crate::time::{Duration, Instant};
use crate::timers::Timer;

/// A command that was answered [`IoError::Busy`] is sent again after this, ...
const BUSY_FIRST: Duration = Duration::from_millis(10);
/// ... which doubles up to this.
const BUSY_MOST: Duration = Duration::from_secs(1);

/// What this node's clients have asked of other nodes' disks.
#[derive(Default)]
pub(super) struct Commands {
    open: BTreeMap<RequestId, Command>,
    /// How many open commands change a block, and whether they ever were more than one at a time.
    writing: BTreeMap<BlockId, (u32, bool)>,
    /// Given up, but the disk node may still do them until the card is attached anew. Their blocks stay
    /// locked: this node gets no invalidation for what it writes itself.
    doubtful: Vec<(VolumeId, Range<u32>)>,
    /// Those that wait for reads of their blocks to end, which have waited for writes before, or for a slot.
    later: VecDeque<Later>,
    /// Open commands that [follow](Self::follows) another one, and wait for it.
    chained: BTreeSet<RequestId>,
    slots: BTreeMap<VolumeId, Slots>,
}

/// Which slots of a volume the open commands have ([`super::answered`]).
#[derive(Default)]
struct Slots {
    /// Used before, and free.
    free: BTreeSet<u16>,
    /// Never used yet: this one and those above.
    unused: u16,
}

impl Slots {
    fn is_full(&self, max: u16) -> bool {
        self.free.is_empty() && self.unused >= max
    }

    /// The lowest one, so that few are remembered at the other end.
    fn take(&mut self, max: u16) -> Option<u16> {
        let fresh = (self.unused < max).then_some(self.unused);
        self.free.pop_first().or_else(|| fresh.inspect(|_| self.unused += 1))
    }
}

/// A command of a client that has not begun.
struct Later {
    /// Its client is told that it has failed then, or a little later if it has waited so long.
    give_up: Instant,
    token: Token,
    volume: VolumeId,
    change: Change,
    fua: bool,
    payload: Payload,
}

struct Command {
    token: Token,
    volume: VolumeId,
    slot: u16,
    change: Change,
    fua: bool,
    payload: Payload,
    /// The card it was sent under first.
    sent_under: Option<Generation>,
    /// The life of the disk node it was sent to last.
    sent_to: Option<u64>,
    /// The disk node may have done it before somebody else's write to the same blocks.
    overtaken: bool,
    /// A kernel still has pages of its blocks.
    has_pages: bool,
    /// The card's turn with which it was sent first.
    turn: u64,
    deadline: Instant,
    give_up: Instant,
    /// How long it pauses when it is answered [`IoError::Busy`] the next time.
    pause: Duration,
}

impl Commands {
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty() && self.later.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    fn is_full(&self, volume: VolumeId, max: u16) -> bool {
        self.slots.get(&volume).is_some_and(|slots| slots.is_full(max))
    }

    /// A command has ended.
    fn free_slot(&mut self, command: &Command) {
        if let Some(slots) = self.slots.get_mut(&command.volume) {
            slots.free.insert(command.slot);
        }
    }

    /// Blocks of a volume that open commands, or such as were given up, change.
    pub(super) fn blocks_written(
        &self,
        volume: VolumeId,
        indices: core::ops::RangeInclusive<u32>,
    ) -> impl Iterator<Item = u32> {
        let (first, last) = (BlockId::new(volume, *indices.start()), BlockId::new(volume, *indices.end()));
        self.writing.range(first..=last).map(|(block, _)| block.index)
    }

    /// One open command changes the block, and there were no others meanwhile.
    fn is_alone(&self, block: BlockId) -> bool {
        self.writing.get(&block) == Some(&(1, false))
    }

    /// An earlier command for some of the same bytes is open. It goes first, and nobody sees a later one's contents
    /// before it is answered: so it can be done again by the disk node's next life.
    fn follows(&self, request: RequestId, block_bytes: u32) -> bool {
        let Some(Command { volume, change, .. }) = self.open.get(&request) else { return false };
        let mut blocks = change.blocks(block_bytes).map(|index| BlockId::new(*volume, index));
        let shares = blocks.any(|block| self.writing.get(&block).is_some_and(|&(open, _)| open > 1));
        let bytes = change.bytes();
        shares
            && self
                .open
                .range(..request)
                .any(|(_, c)| c.volume == *volume && overlap(&c.change.bytes(), &bytes))
    }

    /// The card was attached anew, by the same life of the disk node. Meanwhile others may have written.
    pub(super) fn reattached(&mut self, volume: VolumeId, generation: Generation) {
        for command in self.open.values_mut().filter(|c| c.volume == volume) {
            let before = command.sent_under.filter(|&before| before != generation);
            command.overtaken |= before.is_some_and(|before| before.life() == generation.life());
        }
    }

    /// Somebody else's write to these blocks begins. What this node has asked for may have been done before.
    pub(super) fn overtaken(&mut self, volume: VolumeId, blocks: &Range<u32>, block_bytes: u32) {
        for command in self.open.values_mut().filter(|c| c.volume == volume && c.sent_under.is_some()) {
            command.overtaken |= overlap(&command.change.blocks(block_bytes), blocks);
        }
    }

    pub(super) fn doubtful_len(&self) -> usize {
        self.doubtful.len()
    }
}

impl Shard {
    /// The block must not be read or fetched: a write to it is under way that this node knows of.
    pub(super) fn is_being_written(&self, block: BlockId) -> bool {
        self.commands.writing.contains_key(&block)
            || self
                .volumes
                .get(&block.volume)
                .is_some_and(|v| v.desk.writing.contains(&block.index) && !makes(Mistake::ServeUnderWrite))
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
            Some(v) if v.spec.read_only && !kind.is_flush() => Some(IoError::NotPermitted),
            Some(_) => None,
        };
        if let Some(error) = refused {
            self.put_back(payload);
            self.outputs.push_back(Output::Done {
                token,
                persistence: Persistence::NONE,
                result: Err(error),
            });
            return;
        }
        if !kind.is_flush() {
            self.stats.writes += u64::from(change.blocks(self.config.block_bytes).len() as u32);
        }
        if id.disk_node() == self.config.node {
            self.disk_command(id, change, fua, payload, Client::Local(token));
            return;
        }
        let give_up = self.now + self.config.disk_wait;
        let later = Later { give_up, token, volume: id, change, fua, payload };
        if self.must_wait(&later) {
            self.commands.later.push_back(later);
        } else {
            self.begin_command(later);
        }
    }

    /// No slot is free, or a read of one of the blocks goes first.
    fn must_wait(&self, command: &Later) -> bool {
        if self.commands.is_full(command.volume, self.config.limits.slots) {
            return true;
        }
        let mut blocks = command.change.blocks(self.config.block_bytes);
        blocks.any(|index| self.fetches.goes_first(BlockId::new(command.volume, index)))
    }

    /// Reads or commands have ended that commands may have waited for.
    pub(super) fn start_later_commands(&mut self) {
        for command in core::mem::take(&mut self.commands.later) {
            if self.must_wait(&command) {
                self.commands.later.push_back(command);
            } else {
                self.begin_command(command);
            }
        }
    }

    fn begin_command(&mut self, later: Later) {
        let Later { give_up, token, volume: id, change, fua, payload } = later;
        let max = self.config.limits.slots;
        let Some(slot) = self.commands.slots.entry(id).or_default().take(max) else { return };
        // From here on: what comes later in the slot has a higher number.
        let request = self.next_request();
        let blocks = change.blocks(self.config.block_bytes);
        for index in blocks.clone() {
            let writing = self.commands.writing.entry(BlockId::new(id, index)).or_default();
            *writing = (writing.0 + 1, writing.1 || writing.0 > 0);
        }
        self.lock_copies(id, blocks.clone());
        let place = self.place(blocks.start);
        let turn = match self.volumes.get_mut(&id).filter(|v| v.confirms() && !blocks.is_empty()) {
            Some(volume) => volume.held.command(place, self.now),
            None => 0,
        };
        self.limit_regions(id);
        let has_pages = self.withdraw_for_client(id, blocks, request);
        let give_up = give_up.max(self.now + self.config.peer_timeout);
        let command = Command {
            token,
            volume: id,
            slot,
            change,
            fua,
            payload,
            sent_under: None,
            sent_to: None,
            overtaken: false,
            has_pages,
            turn,
            deadline: give_up,
            give_up,
            pause: BUSY_FIRST,
        };
        self.timers.set(give_up, Timer::Command(request));
        self.commands.open.insert(request, command);
        self.send_command(request);
    }

    fn send_command(&mut self, request: RequestId) {
        let follows = self.commands.follows(request, self.config.block_bytes);
        let Some(command) = self.commands.open.get_mut(&request) else { return };
        self.timers.clear(command.deadline, Timer::Command(request));
        let patience = self.config.peer_timeout / if makes(Mistake::RepeatHastily) { 16 } else { 1 };
        command.deadline = command.give_up.min(self.now + patience);
        self.timers.set(command.deadline, Timer::Command(request));
        if command.has_pages {
            return;
        }
        let Some(volume) = self.volumes.get(&command.volume) else { return };
        let Some(generation) = volume.card else { return };
        if follows {
            self.commands.chained.insert(request);
            return;
        }
        if command.sent_under.is_none() {
            let blocks = command.change.blocks(self.config.block_bytes);
            command.overtaken |=
                self.commands.doubtful.iter().any(|(of, d)| *of == command.volume && overlap(d, &blocks));
        }
        let sent_before = *command.sent_under.get_or_insert(generation);
        let again = sent_before.life() != generation.life();
        let is_first_here = command.sent_to.replace(generation.life()) != Some(generation.life());
        // A restarted disk node has forgotten what it has done. To do a command again that others have
        // followed on the same blocks would undo them. Once this life may have it in hand, only it can say so.
        let was_passed = command.overtaken || sent_before < volume.repeat_from;
        let undoes = !command.change.blocks(self.config.block_bytes).is_empty();
        let doubtful = was_passed && undoes && !makes(Mistake::RepeatAfterRestart);
        if again && is_first_here && doubtful {
            self.end_command(request, Stamp(0), Persistence::NONE, Err(IoError::Io), Grant::default());
            return;
        }
        let Change { kind, offset, length } = command.change;
        let (slot, fua, turn) = (command.slot, command.fua, command.turn);
        let body = Body::Command { generation, request, slot, kind, offset, length, fua, again, turn };
        let (id, payload) = (command.volume, command.payload);
        self.send(id.disk_node(), id, body, payload);
    }

    /// No kernel has pages of its blocks any more.
    pub(super) fn release_command(&mut self, request: RequestId) {
        if let Some(command) = self.commands.open.get_mut(&request) {
            command.has_pages = false;
            self.send_command(request);
        }
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
        let Some(command) = self.take_command(request) else { return };
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
        let (token, result) = (command.token, Err(IoError::Io));
        self.outputs.push_back(Output::Done { token, persistence: Persistence::NONE, result });
        self.start_later_commands();
        self.send_chained_commands();
    }

    /// Takes an open command out; [`Self::send_chained_commands`] must follow.
    fn take_command(&mut self, request: RequestId) -> Option<Command> {
        let command = self.commands.open.remove(&request)?;
        self.commands.chained.remove(&request);
        self.commands.free_slot(&command);
        self.timers.clear(command.deadline, Timer::Command(request));
        Some(command)
    }

    /// A command has ended that others may have waited for.
    fn send_chained_commands(&mut self) {
        for request in core::mem::take(&mut self.commands.chained) {
            self.send_command(request);
        }
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
        (stamp, word): (Stamp, Stamp),
        persistence: Persistence,
        result: Result<(), IoError>,
        grant: Grant,
    ) {
        let Some(command) = self.commands.open.get_mut(&request) else { return };
        if command.volume.disk_node() != from {
            return;
        }
        // An answer of another life ends nothing: the life that it was sent to last may do it yet, over what this node
        // writes when it takes this for the end.
        let is_before = |life: u64| word != Stamp(0) && word < Stamp(life << 20);
        let is_past = self.volumes.get(&command.volume).is_some_and(|volume| volume.is_past(word));
        if is_past || command.sent_to.is_some_and(is_before) {
            return;
        }
        match result {
            // The card is being attached again; the command follows it.
            Err(IoError::NotAttached) => {}
            Err(IoError::Busy) => self.pause_command(request),
            _ => self.end_command(request, stamp, persistence, result, grant),
        }
    }

    /// The disk node has no room for the command now.
    fn pause_command(&mut self, request: RequestId) {
        let Some(command) = self.commands.open.get_mut(&request) else { return };
        self.timers.clear(command.deadline, Timer::Command(request));
        command.deadline = command.give_up.min(self.now + command.pause);
        self.timers.set(command.deadline, Timer::Command(request));
        command.pause = (command.pause * 2).min(BUSY_MOST);
    }

    fn end_command(
        &mut self,
        request: RequestId,
        stamp: Stamp,
        persistence: Persistence,
        result: Result<(), IoError>,
        grant: Grant,
    ) {
        let Some(command) = self.take_command(request) else { return };
        let blocks = command.change.blocks(self.config.block_bytes);
        // What the answer grants is held since the command arrived, unless it was released meanwhile.
        let id = command.volume;
        let held = !blocks.is_empty()
            && (self.take_grant(id, self.place(blocks.start), grant)
                || self.volumes.get(&id).is_some_and(|v| !v.confirms()));
        let place = self.place(blocks.start);
        if let Some(volume) = self.volumes.get_mut(&id) {
            if !blocks.is_empty() {
                volume.held.wrote(place, stamp);
            }
            if held {
                blocks.clone().for_each(|index| volume.wrote(index, stamp));
            }
        }
        let policy_tells = self.volumes.get(&command.volume).is_some_and(|v| !v.confirms());
        let is_latest = !command.overtaken && held;
        for index in blocks {
            let block = BlockId::new(command.volume, index);
            let alone = self.commands.is_alone(block);
            self.end_writing(block, result.is_ok().then_some((&command.change, command.payload)));
            if policy_tells {
                self.with_policy(block.volume, |policy, cx| policy.keep_consistency(cx, block, cx.me()));
            }
            if alone && result.is_ok() && is_latest {
                self.keep_written(block, &command.change, command.payload, false);
            }
        }
        self.put_back(command.payload);
        self.outputs.push_back(Output::Done { token: command.token, persistence, result });
        self.start_later_commands();
        self.send_chained_commands();
    }

    /// One command less changes the block. When there is none, it can be read again.
    fn end_writing(&mut self, block: BlockId, done: Option<(&Change, Payload)>) {
        let alone = self.commands.is_alone(block) || makes(Mistake::PatchAfterOther);
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
    pub(super) fn unlock_copy(&mut self, block: BlockId, done: Option<(&Change, Payload)>) {
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
        self.patch(slot, block, change, buffer);
    }
}
