//! One placement group whose columns are copies of each other.
//!
//! There is a [`Group`] at each node that has a column, one for each start of its process. One of them is the primary: it orders
//! the group's commands, writes to all columns, and tells a client that a write is done when every column in sync has it. Which node that
//! is, and which columns are in sync, says the group's [`Map`], which a register keeps and which changes by compare-and-set only.
//!
//! | file | noun |
//! |---|---|
//! | `map` | which node orders the group's writes, and which columns have all of them |
//! | `map_bytes` | a map as the register holds it |
//! | `exclusivity` | which card has the volume for itself, as it is kept beside the map |
//! | `extents` | ranges of bytes |
//! | `change` | what a change of the map has done, for people |
//! | `origins` | which commands were applied |
//! | `fence` | what keeps two primaries apart |
//! | `message` | what nodes say to each other |
//! | `io` | what the driver does |
//! | `column` | a column at its node: what it takes, from which primary |
//! | `primary` | the primary, from the first message of its term to the last |
//! | `primary::commands` | which command of a client begins when, and which is not done once more |
//! | `primary::reconcile` | columns in sync made the same when a term begins |
//! | `primary::fill` | the column that is being filled, and what it has missed |
//! | `primary::wish` | changes of the map that the primary wants |
//! | `primary::repair` | units that do not fit their checksums, written anew from another column |
//! | `mistakes` | deliberate ones, for the tests and the model |
//!
//! # Invariants
//!
//! - **M1** One epoch, one primary, one set of columns in sync: by the register.
//! - **M2** A write is acknowledged when every column in sync has it in place.
//! - **M3** A column becomes in sync only by *admit*, in an epoch in which it got every write, and after all before were copied
//!   to it and made durable.
//! - **M4** Only a primary serves or acknowledges whose term all columns in sync are sealed for, while it has the right.
//! - **M5** A column takes nothing of a term below the one it is sealed for, which is durable before the primary is told.
//! - **M6** When a primary serves, no earlier one has the right: some column in sync had promised it, and the promise is over.
//! - **M7** A card of an earlier primary is void before a later one writes.
//! - **M9** No range that was missed is cleared but after a confirmed copy of it, when the map with the column that missed it in sync
//!   has been opened.
//! - **M10** A flush is answered when every column in sync *then* has made durable all that was complete before it. A column that is
//!   about to be admitted counts.
//!
//! M8 is of parity.
//!
//! # What the driver owes
//!
//! - Time is that of one clock that does not stop while the process does. What comes out is delivered at once, or
//!   [`Group::serves`] is asked again before.
//! - A region that [`Work::Write`] makes dirty stays so until its [`Output::Release`] *and* a sync of the disk. It is not enough that
//!   it was synced: a write that another column has not got is known by nothing else after a restart.
//! - After a proposal the answer [`Answer::Read`] is given only when the register can take that proposal no more, as a
//!   proposer of `cards-register` does.
//! - A disk is not brought back from an old copy while the map calls its column in sync. (One that is stale may be: the map
//!   knows since when.) Being sealed would hide how old it is.
//! - A process that was killed writes no more to its disk when the next one opens it.

mod change;
mod column;
mod exclusivity;
mod extents;
mod fence;
mod io;
mod map;
mod map_bytes;
mod message;
pub mod mistakes;
mod origins;
mod primary;
#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::mem;

use cards_core::{Duration, Instant, NodeId};

use column::{Column, Outdated};
use fence::Right;
use io::Outputs;
use mistakes::{Made, Mistake};
use primary::{HandOver, Primary};

pub use change::{Change, DropCause};
pub use exclusivity::KeptExclusivity;
pub use extents::{EXTENTS_MAX, Extent, Extents};
pub use fence::GroupTiming;
pub use io::{Answer, Command, CommandError, Disk, Marks, Op, Output, Record, Token, Work, WorkError};
pub use map::{COLUMNS_MAX, Map, MapColumn, MapError, Member, Placement, State, Term};
pub use map_bytes::{MAP_BYTES_MAX, MapBytesError};
pub use message::{Memory, Message, Report};
pub use origins::{CLIENTS_MAX, Client, ORIGINS_MAX, Origin, Origins};
pub use primary::Size;

