//! A column at its node: what it takes, from which primary.
//!
//! A column takes requests of one term only, the one that it was *sealed* for in this process. It is sealed for a higher term than
//! its disk names, after its promise to another node is over and its writes of earlier terms have ended; the term is durable
//! before the primary is told. So a write of an earlier primary, however late, is refused, and none is still on its way to
//! the disk when the next primary looks at the bytes.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::mem;

use cards_core::{Instant, NodeId};
use cards_layout::format::Uuid;

use super::extents::{Extent, Extents};
use super::fence::{GroupTiming, Promise};
use super::io::{Disk, Marks, Output, Outputs, Purpose, Record, Work, WorkError};
use super::map::{Map, MapColumn, Member, State, Term};
use super::message::{Memory, Message, Report};
use super::mistakes::{Made, Mistake};
use super::origins::Origins;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Column {
    me: NodeId,
    pub(super) disk: Uuid,
    timing: GroupTiming,
    made: Made,
    /// What the disk says.
    pub(super) record: Record,
    /// The map that this process was sealed for.
    pub(super) sealed: Option<Map>,
    /// Since when it is sealed for maps of that one's primary, which has been it all that time.
    pub(super) sealed_since: Instant,
    /// The map that it is to be sealed for.
    sealing: Option<Map>,
    /// The term that is being written to the disk.
    writing: Option<Term>,
    opening: Option<Opening>,
    /// The term that is open: clients' writes may come.
    opened: Option<Term>,
    pub(super) promise: Promise,
    /// The term that its node wants to be the primary of itself. No beacon is acknowledged before it is known who has it.
    pub(super) claims: Option<Term>,
    pub(super) memory: Memory,
    /// What the primary was told when the column was sealed.
    report: Option<Report>,
    /// Writes of the sealed term that are in place and may not be at other columns.
    writes: BTreeMap<u64, Extent>,
    /// Of these, writes that were not done because bytes around them do not fit their checksums: which.
    refused: BTreeMap<u64, Extent>,
    /// Units of which a part was written that is a command's: the rest of that comes next. Until then the column does not know which commands
    /// it has.
    halves: Vec<Extent>,
    busy: BTreeSet<u64>,
    /// What is being read or compared, for whom and under which number. What has no answer is asked for again, and a disk with a long queue would
    /// be given it several times.
    reading: BTreeSet<(NodeId, Term, u64)>,
    floor: u64,
    /// The same of earlier terms and processes: each has a release of its own.
    carried: Vec<Extent>,
    missed: Extents,
    /// The last write of the term that another column misses, or may.
    missed_last: u64,
    pub(super) origins: Origins,
    syncing: BTreeSet<u64>,
    is_admitting: bool,
    /// See [`Self::end`].
    pub(super) failed: bool,
    /// See [`super::Group::disk_hangs`].
    pub(super) hangs: bool,
    /// It is not in sync, whatever a map says, until it is being filled.
    pub(super) outdated: Option<Outdated>,
    /// When the primary was heard of last.
    pub(super) heard: Instant,
    /// What the disk had counted when it was opened, and when a write ended since.
    pub(super) marks: Marks,
    /// What the primary's disk has counted, as that one has said: its node, and in which term.
    primary_marks: Option<(NodeId, Term, Marks)>,
}

/// Why a column is not in sync that a map has in sync.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Outdated {
    /// Its disk was put back to an earlier image.
    Image,
    /// It has something that a command has replaced, as its node has found as the primary, and else all that it was sent.
    Unit,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Opening {
    term: Term,
    origins: Origins,
    record: Option<Record>,
}

/// Whether a request is taken.
enum Gate {
    Open,
    Refused(Term),
    Restarted,
    Failed,
    Outdated,
    /// Of a term that the column is not sealed for yet.
    Early,
}

