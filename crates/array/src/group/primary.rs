//! The primary of a group, from the moment when the register names it until another one takes over.
//!
//! | stage | leaves when |
//! |---|---|
//! | `Sealing` | all columns that get writes are sealed; one in sync that says nothing is dropped, and the next term begins |
//! | `Reconciling` | what was not complete is the same at all columns in sync |
//! | `Opening` | all of them have noted which commands were applied and what others have missed |
//! | `Reading` | cards of the last primary are void; reads are served |
//! | `Serving` | the map changes: the next term begins with `Sealing` |

mod commands;
mod fill;
mod mask;
mod reconcile;
mod repair;
mod rests;
mod wish;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::mem;

use cards_core::{Duration, Instant, NodeId};

use super::change::DropCause;
use super::column::Column;
use super::extents::{Extent, Extents};
use super::fence::{GroupTiming, Right};
use super::io::{Command, Marks, Output, Outputs, Token};
use super::map::{COLUMNS_MAX, Map, MapColumn, Member, State, Term};
use super::message::{Message, Report};
use super::mistakes::{Made, Mistake};
use super::origins::{Origin, Origins};
use fill::{Fill, FillStep};
pub(super) use fill::{SYNCED, TOLD};
use mask::Mask;
use repair::Mended;
use rests::Rests;
pub(super) use wish::HandOver;

/// What a group is, beside its map.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Size {
    /// Bytes of a column.
    pub bytes: u64,
    /// Bytes of one copy from a column to another: whole units.
    pub copy_bytes: u64,
    /// Bytes that have a checksum of their own; `bytes` are whole units.
    pub unit_bytes: u64,
}

/// Bytes of writes that are open at the columns, beyond which others wait: a column that needs longer for so many than
/// [`GroupTiming::put_timeout`] is dropped, and one on a slow disk is not, however much there is to write.
pub(super) const OPEN_MAX: u64 = 16 << 20;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Stage {
    Sealing,
    Reconciling,
    Opening,
    Reading,
    Serving,
}

/// What bytes are moved for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Reason {
    Command(Token),
    Reconcile,
    Fill,
    /// They are compared with their checksums.
    Verify(Token),
    /// What is damaged at a column is mended, for the read or write of this number, which has found that.
    Repair {
        of: u64,
        column: u8,
        how: Mend,
    },
}

/// What a repair is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Mend {
    /// Damaged units are written as another column has them.
    Units,
    /// All units of a write are written as a column has them that has done it.
    Whole,
    /// A write is sent once more: the units that it has to read are mended.
    Again,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Put<P> {
    extent: Extent,
    payload: P,
    origin: Option<Origin>,
    reason: Reason,
    targets: Mask,
    confirmed: Mask,
    /// Columns that did not do it, and the damaged unit that each has to read for it.
    damage: Vec<(u8, Extent)>,
    /// Damage that was found at other columns when these were to be mended from there.
    lacks: Vec<(u8, Extent)>,
    /// Columns that may have got a part of it, with a unit.
    halves: Mask,
    /// How often columns were mended, and could not do it all the same.
    tries: u8,
    /// All columns that must have it have it, or none of them could do it.
    is_complete: bool,
    has_failed: bool,
    /// It is a part of a command: until that is done, its column does not know which commands it has.
    is_half: bool,
    since: Instant,
    again: Again,
}

impl<P> Put<P> {
    fn new(
        now: Instant,
        timing: &GroupTiming,
        (extent, payload, origin): (Extent, P, Option<Origin>),
        reason: Reason,
        targets: Mask,
    ) -> Self {
        Self {
            extent,
            payload,
            origin,
            reason,
            targets,
            confirmed: Mask::default(),
            damage: Vec::new(),
            lacks: Vec::new(),
            halves: Mask::default(),
            tries: 0,
            is_complete: false,
            has_failed: false,
            is_half: false,
            since: now,
            again: Again::first(now, timing),
        }
    }
}