/// A group at a node that has one of its columns.
///
/// A driver calls one of the methods with the present time, then [`Group::poll`] until there is no output, and
/// [`Group::timeout`] at [`Group::next_timeout`].
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Group<P> {
    me: Member,
    timing: GroupTiming,
    size: Size,
    made: Made,
    column: Column,
    primary: Option<Primary<P>>,
    /// What it has copied in its earlier times as the primary, in bytes.
    copied: u64,
    /// Beacons that it has sent in these times: acknowledgements of them may come late, and are of no later ones.
    beacons: u64,
    asked: Asked,
    /// What the proposal does that is open, if that is told.
    change: Option<Change>,
    /// By the last map: columns in sync that are before the own one in the order in which they look for a new primary.
    rank: u32,
    /// The register is not read before.
    look_after: Instant,
    /// The last primary that has said that it serves no more, in which term, and when that was heard.
    left: Option<(Member, Term, Instant)>,
    /// The term of the last map that the register was found to hold.
    known: Term,
    /// The last term in which this process was primary and gave it up, or another one was it: no map up to this one is led, however late it comes.
    retired: Option<Term>,
    /// See [`Group::outlived`].
    outlived: Option<NodeId>,
    /// See [`Group::place`].
    placements: Vec<Placement>,
    out: Outputs<P>,
}

/// What the register was asked.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Asked {
    Nothing,
    Read,
    Propose(Map),
    /// What became of a proposal is not known: it is read.
    Doubt(Map),
    /// The same; it is read again at this time.
    Retry(Map, Instant),
}

impl<P: Clone> Group<P> {
    /// The group as process `me` finds it on its disk.
    #[must_use]
    pub fn new(me: Member, disk: Disk, size: Size, timing: GroupTiming, now: Instant) -> Self {
        Self::making(me, disk, size, timing, now, Made::default())
    }

    /// The same with a deliberate mistake.
    #[cfg(feature = "mistakes")]
    #[must_use]
    pub fn with_mistake(
        me: Member,
        disk: Disk,
        size: Size,
        timing: GroupTiming,
        now: Instant,
        mistake: Mistake,
    ) -> Self {
        Self::making(me, disk, size, timing, now, Made::new(mistake))
    }

    fn making(me: Member, disk: Disk, size: Size, timing: GroupTiming, now: Instant, made: Made) -> Self {
        Self {
            me,
            timing,
            size,
            made,
            column: Column::new(me.node, disk, timing, made, now),
            primary: None,
            copied: 0,
            beacons: 0,
            asked: Asked::Nothing,
            change: None,
            rank: 0,
            look_after: now,
            left: None,
            known: Term::default(),
            retired: None,
            outlived: None,
            placements: Vec::new(),
            out: Outputs::new(me.node),
        }
    }

