//! Changes of the map that the primary wants: columns that go and come, and another primary.

use alloc::vec::Vec;
use core::mem;

use cards_core::{Duration, Instant, NodeId};
use cards_layout::format::Uuid;

use super::fill::FillStep;
use super::{Get, Harden, Mask, Primary, Put, Reason, Stage};
use crate::group::change::{Change, DropCause};
use crate::group::column::{Column, Outdated};
use crate::group::io::{Marks, Output, Outputs};
use crate::group::map::{Map, MapError, Member, Placement, State, Term};
use crate::group::message::{Memory, Message};
use crate::group::mistakes::Mistake;

/// Another process is to be the primary.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(in crate::group) struct HandOver {
    pub(in crate::group) to: Member,
    /// This process ends, and its column with it.
    pub(in crate::group) leaves: bool,
}

impl<P: Clone> Primary<P> {
    /// Why a column that gets writes has to be dropped now, if it has to be and has not said so itself.
    pub(super) fn silence(&self, now: Instant, column: u8) -> Option<DropCause> {
        let awaits = |put: &&Put<P>| {
            put.targets.has(column) && !put.confirmed.has(column) && !put.damaged().has(column)
        };
        let (last, timing) = (self.heard[usize::from(column)], &self.timing);
        if last + timing.silence() < now {
            return Some(DropCause::Silent(now.since(last)));
        }
        if self.hung.has(column) {
            return Some(DropCause::Hangs);
        }
        if self.is_stuck(now, column) {
            return Some(DropCause::Stuck(now.since(self.stage_since)));
        }
        let late = |since: Option<Instant>, limit| {
            since.filter(|since| *since + limit < now).map(|since| now.since(since))
        };
        let reads = |get: &&Get| get.from == column && get.repair.is_none();
        let written = self.puts.values().filter(awaits).map(|put| put.since).min();
        let read = self.gets.values().filter(reads).map(|get| get.since).min();
        let hardens = self.hardens.values().filter(|harden| self.awaits_flush(harden, column));
        let flushed = hardens.map(|harden| harden.since).min();
        let unconfirmed = late(written, timing.put_timeout).map(DropCause::Unconfirmed);
        unconfirmed
            .or_else(|| late(read, timing.get_timeout()).map(DropCause::Unread))
            .or_else(|| late(flushed, timing.flush_timeout()).map(DropCause::Unflushed))
    }

    fn awaits_flush(&self, harden: &Harden, column: u8) -> bool {
        self.harden_targets(harden).has(column) && !harden.confirmed.has(column)
    }

    /// The own disk has not answered for so long what it was asked, or a flush for as long as any other disk may take for one. Of reads, and of
    /// writes, it is given the same time since these.
    fn owes(&self, now: Instant, limit: Duration, [read, written]: [Instant; 2]) -> bool {
        let own = self.own;
        let is_late = |since: Instant| since + limit < now;
        let is_late_flush = |since: Instant| since + self.timing.flush_timeout() < now;
        let has_not =
            |put: &Put<P>| put.targets.has(own) && !put.confirmed.has(own) && !put.damaged().has(own);
        let reads = |get: &Get| get.from == own && get.repair.is_none();
        self.is_awaited(own) && is_late(self.stage_since)
            || self.puts.values().any(|put| is_late(put.since.max(written)) && has_not(put))
            || self.gets.values().any(|get| is_late(get.since.max(read)) && reads(get))
            || self
                .hardens
                .values()
                .any(|harden| is_late_flush(harden.since) && self.awaits_flush(harden, own))
    }

    /// The own disk neither answers nor fails, as its driver says, or for so long that another primary would have dropped the column, and another
    /// column in sync, which is there, has everything.
    pub(in crate::group) fn hangs(&self, now: Instant, own: &Column) -> bool {
        let hangs = own.hangs || self.owes(now, self.timing.begin_timeout(), [Instant(0); 2]);
        let is_sound = |column: &u8| {
            self.is_open() || self.reports.get(column).is_some_and(|report| report.memory > Memory::Lossy)
        };
        let goes_on = |column: &u8| {
            *column != self.own && !self.broken.has(*column) && self.silence(now, *column).is_none()
        };
        hangs && self.map.in_sync().any(|column| goes_on(&column) && is_sound(&column))
    }

