//! Units that do not fit their checksums, written anew from another column.
//!
//! Whoever finds them waits meanwhile, and keeps writes of these units out: a read, because no write begins over what is being read; a write,
//! because none begins over what is being written. Since columns in sync have every write that has ended, and no other one is open there, what
//! is read at one of them is what the damaged column has to have, and stays so until that has it. So a repair undoes nothing.
//!
//! What a write lacks comes as a whole from a column that has done it, with the command that it is. If there is none that has all of it, the one unit
//! comes from any column that has this, and the write once more. Such a unit has a part of the write if its source has done that, or has got it so
//! itself. The column says that it does not know which commands it has until it has the rest: else the primary's death in between would leave a
//! part of a command, which its client repeats over what others have written since.
//!
//! While columns are being reconciled they need not be the same. What replaces units of the source may lack a command that the source
//! remembers. A primary that has just taken over forgets what the source remembers then, and the group begins another term. One that goes on does
//! its open commands again: all others are at all columns.

use alloc::vec::Vec;

use super::fill::FillStep;
use super::{Get, Mend, Primary, Put, Reason};
use crate::group::extents::{Extent, Extents};
use crate::group::io::{CommandError, Output, Outputs, Token};
use crate::group::message::Memory;
use crate::group::mistakes::Mistake;
use cards_core::Instant;

use super::Mask;
use super::commands::refuse;

/// A repair that has ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Mended {
    /// The read or write that has found the damage.
    of: u64,
    column: u8,
    extent: Extent,
    how: Mend,
    /// The column has confirmed it.
    is_done: bool,
}

/// So often a column is mended for a write: beyond that its disk does not keep what is written there.
const TRIES: u8 = 8;

impl<P> Put<P> {
    /// Columns that did not do it, because bytes around it are damaged there.
    pub(super) fn damaged(&self) -> Mask {
        self.damage.iter().map(|(column, _)| *column).collect()
    }

    /// A byte of the range is known to be damaged at the column.
    fn lacks(&self, column: u8, extent: Extent) -> bool {
        let mut known = self.damage.iter().chain(&self.lacks);
        known.any(|(other, damaged)| *other == column && damaged.overlaps(extent))
    }

    /// The column has it, or may have got a part of it with a unit.
    pub(super) fn has_part(&self, column: u8) -> bool {
        self.confirmed.with(self.halves).has(column)
    }

    /// The column has done it after a repair, or by one.
    fn is_done_by(&mut self, column: u8) {
        self.confirmed.insert(column);
        for known in [&mut self.damage, &mut self.lacks] {
            known.retain(|(other, _)| *other != column);
        }
    }

    /// What it was, if it was a repair.
    pub(super) fn mended(&self) -> Option<Mended> {
        let Reason::Repair { of, column, how } = self.reason else { return None };
        Some(Mended { of, column, extent: self.extent, how, is_done: self.confirmed.has(column) })
    }
}

impl<P: Clone> Primary<P> {
    /// Begins to compare a range with its checksums, at all columns in sync.
    pub(super) fn verify(&mut self, now: Instant, token: Token, extent: Extent, out: &mut Outputs<P>) {
        self.verifies.insert(token, extent);
        for column in self.must().without(self.given_up).columns() {
            self.get(now, extent, (column, Reason::Verify(token)), out);
        }
    }

    /// A column has found that bytes fit their checksums.
    pub(super) fn verified(&mut self, number: u64, column: u8) {
        let is_it = |get: &&Get| get.from == column && get.repair.is_none();
        if let Some(Get { reason: Reason::Verify(token), .. }) = self.gets.get(&number).filter(is_it) {
            let token = *token;
            self.gets.remove(&number);
            self.end_verify(token);
        }
    }

    fn end_verify(&mut self, token: Token) {
        let is_open = self.gets.values().any(|get| get.reason == Reason::Verify(token));
        if is_open || self.verifies.remove(&token).is_none() {
            return;
        }
        self.results.push_back((token, None));
    }