impl Column {
    pub(super) fn new(me: NodeId, disk: Disk, timing: GroupTiming, made: Made, now: Instant) -> Self {
        let forgets = made.is(Mistake::ForgetPromise);
        let mut missed = disk.missed;
        missed.bound(made.bounds().extents);
        Self {
            me,
            disk: disk.disk,
            timing,
            made,
            record: disk.record,
            sealed: None,
            sealed_since: now,
            sealing: None,
            writing: None,
            opening: None,
            opened: None,
            promise: if forgets { Promise::none() } else { Promise::unknown(now, &timing) },
            claims: None,
            memory: if disk.record.is_lossy { Memory::Lossy } else { Memory::Restarted },
            report: None,
            writes: BTreeMap::new(),
            refused: BTreeMap::new(),
            halves: Vec::new(),
            busy: BTreeSet::new(),
            reading: BTreeSet::new(),
            floor: 0,
            carried: disk.dirty.iter().collect(),
            missed,
            missed_last: 0,
            origins: Origins::default().with_life(disk.record.life),
            syncing: BTreeSet::new(),
            is_admitting: false,
            failed: false,
            hangs: false,
            outdated: None,
            heard: if forgets { Instant(0) } else { now },
            marks: disk.marks,
            primary_marks: None,
        }
    }

    /// The term below which everything is refused.
    pub(super) fn refused_below(&self) -> Term {
        self.sealing.as_ref().map_or(self.record.term(), |map| map.term)
    }

    /// Its disk has answered all that it was asked. One that does not would hold up each term that it is let into.
    pub(super) fn rests(&self) -> bool {
        let is_busy = !self.busy.is_empty() || !self.reading.is_empty() || !self.syncing.is_empty();
        !is_busy && !self.hangs && self.writing.is_none() && self.opening.is_none() && !self.is_admitting
    }

    /// When the promise is over for which a primary waits.
    pub(super) fn next_timeout(&self, now: Instant) -> Option<Instant> {
        self.promise.blocks(now, self.sealing.as_ref()?.primary.node)
    }

    /// The disk was put back to what it was before columns in sync were sealed for a map: it has not all writes, though the map says that this
    /// column is in sync.
    pub(super) fn is_behind(&self, map: &Map) -> bool {
        let opened = Term { epoch: map.opened, ..map.term };
        map.opened > 0 && self.record.term() < opened && !self.made.is(Mistake::IgnoreMarks)
    }

    /// A person who has given up all other histories for this column's takes its disk as it is.
    pub(super) fn hear_of_force(&mut self, map: &Map) {
        let is_taken = map.forced && self.record.generation < map.term.generation && !self.is_behind(map);
        self.outdated = self.outdated.filter(|_| !is_taken);
    }

    fn gate(&self, term: Term) -> Gate {
        let sealed = self.sealed.as_ref().map(|map| map.term);
        let below = self.refused_below();
        if self.failed {
            Gate::Failed
        } else if let Some(outdated) = self.outdated {
            match outdated {
                Outdated::Unit if self.memory > Memory::Lossy => Gate::Failed,
                Outdated::Image | Outdated::Unit => Gate::Outdated,
            }
        } else if term < below && !(self.made.is(Mistake::AcceptEarlierEpoch) && self.sealed.is_some()) {
            Gate::Refused(below)
        } else if sealed == Some(term) || term < below {
            Gate::Open
        } else if term == self.record.term() {
            Gate::Restarted
        } else {
            Gate::Early
        }
    }

    /// Whether a request of this term is taken; if not, its sender is told why.
    fn passes<P>(&self, from: NodeId, term: Term, out: &mut Outputs<P>) -> bool {
        match self.gate(term) {
            Gate::Open => return true,
            Gate::Refused(below) => out.send(from, Message::Refused { term: below }),
            Gate::Restarted => out.send(from, Message::Restarted { term }),
            Gate::Failed => out.send(from, Message::Failed { term }),
            Gate::Outdated => out.send(from, Message::Outdated { term }),
            Gate::Early => {}
        }
        false
    }