    /// The map that is to be proposed, if another one is wanted, and what that changes.
    pub(in crate::group) fn next_map(
        &mut self,
        now: Instant,
        out: &mut Outputs<P>,
        own: &Column,
        placements: &[Placement],
    ) -> Option<(Map, Option<Change>)> {
        self.pauses = None;
        let change = self.wish(now, out, own).or_else(|| self.placed(now, placements));
        match change {
            Some((map, change)) => Some((map, Some(change))),
            None => Some((self.returned(now).or_else(|| self.confirmed(now))?, None)),
        }
    }

    /// What the columns that it has call for, and a hand-over.
    fn wish(&mut self, now: Instant, out: &mut Outputs<P>, own: &Column) -> Option<(Map, Change)> {
        let sync: Mask = self.map.in_sync().collect();
        let mut silent = self.broken;
        for column in self.written().columns().filter(|column| *column != self.own) {
            if let Some(cause) = self.silence(now, column) {
                if !silent.with(self.given_up).has(column) {
                    self.causes[usize::from(column)] = Some(cause);
                }
                silent.insert(column);
            }
        }
        // A column being filled counts for nothing: it is given up at once, unless it may be in sync already.
        let gone = silent.without(self.must());
        if !self.given_up.covers(gone) {
            gone.without(self.given_up).columns().for_each(|column| self.put_off(now, column));
            self.given_up = self.given_up.with(gone);
            self.settle_puts();
        }
        if self.stage == Stage::Serving
            && let Some(wish) = self.go_on_filling(now, out)
        {
            if let Some(fill) = &mut self.fill {
                fill.step = FillStep::Proposed;
            }
            return Some(wish);
        }
        if self.has_forgotten {
            return Some((self.map.taken_over(self.me).ok()?, Change::BegunAnew { has_forgotten: true }));
        }
        if let Some(column) = self.given_up.columns().next() {
            let marks = self.marks[usize::from(column)];
            return Some((self.map.without(self.me, column, 0, marks).ok()?, self.dropped(now, column)));
        }
        self.drop_of(now, sync, silent, own).or_else(|| self.hand_over_of(now, own, out))
    }

    pub(super) fn dropped(&self, now: Instant, column: u8) -> Change {
        let cause = match self.causes[column as usize] {
            Some(cause) => cause,
            None => DropCause::Unfit,
        };
        let rests =
            if cause.is_slow() { self.rests.pause(now, column, &self.timing) } else { Duration::ZERO };
        Change::Dropped { column, cause, rests }
    }

    /// Whether a column, whose node answers, does not end what a term begins with: its disk may never do so.
    pub(super) fn is_stuck(&self, now: Instant, column: u8) -> bool {
        self.is_awaited(column) && self.stage_since + self.timing.begin_timeout() < now
    }

    /// The column has yet to do what a term begins with.
    fn is_awaited(&self, column: u8) -> bool {
        match self.stage {
            Stage::Sealing => !self.reports.contains_key(&column),
            Stage::Opening => !self.opened.has(column),
            _ => false,
        }
    }

    /// A column in sync is dropped, if one has to be and may be.
    pub(super) fn drop_of(
        &self,
        now: Instant,
        sync: Mask,
        silent: Mask,
        own_column: &Column,
    ) -> Option<(Map, Change)> {
        let own = self.reports.get(&self.own)?;
        let is_open = self.stage >= Stage::Reading;
        let generation = self.map.term.generation;
        let own_bit: Mask = [self.own].into_iter().collect();
        let gone = silent.common(sync).without(own_bit);
        // What another one may have lost such a column does not have either.
        let outdated = self.outdated.common(gone).columns().next();
        let column = outdated.or_else(|| gone.columns().next())?;
        // The own disk may hang, too, and for ever: then the other one goes on when it is back, since it has all that was acknowledged. One that ends
        // what it was asked, though each takes long, does not hang: with many readers something is open there at all times.
        let is_last = sync.without(own_bit).count() == 1;
        let may_hang = || {
            own_column.hangs
                || self.owes(now, self.timing.silence(), self.own_ended)
                || self.owes(now, self.timing.begin_timeout(), [Instant(0); 2])
        };
        if is_last && !self.broken.has(column) && may_hang() {
            return None;
        }
        let answer = |column: &u8| self.reports.get(column).filter(|_| !silent.has(*column));
        // The own column may have been made the same as a sound one meanwhile.
        let memories =
            sync.columns().filter_map(|column| Some(answer(&column)?.memory)).chain([own_column.memory]);
        let is_sound = is_open || memories.max() > Some(Memory::Lossy);
        if is_sound || outdated.is_some() {
            let since = match own.sealed_before.generation == generation {
                _ if outdated.is_some() => 0,
                _ if is_open => self.map.term.epoch,
                true => own.in_sync_epoch,
                false => 0,
            };
            let counted = self.marks[usize::from(column)].max(own_column.marks_of(self.node(column)));
            let marks = if self.made.is(Mistake::IgnoreMarks) { Marks(0) } else { counted };
            Some((self.map.without(self.me, column, since, marks).ok()?, self.dropped(now, column)))
        } else if self.broken.has(column)
            && self.causes[usize::from(column)] != Some(DropCause::Ended)
            && self.anew_at <= now
        {
            // It is back, and what it has may be all there is: it is sealed in another term.
            Some((self.map.taken_over(self.me).ok()?, Change::BegunAnew { has_forgotten: false }))
        } else {
            None
        }
    }

