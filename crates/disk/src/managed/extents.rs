//! Holes of a volume, as far as a read of them is zeroes.
//!
//! What the disk calls a hole may be data that are lost: a client that copies a volume would leave zeroes there, where a read fails.

use cards_array::store::{Answer, ColumnKey};
use cards_layout::format::{Sum, UNIT};

use super::driver::{Driver, Transfer};
use super::request::{UNIT_BYTES, job_error, sum_of, whole};
use crate::error::JobError;
use crate::job::{EXTENTS_MAX, Extent, ExtentKind, Op, Outcome};

impl Driver {
    /// The extents of a range of a volume, up to the end of its first piece.
    pub(super) async fn extents(
        &self,
        key: ColumnKey,
        offset: u64,
        len: u64,
    ) -> Result<Vec<Extent>, JobError> {
        let found = self.look(|store| store.locate(key, offset));
        let (place, left) = found.map_err(|error| job_error(error, None))?;
        let end = offset + len.min(left);
        let found = self.own(Op::Extents { offset: place, len: end - offset }, None).await?;
        let Outcome::Extents(found) = found else { return Ok(Vec::new()) };
        let (mut runs, mut at) = (Runs::default(), offset);
        for extent in found {
            let next = end.min(at + extent.len);
            match extent.kind {
                ExtentKind::Data => runs.push(extent.kind, next - at),
                ExtentKind::Hole => self.hole(key, at, next, &mut runs).await?,
            }
            at = next;
            if runs.are_full() {
                break;
            }
        }
        Ok(runs.first())
    }

    /// A hole of the disk, which is in one piece.
    async fn hole(&self, key: ColumnKey, offset: u64, end: u64, runs: &mut Runs) -> Result<(), JobError> {
        let zero = sum_of(&[0; UNIT]);
        for (at, length) in self.parts(offset, end - offset) {
            let (first, last) = (whole(at), (at + length).next_multiple_of(UNIT_BYTES));
            let _held = self.ranges.take(key, first..last, false).await;
            let asked = self.request(Transfer::None, None, |ticket, store, now, out| {
                store.sums(ticket, key, first, last - first, now, out);
            });
            let sums = match asked.await {
                (Ok(Answer::Sums(sums)), _) => sums,
                (Ok(Answer::Done), _) => Vec::new(),
                (Err(failed), error) => return Err(job_error(failed, error)),
            };
            for (unit, sum) in (first..).step_by(UNIT).zip(sums) {
                let is_zero = sum.is_none_or(|sum| sum == Sum::NeverWritten || sum == zero);
                let kind = if is_zero { ExtentKind::Hole } else { ExtentKind::Data };
                runs.push(kind, (unit + UNIT_BYTES).min(at + length) - unit.max(at));
            }
            if runs.are_full() {
                break;
            }
        }
        Ok(())
    }
}

/// Extents, neighbours of one kind as one.
#[derive(Default)]
struct Runs(Vec<Extent>);

impl Runs {
    fn push(&mut self, kind: ExtentKind, len: u64) {
        match self.0.last_mut() {
            Some(last) if last.kind == kind => last.len += len,
            _ => self.0.push(Extent { len, kind }),
        }
    }

    /// There are more than an answer may have: the last of these is not complete.
    fn are_full(&self) -> bool {
        self.0.len() > EXTENTS_MAX
    }

    /// As many as an answer may have.
    fn first(mut self) -> Vec<Extent> {
        self.0.truncate(EXTENTS_MAX);
        self.0
    }
}