    /// The column takes nothing any more, because its disk has failed or its process ends: the primary need not wait to find out.
    pub(super) fn end<P>(&mut self, out: &mut Outputs<P>) {
        self.failed = true;
        if let Some(map) = &self.sealed {
            out.send(map.primary.node, Message::Failed { term: map.term });
        }
    }

    /// A primary begins a term.
    pub(super) fn seal<P>(&mut self, now: Instant, map: Map, out: &mut Outputs<P>) {
        let (term, primary) = (map.term, map.primary.node);
        let state = map.column_at(self.me).and_then(|number| map.column(number));
        let is_written = |state| matches!(state, State::Sync | State::Fill { .. });
        if !state.is_some_and(|column| column.disk == self.disk && is_written(column.state)) {
            return;
        }
        let is_in_sync = state.is_some_and(|column| column.state == State::Sync);
        // An earlier map says nothing of what the column is now.
        if term >= self.refused_below() {
            self.hear_of_force(&map);
            let image = self.is_behind(&map).then_some(Outdated::Image);
            self.outdated = image.or(self.outdated).filter(|_| is_in_sync);
        }
        if self.sealing.as_ref().is_some_and(|sealing| sealing.term == term) {
            // The primary is there, and waits: nobody is to take over from it.
            self.heard = now;
            return self.go_on_sealing(now, true, out);
        }
        match self.gate(term) {
            Gate::Open => {
                self.heard = now;
                if let Some(report) = self.report.clone().map(Box::new) {
                    out.send(primary, Message::Sealed { term, report });
                }
            }
            Gate::Early => {
                self.heard = now;
                self.sealing = Some(map);
                self.go_on_sealing(now, true, out);
            }
            Gate::Refused(below) => out.send(primary, Message::Refused { term: below }),
            Gate::Restarted => out.send(primary, Message::Restarted { term }),
            Gate::Failed => out.send(primary, Message::Failed { term }),
            Gate::Outdated => out.send(primary, Message::Outdated { term }),
        }
    }

    /// Seals the column if nothing is in the way any more.
    pub(super) fn go_on_sealing<P>(&mut self, now: Instant, tells: bool, out: &mut Outputs<P>) {
        let Some(map) = &self.sealing else { return };
        let (term, primary) = (map.term, map.primary.node);
        let is_promised = self.promise.blocks(now, primary).is_some();
        let waits = is_promised && !self.made.is(Mistake::SealWithinPromise);
        let is_busy =
            !self.busy.is_empty() || self.opening.is_some() || self.is_admitting || self.writing.is_some();
        if waits || is_busy || self.failed {
            if tells {
                let waiting = Message::Waiting { term, hangs: self.hangs };
                out.send(primary, if self.failed { Message::Failed { term } } else { waiting });
            }
            return;
        }
        self.writing = Some(term);
        let record = self.record_of(map);
        out.work(Work::SetRecord(record), Purpose::Seal);
        if self.made.is(Mistake::SealBeforeDurable) {
            self.is_sealed(now, out);
        }
    }

    /// What the disk is to say when the column is sealed for a map. It knows the life of what it has if it is in sync, of the same history.
    fn record_of(&self, map: &Map) -> Record {
        let Term { generation, epoch: sealed_epoch } = map.term;
        let is_same = generation == self.record.generation;
        let in_sync_epoch = if is_same { self.record.in_sync_epoch } else { 0 };
        let life = if is_same && self.is_in_sync_by(map) { self.origins.life() } else { 0 };
        Record { generation, sealed_epoch, in_sync_epoch, life, ..self.record }
    }