    /// Columns in sync that the term cannot begin without, and that do not answer: all that do may have lost what those have.
    pub(in crate::group) fn awaited(&self, now: Instant, own_column: &Column) -> Vec<u8> {
        let is_open = self.stage >= Stage::Reading || !self.reports.contains_key(&self.own);
        if is_open || own_column.memory > Memory::Lossy {
            return Vec::new();
        }
        let is_away = |column: &u8| self.broken.has(*column) || self.silence(now, *column).is_some();
        let others = || self.map.in_sync().filter(|column| *column != self.own);
        let memories =
            others().filter(|column| !is_away(column)).filter_map(|column| self.reports.get(&column));
        match memories.map(|report| report.memory).max() > Some(Memory::Lossy) {
            true => Vec::new(),
            false => others().filter(is_away).collect(),
        }
    }

    /// Why the own column is not in sync, if it is not: it is an earlier image, or has something that a command has replaced, and nobody has
    /// what that was.
    pub(in crate::group) fn outdated_own(&self) -> Option<Outdated> {
        let why = if self.outdated.has(self.own) { Outdated::Image } else { Outdated::Unit };
        self.broken.has(self.own).then_some(why)
    }

    pub(super) fn hand_over_of(
        &mut self,
        now: Instant,
        own: &Column,
        out: &mut Outputs<P>,
    ) -> Option<(Map, Change)> {
        let HandOver { to, leaves } = self.hands_over.filter(|_| self.stage == Stage::Serving)?;
        if self.made.is(Mistake::AnswerAtHandOver) {
            let open = mem::take(&mut self.puts).into_values().filter(|put| !put.is_complete);
            for put in open {
                if let Reason::Command(token) = put.reason {
                    out.push(Output::Done { token, result: Ok(None) });
                }
            }
        }
        let is_busy = !self.puts.is_empty() || !self.gets.is_empty() || !self.hardens.is_empty();
        if is_busy || !self.results.is_empty() {
            return None;
        }
        self.hands_over = None;
        let map = match leaves {
            true => self.map.left_to(self.me, to, own.marks),
            false => self.map.handed_over(self.me, to),
        }
        .ok()?;
        self.is_silenced = true;
        if self.made.is(Mistake::ResignEarly) {
            self.is_silenced = false;
            let (member, term) = (self.me, self.map.term);
            self.others().for_each(|node| out.send(node, Message::Resigned { member, term }));
        }
        // The columns are told that all is complete, or the next primary would make them the same.
        self.beacon_at = now;
        Some((map, Change::HandedOver { to, leaves }))
    }

    /// The first change of the set of columns that the map can have now. None while a column is being filled, unless that one leaves:
    /// its fill would begin anew.
    fn placed(&mut self, now: Instant, wanted: &[Placement]) -> Option<(Map, Change)> {
        let placed = self.placement(wanted)?;
        self.writes_have_ended(now).then_some(placed)
    }