/// A write that has not begun.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Write<P> {
    extent: Extent,
    payload: P,
    origin: Option<Origin>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Get {
    extent: Extent,
    from: u8,
    reason: Reason,
    since: Instant,
    again: Again,
    /// It waits for a repair of its column: columns that do not have what is damaged there.
    repair: Option<Mask>,
    /// What was repaired last.
    mended: Option<Extent>,
    /// Columns whose repair did not help.
    passed: Mask,
}

/// When what costs bytes is sent again: after a pause that doubles each time, up to [`Again::LONGEST`] times the first one. A disk or a link
/// that is slow would else be given all of it several times.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Again {
    at: Instant,
    pause: Duration,
}

impl Again {
    const LONGEST: u32 = 4;

    fn first(now: Instant, timing: &GroupTiming) -> Self {
        Self { at: now + timing.resend, pause: timing.resend }
    }

    /// Whether it is sent again now.
    fn is_due(&mut self, now: Instant, timing: &GroupTiming) -> bool {
        let is_due = self.at <= now;
        if is_due {
            self.pause = (self.pause * 2).min(timing.resend * Self::LONGEST);
            self.at = now + self.pause;
        }
        is_due
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Harden {
    /// None: the column being filled is to be admitted.
    token: Option<Token>,
    since: Instant,
    confirmed: Mask,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Primary<P> {
    me: Member,
    timing: GroupTiming,
    made: Made,
    size: Size,
    pub(super) map: Map,
    own: u8,
    stage: Stage,
    /// When the stage began, if that is `Sealing` or `Opening`.
    stage_since: Instant,
    right: Right,
    beacon_at: Instant,
    resend_at: Instant,
    /// When a column said something last.
    heard: [Instant; COLUMNS_MAX],
    /// Columns whose disks answer nothing, as their nodes say.
    hung: Mask,
    /// When the own disk has ended a read last, and a write.
    own_ended: [Instant; 2],
    /// Columns that have failed, or were started again since they were sealed.
    broken: Mask,
    /// Of these, columns that are not in sync, whatever the map says.
    outdated: Mask,
    /// Columns that have failed, or were started again, or are being filled and were silent: nothing is awaited of them in this term.
    given_up: Mask,
    rests: Rests,
    /// Why columns are dropped in this term.
    causes: [Option<DropCause>; COLUMNS_MAX],
    reports: BTreeMap<u8, Report>,
    /// What the own column was sealed for when this process took over first, and in which epoch that was.
    sealed_before: Option<(Term, u64)>,
    opened: Mask,
    source: u8,
    reconcile: VecDeque<Extent>,
    /// Columns differ in the commands that they know: until the term is open, a copy may make or undo one.
    is_doubtful: bool,
    missed: Extents,
    origins: Origins,
    /// The same, and those that all columns have applied since: with what is open, all that any column may know.
    applied: Origins,
    next_number: u64,
    puts: BTreeMap<u64, Put<P>>,
    gets: BTreeMap<u64, Get>,
    /// What the disks of columns have counted, as these have said since they were in sync.
    marks: [Marks; COLUMNS_MAX],
    /// What is being compared with checksums.
    verifies: BTreeMap<Token, Extent>,
    /// Repairs that have ended.
    mended: Vec<Mended>,
    hardens: BTreeMap<u64, Harden>,
    /// Writes that were open when a term began, until all columns agree: these need not be at all of them.
    reopened: Vec<Origin>,
    /// Commands that something open is in the way of.
    waiting: VecDeque<(Token, Command<P>)>,
    /// Writes that wait because so many bytes are open, and for nothing else: none overlaps another one.
    held: VecDeque<(Token, Write<P>)>,
    /// Results that are told while the right lasts.
    results: VecDeque<(Token, Option<P>)>,
    fill: Option<Fill>,
    /// Bytes that were copied to columns that had missed them.
    copied: u64,
    /// When the register is told that the map was opened; none if that is all that this map says.
    confirm_at: Option<Instant>,
    /// The map that lets a column in that is back, when writes have ended.
    lets_in: Option<Map>,
    /// Until then no write begins: another map is about to be proposed, or was not long ago.
    pauses: Option<Instant>,
    /// What the column that was admitted last had missed.
    caught_up: Extents,
    /// Cards of the last primary are void then.
    writes_at: Option<Instant>,
    hands_over: Option<HandOver>,
    /// A term of it was open: commands were taken.
    has_opened: bool,
    /// Which of them were applied is not known any more: it takes over anew.
    has_forgotten: bool,
    /// For a column that is back it takes over anew not before: one whose disk has failed says the same each time.
    anew_at: Instant,
    /// Nothing is served: the map that names another primary is proposed.
    is_silenced: bool,
}

impl<P: Clone> Primary<P> {
    pub(super) fn new(
        me: Member,
        timing: GroupTiming,
        made: Made,
        size: Size,
        (map, (right, own_marks)): (Map, (Right, Marks)),
        now: Instant,
        out: &mut Outputs<P>,
    ) -> Self {
        let mut marks = [Marks(0); COLUMNS_MAX];
        // Before it has done any write: others forget what an earlier process has said of the disk.
        if let Some(own) = map.column_at(me.node) {
            marks[usize::from(own)] = own_marks;
        }
        let mut primary = Self {
            me,
            timing,
            made,
            size,
            map: map.clone(),
            own: 0,
            stage: Stage::Sealing,
            stage_since: now,
            right,
            beacon_at: now,
            resend_at: now,
            heard: [now; COLUMNS_MAX],
            hung: Mask::default(),
            own_ended: [now; 2],
            broken: Mask::default(),
            outdated: Mask::default(),
            given_up: Mask::default(),
            rests: Rests::default(),
            causes: [None; COLUMNS_MAX],
            reports: BTreeMap::new(),
            sealed_before: None,
            opened: Mask::default(),
            source: 0,
            reconcile: VecDeque::new(),
            is_doubtful: false,
            missed: Extents::default(),
            origins: Origins::default(),
            applied: Origins::default(),
            next_number: 1,
            puts: BTreeMap::new(),
            gets: BTreeMap::new(),
            marks,
            verifies: BTreeMap::new(),
            mended: Vec::new(),
            hardens: BTreeMap::new(),
            reopened: Vec::new(),
            waiting: VecDeque::new(),
            held: VecDeque::new(),
            results: VecDeque::new(),
            fill: None,
            copied: 0,
            confirm_at: None,
            lets_in: None,
            pauses: None,
            caught_up: Extents::default(),
            writes_at: None,
            hands_over: None,
            has_opened: false,
            has_forgotten: false,
            anew_at: now,
            is_silenced: false,
        };
        primary.begin(now, map, out);
        primary.anew_at = now;
        primary
    }

    /// The own column has grown.
    pub(super) const fn grow(&mut self, size: Size) {
        self.size = size;
    }

    /// Its term is open: all columns in sync are sealed for it.
    pub(super) fn is_open(&self) -> bool {
        self.stage >= Stage::Reading
    }

    /// Commands were taken since it took over.
    pub(super) const fn has_opened(&self) -> bool {
        self.has_opened
    }

    /// Bytes that it has copied to columns that had missed them.
    pub(super) const fn copied(&self) -> u64 {
        self.copied
    }

    /// The number of the last beacon.
    pub(super) const fn beacons(&self) -> u64 {
        self.right.sequence()
    }

    /// A term begins. What is open goes on in it.
    pub(super) fn begin(&mut self, now: Instant, map: Map, out: &mut Outputs<P>) {
        self.own = map.column_at(self.me.node).unwrap_or_default();
        // A column that has left needs no range any more, and all others have everything.
        if map.is_whole() && map.retires_from(&self.map) {
            self.caught_up = [Extent { offset: 0, length: self.size.bytes }].into_iter().collect();
        }
        for (number, column) in map.columns.iter().enumerate() {
            let last = self.map.columns.get(number);
            let gets_writes = |state| matches!(state, State::Sync | State::Fill { .. });
            let goes_on = last.is_some_and(|last| last.disk == column.disk && gets_writes(last.state));
            if !goes_on {
                self.marks[number] = Marks(0);
            }
            let is_dropped = matches!(column.state, State::Stale { .. })
                && last.is_some_and(|last| gets_writes(last.state));
            if is_dropped && self.causes[number].is_some_and(|cause| cause.is_slow()) {
                self.rests.begin(now, number as u8, &self.timing);
            }
        }
        self.confirm_at = (!map.confirms(&self.map)).then(|| now + self.timing.confirm);
        self.map = map;
        (self.stage, self.stage_since) = (Stage::Sealing, now);
        self.heard = [now; COLUMNS_MAX];
        self.hung = Mask::default();
        self.broken = Mask::default();
        self.outdated = Mask::default();
        self.given_up = Mask::default();
        self.causes = [None; COLUMNS_MAX];
        if self.map.since == self.map.term.epoch {
            (self.has_opened, self.has_forgotten) = (false, false);
            self.anew_at = now + self.timing.lease;
        }
        self.reports.clear();
        self.opened = Mask::default();
        self.next_number = 1;
        (self.is_silenced, self.lets_in, self.pauses) = (false, None, None);
        let mut again = VecDeque::new();
        for put in mem::take(&mut self.puts).into_values().filter(|put| !put.is_complete) {
            if let Reason::Command(token) = put.reason {
                let Put { extent, payload, origin, .. } = put;
                self.reopened.extend(origin);
                again.push_back((token, Command::Write { extent, payload, origin }));
            }
        }
        for get in mem::take(&mut self.gets).into_values() {
            if let Reason::Command(token) = get.reason {
                again.push_back((token, Command::Read { extent: get.extent }));
            }
        }
        let verifies = mem::take(&mut self.verifies).into_iter();
        again.extend(verifies.map(|(token, extent)| (token, Command::Verify { extent })));
        self.mended.clear();
        let hardens = mem::take(&mut self.hardens).into_values();
        again.extend(hardens.filter_map(|harden| Some((harden.token?, Command::Flush))));
        let held = mem::take(&mut self.held).into_iter();
        again.extend(held.map(|(token, Write { extent, payload, origin })| {
            (token, Command::Write { extent, payload, origin })
        }));
        again.append(&mut self.waiting);
        self.waiting = again;
        // The column that was filled last is in sync, or has to be filled again.
        if let Some(fill) = self.fill.take()
            && self.map.column(fill.column).is_some_and(|column| column.state == State::Sync)
            && !self.made.is(Mistake::ClearWhenSent)
        {
            self.caught_up = fill.copied;
        }
        self.resend_at = now;
        self.tick(now, out);
    }

    /// Columns that have every acknowledged write, and one that may have become such a column.
    fn must(&self) -> Mask {
        self.map.in_sync().collect::<Mask>().with(self.filled(FillStep::Proposed))
    }

    /// Columns without which no write is complete.
    fn needed(&self) -> Mask {
        self.must().with(self.filled(FillStep::Hardening))
    }

    /// Columns that get every write.
    fn written(&self) -> Mask {
        self.map.written().collect::<Mask>().without(self.given_up)
    }

    fn node(&self, column: u8) -> NodeId {
        self.map.columns[usize::from(column)].node
    }

    /// Whether the primary may tell anything to its clients now.
    pub(super) fn serves(&self, now: Instant) -> bool {
        let has_right = now < self.right_ends() || self.made.is(Mistake::ServeWithoutRight);
        self.stage >= Stage::Reading && has_right && !self.is_silenced
    }

    /// The persistence life: all memories were lost in the epoch before, and with one of them perhaps what was not flushed.
    pub(super) const fn life(&self) -> u64 {
        self.origins.life()
    }

    /// No command was applied in this life before this primary's term.
    pub(super) fn is_new_life(&self) -> bool {
        self.origins.is_empty()
    }

    /// Until when no other process is the primary, whatever becomes of this one's messages.
    pub(super) fn right_ends(&self) -> Instant {
        let mut others: Vec<NodeId> = self
            .must()
            .columns()
            .filter(|column| *column != self.own)
            .map(|column| self.node(column))
            .collect();
        if let (Some(retired), Some(last)) = (self.retired_node(), others.last_mut()) {
            *last = retired;
        }
        self.right.ends(others.into_iter(), &self.timing)
    }

    /// By mistake: a node whose column has left.
    fn retired_node(&self) -> Option<NodeId> {
        let counts = self.made.is(Mistake::CountRetired);
        let is_retired = |column: &&MapColumn| column.state == State::None && column.node != self.me.node;
        counts.then(|| self.map.columns.iter().find(is_retired).map(|column| column.node)).flatten()
    }

    /// Writes go on: cards of the last primary are void.
    pub(super) const fn cards_void(&mut self, now: Instant) {
        if let Some(at) = &mut self.writes_at {
            *at = now;
        }
    }

    pub(super) const fn hand_over(&mut self, how: HandOver) {
        self.hands_over = Some(how);
    }

    pub(super) fn command(
        &mut self,
        now: Instant,
        token: Token,
        command: Command<P>,
        out: &mut Outputs<P>,
        column: &Column,
    ) {
        self.waiting.push_back((token, command));
        self.pump(now, out, column);
    }

    /// When [`Self::tick`] is wanted.
    pub(super) fn next_timeout(&self) -> Instant {
        let at = self.beacon_at.min(self.resend_at);
        self.writes_at.filter(|_| self.stage == Stage::Reading).map_or(at, |writes| at.min(writes))
    }

    /// Time has passed.
    pub(super) fn tick(&mut self, now: Instant, out: &mut Outputs<P>) {
        if self.beacon_at <= now {
            self.beacon_at = now + self.timing.beacon();
            let (term, member, floor) = (self.map.term, self.me, self.floor());
            let marks = self.marks[usize::from(self.own)];
            let sequence = self.right.beacon(now);
            for column in self.written().columns() {
                if column == self.own {
                    self.heard[usize::from(column)] = now;
                }
                out.send(self.node(column), Message::Beacon { term, member, sequence, floor, marks });
            }
            if let Some(retired) = self.retired_node() {
                out.send(retired, Message::Beacon { term, member, sequence, floor, marks });
            }
        }
        if self.resend_at <= now {
            self.resend_at = now + self.timing.resend;
            self.resend(now, out);
        }
        if self.stage == Stage::Reading && self.writes_at.is_some_and(|at| at <= now) {
            self.stage = Stage::Serving;
        }
    }

    /// Sends again what has no answer.
    fn resend(&mut self, now: Instant, out: &mut Outputs<P>) {
        match self.stage {
            Stage::Sealing => {
                for column in self.written().columns().filter(|column| !self.reports.contains_key(column)) {
                    out.send(self.node(column), Message::Seal(Box::new(self.map.clone())));
                }
            }
            Stage::Opening => self.send_open(out),
            Stage::Reconciling | Stage::Reading | Stage::Serving => {}
        }
        let timing = self.timing;
        let puts = self
            .puts
            .iter_mut()
            .filter_map(|(number, put)| put.again.is_due(now, &timing).then_some(*number));
        for number in puts.collect::<Vec<_>>() {
            self.send_put(number, &self.puts[&number], out);
        }
        let gets = self
            .gets
            .iter_mut()
            .filter(|(_, get)| get.repair.is_none())
            .filter_map(|(number, get)| get.again.is_due(now, &timing).then_some(*number));
        for number in gets.collect::<Vec<_>>() {
            self.send_get(number, &self.gets[&number], out);
        }
        for (number, harden) in &self.hardens {
            self.send_harden(*number, harden, out);
        }
    }

    fn send_put(&self, number: u64, put: &Put<P>, out: &mut Outputs<P>) {
        let targets = put.targets.without(put.confirmed).without(put.damaged());
        for column in targets.without(self.given_up).columns() {
            let Put { extent, payload, origin, .. } = put.clone();
            let (term, floor, missed) = (self.map.term, self.floor(), !self.map.is_whole());
            let doubtful = put.is_half || self.is_doubtful && !self.is_open();
            let put = Message::Put { term, number, floor, extent, payload, missed, doubtful, origin };
            out.send(self.node(column), put);
        }
    }

    fn send_get(&self, number: u64, get: &Get, out: &mut Outputs<P>) {
        let (term, extent) = (self.map.term, get.extent);
        let message = match get.reason {
            Reason::Verify(_) => Message::Verify { term, number, extent },
            _ => Message::Get { term, number, extent },
        };
        out.send(self.node(get.from), message);
    }

    fn send_harden(&self, number: u64, harden: &Harden, out: &mut Outputs<P>) {
        for column in self.harden_targets(harden).without(harden.confirmed).columns() {
            let admits = harden.token.is_none() && self.filled(FillStep::Hardening) != Mask::default();
            let (term, floor) = (self.map.term, self.floor());
            out.send(self.node(column), Message::Harden { term, number, floor, admits });
        }
    }

    fn send_open(&self, out: &mut Outputs<P>) {
        for column in self.written().without(self.opened).columns() {
            let (origins, missed) = (Box::new(self.origins.clone()), Box::new(self.missed.clone()));
            out.send(self.node(column), Message::Open { term: self.map.term, origins, missed });
        }
    }

    fn harden_targets(&self, harden: &Harden) -> Mask {
        let filled = self.filled(FillStep::Hardening);
        let targets = match harden.token {
            None => self.filled(FillStep::Syncing),
            Some(_) => self.must().with(filled),
        };
        if self.made.is(Mistake::AdmitBeforeHardened) { self.must() } else { targets }.without(self.given_up)
    }

    /// All writes up to this number are at all columns that get them.
    pub(super) fn floor(&self) -> u64 {
        self.puts.keys().next().copied().unwrap_or(self.next_number) - 1
    }

    /// A column has said something of this term.
    fn hear(&mut self, now: Instant, column: u8) {
        self.heard[usize::from(column)] = now;
        self.hung.set(column, false);
    }

    /// The answer of a column.
    pub(super) fn receive(
        &mut self,
        now: Instant,
        from: NodeId,
        message: Message<P>,
        out: &mut Outputs<P>,
        own: &Column,
    ) {
        let Some(column) = self.map.column_at(from) else { return };
        let term = self.map.term;
        if column == self.own {
            let [read, written] = &mut self.own_ended;
            match &message {
                Message::PutDone { .. } => *written = now,
                Message::Damaged { number, .. } if self.puts.contains_key(number) => *written = now,
                Message::Got { .. } | Message::Verified { .. } | Message::Damaged { .. } => *read = now,
                _ => {}
            }
        }
        match message {
            Message::BeaconAck { member, sequence, hangs } if member == self.me => {
                self.right.acknowledge(from, sequence);
                self.hear(now, column);
                self.hung.set(column, hangs);
                self.is_back(column);
            }
            Message::Waiting { term: of, hangs } if of == term => {
                self.hear(now, column);
                self.hung.set(column, hangs);
            }
            Message::Sealed { term: of, report } if of == term => {
                self.hear(now, column);
                self.is_back(column);
                self.rests.is_sealed(column);
                if self.stage == Stage::Sealing {
                    if column == self.own && self.map.since == term.epoch {
                        self.sealed_before.get_or_insert((report.sealed_before, term.epoch));
                    }
                    self.reports.insert(column, *report);
                }
            }
            Message::Opened { term: of } if of == term => {
                self.hear(now, column);
                self.opened.insert(column);
            }
            Message::Got { term: of, number, payload } if of == term => {
                self.hear(now, column);
                self.got(now, number, payload, out);
            }
            Message::Verified { term: of, number } if of == term => {
                self.hear(now, column);
                self.verified(number, column);
            }
            Message::Damaged { term: of, number, extent } if of == term => {
                self.hear(now, column);
                self.damaged(now, number, column, extent, out);
            }
            Message::PutDone { term: of, number, marks } if of == term => {
                self.hear(now, column);
                let counted = &mut self.marks[usize::from(column)];
                *counted = marks.max(*counted);
                if let Some(put) = self.puts.get_mut(&number) {
                    put.confirmed.insert(column);
                }
            }
            Message::Hardened { term: of, number } if of == term => {
                self.hear(now, column);
                if let Some(harden) = self.hardens.get_mut(&number) {
                    harden.confirmed.insert(column);
                }
            }
            Message::Restarted { term: of } if of == term => self.breaks(column, DropCause::Restarted),
            Message::Failed { term: of } if of == term => self.breaks(column, DropCause::Ended),
            Message::Outdated { term: of } if of == term => self.is_outdated(column),
            _ => {}
        }
        self.advance(now, out, own);
    }

    fn breaks(&mut self, column: u8, cause: DropCause) {
        self.broken.insert(column);
        self.causes[usize::from(column)] = Some(cause);
    }

    /// A column answers as none does that has ended: another process of its node is there, and what the last one said may have come late.
    fn is_back(&mut self, column: u8) {
        if self.broken.has(column) && self.causes[usize::from(column)] == Some(DropCause::Ended) {
            self.breaks(column, DropCause::Restarted);
        }
    }

    fn is_outdated(&mut self, column: u8) {
        self.outdated.insert(column);
        self.breaks(column, DropCause::Outdated);
    }

    /// Goes on as far as it can.
    pub(super) fn advance(&mut self, now: Instant, out: &mut Outputs<P>, own: &Column) {
        self.settle_puts();
        self.go_on_after_repairs(now, out);
        self.settle_hardens();
        if self.stage == Stage::Sealing && self.written().columns().all(|c| self.reports.contains_key(&c)) {
            self.reconcile();
        }
        if self.stage == Stage::Reconciling {
            self.go_on_reconciling(now, out);
        }
        if self.stage == Stage::Opening && self.opened.covers(self.written()) {
            self.stage = Stage::Reading;
            self.has_opened = true;
            self.reopened.clear();
            self.writes_at = Some(self.writes_at.unwrap_or(now + self.timing.grace));
            if self.made.is(Mistake::SkipGrace) {
                self.writes_at = Some(now);
            }
            out.push(Output::Serves(self.map.term));
            self.clear_missed(out);
            self.begin_fill(now, out);
            self.tick(now, out);
        }
        self.pump(now, out, own);
        while let Some((token, payload)) = self.serves(now).then(|| self.results.pop_front()).flatten() {
            out.push(Output::Done { token, result: Ok(payload) });
        }
    }

    /// Puts that are complete, or that nothing is awaited of any more.
    fn settle_puts(&mut self) {
        let (must, given_up) = (self.needed().without(self.given_up), self.given_up);
        let majority = self.made.is(Mistake::MajorityAcknowledges);
        let forgets = self.made.is(Mistake::ForgetFillWrites);
        let mut fill = self.fill.as_mut();
        let (results, applied, mended) = (&mut self.results, &mut self.applied, &mut self.mended);
        let unit = self.size.unit_bytes;
        let most = self.made.bounds().copied;
        self.puts.retain(|_, put| {
            let needed = put.targets.common(must);
            let enough = put.confirmed.covers(needed)
                || majority && 2 * put.confirmed.common(must).count() > must.count();
            if let Reason::Command(token) = put.reason
                && enough
                && !put.is_complete
            {
                put.is_complete = true;
                results.push_back((token, None));
            }
            let mut awaited = put.targets.without(given_up);
            if put.has_failed {
                awaited = awaited.without(put.damaged());
            }
            if forgets && put.is_complete {
                awaited = needed;
            }
            let is_open = !(put.confirmed.covers(awaited) || majority && put.is_complete);
            if !is_open
                && !put.has_failed
                && let Some(fill) = &mut fill
                && put.confirmed.has(fill.column)
            {
                // What is left out stays missed, and is copied once more after the next absence.
                fill.copied.insert_within(put.extent, most);
                if fill.told_by.is_some() {
                    fill.untold.insert_within(put.extent, most);
                    fill.untold_bytes += put.extent.length;
                }
                put.extent.inner(unit).into_iter().for_each(|written| fill.lacks.remove(written));
            }
            if let Some(origin) = put.origin.filter(|_| !is_open && !put.has_failed) {
                applied.insert(origin);
            }
            mended.extend(put.mended().filter(|_| !is_open));
            is_open
        });
    }

    fn settle_hardens(&mut self) {
        let mut done = Vec::new();
        for (number, harden) in &self.hardens {
            if harden.confirmed.covers(self.harden_targets(harden)) {
                done.push(*number);
            }
        }
        for number in done {
            match self.hardens.remove(&number).and_then(|harden| harden.token) {
                Some(token) => self.results.push_back((token, None)),
                None => {
                    if let Some(fill) = &mut self.fill {
                        fill.step = match fill.step {
                            FillStep::Syncing => FillStep::Copying,
                            step => step.max(FillStep::Hardened),
                        };
                    }
                }
            }
        }
    }

    fn get(&mut self, now: Instant, extent: Extent, how: (u8, Reason), out: &mut Outputs<P>) {
        self.get_numbered(now, extent, how, out);
    }

    /// The same, and its number.
    fn get_numbered(
        &mut self,
        now: Instant,
        extent: Extent,
        (from, reason): (u8, Reason),
        out: &mut Outputs<P>,
    ) -> u64 {
        let again = Again::first(now, &self.timing);
        let (since, passed) = (now, Mask::default());
        let get = Get { extent, from, reason, since, again, repair: None, mended: None, passed };
        let number = self.number();
        self.send_get(number, &get, out);
        self.gets.insert(number, get);
        number
    }

    fn put(&mut self, put: Put<P>, out: &mut Outputs<P>) {
        let number = self.number();
        self.puts.insert(number, put);
        self.send_put(number, &self.puts[&number], out);
    }

    fn harden(&mut self, now: Instant, token: Option<Token>, out: &mut Outputs<P>) {
        let number = self.number();
        let harden = Harden { token, since: now, confirmed: Mask::default() };
        self.send_harden(number, &harden, out);
        self.hardens.insert(number, harden);
    }

    const fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number - 1
    }

    /// Bytes are here.
    fn got(&mut self, now: Instant, number: u64, payload: P, out: &mut Outputs<P>) {
        // What waits for a repair is read again, under another number.
        if self.gets.get(&number).is_none_or(|get| get.repair.is_some()) {
            return;
        }
        let Some(Get { extent, from, reason, .. }) = self.gets.remove(&number) else { return };
        let mut targets: Mask = match reason {
            Reason::Command(token) => return self.results.push_back((token, Some(payload))),
            Reason::Verify(_) => return,
            Reason::Reconcile => self.map.in_sync().collect(),
            Reason::Fill => self.fill.as_ref().map(|fill| fill.column).into_iter().collect(),
            Reason::Repair { column, .. } => [column].into_iter().collect(),
        };
        targets = targets.without([from].into_iter().collect());
        if reason == Reason::Fill && targets != Mask::default() {
            self.copied += extent.length;
        }
        let (mut origin, mut is_half) = (None, false);
        if let Reason::Repair { of, column, how } = reason
            && let Some(put) = self.puts.get_mut(&of)
        {
            origin = put.origin.filter(|_| how == Mend::Whole);
            is_half = how == Mend::Units && put.has_part(from);
            if is_half {
                put.halves.insert(column);
            }
        }
        let put = Put::new(now, &self.timing, (extent, payload, origin), reason, targets);
        self.put(Put { is_half, ..put }, out);
    }

    /// Other nodes of the group.
    pub(super) fn others(&self) -> impl Iterator<Item = NodeId> + '_ {
        let nodes = self.map.columns.iter().filter(|column| column.state != State::None);
        nodes.map(|column| column.node)
    }
}