    /// The term is durable.
    fn is_sealed<P>(&mut self, now: Instant, out: &mut Outputs<P>) {
        let Some(map) = self.sealing.take() else { return };
        self.carried.extend(mem::take(&mut self.writes).into_values());
        self.refused.clear();
        if !mem::take(&mut self.halves).is_empty() {
            self.memory = self.memory.min(Memory::Restarted);
        }
        (self.floor, self.missed_last) = (0, 0);
        self.opened = None;
        self.syncing.clear();
        let record = self.record_of(&map);
        self.origins = mem::take(&mut self.origins).with_life(record.life);
        let bounds = self.made.bounds();
        let mut unstable: Extents = self.carried.iter().copied().collect();
        unstable.cover(bounds.extents);
        let (memory, origins) = match self.origins.fits(bounds.origins) {
            true => (self.memory, self.origins.clone()),
            false => (self.memory.min(Memory::Restarted), Origins::default().with_life(self.origins.life())),
        };
        let is_filled =
            |column: &MapColumn| column.disk == self.disk && matches!(column.state, State::Fill { .. });
        // Its disk was put back to what it was before it had so much: what it lacks nobody knows.
        let was_put_back = map.columns.iter().any(|column| is_filled(column) && self.marks < column.marks);
        let report = Report {
            memory,
            sealed_before: self.record.term(),
            in_sync_epoch: if was_put_back
                && !self.made.is(Mistake::TrustDisk)
                && !self.made.is(Mistake::FillPutBack)
            {
                0
            } else {
                self.record.in_sync_epoch
            },
            unstable,
            missed: self.missed.clone(),
            origins,
        };
        self.record = record;
        self.report = Some(report.clone());
        out.send(map.primary.node, Message::Sealed { term: map.term, report: Box::new(report) });
        let goes_on = self.sealed.as_ref().is_some_and(|last| last.since == map.since);
        if !goes_on {
            self.sealed_since = now;
        }
        self.sealed = Some(map);
    }

    /// A primary asks for the right to serve.
    pub(super) fn beacon<P>(
        &mut self,
        now: Instant,
        from: NodeId,
        (term, marks): (Term, Marks),
        member: Member,
        sequence: u64,
        out: &mut Outputs<P>,
    ) {
        let is_primary = self.sealed.as_ref().is_some_and(|map| map.primary == member);
        if self.failed || self.outdated.is_some() || !is_primary || self.sealing.is_some() {
            if self.sealing.as_ref().is_none_or(|sealing| sealing.term > term) {
                self.passes(from, term, out);
            }
        } else if !self.may_lead()
            && term >= self.refused_below()
            && self.promise.renew(now, member, term, &self.timing)
        {
            self.heard = now;
            self.note_marks(from, term, marks);
            out.send(from, Message::BeaconAck { member, sequence, hangs: self.hangs });
        }
    }

    /// Its node may be the primary, or become it by what it has proposed. It does not where another one's map has that term, or a later one,
    /// whether the register has answered or not.
    fn may_lead(&self) -> bool {
        let is_taken = |claimed| {
            self.sealed.as_ref().is_some_and(|map| map.term >= claimed && map.primary.node != self.me)
        };
        self.claims.is_some_and(|claimed| !is_taken(claimed))
    }

    /// The primary has said what its disk has counted.
    fn note_marks(&mut self, primary: NodeId, term: Term, marks: Marks) {
        if primary == self.me {
            return;
        }
        // In a later term the disk may be one that was put back and filled.
        let last = self.primary_marks.filter(|last| (last.0, last.1) == (primary, term));
        self.primary_marks = Some((primary, term, last.map_or(marks, |last| last.2.max(marks))));
    }

    /// What the disk of a node has counted, if that one was the primary last.
    pub(super) fn marks_of(&self, node: NodeId) -> Marks {
        self.primary_marks.filter(|last| last.0 == node).map_or(Marks(0), |last| last.2)
    }

    /// All columns have the writes of the term up to `floor`.
    pub(super) fn stable<P>(&mut self, term: Term, floor: u64, out: &mut Outputs<P>) {
        if self.sealed.as_ref().is_none_or(|map| map.term != term) || floor <= self.floor {
            return;
        }
        self.floor = floor;
        let later = self.writes.split_off(&floor.saturating_add(1));
        self.refused = self.refused.split_off(&floor.saturating_add(1));
        for extent in mem::replace(&mut self.writes, later).into_values() {
            out.push(Output::Release(extent));
        }
    }