    fn placement(&self, wanted: &[Placement]) -> Option<(Map, Change)> {
        if self.stage != Stage::Serving || self.hands_over.is_some() {
            return None;
        }
        let filled = self.map.columns.iter().position(|column| matches!(column.state, State::Fill { .. }));
        let goes = |placement: &&Placement| {
            let leaves = |filled| matches!(placement, Placement::Retire { column, .. } if usize::from(*column) == filled);
            filled.is_none_or(leaves)
        };
        wanted.iter().filter(goes).find_map(|placement| {
            let map = match (*placement, self.map.placed(self.me, *placement)) {
                (Placement::Retire { column, .. }, Err(MapError::NoSuccessor { .. }))
                    if self.made.is(Mistake::RetireUnfilled) =>
                {
                    self.map.retired(self.me, column, self.map.in_sync().find(|other| *other != column))
                }
                (_, map) => map,
            };
            let mut map = map.ok()?;
            if let Placement::Add { column, .. } = placement {
                let added = &mut map.columns[usize::from(*column)];
                if self.made.is(Mistake::AddInSync) {
                    added.state = State::Sync;
                } else if self.made.is(Mistake::TrustReturned) {
                    added.state = State::Stale { since: self.map.since };
                }
            }
            let change = match *placement {
                Placement::Add { column, .. } => Change::Added { column },
                Placement::Retire { column, successor } => Change::Retired { column, successor },
            };
            Some((map, change))
        })
    }

    /// Whether no write is open, before a map is proposed without need: others wait. What is open when a term begins is copied to columns that
    /// do not know which commands these bytes are of before it is open. Nothing waits for long for a register that does not answer.
    pub(super) fn writes_have_ended(&mut self, now: Instant) -> bool {
        self.pauses = Some(now + self.timing.lease);
        self.puts.values().all(|put| put.is_complete)
    }

    /// Whether writes wait for another map.
    pub(super) fn is_paused(&self, now: Instant) -> bool {
        self.pauses.is_some_and(|until| now < until)
    }

    /// The map that says that this one was opened, some time after that.
    fn confirmed(&mut self, now: Instant) -> Option<Map> {
        let is_filled = self.map.columns.iter().any(|column| matches!(column.state, State::Fill { .. }));
        let is_due = self.confirm_at.is_some_and(|at| at <= now);
        let is_quiet = self.stage == Stage::Serving && !is_filled && self.hands_over.is_none();
        if !is_due || !is_quiet || !self.writes_have_ended(now) {
            return None;
        }
        self.confirm_at = Some(now + self.timing.confirm);
        self.map.confirmed(self.me).ok()
    }

    /// The map that was proposed is not the register's, and never will be.
    pub(in crate::group) fn not_taken(&mut self) {
        (self.is_silenced, self.pauses) = (false, None);
        if let Some(fill) = self.fill.as_mut().filter(|fill| fill.step == FillStep::Proposed) {
            fill.step = FillStep::Hardened;
        }
    }

    /// A column that is being filled is given up.
    fn put_off(&mut self, now: Instant, column: u8) {
        if self.stage == Stage::Sealing && !self.reports.contains_key(&column) {
            self.rests.put_off(now, column, &self.timing);
        }
    }

    /// A node with a stale column is back.
    pub(in crate::group) fn here(
        &mut self,
        now: Instant,
        from: NodeId,
        disk: Uuid,
        generation: u32,
        in_sync: (u64, Marks),
    ) {
        let fills = self.map.columns.iter().any(|column| matches!(column.state, State::Fill { .. }));
        let Some(column) = self.map.column_at(from).filter(|_| self.stage == Stage::Serving && !fills) else {
            return;
        };
        if !self.rests.is_over(now, column) {
            return;
        }
        // It has opened what the own column was not sealed for: that one is an earlier image, and what it has is the truth by now.
        let said = Term { generation, epoch: in_sync.0 };
        let is_own_old =
            self.sealed_before.is_some_and(|(sealed, since)| sealed < said && said.epoch < since);
        let is_told = generation == self.map.term.generation && !is_own_old;
        self.lets_in = self.map.let_in(self.me, column, disk, is_told.then_some(in_sync)).ok();
    }

    /// The map that lets it in.
    fn returned(&mut self, now: Instant) -> Option<Map> {
        let is_here = self.lets_in.is_some() && self.hands_over.is_none();
        if is_here && self.writes_have_ended(now) { self.lets_in.take() } else { None }
    }
}
