//! What the disk node must not forget of the cards of its volumes, and what waits until that is durable.
//!
//! A card that was away for longer than its lease may send a command again only if nobody was let past it. The journal
//! says so: it has each card without which this node went on, written before it went on, and who could write in which
//! life, written before the card was told that it is attached. It also names the card that has the volume for itself, and
//! the node that could write last: who had the volume for itself may go on only if that is it.
//!
//! A group of copies remembers by itself which commands were applied. Of its cards only the [`Exclusivity`] is kept, by whoever
//! keeps the group's map, so that each primary knows it.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use super::card::Card;
use super::{Control, ControlOutput};
use crate::ids::{Generation, NodeId, PgId, Token};
use crate::io::Input;
use crate::message::{ControlMessage, Refusal};
use crate::mistakes::{Mistake, makes};
use crate::time::Instant;
use crate::volume::Access;

/// What is kept of the cards of one volume. Default: nothing is known.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CardJournal {
    /// The life of the disk node in which it was begun. Of cards of earlier lives nothing is known.
    pub since: u64,
    /// The last card of each node without which the disk node went on.
    pub dropped: BTreeMap<NodeId, Generation>,
    /// The last life of the disk node in which each node had a card that may write.
    pub writers: BTreeMap<NodeId, u64>,
    /// The card that has the volume for itself, and where it is.
    pub exclusive: Option<(NodeId, Generation)>,
    /// The node that has had a card that may write last, if it has any more or not, and its first one since another node
    /// was given one. Of two processes that go by one name nothing is said.
    pub writer: Option<(NodeId, Generation)>,
}

/// A change of a [`CardJournal`], which is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CardNote {
    /// The disk node goes on without this card.
    Dropped(NodeId, Generation),
    /// This card is attached.
    Attached(NodeId, Generation, Access),
    /// Nobody has the volume for itself any more.
    Released,
    /// Another process speaks for the node than the one that could write, which may live on.
    Parted(NodeId),
}

impl CardJournal {
    /// Takes a change of the journal that was begun in the life `since`. No, if it is none.
    pub fn apply(&mut self, since: u64, note: CardNote) -> bool {
        if self.since != since {
            *self = Self { since, ..Self::default() };
        }
        match note {
            CardNote::Dropped(node, card) => self.dropped.insert(node, card) != Some(card),
            CardNote::Attached(node, card, access) => {
                let life = card.life();
                let mut is_new = access.may_write() && self.writers.insert(node, life) != Some(life);
                if access.may_write() && self.writer.is_none_or(|(last, _)| last != node) {
                    self.writer = Some((node, card));
                    is_new = true;
                }
                let exclusive = (access == Access::Exclusive).then_some((node, card));
                core::mem::replace(&mut self.exclusive, exclusive) != exclusive || is_new
            }
            CardNote::Released => self.exclusive.take().is_some(),
            CardNote::Parted(node) => {
                let named = self.writer.filter(|&(last, _)| last == node);
                self.writer = self.writer.filter(|_| named.is_none());
                named.is_some()
            }
        }
    }

    /// No term that it speaks of is later than `epoch`, or is this one.
    fn is_before(&self, epoch: u64) -> bool {
        let dropped = self.dropped.values().copied();
        let named = self.exclusive.into_iter().chain(self.writer).map(|(_, generation)| generation);
        let cards = dropped.chain(named).map(Generation::life);
        self.since != 0
            && cards.chain(self.writers.values().copied()).chain([self.since]).all(|life| life < epoch)
    }
}

/// Who has a group of copies for itself. Default: no node, and none may go on for an earlier card.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Exclusivity {
    /// The card that has the volume for itself, and where it is.
    pub card: Option<(NodeId, Generation)>,
    /// The node that had the volume for itself last, and its first card since another node was given one that may write. None as
    /// soon as another node is given one. Of a later part of a volume: the card of the first part in whose name it was given that.
    pub writer: Option<(NodeId, Generation)>,
    /// Of a later part: the card of the first part in whose name a node had it for itself last. It stays, whatever is given then.
    pub rank: Generation,
}

impl Exclusivity {
    /// The exclusivity that follows when the cards have changed to these.
    fn after(self, cards: &CardJournal, rank: Generation) -> Self {
        let was_exclusive =
            |writer: &(NodeId, Generation)| cards.exclusive.is_some() || self.writer == Some(*writer);
        Self { card: cards.exclusive, writer: cards.writer.filter(was_exclusive), rank }
    }

