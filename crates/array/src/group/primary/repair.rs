//! Units that do not fit their checksums, written anew from another column.
//!
//! Whoever finds them waits meanwhile, and keeps writes of these units out: a read, because no write begins over what is being read; a write,
//! because none begins over what is being written. Since columns in sync have every write that has ended, and no other one is open there, what
//! is read at one of them is what the damaged column has to have, and stays so until that has it. So a repair undoes nothing.
//!
//! While columns are being reconciled they need not be the same. What replaces units of the source may lack a command that the source
//! remembers. A primary that has just taken over forgets what the source remembers then, and the group begins another term. One that goes on does
//! its open commands again: all others are at all columns.

use alloc::vec::Vec;

use super::fill::FillStep;
use super::{Get, Primary, Put, Reason, Write};
use crate::group::extents::{Extent, Extents};
use crate::group::io::{Command, CommandError, Output, Outputs, Token};
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
    /// The column has confirmed it.
    is_done: bool,
}

impl<P> Put<P> {
    /// Columns that did not do it, because bytes around it are damaged there.
    pub(super) fn damaged(&self) -> Mask {
        self.damage.iter().map(|(column, _)| *column).collect()
    }

    /// What it was, if it was a repair.
    pub(super) fn mended(&self) -> Option<Mended> {
        let Reason::Repair { of, column } = self.reason else { return None };
        Some(Mended { of, column, extent: self.extent, is_done: self.confirmed.has(column) })
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
        match self.compares.remove(&token) {
            Some(Write { extent, payload, origin }) => {
                self.compared.insert(token);
                self.waiting.push_front((token, Command::Write { extent, payload, origin }));
            }
            None => self.results.push_back((token, None)),
        }
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
                Reason::Repair { of, column } => {
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
            match put.reason {
                Reason::Command(_) => put.damage.push((column, extent)),
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
            Some(source) => self.get(now, extent, (source, Reason::Repair { of, column }), out),
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
            put.unfit.insert(get.from);
            return;
        }
        let before = get.extent.around(damaged).find(|before| before.offset < damaged.offset);
        if let Some(before) = before {
            return self.get(now, before, (get.from, Reason::Repair { of, column }), out);
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
            Reason::Verify(token) => self.verify_rest(now, (from, token), extent, damaged.end(), out),
            Reason::Repair { .. } => {}
        }
    }

    fn verify_rest(
        &mut self,
        now: Instant,
        (column, token): (u8, Token),
        extent: Extent,
        offset: u64,
        out: &mut Outputs<P>,
    ) {
        match extent.end().checked_sub(offset).filter(|length| *length > 0) {
            Some(length) => {
                let number =
                    self.get_numbered(now, Extent { offset, length }, (column, Reason::Verify(token)), out);
                let mended = Some(Extent { offset, length: 1 });
                self.gets.entry(number).and_modify(|get| get.mended = mended);
            }
            None => self.end_verify(token),
        }
    }

    /// What waited for repairs that have ended goes on.
    pub(super) fn go_on_after_repairs(&mut self, now: Instant, out: &mut Outputs<P>) {
        for Mended { of, column, extent, is_done } in core::mem::take(&mut self.mended) {
            if is_done {
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
                        self.verify_rest(now, (get.from, token), get.extent, extent.offset, out);
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
                put.confirmed.insert(column);
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

    /// Writes that columns did not do, because bytes around them are damaged there, get these and theirs from a column that has done them.
    fn mend_puts(&mut self, now: Instant, out: &mut Outputs<P>) {
        let is_command = |put: &Put<P>| matches!(put.reason, Reason::Command(_)) && !put.has_failed;
        let found = self.puts.iter().filter(|(_, put)| !put.damage.is_empty() && is_command(put));
        let numbers: Vec<u64> = found.map(|(number, _)| *number).collect();
        let must = self.needed().without(self.given_up);
        for number in numbers {
            let put = &self.puts[&number];
            let (extent, confirmed, unfit) =
                (put.extent.whole(self.size.unit_bytes), put.confirmed, put.unfit);
            let damaged = put.damaged().without(confirmed).without(self.given_up);
            let sources = self.sources(put.reason);
            let has_it = sources.common(confirmed);
            if has_it == Mask::default() && confirmed.with(put.damaged()).covers(must) {
                self.fail(now, number, out);
                continue;
            }
            for column in damaged.columns() {
                let reason = Reason::Repair { of: number, column };
                let is_open = self.gets.values().any(|get| get.reason == reason)
                    || self.puts.values().any(|put| put.reason == reason);
                match has_it.without(unfit).columns().next() {
                    _ if is_open => {}
                    Some(source) => self.get(now, extent, (source, reason), out),
                    None if has_it != Mask::default() => self.broken.insert(column),
                    // Another column is yet to answer.
                    None => {}
                }
            }
        }
    }

    /// No column in sync could do a write. Where they are not damaged in the same units, they have what each lacks.
    fn fail(&mut self, now: Instant, number: u64, out: &mut Outputs<P>) {
        let unit = self.size.unit_bytes;
        let Some(put) = self.puts.get_mut(&number) else { return };
        (put.is_complete, put.has_failed) = (true, true);
        let whole = put.extent.whole(unit);
        let has = |column: u8, extent: Extent| {
            !put.damage
                .iter()
                .any(|(other, damaged)| *other == column && damaged.whole(unit).overlaps(extent))
        };
        let is_elsewhere = |&(column, extent): &(u8, Extent)| {
            put.damaged().columns().any(|other| other != column && has(other, extent.whole(unit)))
        };
        let is_last = put.is_second || self.made.is(Mistake::FailAtOnce);
        let may_help = !is_last && put.damage.iter().any(is_elsewhere);
        let of_none = put.damage.iter().filter(|damage| !is_elsewhere(damage));
        let lost: Vec<Extent> = of_none.map(|(_, extent)| extent.whole(unit)).collect();
        match put.reason {
            Reason::Command(token) if may_help => {
                let Put { extent, payload, origin, .. } = put.clone();
                self.compares.insert(token, Write { extent, payload, origin });
                self.verify(now, token, whole, out);
            }
            reason => {
                for &(column, extent) in &put.damage {
                    out.push(Output::Damaged { column, extent, is_repaired: false });
                }
                if let Reason::Command(token) = reason {
                    refuse(token, CommandError::Damaged, out);
                }
            }
        }
        // The column being filled may have done it. What all others have lost it has as well as it had.
        if let Some(fill) = &mut self.fill {
            let mut parts: Extents = [whole].into_iter().collect();
            lost.into_iter().for_each(|extent| parts.remove(extent));
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
