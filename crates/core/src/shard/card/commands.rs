//! Writes, zeroes, trims and flushes at the node whose client asked. What the primary does is in [`crate::shard::primary::commands`].

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::ops::Range;

use super::later::{self, Hindrance, Later, Wanted};
use crate::cache::Mark;
use crate::ids::{BlockId, Generation, NodeId, PgId, RequestId, Stamp, Token};
use crate::io::Payload;
use crate::message::{Body, CommandKind, Grant, IoError, Numbered};
use crate::mistakes::{Mistake, makes};
use crate::persistence::Persistence;
use crate::shard::card::Card;
use crate::shard::change::{Change, overlap};
use crate::shard::primary::commands::Client;
use crate::shard::regions::Bounds;
use crate::shard::{Limit, Shard};
use crate::time::{Duration, Instant};
use crate::timers::Timer;

/// What this node's clients have asked of other nodes' disks.
pub(in crate::shard) struct Commands {
    open: BTreeMap<RequestId, Command>,
    /// The open commands that change a block.
    writing: BTreeMap<BlockId, Writing>,
    later: later::Queue,
    /// When the first of them is given up.
    later_until: Instant,
    /// Open commands that [follow](Self::followed) another one and wait for its end, by that one.
    chained: BTreeMap<RequestId, BTreeSet<RequestId>>,
    slots: BTreeMap<PgId, Slots>,
}

impl Default for Commands {
    fn default() -> Self {
        Self {
            open: BTreeMap::new(),
            writing: BTreeMap::new(),
            later: later::Queue::default(),
            later_until: Instant::NEVER,
            chained: BTreeMap::new(),
            slots: BTreeMap::new(),
        }
    }
}

/// The open commands that change a block.
#[derive(Default)]
struct Writing {
    /// In order.
    open: Vec<RequestId>,
    /// They were ever more than one at a time.
    shared: bool,
}

/// Which slots of a volume the open commands have ([`crate::shard::primary::answered`]).
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

struct Command {
    /// Who is told how it ends. None: that was told, it was given up, and the primary is asked not to do it
    /// ([`Body::Void`]). Until the answer its blocks stay locked: this node gets no invalidation for what it writes itself.
    client: Option<Token>,
    volume: PgId,
    slot: u16,
    change: Change,
    fua: bool,
    payload: Payload,
    /// The card it was sent under first.
    sent_under: Option<Generation>,
    /// The card it was sent under last. Its primary has the command, or an answer to it, unless it says otherwise: while the
    /// connection lives it is asked, and nothing is sent twice.
    sent_with: Option<Generation>,
    /// The primary has said that it has not got it.
    refused: bool,
    /// The primary may have done it before somebody else's write to the same blocks.
    overtaken: bool,
    /// A kernel still has pages of its blocks.
    has_pages: bool,
    /// The card's turn with which it was sent first.
    turn: u64,
    deadline: Instant,
    give_up: Instant,
    /// How long it pauses when it is answered [`IoError::Busy`] the next time.
    pause: Duration,
    /// After how long without an answer the primary is asked.
    patience: Duration,
}

/// A [`Body::CommandDone`], without the command.
#[derive(Clone, Copy)]
pub(in crate::shard) struct Answer {
    pub(in crate::shard) stamp: Stamp,
    pub(in crate::shard) persistence: Persistence,
    pub(in crate::shard) result: Result<(), IoError>,
    pub(in crate::shard) turn: u64,
    pub(in crate::shard) bounds: Bounds,
}

impl Answer {
    /// There is none.
    fn failed(error: IoError) -> Self {
        let (stamp, bounds) = (Stamp(0), Bounds::default());
        Self { stamp, persistence: Persistence::NONE, result: Err(error), turn: 0, bounds }
    }
}

impl Commands {
    pub(in crate::shard) fn is_empty(&self) -> bool {
        self.open.is_empty() && self.later.is_empty()
    }

    pub(in crate::shard) fn len(&self) -> usize {
        self.open.len()
    }

    /// Commands that are listed as waiting for others.
    pub(in crate::shard) fn followers(&self) -> usize {
        self.chained.values().map(BTreeSet::len).sum()
    }

    fn is_full(&self, volume: PgId, max: u16) -> bool {
        if makes(Mistake::ShareSlots) {
            return self.open.len() >= usize::from(max);
        }
        self.slots.get(&volume).is_some_and(|slots| slots.is_full(max))
    }