    /// A column has found units that do not fit their checksums.
    pub(super) fn damaged(
        &mut self,
        now: Instant,
        number: u64,
        column: u8,
        extent: Extent,
        out: &mut Outputs<P>,
    ) {
        let unit = self.size.unit_bytes;
        if let Some(get) = self.gets.get(&number).copied().filter(|get| get.from == column) {
            let whole = get.extent.whole(unit);
            let extent = extent.whole(unit).common(whole).unwrap_or(whole);
            match get.reason {
                // It was said before.
                _ if get.repair.is_some() => {}
                Reason::Repair { of, column, .. } => {
                    self.gets.remove(&number);
                    self.source_is_damaged(now, (of, column), &get, extent, out);
                }
                // The disk does not keep what is written there.
                _ if get.mended.is_some_and(|mended| mended.overlaps(extent)) => {
                    self.read_elsewhere(now, number, extent, out);
                }
                _ => {
                    if let Some(get) = self.gets.get_mut(&number) {
                        get.repair = Some([column].into_iter().collect());
                    }
                    self.fetch(now, number, extent, out);
                }
            }
        } else if let Some(put) = self.puts.get_mut(&number)
            && put.targets.without(put.confirmed).without(put.damaged()).has(column)
        {
            // Others are found when it is sent once more.
            let whole = put.extent.whole(unit);
            let first = Extent { length: unit, ..extent.whole(unit).common(whole).unwrap_or(whole) };
            match put.reason {
                Reason::Command(_) => put.damage.push((column, first)),
                Reason::Repair { of, how: Mend::Again, .. } => {
                    self.puts.remove(&number);
                    if let Some(put) = self.puts.get_mut(&of) {
                        put.tries += 1;
                        put.damage.retain(|(other, _)| *other != column);
                        put.damage.push((column, first));
                    }
                }
                // What is copied is whole units: nothing around them is read.
                _ => self.broken.insert(column),
            }
        }
    }

    /// Columns that have what a read is to find.
    fn sources(&self, reason: Reason) -> Mask {
        let in_sync = self.map.in_sync().collect::<Mask>().without(self.given_up).without(self.broken);
        match reason {
            Reason::Reconcile => in_sync.without(self.lossy()),
            // One that is about to be admitted has everything, too.
            _ => in_sync.with(self.filled(FillStep::Hardening)).without(self.given_up),
        }
    }

    /// Columns that may have lost what the source of a reconciliation has.
    fn lossy(&self) -> Mask {
        let is_lossy = |column: &u8| self.reports.get(column).is_none_or(|r| r.memory == Memory::Lossy);
        match is_lossy(&self.source) {
            true => Mask::default(),
            false => self.map.in_sync().filter(is_lossy).collect(),
        }
    }

    /// Reads what the column of a read is to have at another column.
    fn fetch(&mut self, now: Instant, of: u64, extent: Extent, out: &mut Outputs<P>) {
        let Some(Get { from: column, reason, repair: Some(tried), .. }) = self.gets.get(&of).copied() else {
            return;
        };
        match self.sources(reason).without(tried).columns().next() {
            Some(source) => {
                self.get(now, extent, (source, Reason::Repair { of, column, how: Mend::Units }), out);
            }
            None => self.unrepaired(now, of, extent, out),
        }
    }

    /// What a repair reads is damaged, too.
    fn source_is_damaged(
        &mut self,
        now: Instant,
        (of, column): (u64, u8),
        get: &Get,
        damaged: Extent,
        out: &mut Outputs<P>,
    ) {
        if let Some(put) = self.puts.get_mut(&of) {
            put.lacks.push((get.from, damaged));
            return;
        }
        let before = get.extent.around(damaged).find(|before| before.offset < damaged.offset);
        if let Some(before) = before {
            return self.get(now, before, (get.from, Reason::Repair { of, column, how: Mend::Units }), out);
        }
        if let Some(Get { repair: Some(tried), .. }) = self.gets.get_mut(&of) {
            tried.insert(get.from);
        }
        self.fetch(now, of, damaged.common(get.extent).unwrap_or(get.extent), out);
    }

    /// What was written anew is damaged again: it is read at another column, and stays as it is.
    fn read_elsewhere(&mut self, now: Instant, number: u64, damaged: Extent, out: &mut Outputs<P>) {
        let Some(get) = self.gets.get_mut(&number) else { return };
        get.passed.insert(get.from);
        let (reason, passed, extent) = (get.reason, get.passed, get.extent);
        let next = self.sources(reason).without(passed).columns().next();
        match next.filter(|_| matches!(reason, Reason::Command(_) | Reason::Fill)) {
            Some(from) => {
                self.gets.remove(&number);
                let number = self.get_numbered(now, extent, (from, reason), out);
                self.gets.entry(number).and_modify(|get| get.passed = passed);
            }
            None => self.unrepaired(now, number, damaged, out),
        }
    }

