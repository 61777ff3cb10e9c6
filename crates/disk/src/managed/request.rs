//! Jobs of volumes as the store takes them: whole units of one piece, with their checksums.

use std::ptr::NonNull;
use std::sync::atomic::Ordering::Relaxed;

use cards_array::store::{Answer, ColumnKey, StoreError};
use cards_layout::format::{Sum, UNIT};

use super::buffer::Buffer;
use super::driver::{Driver, Transfer};
use crate::error::JobError;
use crate::job::{Op, Outcome, RawBuf};

/// Most bytes that are one request at the store.
const PART: u64 = 4 << 20;
pub(super) const UNIT_BYTES: u64 = UNIT as u64;

/// The checksum of a unit.
pub(super) fn sum_of(unit: &[u8]) -> Sum {
    Sum::of_crc(crc_fast::crc32_iscsi(unit))
}

/// Those of bytes that are whole units.
pub(super) fn sums_of(bytes: &[u8]) -> Vec<Sum> {
    bytes.chunks(UNIT).map(sum_of).collect()
}

/// Units, by their number, that do not fit the checksums that are known of them.
pub(super) fn damaged<'a>(bytes: &'a [u8], sums: &'a [Option<Sum>]) -> impl Iterator<Item = usize> + 'a {
    let is_damaged = |(unit, sum): (&[u8], &Option<Sum>)| match sum {
        None => false,
        Some(Sum::NeverWritten) => unit.iter().any(|byte| *byte != 0),
        Some(Sum::Lost) => true,
        Some(sum) => sum_of(unit) != *sum,
    };
    bytes.chunks(UNIT).zip(sums).enumerate().filter(move |(_, pair)| is_damaged(*pair)).map(|(at, _)| at)
}

/// Why a job failed of which the store says this, and the disk that of its data.
pub(super) fn job_error(error: StoreError, of_disk: Option<JobError>) -> JobError {
    match error {
        StoreError::Data => of_disk.unwrap_or(JobError::Os { errno: libc::EIO }),
        StoreError::Failed => JobError::StoreFailed,
        StoreError::Closed => JobError::Os { errno: libc::ESHUTDOWN },
        _ => JobError::Os { errno: libc::ENXIO },
    }
}

/// The bytes of a buffer that a client has lent.
///
/// # Safety
/// The job that has the buffer is not answered yet, and nobody writes the memory while the slice lives.
unsafe fn lent<'a>(buf: RawBuf) -> &'a [u8] {
    // SAFETY: initialized memory at this address, until the job is answered; the rest is the caller's.
    unsafe { std::slice::from_raw_parts(buf.as_ptr(), buf.len()) }
}

/// Whether it begins and ends with a unit.
const fn is_whole(offset: u64, length: u64) -> bool {
    offset.is_multiple_of(UNIT_BYTES) && length.is_multiple_of(UNIT_BYTES)
}

impl Driver {
    /// Does a job of a volume, whose range is inside of the volume.
    pub(super) async fn serve(&self, key: ColumnKey, op: Op) -> Result<Outcome, JobError> {
        match op {
            Op::Read { offset, buf } => {
                for (at, length) in self.parts(offset, buf.len() as u64) {
                    self.read(key, at, part(buf, at - offset, length)).await?;
                }
            }
            Op::Write { offset, buf, .. } => {
                for (at, length) in self.parts(offset, buf.len() as u64) {
                    self.write(key, at, part(buf, at - offset, length), false).await?;
                }
            }
            Op::Flush => {
                let flush =
                    self.request(Transfer::None, None, |ticket, store, _, out| store.sync(ticket, out));
                let (result, error) = flush.await;
                result.map_err(|failed| job_error(failed, error))?;
            }
            Op::Zero { fast: true, .. } => return Err(JobError::Os { errno: libc::EOPNOTSUPP }),
            Op::Zero { offset, len, no_hole, .. } => {
                for (at, length) in self.parts(offset, len) {
                    self.zero(key, at, length, no_hole).await?;
                }
            }
            Op::Trim { offset, len } => {
                // What is left of a unit at either end stays as it is.
                let (first, end) = (offset.next_multiple_of(UNIT_BYTES), whole(offset + len));
                for (at, length) in self.parts(first, end.saturating_sub(first)) {
                    self.zero(key, at, length, false).await?;
                }
            }
            Op::Extents { offset, len } => return self.extents(key, offset, len).await.map(Outcome::Extents),
        }
        Ok(Outcome::Done)
    }