    /// Requests of a primary.
    pub(super) fn request<P: Clone>(&mut self, from: NodeId, message: Message<P>, out: &mut Outputs<P>) {
        match message {
            Message::Get { term, number, extent }
                if self.passes(from, term, out) && self.reading.insert((from, term, number)) =>
            {
                out.work(Work::Read { extent }, Purpose::Get { to: from, term, number });
            }
            Message::Verify { term, number, extent }
                if self.passes(from, term, out) && self.reading.insert((from, term, number)) =>
            {
                out.work(Work::Verify { extent }, Purpose::Verify { to: from, term, number });
            }
            Message::Put { term, number, floor, extent, payload, missed, doubtful, origin }
                if self.passes(from, term, out) =>
            {
                self.stable(term, floor, out);
                if let Some(&extent) = self.refused.get(&number) {
                    out.send(from, Message::Damaged { term, number, extent });
                } else if number <= self.floor || self.writes.contains_key(&number) {
                    out.send(from, Message::PutDone { term, number, marks: self.marks });
                } else if self.busy.insert(number) {
                    if missed {
                        self.missed_last = self.missed_last.max(number);
                    }
                    let purpose = Purpose::Put { to: from, number, extent, missed, doubtful, origin };
                    out.work(Work::Write { extent, payload, missed }, purpose);
                }
            }
            Message::Open { term, origins, missed } if self.passes(from, term, out) => {
                self.open(from, term, *origins, &missed, out);
            }
            Message::Harden { term, number, floor, admits }
                if self.passes(from, term, out) && !self.is_admitting && self.syncing.insert(number) =>
            {
                self.stable(term, floor, out);
                out.work(Work::Sync, Purpose::Harden { to: from, term, number, admits });
            }
            Message::CaughtUp { term, number, extents }
                if self.passes(from, term, out)
                    && (self.missed_last <= number || self.made.is(Mistake::ClearOvertaken)) =>
            {
                extents.iter().for_each(|extent| self.missed.remove(extent));
                out.push(Output::CaughtUp(*extents));
            }
            _ => {}
        }
    }

    fn open<P>(
        &mut self,
        from: NodeId,
        term: Term,
        origins: Origins,
        missed: &Extents,
        out: &mut Outputs<P>,
    ) {
        if self.opened == Some(term) {
            out.send(from, Message::Opened { term });
        } else if self.opening.is_none() && self.sealing.is_none() {
            let record = self.is_in_sync().then_some(Record {
                in_sync_epoch: term.epoch,
                is_lossy: false,
                life: origins.life(),
                ..self.record
            });
            self.opening = Some(Opening { term, origins, record });
            self.missed.unite(missed);
            self.missed.bound(self.made.bounds().extents);
            out.work(Work::MarkMissed(missed.clone()), Purpose::Open);
        }
    }

    /// A step of opening the term is durable.
    fn go_on_opening<P>(&mut self, out: &mut Outputs<P>) {
        let Some(opening) = &mut self.opening else { return };
        if let Some(record) = opening.record.take() {
            self.record = record;
            return out.work(Work::SetRecord(record), Purpose::Open);
        }
        let Some(Opening { term, origins, .. }) = self.opening.take() else { return };
        self.origins = origins;
        self.opened = Some(term);
        self.report = None;
        if self.is_in_sync() {
            self.agrees(out);
        }
        if let Some(map) = &self.sealed {
            out.send(map.primary.node, Message::Opened { term });
        }
    }

    fn is_in_sync(&self) -> bool {
        self.sealed.as_ref().is_some_and(|map| self.is_in_sync_by(map))
    }

    fn is_in_sync_by(&self, map: &Map) -> bool {
        let own = map.column_at(self.me).and_then(|number| map.column(number));
        own.is_some_and(|column| column.state == State::Sync)
    }

