//! The column that is being filled, and what it has missed.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use core::mem;

use cards_core::Instant;

use super::{Mask, Primary, Put, Reason};
use crate::group::change::Change;
use crate::group::extents::{Extent, Extents};
use crate::group::io::{Output, Outputs};
use crate::group::map::{Map, State};
use crate::group::message::Message;
use crate::group::mistakes::Mistake;

/// What a fill has copied is told in so many parts: of a fill that is interrupted less than one of them is copied anew.
pub(in crate::group) const TOLD: u64 = 128;

/// Bytes that are copied to a column before they are made durable there: far fewer than a disk can do within
/// [`crate::group::GroupTiming::flush_timeout`].
pub(in crate::group) const SYNCED: u64 = 64 << 20;

/// The column that is being filled.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Fill {
    pub(super) column: u8,
    /// What is not copied yet.
    pub(super) todo: VecDeque<Extent>,
    /// What it has missed and has confirmed.
    pub(super) copied: Extents,
    /// The part of it that other columns have yet to be told.
    pub(super) untold: Extents,
    /// Its bytes, of which those that were written twice count twice: it is looked at after each message.
    pub(super) untold_bytes: u64,
    /// How many are told at a time; none before all is copied if the disk of the column is not known to have what is not missed.
    pub(super) told_by: Option<u64>,
    /// What it has missed, and no column in sync has: it is not admitted before clients have written it anew.
    pub(super) lacks: Extents,
    pub(super) step: FillStep,
    /// What the primary had copied to columns when the copies were made durable last.
    pub(super) synced: u64,
    pub(super) since: Instant,
    /// What the primary had copied to columns before.
    pub(super) copied_before: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum FillStep {
    Copying,
    /// What was copied is being made durable, and nobody waits for it: a disk that is slow has not all of a fill to make durable at its end.
    Syncing,
    /// The last copies are being made durable. Writes and flushes wait for the column from now on: what is flushed before it is admitted
    /// has to be durable there when it is.
    Hardening,
    Hardened,
    /// The map that admits it is proposed: it has to give the right, as it may be in sync already.
    Proposed,
}

impl<P: Clone> Primary<P> {
    /// The column being filled, if that has come so far.
    pub(super) fn filled(&self, step: FillStep) -> Mask {
        self.fill.as_ref().filter(|fill| fill.step >= step).map(|fill| fill.column).into_iter().collect()
    }

    /// What a column has that this primary has filled is missed no more.
    pub(super) fn clear_missed(&mut self, out: &mut Outputs<P>) {
        let caught_up = mem::take(&mut self.caught_up);
        if self.map.is_whole() && !caught_up.is_empty() {
            self.send_caught_up(&caught_up, out);
        }
    }

    pub(super) fn send_caught_up(&self, extents: &Extents, out: &mut Outputs<P>) {
        for column in self.written().columns() {
            for extents in extents.parts(self.made.bounds().extents).map(Box::new) {
                let (term, number) = (self.map.term, self.next_number - 1);
                out.send(self.node(column), Message::CaughtUp { term, number, extents });
            }
        }
    }

    pub(super) fn begin_fill(&mut self, now: Instant, out: &mut Outputs<P>) {
        let is_fill = |column: &u8| !self.must().has(*column);
        let Some(column) = self.written().columns().find(is_fill) else { return };
        let (State::Fill { since }, Some(report)) =
            (self.map.columns[usize::from(column)].state, self.reports.get(&column))
        else {
            return;
        };
        let is_same = report.sealed_before.generation == self.map.term.generation;
        let fits = since > 0 && is_same && report.in_sync_epoch >= since;
        let mut todo = Extents::default();
        if fits || self.made.is(Mistake::TrustDisk) && report.in_sync_epoch > 0 {
            todo.unite(&self.missed);
            todo.unite(&report.unstable);
            if self.made.is(Mistake::ClearAtLetIn) {
                self.send_caught_up(&todo, out);
            }
        } else {
            todo.insert(Extent { offset: 0, length: self.size.bytes });
        }
        let todo: VecDeque<Extent> = todo.whole(self.size.unit_bytes).pieces(self.size.copy_bytes).collect();
        let bytes: u64 = todo.iter().map(|extent| extent.length).sum();
        out.push(Output::Changed(Change::FillBegun { column, bytes }));
        // Missed ranges are those of any column: they are forgotten early only where no other one needs them.
        let is_only = self.map.columns.iter().enumerate().all(|(number, other)| {
            let misses = matches!(other.state, State::Stale { since } | State::Fill { since } if since > 0);
            number == usize::from(column) || !misses
        });
        let told_by = (fits && (is_only || self.made.is(Mistake::ClearForOthers)))
            .then_some(bytes / self.made.bounds().told);
        let [copied, untold, lacks] = [Extents::default(), Extents::default(), Extents::default()];
        let (step, copied_before) = (FillStep::Copying, self.copied);
        self.fill = Some(Fill {
            column,
            todo,
            copied,
            untold,
            untold_bytes: 0,
            told_by,
            lacks,
            step,
            synced: copied_before,
            since: now,
            copied_before,
        });
    }