    /// Reads bytes of a column, which are in the column.
    pub(super) async fn read_bytes(
        &self,
        key: ColumnKey,
        offset: u64,
        length: u64,
    ) -> Result<Vec<u8>, JobError> {
        let mut bytes = vec![0; length as usize];
        // SAFETY: the bytes stay where they are, and are not looked at, until the last read has ended: the disk's thread ends
        // no task before its end.
        let buf = unsafe { RawBuf::new(NonNull::from(&mut bytes[..]).cast(), bytes.len()) };
        for (at, length) in self.parts(offset, length) {
            self.read(key, at, part(buf, at - offset, length)).await?;
        }
        Ok(bytes)
    }

    /// Writes bytes of a column, which are in the column. `missed`: some other column of its group does not get them. If the first or the last unit
    /// is damaged, and written only in part, nothing is written.
    pub(super) async fn write_bytes(
        &self,
        key: ColumnKey,
        offset: u64,
        bytes: &[u8],
        missed: bool,
    ) -> Result<(), JobError> {
        // SAFETY: the bytes are borrowed until the last write has ended, as the disk's thread ends no task before its end; nobody
        // writes into the source of a write.
        let buf = unsafe { RawBuf::new(NonNull::from(bytes).cast(), bytes.len()) };
        let end = offset + bytes.len() as u64;
        let has_parts = self.parts(offset, bytes.len() as u64).nth(1).is_some();
        // The last part would find the damage when others are written.
        if has_parts && !end.is_multiple_of(UNIT_BYTES) {
            self.read_bytes(key, whole(end), UNIT_BYTES).await?;
        }
        for (at, length) in self.parts(offset, bytes.len() as u64) {
            self.write(key, at, part(buf, at - offset, length), missed).await?;
        }
        Ok(())
    }

    /// A range in parts of one piece each.
    pub(super) fn parts(&self, offset: u64, length: u64) -> impl Iterator<Item = (u64, u64)> + use<> {
        let step = self.look(|store| store.sizes().piece()).min(PART);
        let end = offset + length;
        let mut at = offset;
        std::iter::from_fn(move || {
            let next = (at / step + 1).saturating_mul(step).min(end);
            let part = (at < end).then_some((at, next - at));
            at = next;
            part
        })
    }

    async fn read(&self, key: ColumnKey, offset: u64, buf: RawBuf) -> Result<(), JobError> {
        let (first, end) = (whole(offset), (offset + buf.len() as u64).next_multiple_of(UNIT_BYTES));
        let _held = self.ranges.take(key, first..end, false).await;
        if is_whole(offset, buf.len() as u64) {
            return self.read_units(key, offset, buf, None).await;
        }
        let buffer = Buffer::new((end - first) as usize);
        self.read_units(key, first, buffer.lend(0, buffer.len()), Some(buffer.clone())).await?;
        // SAFETY: the read that had the buffer is complete; and the client's memory is this job's until it is answered.
        unsafe {
            let from = &buffer.bytes()[(offset - first) as usize..][..buf.len()];
            std::ptr::copy_nonoverlapping(from.as_ptr(), buf.as_ptr(), buf.len());
        }
        self.counts.copied.fetch_add(buf.len() as u64, Relaxed);
        Ok(())
    }

    /// Reads units and compares them with their checksums. The caller has the range.
    async fn read_units(
        &self,
        key: ColumnKey,
        at: u64,
        buf: RawBuf,
        keep: Option<Buffer>,
    ) -> Result<(), JobError> {
        let sums = self.read_with_sums(key, at, buf, keep).await?;
        // SAFETY: the read is complete, and the memory is this job's until it is answered.
        let bytes = unsafe { lent(buf) };
        let units: Vec<usize> = damaged(bytes, &sums).collect();
        let Some(&first) = units.first() else { return Ok(()) };
        self.counts.damaged.fetch_add(units.len() as u64, Relaxed);
        let run = (first..).zip(&units).take_while(|(next, unit)| next == *unit).count() as u64;
        Err(JobError::Damaged { offset: at + first as u64 * UNIT_BYTES, length: run * UNIT_BYTES })
    }