    /// No column in sync has units that a read has found damaged.
    fn unrepaired(&mut self, now: Instant, number: u64, damaged: Extent, out: &mut Outputs<P>) {
        let Some(Get { extent, from, reason, .. }) = self.gets.remove(&number) else { return };
        out.push(Output::Damaged { column: from, extent: damaged, is_repaired: false });
        match reason {
            Reason::Command(token) => refuse(token, CommandError::Damaged, out),
            Reason::Fill => {
                if let Some(fill) = &mut self.fill {
                    fill.lacks.insert(damaged);
                    extent.around(damaged).rev().for_each(|part| fill.todo.push_front(part));
                }
            }
            Reason::Reconcile => {
                // They may have something there that a write which only the source had has replaced.
                self.broken = self.broken.with(self.lossy());
                extent.around(damaged).rev().for_each(|part| self.reconcile.push_front(part));
            }
            Reason::Verify(token) => self.verify_rest(now, (from, token), extent, (damaged.end(), None), out),
            Reason::Repair { .. } => {}
        }
    }

    fn verify_rest(
        &mut self,
        now: Instant,
        (column, token): (u8, Token),
        extent: Extent,
        (offset, mended): (u64, Option<Extent>),
        out: &mut Outputs<P>,
    ) {
        match extent.end().checked_sub(offset).filter(|length| *length > 0) {
            Some(length) => {
                let number =
                    self.get_numbered(now, Extent { offset, length }, (column, Reason::Verify(token)), out);
                self.gets.entry(number).and_modify(|get| get.mended = mended);
            }
            None => self.end_verify(token),
        }
    }

    /// What waited for repairs that have ended goes on.
    pub(super) fn go_on_after_repairs(&mut self, now: Instant, out: &mut Outputs<P>) {
        for Mended { of, column, extent, how, is_done } in core::mem::take(&mut self.mended) {
            if is_done && how != Mend::Again {
                out.push(Output::Damaged { column, extent, is_repaired: true });
            }
            if let Some(get) = self.gets.remove(&of) {
                if get.reason == Reason::Reconcile {
                    self.forget_open();
                }
                match get.reason {
                    // Nothing more is copied from it: the others would forget as well.
                    Reason::Reconcile if self.has_forgotten => {}
                    Reason::Verify(token) => {
                        let rest = (extent.offset, Some(extent));
                        self.verify_rest(now, (get.from, token), get.extent, rest, out);
                    }
                    reason => {
                        let number = self.get_numbered(now, get.extent, (get.from, reason), out);
                        let Get { passed, .. } = get;
                        self.gets.entry(number).and_modify(|get| {
                            (get.mended, get.passed) = (Some(extent), passed);
                        });
                    }
                }
            } else if let Some(put) = self.puts.get_mut(&of).filter(|_| is_done) {
                if how != Mend::Units {
                    put.is_done_by(column);
                    continue;
                }
                put.lacks.retain(|(other, damaged)| *other != column || !damaged.overlaps(extent));
                let what = (put.extent, put.payload.clone(), put.origin);
                let (reason, target) =
                    (Reason::Repair { of, column, how: Mend::Again }, [column].into_iter().collect());
                self.put(Put::new(now, &self.timing, what, reason, target), out);
            }
        }
        self.mend_puts(now, out);
        self.settle_puts();
    }

    /// What the source of a reconciliation has got from another column may lack a command that the source remembers. A primary that goes on has all
    /// commands that are not at all columns, and does them again. (No others, which a client may have repeated: a later one may have been done since.)
    fn forget_open(&mut self) {
        // All columns know the same ones.
        if !self.is_doubtful {
            return;
        }
        if !self.has_opened {
            self.has_forgotten = true;
        }
        for origin in &self.reopened {
            self.origins.remove(origin);
            self.applied.remove(origin);
        }
    }