    /// A command has ended.
    fn free_slot(&mut self, command: &Command) {
        if let Some(slots) = self.slots.get_mut(&command.volume) {
            slots.free.insert(command.slot);
        }
    }

    /// Blocks of a volume that open commands, or such as were given up, change.
    pub(in crate::shard) fn blocks_written(
        &self,
        volume: PgId,
        indices: core::ops::RangeInclusive<u32>,
    ) -> impl Iterator<Item = u32> {
        let (first, last) = (BlockId::new(volume, *indices.start()), BlockId::new(volume, *indices.end()));
        self.writing.range(first..=last).map(|(block, _)| block.index)
    }

    /// Open commands, or such as were given up, change the block.
    pub(in crate::shard) fn is_writing(&self, block: BlockId) -> bool {
        self.writing.contains_key(&block)
    }

    /// One open command changes the block, and there were no others meanwhile.
    fn is_alone(&self, block: BlockId) -> bool {
        self.writing.get(&block).is_some_and(|writing| writing.open.len() == 1 && !writing.shared)
    }

    /// The last of the earlier commands for some of the same bytes that are open. It goes first, and nobody sees a later
    /// one's contents before it is answered: so it can be done again by the primary's next life.
    fn followed(&self, request: RequestId, block_bytes: u32) -> Option<RequestId> {
        let Command { volume, change, .. } = self.open.get(&request)?;
        let bytes = change.bytes();
        let overlaps = |other: &&RequestId| {
            self.open.get(other).is_some_and(|other| overlap(&other.change.bytes(), &bytes))
        };
        let earlier = |index| {
            let writing = self.writing.get(&BlockId::new(*volume, index))?;
            writing.open.iter().rev().filter(|&&open| open < request).find(overlaps)
        };
        change.blocks(block_bytes).filter_map(earlier).max().copied()
    }

    /// Commands that were given up and may yet be done.
    pub(in crate::shard) fn doubts(&self) -> usize {
        self.open.values().filter(|command| command.client.is_none()).count()
    }

    /// The card was attached anew, by the same life of the primary. Meanwhile others may have written.
    pub(in crate::shard) fn reattached(&mut self, volume: PgId, generation: Generation) {
        for command in self.open.values_mut().filter(|c| c.volume == volume) {
            let before = command.sent_under.filter(|&before| before != generation);
            command.overtaken |= before.is_some_and(|before| before.life() == generation.life());
        }
    }

    /// Somebody else's write to these blocks begins. What this card has asked for may have been done before.
    pub(in crate::shard) fn overtaken(&mut self, volume: PgId, blocks: &Range<u32>, card: Generation) {
        for index in blocks.clone() {
            let Some(writing) = self.writing.get(&BlockId::new(volume, index)) else { continue };
            for request in &writing.open {
                if let Some(command) = self.open.get_mut(request).filter(|c| c.sent_with == Some(card)) {
                    command.overtaken = true;
                }
            }
        }
    }
}