    /// What has been copied is not copied once more if the fill is interrupted: all columns forget that it was missed. Not what is being
    /// written: the column may never confirm it.
    fn tell_copied(&mut self, out: &mut Outputs<P>) {
        let Some(fill) = &mut self.fill else { return };
        if fill.told_by.is_none_or(|least| fill.untold_bytes <= least) {
            return;
        }
        fill.untold_bytes = 0;
        let mut told = mem::take(&mut fill.untold);
        fill.lacks.iter().for_each(|extent| told.remove(extent));
        self.puts.values().for_each(|put| told.remove(put.extent));
        if !told.is_empty() {
            self.send_caught_up(&told, out);
        }
    }

    /// The next step of a fill, and the map that is to be proposed.
    pub(super) fn go_on_filling(&mut self, now: Instant, out: &mut Outputs<P>) -> Option<(Map, Change)> {
        let column = self.fill.as_ref()?.column;
        if self.made.is(Mistake::TellGivenUp) {
            self.tell_copied(out);
        }
        if self.given_up.has(column) {
            // Writes that waited for it alone have ended, and it may lack them where it has been told of as copied.
            self.fill = None;
            return None;
        }
        self.tell_copied(out);
        let gives_right = self.right.lasts(now, [self.node(column)].into_iter(), &self.timing);
        let fill = self.fill.as_mut()?;
        let is_copying = self.puts.values().any(|put| put.reason == Reason::Fill)
            || self.gets.values().any(|get| get.reason == Reason::Fill);
        // A write that was acknowledged without the column must reach it first.
        let is_behind =
            |put: &Put<P>| put.is_complete && put.targets.has(column) && !put.confirmed.has(column);
        match fill.step {
            // What is left is copied by the next primary: clients wait until that has the group.
            FillStep::Copying if is_copying || self.hands_over.is_some() => {}
            FillStep::Copying
                if self.copied - fill.synced
                    >= if fill.todo.is_empty() { 1 } else { self.made.bounds().synced } =>
            {
                (fill.step, fill.synced) = (FillStep::Syncing, self.copied);
                self.harden(now, None, out);
            }
            FillStep::Copying => match fill.todo.front().copied() {
                Some(extent) if self.puts.values().any(|put| put.extent.overlaps(extent)) => {}
                Some(extent) => {
                    fill.todo.pop_front();
                    if self.made.is(Mistake::ClearWhenSent) {
                        self.send_caught_up(&[extent].into_iter().collect(), out);
                    }
                    self.get(now, extent, (self.own, Reason::Fill), out);
                }
                None if fill.lacks.is_empty() && !self.puts.values().any(is_behind) => {
                    fill.step = FillStep::Hardening;
                    if self.made.is(Mistake::AdmitBeforeHardened) {
                        fill.step = FillStep::Hardened;
                    } else {
                        self.harden(now, None, out);
                    }
                }
                None => {}
            },
            // The column has to give the right from then on.
            FillStep::Hardened if gives_right => {
                let (bytes, took) = (self.copied - fill.copied_before, now.since(fill.since));
                if !self.writes_have_ended(now) {
                    return None;
                }
                let change = Change::FillEnded { column, bytes, took };
                return Some((self.map.admitted(self.me, column).ok()?, change));
            }
            FillStep::Syncing | FillStep::Hardening | FillStep::Hardened | FillStep::Proposed => {}
        }
        None
    }
}