    /// Reads units; their checksums, none where they are not known. The caller has the range.
    pub(super) async fn read_with_sums(
        &self,
        key: ColumnKey,
        at: u64,
        buf: RawBuf,
        keep: Option<Buffer>,
    ) -> Result<Vec<Option<Sum>>, JobError> {
        let length = buf.len() as u64;
        let read = self.request(Transfer::Read(buf), keep, |ticket, store, _, out| {
            store.read(ticket, key, at, length, out)
        });
        match read.await {
            (Ok(Answer::Sums(sums)), _) => Ok(sums),
            (Ok(Answer::Done), _) => Ok(Vec::new()),
            (Err(failed), error) => Err(job_error(failed, error)),
        }
    }

    async fn write(&self, key: ColumnKey, offset: u64, buf: RawBuf, missed: bool) -> Result<(), JobError> {
        let (first, end) = (whole(offset), (offset + buf.len() as u64).next_multiple_of(UNIT_BYTES));
        let _held = self.ranges.take(key, first..end, true).await;
        if is_whole(offset, buf.len() as u64) {
            // SAFETY: the memory is this job's until it is answered, and nobody writes the source of a write.
            let sums = sums_of(unsafe { lent(buf) });
            return self.write_units(key, offset, Transfer::Write(buf), sums, missed, None).await;
        }
        let buffer = Buffer::new((end - first) as usize);
        let last = buffer.len() - UNIT;
        // What the write leaves of its first and last unit.
        if offset > first || buffer.len() == UNIT {
            self.read_units(key, first, buffer.lend(0, UNIT), Some(buffer.clone())).await?;
        }
        if offset + (buf.len() as u64) < end && last > 0 {
            let at = end - UNIT_BYTES;
            self.read_units(key, at, buffer.lend(last, UNIT), Some(buffer.clone())).await?;
        }
        // SAFETY: the reads that had the buffer are complete, and there is no other reference to it; nobody writes the source of
        // a write.
        let sums = unsafe {
            buffer.bytes_mut()[(offset - first) as usize..][..buf.len()].copy_from_slice(lent(buf));
            sums_of(buffer.bytes())
        };
        self.counts.copied.fetch_add(buf.len() as u64, Relaxed);
        let transfer = Transfer::Write(buffer.lend(0, buffer.len()));
        self.write_units(key, first, transfer, sums, missed, Some(buffer)).await
    }

    async fn zero(&self, key: ColumnKey, offset: u64, length: u64, no_hole: bool) -> Result<(), JobError> {
        if !is_whole(offset, length) {
            let zeroes = Buffer::new(length as usize);
            return self.write(key, offset, zeroes.lend(0, length as usize), false).await;
        }
        let _held = self.ranges.take(key, offset..offset + length, true).await;
        let sums = vec![sum_of(&[0; UNIT]); (length / UNIT_BYTES) as usize];
        self.write_units(key, offset, Transfer::Zero { length, no_hole }, sums, false, None).await
    }

    /// Writes units that have these checksums. The caller has the range for itself.
    async fn write_units(
        &self,
        key: ColumnKey,
        at: u64,
        transfer: Transfer,
        sums: Vec<Sum>,
        missed: bool,
        keep: Option<Buffer>,
    ) -> Result<(), JobError> {
        let write = self.request(transfer, keep, |ticket, store, now, out| {
            store.write(ticket, key, at, sums, missed, now, out);
        });
        let (result, error) = write.await;
        result.map(drop).map_err(|failed| job_error(failed, error))
    }
}

/// The beginning of the unit of a byte.
pub(super) const fn whole(offset: u64) -> u64 {
    offset / UNIT_BYTES * UNIT_BYTES
}

/// A part of a buffer.
fn part(buf: RawBuf, at: u64, length: u64) -> RawBuf {
    buf.skip(at as usize).first(length as usize)
}