    /// The cards of a term that begins with it.
    fn cards(self, epoch: u64) -> CardJournal {
        // Cards of another group have other numbers.
        let writer = self.writer.filter(|_| self.rank == Generation::default());
        let mut generations = self.card.into_iter().chain(writer).map(|(_, generation)| generation);
        if generations.any(|generation| generation.life() >= epoch) {
            return CardJournal { since: epoch, ..CardJournal::default() };
        }
        CardJournal { since: epoch, exclusive: self.card, writer: self.writer, ..CardJournal::default() }
    }
}

/// What a primary knows of the cards of earlier terms, which also says what it keeps of its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KnownCards {
    /// The journal, of which every change is kept ([`ControlOutput::Journal`]).
    Journal(CardJournal),
    /// The exclusivity, and nothing else ([`ControlOutput::Exclusivity`]).
    Exclusivity(Exclusivity),
}

/// The journals of all volumes.
#[derive(Default)]
pub(super) struct Journals {
    volumes: BTreeMap<PgId, Kept>,
    /// The line of all volumes whose journal is kept, or of which nothing is.
    line: Line,
    /// The number of the last exclusivity. The numbers of a volume count on over terms, so that a late answer confirms nothing.
    last_exclusivity: u64,
}

/// What waits until a change is durable.
#[derive(Default)]
struct Line {
    /// The number of the last change, and up to which all are durable.
    last: u64,
    durable: u64,
    /// What waits for the change of this number.
    waiting: VecDeque<(u64, Then)>,
}

impl Line {
    fn is_durable(&self) -> bool {
        self.durable == self.last && self.waiting.is_empty()
    }

    /// Takes out what waits for nothing any more, the first of it.
    fn pop(&mut self) -> Option<Then> {
        let durable = self.durable;
        self.waiting.pop_front_if(|(number, _)| *number <= durable).map(|(_, then)| then)
    }

    /// All up to that number is durable.
    fn confirm(&mut self, number: u64) {
        self.durable = self.durable.max(number.min(self.last));
    }

    /// Forgets what waits for a volume. Returns who waits for a card of this node.
    fn end(&mut self, volume: PgId) -> Vec<Token> {
        let mut tokens = Vec::new();
        self.waiting.retain(|(_, then)| {
            if let Then::Own(token, of, _) = then
                && *of == volume
            {
                tokens.extend(*token);
            }
            then.volume() != Some(volume)
        });
        tokens
    }
}

/// What the driver keeps of a volume's cards.
enum Keeping {
    Nothing,
    Journal,
    /// The one that it was given last. Each volume has a line of its own: who keeps it may be away, and others do not wait for that.
    Exclusivity(Exclusivity, Line),
}

struct Kept {
    keeping: Keeping,
    now: CardJournal,
    /// [`CardJournal::writers`] of the lives before this one.
    before: BTreeMap<NodeId, u64>,
    /// Until then nobody but this node, which had the volume for itself, is attached.
    claim: Option<(NodeId, Instant)>,
    /// See [`Exclusivity::rank`].
    rank: Generation,
}

/// What is done when the journal is durable.
pub(super) enum Then {
    Shards(Input),
    Send(NodeId, ControlMessage),
    /// A card of this node's own volume is attached.
    Own(Option<Token>, PgId, Generation),
}

impl Then {
    /// The volume that it is about.
    fn volume(&self) -> Option<PgId> {
        match self {
            Self::Own(_, volume, _)
            | Self::Send(
                _,
                ControlMessage::Attached { volume, .. } | ControlMessage::Expired { volume, .. },
            )
            | Self::Shards(
                Input::CardAttached { volume, .. }
                | Input::CardFenced { volume, .. }
                | Input::CardLost { volume, .. }
                | Input::CardDetached { volume, .. }
                | Input::RepeatFrom { volume, .. },
            ) => Some(*volume),
            Self::Send(..) | Self::Shards(_) => None,
        }
    }
}

/// No more may wait. A node repeats what it wants.
const WAITING_MAX: usize = 4096;