    /// Writes that columns did not do, because bytes around them are damaged there.
    fn mend_puts(&mut self, now: Instant, out: &mut Outputs<P>) {
        let is_command = |put: &Put<P>| matches!(put.reason, Reason::Command(_)) && !put.has_failed;
        let found = self.puts.iter().filter(|(_, put)| !put.damage.is_empty() && is_command(put));
        let numbers: Vec<u64> = found.map(|(number, _)| *number).collect();
        numbers.into_iter().for_each(|number| self.mend_put(now, number, out));
    }

    /// The next column that a write has found damaged gets all units of it from one that has done it; or the unit that it has to read from any
    /// one that has this, and then the write once more.
    fn mend_put(&mut self, now: Instant, number: u64, out: &mut Outputs<P>) {
        let is_of = |reason| matches!(reason, Reason::Repair { of, .. } if of == number);
        // One at a time: a column is not read while it is mended itself.
        if self.gets.values().any(|get| is_of(get.reason)) || self.puts.values().any(|put| is_of(put.reason))
        {
            return;
        }
        let put = &self.puts[&number];
        let whole = put.extent.whole(self.size.unit_bytes);
        let have_answered = put.confirmed.with(put.damaged());
        let sources = self.sources(put.reason);
        let has_it = sources.common(put.confirmed);
        let in_sync = self.map.in_sync().collect();
        let must = self.needed().without(self.given_up);
        let has_all_answered = have_answered.covers(sources.with(must));
        // One that has done it and is not asked any more is about to be dropped.
        let is_done = put.confirmed.common(self.must()) != Mask::default();
        if self.made.is(Mistake::FailAtOnce) && !is_done && have_answered.covers(must) {
            return self.fail(number, out);
        }
        let fit = has_it.columns().find(|source| !put.lacks(*source, whole));
        let to_mend = put.damage.iter().filter(|(column, _)| !self.given_up.with(self.broken).has(*column));
        for &(column, extent) in to_mend {
            // What has no part of the write leaves the column what it was.
            let others = sources.common(have_answered).columns();
            let units = others
                .filter(|source| *source != column && put.tries < TRIES && !put.lacks(*source, extent))
                .min_by_key(|source| put.has_part(*source));
            let (source, extent, how) = match (fit, units) {
                (Some(source), _) => (source, whole, Mend::Whole),
                // Another column is yet to answer, and may have the unit without a part of what nobody may be able to do.
                (None, Some(source)) if put.has_part(source) && !has_all_answered => continue,
                (None, Some(source)) => (source, extent, Mend::Units),
                (None, None) if !has_all_answered => continue,
                (None, None) if has_it.common(in_sync) != Mask::default() => {
                    return self.broken.insert(column);
                }
                (None, None) if is_done => continue,
                (None, None) => return self.fail(number, out),
            };
            return self.get(now, extent, (source, Reason::Repair { of: number, column, how }), out);
        }
    }

    /// A unit that has to be read for a write is damaged at all columns in sync.
    fn fail(&mut self, number: u64, out: &mut Outputs<P>) {
        let unit = self.size.unit_bytes;
        let Some(put) = self.puts.get_mut(&number) else { return };
        (put.is_complete, put.has_failed) = (true, true);
        let is_elsewhere = |&(column, extent): &(u8, Extent)| {
            put.damaged().columns().any(|other| other != column && !put.lacks(other, extent))
        };
        let mut lost = put.damage.clone();
        lost.retain(|damage| put.tries >= TRIES || !is_elsewhere(damage));
        for &(column, extent) in &lost {
            out.push(Output::Damaged { column, extent, is_repaired: false });
        }
        if let Reason::Command(token) = put.reason {
            refuse(token, CommandError::Damaged, out);
        }
        // The column being filled may have done it. What all others have lost it has as well as it had. One that is about to be admitted is filled
        // once more.
        if let Some(fill) = &mut self.fill {
            if fill.step >= FillStep::Hardening && put.confirmed.has(fill.column) {
                self.given_up.insert(fill.column);
            }
            let whole = put.extent.whole(unit);
            let mut parts: Extents = [whole].into_iter().collect();
            lost.into_iter().for_each(|(_, extent)| parts.remove(extent));
            fill.todo.extend(parts.iter());
            fill.copied.remove(whole);
            fill.untold.remove(whole);
        }
    }

    /// Whether what is read or written for a repair keeps others out.
    pub(super) fn repairs_keep_out(&self) -> bool {
        !self.made.is(Mistake::RepairOvertakes)
    }
}
