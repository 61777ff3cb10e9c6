//! Columns in sync made the same: whose memory counts, and which column's bytes, where writes had not ended.

use alloc::vec::Vec;

use cards_core::Instant;

use super::{Mask, Primary, Reason, Stage};
use crate::group::extents::Extents;
use crate::group::io::Outputs;
use crate::group::map::Term;
use crate::group::message::{Memory, Report};
use crate::group::mistakes::Mistake;
use crate::group::origins::Origins;

impl<P: Clone> Primary<P> {
    /// Columns in sync whose disks were put back: another one has opened a term, for which all were sealed before.
    fn put_back(&self, in_sync: Mask) -> Mask {
        let reports = || self.reports.iter().filter(|(column, _)| in_sync.has(**column));
        let opened =
            reports().map(|(_, report)| Term { epoch: report.in_sync_epoch, ..report.sealed_before }).max();
        let is_old =
            |report: &Report| opened.is_some_and(|opened| opened.epoch > 0 && report.sealed_before < opened);
        reports().filter(|(_, report)| is_old(report)).map(|(column, _)| *column).collect()
    }

    /// All columns are sealed: what has to be made the same, and by which column.
    pub(super) fn reconcile(&mut self) {
        let in_sync: Mask = self.map.in_sync().collect();
        if !self.made.is(Mistake::IgnoreMarks) {
            self.put_back(in_sync).columns().for_each(|column| self.is_outdated(column));
        }
        if self.outdated.common(in_sync) != Mask::default() {
            return;
        }
        let reports: Vec<_> = self.reports.iter().filter(|(column, _)| in_sync.has(**column)).collect();
        // A column that has every acknowledged write and its memory, or whose disk was closed, best of all the own one.
        let own = self.own;
        let rank = |column: u8, report: &Report| (report.memory, report.origins.life(), column == own);
        let best = reports.iter().max_by_key(|(column, report)| rank(**column, report));
        let Some((source, report)) = best else { return };
        let is_intact = report.memory == Memory::Intact;
        self.has_forgotten = !is_intact && self.has_opened;
        if self.has_forgotten {
            return;
        }
        self.source = **source;
        let origins = match report.origins.clone() {
            _ if self.made.is(Mistake::ForgetOrigins) => Origins::default(),
            origins if is_intact => origins,
            _ => Origins::beginning(self.map.since),
        };
        // Which commands were done may be forgotten, and all be there.
        let life = match (report.memory, report.origins.life()) {
            (Memory::Lossy, _) | (_, 0) => self.map.since,
            (_, life) => life,
        };
        self.origins = origins.with_life(life);
        let mut unstable = Extents::default();
        self.missed = Extents::default();
        for (_, report) in &reports {
            unstable.unite(&report.unstable);
            self.missed.unite(&report.missed);
        }
        if !self.map.is_whole() && !self.made.is(Mistake::ForgetUnstable) {
            self.missed.unite(&unstable);
        }
        self.is_doubtful = !is_intact
            || reports
                .iter()
                .any(|(_, report)| report.memory < Memory::Intact || report.origins != self.origins);
        self.applied = self.origins.clone();
        let mut unstable = unstable.whole(self.size.unit_bytes);
        let most = self.made.bounds().extents;
        unstable.cover(most);
        self.missed.cover(most);
        let skips = reports.len() == 1 || self.made.is(Mistake::SkipReconciliation);
        self.reconcile = unstable.pieces(self.size.copy_bytes).filter(|_| !skips).collect();
        self.stage = Stage::Reconciling;
    }

    pub(super) fn go_on_reconciling(&mut self, now: Instant, out: &mut Outputs<P>) {
        let is_over = self.has_forgotten || self.map.in_sync().any(|column| self.broken.has(column));
        if !self.gets.is_empty() || !self.puts.is_empty() || is_over {
            return;
        }
        if let Some(extent) = self.reconcile.pop_front() {
            self.get(now, extent, (self.source, Reason::Reconcile), out);
        } else {
            (self.stage, self.stage_since) = (Stage::Opening, now);
            self.resend_at = now + self.timing.resend;
            self.send_open(out);
        }
    }
}