impl Journals {
    /// A term of a volume's primary begins. `until`: when no card of an earlier one can be alive.
    pub(super) fn begin(&mut self, volume: PgId, epoch: u64, known: Option<KnownCards>, until: Instant) {
        let rank = match &known {
            Some(KnownCards::Exclusivity(known)) => known.rank,
            _ => Generation::default(),
        };
        let (keeping, now) = match known {
            None => (Keeping::Nothing, None),
            Some(KnownCards::Journal(journal)) => {
                (Keeping::Journal, Some(journal).filter(|journal| journal.is_before(epoch)))
            }
            Some(KnownCards::Exclusivity(known)) => {
                (Keeping::Exclusivity(known, Line::default()), Some(known.cards(epoch)))
            }
        };
        let now = now.unwrap_or_else(|| CardJournal { since: epoch, ..CardJournal::default() });
        let claim = now.exclusive.filter(|_| !makes(Mistake::ForgetExclusive)).map(|(node, _)| (node, until));
        self.volumes.insert(volume, Kept { keeping, before: now.writers.clone(), claim, now, rank });
    }

    /// The term ends, and with it what waits to be done in it. Returns who waits for a card of this node.
    pub(super) fn end(&mut self, volume: PgId) -> Vec<Token> {
        let mut tokens = self.line.end(volume);
        if let Some(Kept { keeping: Keeping::Exclusivity(_, mut line), .. }) = self.volumes.remove(&volume) {
            tokens.extend(line.end(volume));
        }
        tokens
    }

    fn line(&mut self, volume: Option<PgId>) -> &mut Line {
        let kept = volume.and_then(|volume| self.volumes.get_mut(&volume));
        match kept.map(|kept| &mut kept.keeping) {
            Some(Keeping::Exclusivity(_, line)) => line,
            _ => &mut self.line,
        }
    }

    /// All changes that what is said of the volume waits for are durable.
    pub(super) fn are_durable(&mut self, volume: PgId) -> bool {
        self.line(Some(volume)).is_durable()
    }

    pub(super) fn are_full(&mut self, volume: PgId) -> bool {
        self.line(Some(volume)).waiting.len() >= WAITING_MAX
    }

    /// Who had the volume for itself before this life began, and may still believe so.
    pub(super) fn claim(&self, volume: PgId, now: Instant) -> Option<NodeId> {
        self.volumes.get(&volume)?.claim.filter(|&(_, until)| now < until).map(|(node, _)| node)
    }

    /// The node that could write last, and since which card no other node was given one that may.
    pub(super) fn writer(&self, volume: PgId) -> Option<(NodeId, Generation)> {
        self.volumes.get(&volume)?.now.writer
    }

    /// See [`Exclusivity::rank`].
    pub(super) fn rank(&self, volume: PgId) -> Generation {
        self.volumes.get(&volume).map_or(Generation::default(), |kept| kept.rank)
    }

    /// The node that has the volume for itself.
    pub(super) fn exclusive(&self, volume: PgId) -> Option<NodeId> {
        self.volumes.get(&volume)?.now.exclusive.map(|(node, _)| node)
    }

    /// The node has nobody to fear for commands that it has first sent under this card of an earlier life, or a later one.
    pub(super) fn repeat_from(&self, volume: PgId, node: NodeId) -> Generation {
        let Some(Kept { now, before, .. }) = self.volumes.get(&volume) else { return Generation(u64::MAX) };
        let others = before.iter().filter(|&(&other, _)| other != node);
        let life = others.map(|(_, &life)| life).chain([now.since]).max().unwrap_or(now.since);
        let dropped = now.dropped.get(&node).map_or(Generation(0), |dropped| Generation(dropped.0 + 1));
        Generation(life << 20).max(dropped)
    }
}

impl Control {
    /// Notes something in a volume's journal. What must not happen before is said with [`Self::when_durable`].
    fn note(&mut self, volume: PgId, note: CardNote) {
        let journals = &mut self.desk.journals;
        let Some(kept) = journals.volumes.get_mut(&volume) else { return };
        let since = kept.now.since;
        let is_new = kept.now.apply(since, note);
        match &mut kept.keeping {
            Keeping::Nothing => {}
            Keeping::Journal if !is_new => {}
            Keeping::Journal => {
                journals.line.last += 1;
                let number = journals.line.last;
                self.outputs.push_back(ControlOutput::Journal { number, volume, since, note });
            }
            Keeping::Exclusivity(last, line) => {
                let exclusivity = last.after(&kept.now, kept.rank);
                if core::mem::replace(last, exclusivity) != exclusivity {
                    journals.last_exclusivity += 1;
                    let number = journals.last_exclusivity;
                    line.last = number;
                    let output = ControlOutput::Exclusivity { number, volume, epoch: since, exclusivity };
                    self.outputs.push_back(output);
                }
            }
        }
    }

