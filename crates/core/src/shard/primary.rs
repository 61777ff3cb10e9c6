//! The primary: who orders the writes to a volume, is asked for locks, and answers commands. It is a role, which a node has
//! for a [`term`]; for a plain disk, the node that has the disk, for each of its lives.
//!
//! Its state is about the cards of other nodes: who has one, what each may have copies of ([`directory`]), which of their
//! [`commands`] are under way and how they were answered ([`answered`]), what is left to its next life ([`marks`]), and whether that
//! is durable ([`seal`]).
//! Clients of its own node need no lock and no card of its making: no write begins without it. [`revoke`] bounds what is remembered of
//! them; [`handover`] is who gives readers what was written.

pub(super) mod answered;
pub(super) mod commands;
pub(super) mod directory;
pub(super) mod handover;
pub(super) mod marks;
pub(super) mod queue;
pub(super) mod revoke;
pub(super) mod seal;
mod term;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::ops::Range;

use self::answered::{Answered, Outcome};
use self::commands::DiskCommand;
use self::directory::Directory;
use self::marks::Marks;
use self::revoke::Revocations;
use self::seal::{Quiet, Seal};
use super::{Limit, Limits, Shard};
use crate::ids::{Generation, NodeId, OpId, PgId, Stamp};
use crate::mistakes::{Mistake, makes};
use crate::persistence::{Loss, Persistence};
use crate::time::Instant;
use crate::timers::Timer;
use crate::volume::Access;

/// See the module's head.
pub(super) struct Primary {
    /// The cards of other nodes.
    pub(super) cards: BTreeMap<NodeId, PeerCard>,
    /// Before all writes of this term.
    pub(super) first: Stamp,
    pub(super) last_stamp: Stamp,
    /// Writes that have begun and are not complete.
    pub(super) open: BTreeMap<Stamp, OpId>,
    /// The blocks that they write.
    pub(super) writing: BTreeSet<u32>,
    /// Which cards may have copies of what, and what was written last.
    pub(super) directory: Directory,
    /// What is made room with there.
    revocations: Revocations,
    /// What was answered to the cards' commands lately.
    pub(super) answered: Answered,
    /// The persistence life of the disk, and what a flush is told that was not flushed in it.
    pub(super) persistence: Persistence,
    pub(super) loss: Loss,
    /// A sync has failed, and that is not durable yet: what is answered then.
    pub(super) unjudged: Option<Vec<(DiskCommand, Outcome)>>,
    /// How many have failed, less the new lives that this shard was told of since, its own or others'.
    pub(super) syncs_failed: u32,
    /// The disk may have lost contents that cards of an earlier term still use.
    pub(super) held: bool,
    /// No other node is the primary before; see [`crate::Input::Right`].
    pub(super) right: Instant,
    /// No card of an earlier term is left: until then nothing is written.
    pub(super) writes_allowed: bool,
    seal: Seal,
    /// Since when nothing is written, and how much the disk was given.
    quiet: Quiet,
    /// When some of it is forgotten.
    pub(super) forget_at: Instant,
    /// Blocks that were written in this life, and by whom, as long as there are few.
    touched: BTreeMap<u32, Touched>,
    touched_max: usize,
    /// Who has written anything in this life.
    writers: Option<Touched>,
}

/// Another node's card.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PeerCard {
    pub(super) generation: Generation,
    /// It may not write (any more).
    pub(super) reads_only: bool,
    /// Nobody can acknowledge anything on its behalf.
    pub(super) lost: bool,
    /// It has said something as this card: what its node had before is void there.
    pub(super) is_begun: bool,
}

/// Whose writes have touched something in this life.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Touched {
    /// Those of one process.
    By(Writer),
    /// Those of several.
    ByMany,
}

/// A process that writes: a node, and which life of it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Writer {
    pub(super) node: NodeId,
    pub(super) life: u64,
}

impl Touched {
    /// What is true after another write.
    fn and(self, writer: Writer) -> Self {
        if self == Self::By(writer) { self } else { Self::ByMany }
    }
}

impl Primary {
    /// `first` is before all writes of this term, and after all of earlier ones; no other node is the primary before `right`.
    fn new(
        limits: Limits,
        (first, right): (Stamp, Instant),
        marks: Option<&Marks>,
        writes_allowed: bool,
    ) -> Self {
        Self {
            cards: BTreeMap::new(),
            first,
            last_stamp: first,
            open: BTreeMap::new(),
            writing: BTreeSet::new(),
            directory: Directory::new(first, marks, &limits),
            revocations: Revocations::default(),
            answered: Answered::new(limits.node_lives),
            persistence: Persistence::default(),
            loss: Loss::default(),
            unjudged: None,
            syncs_failed: 0,
            held: false,
            right,
            writes_allowed,
            seal: Seal::Open,
            quiet: Quiet::default(),
            forget_at: Instant::NEVER,
            touched: BTreeMap::new(),
            touched_max: limits.touched,
            writers: None,
        }
    }