    /// Bytes of the group's columns, as far as this one has grown.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.size.bytes
    }

    /// The own column has so many bytes on its disk now. What is behind its end is zero at all columns until each has as many: so
    /// a fill that has begun misses nothing, and one that begins copies at most zeroes to a column that has fewer.
    pub fn grow(&mut self, bytes: u64) {
        if self.made.is(Mistake::FillAsBefore) {
            return;
        }
        self.size.bytes = self.size.bytes.max(bytes);
        if let Some(primary) = &mut self.primary {
            primary.grow(self.size);
        }
    }

    /// A column that has fewer bytes from the beginning.
    #[cfg(test)]
    pub(crate) const fn shrink(&mut self, bytes: u64) {
        self.size.bytes = bytes;
    }

    /// Whether this node may tell anything to the group's clients now.
    #[must_use]
    pub fn serves(&self, now: Instant) -> bool {
        self.primary.as_ref().is_some_and(|primary| primary.serves(now))
    }

    /// The map that this process is the primary of.
    #[must_use]
    pub fn map(&self) -> Option<&Map> {
        self.primary.as_ref().map(|primary| &primary.map)
    }

    /// Until when no other process serves the group, if this one has its map: copies that are good now are good until then.
    #[must_use]
    pub fn right_ends(&self) -> Option<Instant> {
        self.primary.as_ref().map(Primary::right_ends)
    }

    /// The persistence life of what this primary serves: an epoch, another one as soon as writes that were acknowledged and not flushed
    /// may be lost. A flush of what was written in another life fails. Of no primary, nothing is known.
    #[must_use]
    pub fn life(&self) -> Option<u64> {
        self.primary.as_ref().map(Primary::life)
    }

    /// Nothing was written in this life yet, as far as is known: cards of earlier primaries may have what is lost now, so that nothing
    /// is read before they are void.
    #[must_use]
    pub fn is_new_life(&self) -> bool {
        self.primary.as_ref().is_some_and(Primary::is_new_life)
    }

    /// The disk of this column was put back to what it was before the map's columns in sync were sealed, or has something that a command has
    /// replaced: whatever the map says, it is used only after it has been filled from another one.
    #[must_use]
    pub const fn is_outdated(&self) -> bool {
        self.column.outdated.is_some()
    }

    /// The epoch of which the disk of this column is an image, if by this map it was put back to one from before the columns in sync were sealed
    /// for a later epoch. A person may force it; else it is used only after it has been filled.
    #[must_use]
    pub fn put_back(&self, map: &Map) -> Option<u64> {
        let own = map.column_at(self.me.node).and_then(|number| map.column(number))?;
        let is_in_sync = own.disk == self.column.disk && own.state == State::Sync;
        (is_in_sync && self.column.is_behind(map)).then_some(self.column.record.sealed_epoch)
    }

    /// Columns in sync that this process, as the primary, waits for, and that do not answer, by number: the machines of all that do have lost their
    /// power, and with it perhaps what those have. A person may force one that is there.
    #[must_use]
    pub fn awaited(&self, now: Instant) -> Vec<u8> {
        self.primary.as_ref().map(|primary| primary.awaited(now, &self.column)).unwrap_or_default()
    }

    /// The node whose process was the primary before this one, which took over because it had heard nothing of it for a promise: nobody
    /// need wait for its word that it uses no copies. Its right has ended in that time; and so have the leases of cards that an
    /// earlier primary had granted it, because these are no longer than a promise allows, or it had been the primary for longer than they
    /// can last. (It may have won its map, and stood still before it knew.)
    #[must_use]
    pub fn outlived(&self) -> Option<NodeId> {
        self.primary.as_ref().and(self.outlived)
    }

    /// Bytes that this process, as the primary, has copied to columns that had missed them, whether or not these have them by now.
    #[must_use]
    pub fn copied(&self) -> u64 {
        self.copied + self.primary.as_ref().map_or(0, Primary::copied)
    }

    /// The next thing to do.
    pub fn poll(&mut self) -> Option<Output<P>> {
        self.out.queue.pop_front()
    }

    /// A command of the core, or of a client by way of it.
    pub fn command(&mut self, now: Instant, token: Token, command: Command<P>) {
        match &mut self.primary {
            Some(primary) => primary.command(now, token, command, &mut self.out, &self.column),
            None => self.out.push(Output::Done { token, result: Err(CommandError::NotPrimary) }),
        }
        self.settle(now);
    }

    /// The cards of the last primary are void: writes may begin.
    pub fn cards_void(&mut self, now: Instant) {
        if let Some(primary) = &mut self.primary {
            primary.cards_void(now);
        }
        self.settle(now);
    }

    /// Leaves the group to another node, when all commands that have begun are done. Others wait, for that node.
    pub fn hand_over(&mut self, now: Instant, to: Member) {
        if let Some(primary) = &mut self.primary {
            primary.hand_over(HandOver { to, leaves: false });
        }
        self.settle(now);
    }

    /// The process ends soon. As the primary it leaves the group to `heir`, as [`Self::hand_over`] does, and its column with it; without
    /// one it goes on, because nobody else can. Else its column takes nothing any more, and the primary drops it. A driver calls this again until
    /// the map says so, or it has no more time: then others find out by its silence.
    pub fn leave(&mut self, now: Instant, heir: Option<Member>) {
        match (&mut self.primary, heir) {
            (Some(primary), Some(to)) => primary.hand_over(HandOver { to, leaves: true }),
            (Some(_), None) => {}
            (None, _) => self.column.end(&mut self.out),
        }
        self.settle(now);
    }

    /// The disk of the column answers nothing, as the driver has found, or does again. A group that asks nothing of it does not wait to find
    /// out: it is left to columns whose disks answer, as when it had waited.
    pub fn disk_hangs(&mut self, now: Instant, hangs: bool) {
        self.column.hangs = hangs;
        self.settle(now);
    }

    /// The changes of the set of columns that placement wants now, instead of those before. The primary carries them out in their
    /// order, one at a time, as soon as the map can change so; what is done already, or cannot be done, is passed over. They are
    /// forgotten when a proposal was not taken: a driver tells them again, as of then.
    pub fn place(&mut self, now: Instant, wanted: Vec<Placement>) {
        self.placements = wanted;
        self.settle(now);
    }

    /// The register holds a map of this term, in which another process is the primary: this one is not, if its map is older.
    pub fn overtaken(&mut self, now: Instant, term: Term) {
        if self.primary.as_ref().is_some_and(|primary| primary.map.term < term) {
            self.step_down(now);
        }
        self.retired = self.retired.max(Some(term));
        self.settle(now);
    }

    /// A message has arrived.
    pub fn receive(&mut self, now: Instant, from: NodeId, message: Message<P>) {
        self.deliver(now, from, message);
        self.settle(now);
    }

    /// The disk of the own column has noted which regions are dirty. A driver says so before it tells that a write has ended which
    /// has waited for that.
    pub fn marked(&mut self, marks: Marks) {
        self.column.marks = marks.max(self.column.marks);
    }

    /// An operation of the own column has ended: with the bytes, if it was a read.
    pub fn done(&mut self, now: Instant, op: Op, result: Result<Option<P>, WorkError>) {
        if let Some(purpose) = self.out.ops.remove(&op) {
            self.column.done(now, purpose, result, &mut self.out);
        }
        self.settle(now);
    }

    /// The register has answered.
    pub fn register(&mut self, now: Instant, answer: Answer) {
        match (mem::replace(&mut self.asked, Asked::Nothing), answer) {
            (Asked::Propose(map), Answer::Taken) => self.taken(now, map),
            (Asked::Propose(map) | Asked::Doubt(map), Answer::Read(found)) => {
                if found == map {
                    self.taken(now, map);
                } else {
                    self.not_taken();
                    self.found(now, found);
                }
            }
            // Also one that was not taken: it may have been before, by an answer that was lost, and was replaced since. The map says both at
            // once, what became of it and what is there.
            (Asked::Propose(map), Answer::NotTaken | Answer::Unknown) => {
                self.asked = Asked::Doubt(map);
                self.out.push(Output::ReadMap);
            }
            (Asked::Doubt(map), _) => self.asked = Asked::Retry(map, now + self.timing.resend),
            (Asked::Read, Answer::Read(map)) => self.found(now, map),
            (Asked::Nothing | Asked::Read, _) => {}
            (Asked::Retry(map, at), _) => self.asked = Asked::Retry(map, at),
        }
        self.settle(now);
    }

    /// When [`Group::timeout`] is wanted.
    #[must_use]
    pub fn next_timeout(&self, now: Instant) -> Instant {
        let role = match (&self.primary, &self.asked) {
            (Some(primary), _) => primary.next_timeout(),
            (None, Asked::Nothing) => self.looks_at(),
            (None, _) => Instant::NEVER,
        };
        let retry = if let Asked::Retry(_, at) = &self.asked { *at } else { Instant::NEVER };
        role.min(retry).min(self.column.next_timeout(now).unwrap_or(Instant::NEVER))
    }

    /// Time has passed.
    pub fn timeout(&mut self, now: Instant) {
        match mem::replace(&mut self.asked, Asked::Nothing) {
            Asked::Retry(map, at) if at <= now => {
                self.asked = Asked::Doubt(map);
                self.out.push(Output::ReadMap);
            }
            asked => self.asked = asked,
        }
        self.column.go_on_sealing(now, false, &mut self.out);
        if let Some(primary) = &mut self.primary {
            primary.tick(now, &mut self.out);
        } else if self.looks_at() <= now && matches!(self.asked, Asked::Nothing) {
            self.look_after = now + self.timing.lease;
            self.read();
        }
        self.settle(now);
    }

    /// When the register is asked for a new primary: the present one has not been heard of for a promise, or has said that it serves no more.
    fn looks_at(&self) -> Instant {
        let missed = self.column.heard + self.patience();
        let left = self.column.sealed.as_ref().and_then(|map| self.left_at(map)).unwrap_or(Instant::NEVER);
        self.look_after.max(missed.min(left) + self.timing.rank_delay * self.rank)
    }

    /// When this map's primary said that it serves no more, if it has.
    fn left_at(&self, map: &Map) -> Option<Instant> {
        self.left.filter(|(member, term, _)| (*member, *term) == (map.primary, map.term)).map(|(.., at)| at)
    }

    /// The column behind the primary's looks at once, and the others in the order of the map.
    fn rank_by(&self, map: &Map) -> u32 {
        let (Some(own), Some(primary)) = (map.column_at(self.me.node), map.column_at(map.primary.node))
        else {
            return 0;
        };
        let count = map.columns.len();
        let after = |column: u8| (usize::from(column) + count - usize::from(primary) - 1) % count;
        map.in_sync().filter(|&column| after(column) < after(own)).count() as u32
    }

    /// A primary that was not heard of for so long may be replaced.
    fn patience(&self) -> Duration {
        let is_hasty = self.made.is(Mistake::SealWithinPromise);
        if is_hasty { self.timing.beacon() } else { self.timing.promise() }
    }

    /// The map is what this process has proposed, and has heard no answer of.
    fn has_proposed(&self, map: &Map) -> bool {
        match &self.asked {
            Asked::Propose(proposed) | Asked::Doubt(proposed) | Asked::Retry(proposed, _) => proposed == map,
            Asked::Nothing | Asked::Read => false,
        }
    }

    fn read(&mut self) {
        self.asked = Asked::Read;
        self.out.push(Output::ReadMap);
    }

    fn propose(&mut self, mut map: Map, change: Option<Change>) {
        if let Some(primary) = self.primary.as_ref().filter(|primary| primary.is_open()) {
            map.opened = primary.map.term.epoch;
        }
        self.out.push(Output::Propose(map.clone()));
        (self.asked, self.change) = (Asked::Propose(map), change);
    }

    fn deliver(&mut self, now: Instant, from: NodeId, message: Message<P>) {
        match message {
            Message::Seal(map) => {
                if self.primary.as_ref().is_some_and(|primary| primary.map.term < map.term) {
                    self.step_down(now);
                }
                self.rank = self.rank_by(&map);
                self.column.seal(now, *map, &mut self.out);
            }
            Message::Beacon { term, member, sequence, floor, marks } => {
                self.column.beacon(now, from, (term, marks), member, sequence, &mut self.out);
                self.column.stable(term, floor, &mut self.out);
            }
            Message::Get { .. }
            | Message::Verify { .. }
            | Message::Put { .. }
            | Message::Open { .. }
            | Message::Harden { .. }
            | Message::CaughtUp { .. } => self.column.request(from, message, &mut self.out),
            Message::Resigned { member, term } => {
                self.column.promise.release(member, term);
                self.left = Some((member, term, now));
                self.column.go_on_sealing(now, false, &mut self.out);
            }
            Message::HandOver(map) => {
                let is_me = map.primary == self.me;
                let is_here = map.primary.node == self.me.node && matches!(self.asked, Asked::Nothing);
                // A person has forced the column that this process is the primary with, which the register may know by a later membership.
                let is_forced = |primary: &Primary<P>| primary.map.term.generation < map.term.generation;
                if map.primary.node == self.me.node && self.primary.as_ref().is_some_and(is_forced) {
                    self.step_down(now);
                    // Nothing of the history that was given up is led any more, though the register's answer may come late.
                    let last = Term { epoch: map.term.epoch.saturating_sub(1), ..map.term };
                    self.retired = self.retired.max(Some(last));
                }
                if (is_me || is_here) && self.primary.is_none() {
                    self.found(now, *map);
                }
            }
            Message::Refused { term } => {
                if self.primary.as_ref().is_some_and(|primary| primary.map.term < term) {
                    self.step_down(now);
                }
            }
            Message::Here { disk, generation, in_sync_epoch, marks } => {
                if let Some(primary) = &mut self.primary {
                    primary.here(now, from, disk, generation, (in_sync_epoch, marks));
                }
            }
            message => {
                if let Some(primary) = &mut self.primary {
                    primary.receive(now, from, message, &mut self.out, &self.column);
                }
            }
        }
    }

    /// Goes on until there is nothing to do at this time.
    fn settle(&mut self, now: Instant) {
        loop {
            while let Some(message) = self.out.own.pop_front() {
                self.deliver(now, self.me.node, message);
            }
            let Some(primary) = &mut self.primary else { return };
            // One that has ended, or whose disk has failed, lacks nothing.
            if let Some(outdated) = primary.outdated_own().filter(|_| !self.column.failed) {
                self.column.outdated.get_or_insert(outdated);
            }
            if self.column.failed || self.column.outdated.is_some() || primary.hangs(now, &self.column) {
                self.step_down(now);
                continue;
            }
            primary.advance(now, &mut self.out, &self.column);
            self.column.stable(primary.map.term, primary.floor(), &mut self.out);
            if matches!(self.asked, Asked::Nothing)
                && let Some((map, change)) =
                    primary.next_map(now, &mut self.out, &self.column, &self.placements)
            {
                self.propose(map, change);
            }
            if self.out.own.is_empty() {
                return;
            }
        }
    }

    /// The register holds what this process has proposed.
    fn taken(&mut self, now: Instant, map: Map) {
        self.column.claims = None;
        self.change.take().into_iter().for_each(|change| self.out.push(Output::Changed(change)));
        let is_older = self.primary.as_ref().is_some_and(|primary| map.term < primary.map.term);
        let is_over = is_older || self.retired.is_some_and(|term| map.term <= term);
        if map.primary == self.me && is_over {
            return;
        }
        if map.primary != self.me {
            // The group may have come back meanwhile.
            if !is_older {
                self.step_down(now);
            }
            let to = map.primary.node;
            return self.out.send(to, Message::HandOver(Box::new(map)));
        }
        match &mut self.primary {
            // It was heard of before the register answered. To begin once more would give the numbers of writes that are open in the term
            // to others.
            Some(primary) if primary.map == map => {}
            Some(primary) => {
                // The node may have got a card in the term that ends, and that one's word is waited for.
                if map.since == map.term.epoch && primary.has_opened() {
                    self.outlived = None;
                }
                primary.begin(now, map, &mut self.out);
            }
            None => self.lead(now, map),
        }
    }

    /// It does not.
    fn not_taken(&mut self) {
        self.column.claims = None;
        self.change = None;
        // The register may know better which columns are wanted: without end the same proposal would come again.
        self.placements.clear();
        if let Some(primary) = &mut self.primary {
            primary.not_taken();
        }
    }

    /// The register holds this map.
    fn found(&mut self, now: Instant, map: Map) {
        if let Some(primary) = &self.primary {
            if primary.map.term < map.term {
                self.step_down(now);
            }
            return;
        }
        let own = map
            .column_at(self.me.node)
            .filter(|number| map.column(*number).is_some_and(|column| column.disk == self.column.disk));
        let Some(own) = own else { return };
        self.rank = self.rank_by(&map);
        let state = map.columns[usize::from(own)].state;
        self.column.hear_of_force(&map);
        if map.primary == self.me {
            if self.retired.is_none_or(|term| term < map.term) {
                // Its own claim may be heard of before the register answers. Since the claim this column has promised nothing, so that what was true
                // of the last primary then is true now.
                if !self.has_proposed(&map) {
                    self.outlived = None;
                }
                self.lead(now, map);
            } else if state == State::Sync && self.column.rests() && matches!(self.asked, Asked::Nothing) {
                // It has left the group to others because its disk did not answer. That does by now, and nobody has taken over.
                self.claim(now, map);
            }
        } else if state == State::Sync && self.column.is_behind(&map) {
            // Another column has all writes. Its primary finds out when it seals this one.
            self.column.outdated = Some(Outdated::Image);
        } else if state == State::Sync || self.made.is(Mistake::TakeOverStale) {
            let known = self.known.max(self.column.refused_below());
            self.known = map.term.max(known);
            if known != Term::default() && known < map.term && map.primary.node != self.me.node {
                // Another process has taken over. It is given the time that it needs to seal this column.
                self.column.heard = now;
            } else {
                self.claim(now, map);
            }
        } else if !self.column.failed && self.column.rests() {
            let Record { generation, in_sync_epoch, .. } = self.column.record;
            let (disk, marks) = (self.column.disk, self.column.marks);
            // A process that the map names may be gone, and an earlier primary go on because no column was sealed for the map.
            for column in map.in_sync() {
                let node = map.columns[usize::from(column)].node;
                self.out.send(node, Message::Here { disk, generation, in_sync_epoch, marks });
            }
        }
    }

    /// Proposes this process for the next primary, if nothing forbids it.
    fn claim(&mut self, now: Instant, map: Map) {
        // No other process of this node is the primary any more, nor will be: either it is over, or this one was named wrongly.
        let is_own = map.primary.node == self.me.node;
        let is_missed = self.column.heard + self.patience() <= now;
        let has_left = self.left_at(&map).is_some();
        let is_silent = is_own || is_missed || has_left;
        let is_promised = self.column.promise.blocks(now, self.me.node).is_some()
            && !self.made.is(Mistake::SealWithinPromise);
        let is_unfit = self.column.failed || self.column.hangs || self.column.outdated.is_some();
        if !is_silent || is_promised || is_unfit {
            return;
        }
        let mut map = map;
        if self.made.is(Mistake::TakeOverStale)
            && let Some(own) = map.column_at(self.me.node)
        {
            map.columns[usize::from(own)].state = State::Sync;
        }
        // Its disk says what all columns in sync were sealed for: alone, whatever itself was; else what it has opened.
        let Record { generation, sealed_epoch, in_sync_epoch, .. } = self.column.record;
        if generation == map.term.generation {
            let is_alone = map.in_sync().count() == 1;
            map.opened = map.opened.max(if is_alone { sealed_epoch } else { in_sync_epoch });
        }
        if let Ok(next) = map.taken_over(self.me) {
            self.column.claims = Some(next.term);
            // The column was sealed for that one's map a promise ago, or longer. Since then it has promised nothing to an earlier primary,
            // whose right was over a promise later, and leases that this one had granted by then, a grace after that.
            let (promise, grace) = (self.timing.promise(), self.timing.grace);
            let are_over =
                is_missed && (grace <= promise || self.column.sealed_since + promise + grace <= now);
            self.outlived =
                self.column.sealed.as_ref().filter(|_| are_over && !is_own).map(|sealed| sealed.primary.node);
            let (from, silent) = (map.primary, (!has_left).then(|| now.since(self.column.heard)));
            self.propose(next, Some(Change::TookOver { from, silent }));
        }
    }

    fn lead(&mut self, now: Instant, map: Map) {
        let (timing, made, size) = (self.timing, self.made, self.size);
        let own = (Right::after(self.beacons), self.column.marks);
        self.primary = Some(Primary::new(self.me, timing, made, size, (map, own), now, &mut self.out));
    }

    /// Another process is the primary, or will be.
    fn step_down(&mut self, now: Instant) {
        let Some(primary) = self.primary.take() else { return };
        self.copied += primary.copied();
        self.beacons = primary.beacons();
        let (member, term) = (self.me, primary.map.term);
        let nodes: Vec<NodeId> = primary.others().collect();
        for node in nodes {
            self.out.send(node, Message::Resigned { member, term });
        }
        self.retired = self.retired.max(Some(term));
        self.column.heard = now;
        self.out.push(Output::Stopped);
    }
}