    /// A card is gone: whoever waits for it goes on without it, once that is noted.
    pub(super) fn note_dropped(&mut self, volume: PgId, node: NodeId, card: Generation, access: Access) {
        // Who only reads has no command that could be done again.
        if access.may_write() {
            self.note(volume, CardNote::Dropped(node, card));
        }
    }

    /// A card is attached, once that is noted. `rank`: see [`super::card::Wish::rank`].
    pub(super) fn note_attached(
        &mut self,
        volume: PgId,
        node: NodeId,
        (card, rank): (Generation, Generation),
        access: Access,
    ) {
        let ranked = self.desk.journals.volumes.get_mut(&volume).filter(|_| rank > Generation::default());
        if let Some(kept) = ranked {
            if access == Access::Exclusive {
                kept.rank = kept.rank.max(rank);
            }
            if access.may_write() && kept.now.writer.is_none_or(|(last, _)| last != node) {
                kept.now.writer = Some((node, rank));
            }
        }
        self.note(volume, CardNote::Attached(node, card, access));
        self.end_claim(volume);
    }

    /// A node gives up a volume that it had for itself, maybe in an earlier life of this node.
    pub(super) fn note_detached(&mut self, volume: PgId, node: NodeId, card: Option<Generation>) {
        let kept = self.desk.journals.volumes.get(&volume).and_then(|kept| kept.now.exclusive);
        if kept.is_some_and(|(holder, theirs)| holder == node && card.is_none_or(|card| card == theirs)) {
            self.note(volume, CardNote::Released);
            self.end_claim(volume);
        }
    }

    /// Another process speaks for the node: what the last one could write says nothing of it.
    pub(super) fn note_parted(&mut self, node: NodeId) {
        let of_node = |kept: &Kept| kept.now.writer.is_some_and(|(last, _)| last == node);
        let volumes = self.desk.journals.volumes.iter().filter(|(_, kept)| of_node(kept));
        let volumes: Vec<PgId> = volumes.map(|(&volume, _)| volume).collect();
        volumes.into_iter().for_each(|volume| self.note(volume, CardNote::Parted(node)));
    }

    fn end_claim(&mut self, volume: PgId) {
        if let Some(kept) = self.desk.journals.volumes.get_mut(&volume) {
            kept.claim = None;
        }
    }

    /// Does something as soon as all that was noted is durable, in the order in which it is said.
    pub(super) fn when_durable(&mut self, then: Then) {
        let line = self.desk.journals.line(then.volume());
        match line.is_durable() {
            true => self.carry_out(then),
            false => line.waiting.push_back((line.last, then)),
        }
    }

    /// See [`super::ControlInput::Journaled`].
    pub(super) fn journaled(&mut self, number: u64) {
        self.desk.journals.line.confirm(number);
        while let Some(then) = self.desk.journals.line.pop() {
            self.carry_out(then);
        }
    }

    /// See [`super::ControlInput::ExclusivityKept`].
    pub(super) fn exclusivity_kept(&mut self, volume: PgId, number: u64) {
        let exclusive_line = |journals: &mut Journals| match journals.volumes.get_mut(&volume)?.keeping {
            Keeping::Exclusivity(_, ref mut line) => {
                line.confirm(number);
                line.pop()
            }
            Keeping::Nothing | Keeping::Journal => None,
        };
        while let Some(then) = exclusive_line(&mut self.desk.journals) {
            self.carry_out(then);
        }
    }

    fn carry_out(&mut self, then: Then) {
        match then {
            Then::Shards(input) => self.push_shards(input),
            Then::Send(node, message) => {
                if let ControlMessage::Attached { volume, generation, .. } = message {
                    // It is asked for again.
                    if !self.has_right(volume) {
                        return;
                    }
                    // Its lease may run from here on.
                    self.promise(volume, node, generation);
                }
                self.push_send(node, message);
            }
            Then::Own(token, volume, generation) => {
                let card = self.cards.get(&volume).filter(|card| card.generation == Some(generation));
                let access = card.map(Card::access);
                if let Some(access) = access {
                    self.push_shards(Input::Attached { volume, generation, access });
                }
                let result = if access.is_some() { Ok(generation) } else { Err(Refusal::NoAnswer) };
                if let Some(token) = token {
                    self.outputs.push_back(ControlOutput::AttachDone { token, volume, result });
                }
            }
        }
    }
}