    /// Entries that belong to something under way or to a card that is gone. (The directory's are no more than they may be.)
    pub(super) fn table_entries(&self) -> usize {
        let unjudged = self.unjudged.as_ref().map_or(0, Vec::len);
        self.writing.len() + self.open.len() + self.answered.resting() + self.revocations.len() + unjudged
    }

    /// Nobody waits for room in the directory, or was asked to make some.
    pub(super) fn has_room(&self) -> bool {
        self.revocations.len() == 0
    }

    /// All writes up to this one are complete.
    pub(super) fn through(&self) -> Stamp {
        self.open.first_key_value().map_or(self.last_stamp, |(&open, _)| Stamp(open.0 - 1))
    }

    /// What a node is told of complete writes: it has a card, which was asked about all of them. Until it has said something as
    /// this card, it may be using one of an earlier term, which was not asked about those in between.
    pub(super) fn through_for(&self, node: NodeId) -> Stamp {
        let is_asked = |card: &PeerCard| !card.lost && card.is_begun;
        if self.cards.get(&node).is_some_and(is_asked) { self.through() } else { Stamp(0) }
    }

    /// The node has a card that acknowledges what it is asked to.
    pub(super) fn has_live_card(&self, node: NodeId) -> bool {
        self.cards.get(&node).is_some_and(|card| !card.lost)
    }

    /// This is the node's card.
    pub(super) fn is_current(&self, node: NodeId, generation: Generation) -> bool {
        self.cards.get(&node).is_some_and(|card| card.generation == generation)
    }

    /// This is the node's card, and it acknowledges what it is asked to.
    pub(super) fn is_live(&self, node: NodeId, generation: Generation) -> bool {
        self.is_current(node, generation) && self.has_live_card(node)
    }

    pub(super) fn lets_write(&self, node: NodeId) -> bool {
        self.cards.get(&node).is_some_and(|card| !card.reads_only || makes(Mistake::LetReadersWrite))
    }

    /// Whether there is room for all of them.
    fn touch(&mut self, blocks: Range<u32>, writer: Writer) -> bool {
        self.writers = Some(self.writers.map_or(Touched::By(writer), |before| before.and(writer)));
        for block in blocks {
            if self.touched.len() < self.touched_max {
                let touched = self.touched.entry(block).or_insert(Touched::By(writer));
                *touched = touched.and(writer);
            }
        }
        self.touched.len() < self.touched_max
    }

    /// Nobody else than `writer` has written the blocks in this life. No, if that is not known any more.
    pub(super) fn is_untouched(&self, blocks: Range<u32>, writer: Writer) -> bool {
        let own = Touched::By(writer);
        makes(Mistake::RepeatAfterRestart)
            || self.writers.is_none_or(|writers| writers == own)
            || self.touched.len() < self.touched_max && self.touched.range(blocks).all(|(_, &by)| by == own)
    }

    /// A write's place in the order of writes.
    fn open_write(&mut self, op: OpId) -> Stamp {
        self.last_stamp.0 += 1;
        self.open.insert(self.last_stamp, op);
        self.last_stamp
    }

    /// The write is on the disk, or has failed: it is complete either way.
    pub(super) fn close_write(&mut self, blocks: Range<u32>, stamp: Stamp) {
        self.open.remove(&stamp);
        for index in blocks {
            self.writing.remove(&index);
        }
    }
}

impl Shard {
    /// The volume's primary, if it is at this node.
    pub(super) fn primary(&self, id: PgId) -> Option<&Primary> {
        self.volumes.get(&id)?.primary.as_deref()
    }

    pub(super) fn primary_mut(&mut self, id: PgId) -> Option<&mut Primary> {
        self.volumes.get_mut(&id)?.primary.as_deref_mut()
    }

    pub(super) fn card_attached(
        &mut self,
        id: PgId,
        (node, life): (NodeId, u64),
        generation: Generation,
        access: Access,
    ) {
        let now = self.now;
        if let Some(primary) = self.primary_mut(id) {
            let card = PeerCard { generation, reads_only: !access.may_write(), lost: false, is_begun: false };
            primary.cards.insert(node, card);
            let is_over = primary.answered.begin(node, life, now);
            primary.revocations.forget(node);
            self.reached.note(Limit::NodeLives, is_over);
        }
    }

    /// A node has said something as this card.
    pub(super) fn card_speaks(&mut self, id: PgId, node: NodeId, generation: Generation) {
        if let Some(card) = self.peer_card(id, node).filter(|card| card.generation == generation) {
            card.is_begun = true;
        }
    }