impl Shard {
    #[expect(clippy::too_many_arguments, reason = "the fields of the input")]
    pub(in crate::shard) fn client_command(
        &mut self,
        token: Token,
        id: PgId,
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
            self.tell_done(token, Persistence::NONE, Err(error));
            return;
        }
        if !kind.is_flush() && !id.is_plain() {
            self.numbers.begin(token, id);
        }
        if !kind.is_flush() {
            self.stats.writes += u64::from(change.blocks(self.config.block_bytes).len() as u32);
        }
        if !kind.is_flush() && self.late_commands.contains_key(&id) {
            self.disk_command(id, change, fua, payload, Client::Local { token, sent_under: None });
            return;
        }
        self.own_command(id, Wanted { token, change, fua, payload, sent_under: None });
    }

    /// A command of a client, here or at another node's primary.
    pub(in crate::shard) fn own_command(&mut self, id: PgId, wanted: Wanted) {
        let awaits_card = self.card(id).is_some_and(Card::is_awaited);
        if self.primary(id).is_some() && !awaits_card {
            let Wanted { token, change, fua, payload, sent_under } = wanted;
            self.disk_command(id, change, fua, payload, Client::Local { token, sent_under });
        } else {
            self.card_command(id, wanted);
        }
    }

    /// A command of a client for another node's primary.
    fn card_command(&mut self, volume: PgId, wanted: Wanted) {
        let later = Later { give_up: self.now + self.timing.give_up, volume, wanted };
        match self.hindrance(&later) {
            Some(hindrance) => {
                self.reached.note(Limit::Slots, matches!(hindrance, Hindrance::Slots(_)));
                self.commands.later.push(hindrance, later);
                self.wake_for_later();
            }
            None => self.begin_command(later),
        }
    }

    /// Commands that wait to begin are given up in time as well, the first one first.
    fn wake_for_later(&mut self) {
        let until = self.commands.later.give_up();
        let before = core::mem::replace(&mut self.commands.later_until, until);
        if before != until {
            self.timers.clear(before, Timer::Later);
            self.timers.set(until, Timer::Later);
        }
    }

    pub(in crate::shard) fn give_up_later_commands(&mut self) {
        while let Some(command) = self.commands.later.pop_given_up(self.now) {
            self.put_back(command.wanted.payload);
            let (token, result) = (command.wanted.token, Err(IoError::NoAnswer));
            self.tell_done(token, Persistence::NONE, result);
        }
        self.wake_for_later();
    }

    /// What the command must wait for before it begins.
    fn hindrance(&self, command: &Later) -> Option<Hindrance> {
        if self.commands.is_full(command.volume, self.config.limits.slots) {
            return Some(Hindrance::Slots(command.volume));
        }
        // A part of it may be on the disk, and a read may have seen it: nothing that came later passes it.
        if command.wanted.sent_under.is_some() {
            return None;
        }
        let blocks = command.wanted.change.blocks(self.config.block_bytes);
        let mut blocks = blocks.map(|index| BlockId::new(command.volume, index));
        blocks.find(|&block| self.fetches.goes_first(block)).map(Hindrance::Read)
    }

    /// A slot is free or a read has ended: those begin that waited for it, and for nothing else.
    pub(in crate::shard) fn start_later_commands(&mut self, ended: Hindrance) {
        while let Some((number, command)) = self.commands.later.first_of(ended) {
            match self.hindrance(command) {
                Some(hindrance) if hindrance == ended => break,
                Some(hindrance) => self.commands.later.turn_to(number, hindrance),
                None => {
                    if let Some(command) = self.commands.later.remove(number) {
                        self.begin_command(command);
                    }
                }
            }
        }
        self.wake_for_later();
    }

    fn begin_command(&mut self, later: Later) {
        let Later { give_up, volume: id, wanted } = later;
        let Wanted { token, change, fua, payload, sent_under } = wanted;
        let max = self.config.limits.slots;
        let Some(slot) = self.commands.slots.entry(id).or_default().take(max) else { return };
        // From here on: what comes later in the slot has a higher number.
        let request = self.next_request();
        let blocks = change.blocks(self.config.block_bytes);
        for index in blocks.clone() {
            let writing = self.commands.writing.entry(BlockId::new(id, index)).or_default();
            // The last so far: numbers grow.
            writing.open.push(request);
            writing.shared |= writing.open.len() > 1;
        }
        self.lock_copies(id, blocks.clone());
        let place = self.place(blocks.start);
        let turn = match self.volumes.get_mut(&id).filter(|v| v.confirms() && !blocks.is_empty()) {
            Some(volume) => volume.card.held.command(place, self.now),
            None => 0,
        };
        self.limit_regions(id);
        let has_pages = self.withdraw_for_client(id, blocks, request);
        let give_up = give_up.max(self.now + self.timing.peer);
        let command = Command {
            client: Some(token),
            volume: id,
            slot,
            change,
            fua,
            payload,
            sent_under,
            sent_with: None,
            refused: false,
            overtaken: false,
            has_pages,
            turn,
            deadline: give_up,
            give_up,
            pause: self.timing.busy.0,
            patience: self.timing.probe.0,
        };
        self.timers.set(give_up, Timer::Command(request));
        self.commands.open.insert(request, command);
        self.send_command(request);
    }

    /// Sends a command, whatever was sent before, if it can be sent now.
    fn send_command(&mut self, request: RequestId) {
        let followed = self.commands.followed(request, self.config.block_bytes);
        self.wake_command(request, self.timing.probe.0);
        let Some(command) = self.commands.open.get_mut(&request) else { return };
        if command.client.is_none() {
            self.ask_for_command(request);
            return;
        }
        if command.has_pages {
            return;
        }
        let Some(card) = self.volumes.get(&command.volume).map(|volume| &volume.card) else { return };
        let Some(generation) = card.generation else { return };
        if let Some(first) = followed {
            self.commands.chained.entry(first).or_default().insert(request);
            return;
        }
        command.refused = false;
        command.patience = self.timing.probe.0;
        let sent_before = *command.sent_under.get_or_insert(generation);
        let again = sent_before.life() != generation.life();
        let is_first_here =
            command.sent_with.replace(generation).is_none_or(|last| last.life() != generation.life());
        // A primary that was started anew has forgotten what it has done. To do a command again that others have
        // followed on the same blocks would undo them. Once this life may have it in hand, only it can say so.
        let was_passed = command.overtaken || sent_before < card.repeat_from;
        let undoes = !command.change.blocks(self.config.block_bytes).is_empty();
        // Where the medium keeps account of origins, the primary knows whether it was done.
        let doubtful =
            was_passed && undoes && command.volume.is_plain() && !makes(Mistake::RepeatAfterRestart);
        if again && is_first_here && doubtful {
            self.end_command(request, Answer::failed(IoError::OutcomeUnknown));
            return;
        }
        let Change { kind, offset, length } = command.change;
        let (slot, fua, turn) = (command.slot, command.fua, command.turn);
        let (id, payload) = (command.volume, command.payload);
        let numbered = command.client.and_then(|token| self.numbers.of(token));
        let first_epoch = sent_before.life();
        let origin = numbered.map(|(number, oldest)| Box::new(Numbered { number, oldest, first_epoch }));
        let body =
            Body::Command { generation, request, slot, kind, offset, length, fua, again, turn, origin };
        self.send(self.primary_of(id), id, body, payload);
    }

    /// Its timer comes after so long, at the latest when it is given up.
    fn wake_command(&mut self, request: RequestId, after: Duration) {
        let Some(command) = self.commands.open.get_mut(&request) else { return };
        self.timers.clear(command.deadline, Timer::Command(request));
        let at = self.now + if makes(Mistake::RepeatHastily) { after / 16 } else { after };
        command.deadline = if command.client.is_some() { command.give_up.min(at) } else { at };
        self.timers.set(command.deadline, Timer::Command(request));
    }

    /// In place of sending it again: asks the primary whether it has the command, or not to do it if it was given up.
    fn ask_for_command(&mut self, request: RequestId) {
        let Some(command) = self.commands.open.get_mut(&request) else { return };
        let patience = command.patience;
        command.patience = (patience * 2).min(self.timing.probe.1);
        let (id, slot, turn) = (command.volume, command.slot, command.turn);
        let block = command.change.blocks(self.config.block_bytes).start;
        let is_void = command.client.is_none();
        self.wake_command(request, patience);
        let Some(generation) = self.card(id).and_then(|card| card.generation) else { return };
        if let Some(command) = self.commands.open.get_mut(&request).filter(|_| is_void) {
            // The answer is to this card.
            command.sent_with = Some(generation);
        }
        let body = match is_void {
            true => Body::Void { generation, request, slot },
            false => Body::Probe { generation, request, slot, block, turn },
        };
        self.send(self.primary_of(id), id, body, Payload::None);
    }

    /// No kernel has pages of its blocks any more.
    pub(in crate::shard) fn release_command(&mut self, request: RequestId) {
        if let Some(command) = self.commands.open.get_mut(&request) {
            command.has_pages = false;
            self.send_command(request);
        }
    }

    /// The primary can be reached (again), or a card is attached.
    pub(in crate::shard) fn send_commands_again(&mut self, node: NodeId) {
        let open = self.commands.open.iter();
        let again: Vec<RequestId> =
            open.filter(|(_, c)| self.primary_of(c.volume) == node).map(|(&request, _)| request).collect();
        again.into_iter().for_each(|request| self.send_command(request));
    }

    pub(in crate::shard) fn command_timeout(&mut self, request: RequestId) {
        let Some(command) = self.commands.open.get(&request) else { return };
        let generation = self.card(command.volume).and_then(|card| card.generation);
        if command.client.is_some() && self.now >= command.give_up {
            self.give_up_command(request);
        } else if command.refused
            || command.sent_with.is_none()
            || command.sent_with != generation
            || makes(Mistake::RepeatHastily)
        {
            self.send_command(request);
        } else {
            self.ask_for_command(request);
        }
    }

    /// Its client hears that nobody knows. What may have reached the primary stays open, without its bytes.
    fn give_up_command(&mut self, request: RequestId) {
        let patience = self.timing.probe.0;
        let Some(command) = self.commands.open.get(&request) else { return };
        let (volume, change, was_sent) = (command.volume, command.change, command.sent_under.is_some());
        let blocks = change.blocks(self.config.block_bytes);
        if blocks.is_empty() || !was_sent || self.primary(volume).is_some() || makes(Mistake::ForgetDoubt) {
            self.end_command(request, Answer::failed(IoError::NoAnswer));
            return;
        }
        let Some(command) = self.commands.open.get_mut(&request) else { return };
        let (client, payload) =
            (command.client.take(), core::mem::replace(&mut command.payload, Payload::None));
        command.patience = patience;
        self.put_back(payload);
        // It may have been done, and only its answer lost.
        if self.volumes.get(&volume).is_some_and(|v| !v.confirms()) {
            for index in blocks {
                let block = BlockId::new(volume, index);
                self.with_policy(volume, |policy, cx| policy.keep_consistency(cx, block, cx.me()));
            }
        }
        if let Some(token) = client {
            let (persistence, result) = (Persistence::NONE, Err(IoError::NoAnswer));
            self.tell_done(token, persistence, result);
        }
        self.ask_for_command(request);
    }

    /// Takes an open command out; [`Self::send_followers`] must come after.
    fn take_command(&mut self, request: RequestId) -> Option<Command> {
        // It waits for this one, if for any.
        let first = self.commands.followed(request, self.config.block_bytes);
        if let Some(followers) = first.and_then(|first| self.commands.chained.get_mut(&first)) {
            followers.remove(&request);
        }
        let command = self.commands.open.remove(&request)?;
        self.commands.free_slot(&command);
        self.timers.clear(command.deadline, Timer::Command(request));
        Some(command)
    }

    /// A command has ended that others may have waited for.
    fn send_followers(&mut self, request: RequestId) {
        for follower in self.commands.chained.remove(&request).unwrap_or_default() {
            self.send_command(follower);
        }
    }

    /// This node is the primary now: takes out what its clients have asked for, in order. What an earlier primary may
    /// have done over others' writes fails.
    pub(in crate::shard) fn take_commands(&mut self, id: PgId) -> Vec<Wanted> {
        let mut taken = Vec::new();
        let repeat_from = self.card(id).map_or(Generation(u64::MAX), |card| card.repeat_from);
        let open = self.commands.open.iter().filter(|(_, command)| command.volume == id);
        let open: Vec<RequestId> = open.map(|(&request, _)| request).collect();
        for request in open {
            self.commands.chained.remove(&request);
            let Some(command) = self.take_command(request) else { continue };
            let Command { client, change, fua, payload, sent_under, overtaken, .. } = command;
            let blocks = change.blocks(self.config.block_bytes);
            blocks.for_each(|index| self.end_writing(request, BlockId::new(id, index), None));
            // What others' writes have passed is in doubt, whenever it was sent.
            let repeat_from = if overtaken { Generation(u64::MAX) } else { repeat_from };
            match client {
                Some(token) => {
                    let wanted = Wanted { token, change, fua, payload, sent_under };
                    taken.extend(self.if_repeatable(id, wanted, repeat_from));
                }
                None => self.put_back(payload),
            }
        }
        // Those that wait for a slot may have been begun here, in an earlier term.
        let later = self.commands.later.take_of(id);
        self.wake_for_later();
        for Later { wanted, .. } in later {
            taken.extend(self.if_repeatable(id, wanted, repeat_from));
        }
        taken
    }

    /// A command that may be done, again if it was sent under that card or a later one. Else it fails.
    fn if_repeatable(&mut self, volume: PgId, wanted: Wanted, repeat_from: Generation) -> Option<Wanted> {
        let Wanted { token, change, payload, .. } = wanted;
        let undoes = !change.blocks(self.config.block_bytes).is_empty();
        let sent_under = wanted.sent_under.filter(|_| undoes);
        if !volume.is_plain() || sent_under.is_none_or(|sent_under| sent_under >= repeat_from) {
            return Some(Wanted { sent_under, ..wanted });
        }
        self.put_back(payload);
        let (persistence, result) = (Persistence::NONE, Err(IoError::OutcomeUnknown));
        self.tell_done(token, persistence, result);
        None
    }

    /// The card is new: what was given up under the old one will not be done any more.
    pub(in crate::shard) fn end_doubts(&mut self, id: PgId) {
        let given_up = |c: &Command| c.volume == id && c.client.is_none();
        let doubts: Vec<RequestId> =
            self.commands.open.iter().filter(|(_, c)| given_up(c)).map(|(&request, _)| request).collect();
        doubts.into_iter().for_each(|request| self.end_command(request, Answer::failed(IoError::NoAnswer)));
    }

    pub(in crate::shard) fn command_done(
        &mut self,
        from: NodeId,
        generation: Generation,
        request: RequestId,
        answer: Answer,
    ) {
        let Some(command) = self.commands.open.get(&request) else { return };
        // An answer to another card ends nothing: what the command was sent with last may have it done yet, over what
        // this node writes when it takes this for the end.
        if self.primary_of(command.volume) != from || command.sent_with != Some(generation) {
            return;
        }
        match answer.result {
            // The card is being attached again; the command follows it.
            Err(IoError::NotAttached) => {}
            Err(IoError::Busy) => self.pause_command(request),
            _ => self.end_command(request, answer),
        }
    }

    /// The primary has not got the command: no room, or it was lost.
    fn pause_command(&mut self, request: RequestId) {
        let Some(command) = self.commands.open.get_mut(&request) else { return };
        let pause = command.pause;
        command.pause = (pause * 2).min(self.timing.busy.1);
        command.refused = true;
        self.stats.retries += 1;
        self.wake_command(request, pause);
    }

    fn end_command(&mut self, request: RequestId, answer: Answer) {
        let Answer { stamp, persistence, result, turn, bounds } = answer;
        let Some(command) = self.take_command(request) else { return };
        let blocks = command.change.blocks(self.config.block_bytes);
        let id = command.volume;
        let place = self.place(blocks.start);
        let grant = Grant { turn, held: place.bit(), bounds };
        // What the answer grants is held since the command arrived, unless it was released meanwhile.
        let held = !blocks.is_empty()
            && (self.take_grant(id, place, grant) || self.volumes.get(&id).is_some_and(|v| !v.confirms()));
        if let Some(card) = self.volumes.get_mut(&id).map(|volume| &mut volume.card) {
            if !blocks.is_empty() {
                card.held.wrote(place, stamp);
            }
            for index in blocks.clone().filter(|_| held) {
                self.reached.note(Limit::OwnWrites, !card.wrote(index, stamp));
            }
        }
        let policy_tells = self.volumes.get(&id).is_some_and(|v| !v.confirms());
        let lives = [command.sent_under, command.sent_with].map(|card| card.map(Generation::life));
        // By an earlier primary, perhaps, and others may have written since.
        let was_done = !id.is_plain() && lives[0] != lives[1] && !makes(Mistake::KeepRepeated);
        let is_known = result.is_ok() && command.client.is_some() && !was_done;
        let is_latest = !command.overtaken && held;
        for index in blocks {
            let block = BlockId::new(id, index);
            let alone = self.commands.is_alone(block);
            self.end_writing(request, block, is_known.then_some((&command.change, command.payload)));
            if policy_tells {
                self.with_policy(id, |policy, cx| policy.keep_consistency(cx, block, cx.me()));
            }
            if alone && is_known && is_latest {
                self.keep_written(block, &command.change, command.payload, false);
            }
        }
        self.put_back(command.payload);
        if let Some(token) = command.client {
            self.tell_done(token, persistence, result);
        }
        self.start_later_commands(Hindrance::Slots(id));
        self.send_followers(request);
    }

    /// One command less changes the block. When there is none, it can be read again.
    fn end_writing(&mut self, request: RequestId, block: BlockId, done: Option<(&Change, Payload)>) {
        let alone = self.commands.is_alone(block) || makes(Mistake::PatchAfterOther);
        let Some(writing) = self.commands.writing.get_mut(&block) else { return };
        writing.open.retain(|&open| open != request);
        if writing.open.is_empty() {
            self.commands.writing.remove(&block);
            self.unlock_copy(block, done.filter(|_| alone));
            self.resume_block(block);
        }
    }

    /// A write has ended: its contents go into the copy that was locked, or the copy goes.
    pub(in crate::shard) fn unlock_copy(&mut self, block: BlockId, done: Option<(&Change, Payload)>) {
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