    /// The column has what the others have.
    fn agrees<P>(&mut self, out: &mut Outputs<P>) {
        self.memory = Memory::Intact;
        for extent in mem::take(&mut self.carried) {
            out.push(Output::Release(extent));
        }
    }

    /// An operation has ended.
    pub(super) fn done<P>(
        &mut self,
        now: Instant,
        purpose: Purpose,
        result: Result<Option<P>, WorkError>,
        out: &mut Outputs<P>,
    ) {
        if let Purpose::Get { to, term, number } | Purpose::Verify { to, term, number } = purpose {
            self.reading.remove(&(to, term, number));
        }
        let payload = match (result, &purpose) {
            (Ok(payload), _) => payload,
            (
                Err(WorkError::Damaged(extent)),
                &(Purpose::Get { to, term, number } | Purpose::Verify { to, term, number }),
            ) => return out.send(to, Message::Damaged { term, number, extent }),
            (Err(WorkError::Damaged(damaged)), &Purpose::Put { to, number, extent, missed, .. }) => {
                self.busy.remove(&number);
                let Some(term) = self.sealed.as_ref().map(|map| map.term) else { return };
                // One that is being filled may have done it. What is damaged here is no less there by that.
                if missed {
                    extent.around(damaged).for_each(|part| self.missed.insert(part));
                    self.missed.bound(self.made.bounds().extents);
                }
                // It is not done later either, when others may have written there.
                self.writes.insert(number, extent);
                self.refused.insert(number, damaged);
                out.send(to, Message::Damaged { term, number, extent: damaged });
                return self.go_on_sealing(now, false, out);
            }
            (Err(_), _) => return self.end(out),
        };
        match purpose {
            Purpose::Verify { to, term, number } => out.send(to, Message::Verified { term, number }),
            Purpose::Get { to, term, number } => {
                if let Some(payload) = payload {
                    out.send(to, Message::Got { term, number, payload });
                }
            }
            Purpose::Put { to, number, extent, missed, doubtful, origin } => {
                self.busy.remove(&number);
                // All that was busy has ended before the column is sealed anew.
                let Some(term) = self.sealed.as_ref().map(|map| map.term) else { return };
                self.writes.insert(number, extent);
                // Until the primary has told which commands are applied now, or has sent all of the one that this is a part of, that is not
                // known here.
                if !doubtful {
                    self.halves.retain(|half| !half.overlaps(extent));
                } else if self.opened == Some(term) {
                    self.halves.push(extent);
                } else if !self.made.is(Mistake::TrustCopied) {
                    self.memory = self.memory.min(Memory::Restarted);
                }
                if missed {
                    self.missed.insert(extent);
                    self.missed.bound(self.made.bounds().extents);
                }
                if let Some(origin) = origin {
                    self.origins.insert(origin);
                }
                out.send(to, Message::PutDone { term, number, marks: self.marks });
                self.go_on_sealing(now, false, out);
            }
            Purpose::Harden { to, term, number, admits } => {
                if self.sealed.as_ref().is_none_or(|map| map.term != term) {
                    return;
                }
                self.syncing.remove(&number);
                if admits && self.sealing.is_none() {
                    self.is_admitting = true;
                    (self.record.is_lossy, self.record.life) = (false, self.origins.life());
                    out.work(Work::SetRecord(self.record), Purpose::Admit { to, term, number });
                } else if !admits {
                    out.send(to, Message::Hardened { term, number });
                }
            }
            Purpose::Admit { to, term, number } => {
                self.is_admitting = false;
                self.agrees(out);
                out.send(to, Message::Hardened { term, number });
                self.go_on_sealing(now, false, out);
            }
            Purpose::Seal => {
                let written = self.writing.take();
                // A later term may have come meanwhile.
                if self.sealing.as_ref().is_some_and(|map| Some(map.term) == written) {
                    self.is_sealed(now, out);
                }
                self.go_on_sealing(now, false, out);
            }
            Purpose::Open => {
                self.go_on_opening(out);
                self.go_on_sealing(now, false, out);
            }
        }
    }
}