    fn peer_card(&mut self, id: PgId, node: NodeId) -> Option<&mut PeerCard> {
        self.primary_mut(id)?.cards.get_mut(&node)
    }

    pub(super) fn card_fenced(&mut self, id: PgId, node: NodeId) {
        if let Some(card) = self.peer_card(id, node).filter(|_| !makes(Mistake::ForgetFence)) {
            card.reads_only = true;
        }
    }

    pub(super) fn card_lost(&mut self, id: PgId, node: NodeId) {
        if let Some(card) = self.peer_card(id, node) {
            (card.reads_only, card.lost) = (true, true);
        }
    }

    pub(super) fn card_detached(&mut self, id: PgId, node: NodeId) {
        let now = self.now;
        let Some(primary) = self.primary_mut(id) else { return };
        primary.cards.remove(&node);
        primary.revocations.forget(node);
        primary.answered.rest(node, now);
        self.grant_waiting(id);
        self.forget_answers(id);
        let ops: Vec<OpId> =
            self.disk_commands.iter().filter(|(_, c)| c.volume == id).map(|(&op, _)| op).collect();
        for op in ops {
            self.confirmed(op, node);
        }
    }

    /// Forgets what cards were answered that are gone for so long that nothing can be repeated.
    pub(super) fn forget_answers(&mut self, id: PgId) {
        let (now, patience) = (self.now, self.timing.replies);
        let Some(primary) = self.primary_mut(id) else { return };
        let before = core::mem::replace(&mut primary.forget_at, Instant::NEVER);
        let next = primary.answered.forget_resting(now, patience);
        primary.forget_at = next.unwrap_or(Instant::NEVER);
        self.timers.clear(before, Timer::Answers(id));
        if let Some(next) = next {
            self.timers.set(next, Timer::Answers(id));
        }
    }

    /// A loss of power is a write by nobody, which takes effect when no card can use the contents that are gone.
    pub(super) fn hold(&mut self, id: PgId) {
        if let Some(primary) = self.primary_mut(id) {
            primary.held = !primary.writes_allowed;
        }
    }

    /// See [`crate::Input::Right`].
    pub(super) fn right_lasts(&mut self, id: PgId, until: Instant) {
        let now = self.now;
        let Some(primary) = self.primary_mut(id) else { return };
        let was_over = core::mem::replace(&mut primary.right, until) <= now;
        if was_over && now < until {
            self.resume_volume(id);
        }
    }

    /// No card of an earlier term is left.
    pub(super) fn writes_allowed(&mut self, id: PgId) {
        let Some(primary) = self.primary_mut(id) else { return };
        primary.writes_allowed = true;
        if core::mem::take(&mut primary.held) {
            self.resume_volume(id);
        }
        self.start_held_commands();
    }

    /// A write's place in the order of writes. From here on its blocks are served to nobody.
    pub(super) fn open_write(&mut self, id: PgId, blocks: Range<u32>, (writer, op): (Writer, OpId)) -> Stamp {
        let place = self.place(blocks.start);
        let Some(primary) = self.primary_mut(id) else { return Stamp(0) };
        let stamp = primary.open_write(op);
        let has_room = primary.touch(blocks.clone(), writer);
        let is_full = !makes(Mistake::ForgetBegun) && primary.directory.write(place, stamp);
        primary.writing.extend(blocks);
        self.reached.note(Limit::Touched, !has_room);
        self.reached.note(Limit::DirectoryRegions, is_full);
        stamp
    }

    /// Panics when the bound of a block is below a write to it that has begun.
    pub(super) fn check_bounds(&self) {
        for command in self.disk_commands.values() {
            let (Some(stamp), Some(primary)) = (command.stamp, self.primary(command.volume)) else {
                continue;
            };
            for index in command.change.blocks(self.config.block_bytes) {
                let place = self.place(index);
                let bound = primary.directory.bounds(place.region).of(place.segment);
                assert!(bound >= stamp, "{bound:?} is the bound of block {index}, which {stamp:?} writes");
            }
        }
    }

    /// A card has no copy left of what a write changes, or of what was revoked, and releases something with its word.
    pub(super) fn invalidate_ack(
        &mut self,
        from: NodeId,
        id: PgId,
        generation: Generation,
        stamp: Stamp,
        index: u32,
        (released, turn): (u64, u64),
    ) {
        let place = self.place(index);
        let Some(primary) = self.primary_mut(id).filter(|primary| primary.is_live(from, generation)) else {
            return;
        };
        let is_gone = primary.directory.release((from, generation), place.region, released, turn);
        match primary.open.get(&stamp) {
            Some(&op) => self.confirmed(op, from),
            None if stamp == Stamp(0) => self.revoked(id, from, place.region),
            None => {}
        }
        if is_gone {
            self.grant_waiting(id);
        }
    }
}
