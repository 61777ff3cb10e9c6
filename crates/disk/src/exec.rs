//! Jobs done by blocking system calls: what a pool thread runs.

use std::io;
use std::os::fd::RawFd;

use crate::error::JobError;
use crate::file::Files;
use crate::job::{EXTENTS_MAX, Extent, ExtentKind, Op, Outcome, RawBuf, Work};

/// Most bytes Linux moves in one call (`MAX_RW_COUNT`, less to stay aligned).
pub(crate) const TRANSFER_MAX: usize = 1 << 30;

/// Written over and over where the disk cannot zero a range by itself.
pub(crate) static ZEROES: [u8; 128 << 10] = [0; 128 << 10];

/// Runs `work` to its end.
pub(crate) fn run(files: &Files, work: &Work) -> Result<Outcome, JobError> {
    match work.op {
        Op::Read { offset, buf } => transfer(files, work, offset, buf, pread)?,
        Op::Write { offset, buf, .. } => transfer(files, work, offset, buf, pwrite)?,
        Op::Flush => sync(files)?,
        Op::Zero { offset, len, no_hole, fast } => zero(files, offset, len, no_hole, fast)?,
        Op::Trim { offset, len } => trim(files, offset, len)?,
        Op::Extents { offset, len } => return extents(files, offset, len).map(Outcome::Extents),
    }
    Ok(Outcome::Done)
}

fn transfer(
    files: &Files,
    work: &Work,
    offset: u64,
    buf: RawBuf,
    call: fn(RawFd, RawBuf, usize, u64) -> isize,
) -> Result<(), JobError> {
    let mut done = 0;
    let mut max = work.first_max.min(TRANSFER_MAX);
    while done < buf.len() {
        let rest = buf.skip(done);
        let at = offset + done as u64;
        match usize::try_from(call(files.fd(&work.op, done), rest, rest.len().min(max), at)) {
            Ok(0) => return Err(no_progress(&work.op, at)),
            Ok(n) => done += n,
            Err(_) => retry_interrupted()?,
        }
        max = TRANSFER_MAX;
    }
    Ok(())
}

/// Runs buffered writes that are sorted by offset; neighbours in one call. The results are in their order.
pub(crate) fn write_all(files: &Files, works: &[Work]) -> Vec<Result<Outcome, JobError>> {
    let mut results = Vec::with_capacity(works.len());
    for neighbours in works.chunk_by(|one, next| {
        let end = one.op.range().map(|(offset, len)| offset + len);
        end.is_some() && end == next.op.range().map(|(offset, _)| offset)
    }) {
        // What could not be written together is written one by one, so that an error is the right one's.
        let done = if neighbours.len() > 1 { write_together(files, neighbours) } else { 0 };
        results.extend(neighbours.iter().take(done).map(|_| Ok(Outcome::Done)));
        results.extend(neighbours.iter().skip(done).map(|work| run(files, work)));
    }
    results
}

/// Writes neighbours with one call; says how many of them are written.
fn write_together(files: &Files, neighbours: &[Work]) -> usize {
    let Some((start, _)) = neighbours.first().and_then(|work| work.op.range()) else { return 0 };
    let slices: Vec<libc::iovec> = neighbours
        .iter()
        .filter_map(|work| match work.op {
            Op::Write { buf, .. } => Some(libc::iovec { iov_base: buf.as_ptr().cast(), iov_len: buf.len() }),
            _ => None,
        })
        .collect();
    let count = libc::c_int::try_from(slices.len()).unwrap_or(0);
    // SAFETY: `count` slices, each an address that the job's owner lends until its completion.
    let n = unsafe { libc::pwritev64(files.buffered(), slices.as_ptr(), count, start.cast_signed()) };
    let mut left = usize::try_from(n).unwrap_or(0);
    let whole = |slice: &&libc::iovec| {
        let fits = slice.iov_len <= left;
        left = left.saturating_sub(slice.iov_len);
        fits
    };
    slices.iter().take_while(whole).count()
}

/// What a transfer of 0 bytes means.
pub(crate) fn no_progress(op: &Op, at: u64) -> JobError {
    if op.writes() { JobError::Os { errno: libc::ENOSPC } } else { JobError::Shrank { offset: at } }
}

fn pread(fd: RawFd, buf: RawBuf, max: usize, at: u64) -> isize {
    // SAFETY: at most `buf.len()` bytes at an address that the job's owner lends until its completion.
    unsafe { libc::pread64(fd, buf.as_ptr().cast(), max, at.cast_signed()) }
}

fn pwrite(fd: RawFd, buf: RawBuf, max: usize, at: u64) -> isize {
    // SAFETY: as for pread.
    unsafe { libc::pwrite64(fd, buf.as_ptr().cast_const().cast(), max, at.cast_signed()) }
}

fn sync(files: &Files) -> Result<(), JobError> {
    // SAFETY: takes a descriptor only.
    // Not repeated when interrupted: it may have consumed an error.
    if unsafe { libc::fdatasync(files.buffered()) } == 0 { Ok(()) } else { Err(JobError::last_os()) }
}

fn zero(files: &Files, offset: u64, len: u64, no_hole: bool, fast: bool) -> Result<(), JobError> {
    let mode = if no_hole { libc::FALLOC_FL_ZERO_RANGE } else { libc::FALLOC_FL_PUNCH_HOLE };
    match fallocate(files, mode, offset, len) {
        Err(JobError::Os { errno: libc::EOPNOTSUPP | libc::ENOSYS | libc::EINVAL }) if fast => {
            Err(JobError::Os { errno: libc::EOPNOTSUPP })
        }
        // EINVAL: a block device refuses ranges that are not whole logical blocks.
        Err(JobError::Os { errno: libc::EOPNOTSUPP | libc::ENOSYS | libc::EINVAL }) => {
            write_zeroes(files, offset, len)
        }
        other => other,
    }
}

fn write_zeroes(files: &Files, mut offset: u64, mut len: u64) -> Result<(), JobError> {
    while len > 0 {
        let max = len.min(ZEROES.len() as u64) as usize;
        // SAFETY: at most the length of ZEROES, which lives for ever.
        let n =
            unsafe { libc::pwrite64(files.buffered(), ZEROES.as_ptr().cast(), max, offset.cast_signed()) };
        match u64::try_from(n) {
            Ok(0) => return Err(JobError::Os { errno: libc::ENOSPC }),
            Ok(n) => (offset, len) = (offset + n, len - n),
            Err(_) => retry_interrupted()?,
        }
    }
    Ok(())
}

fn trim(files: &Files, offset: u64, len: u64) -> Result<(), JobError> {
    let (mut start, mut end) = (offset, offset + len);
    if files.shape().device {
        let block = u64::from(files.shape().block_size);
        (start, end) = (start.next_multiple_of(block), end / block * block);
    }
    if start >= end {
        return Ok(());
    }
    match fallocate(files, libc::FALLOC_FL_PUNCH_HOLE, start, end - start) {
        Err(JobError::Os { errno: libc::EOPNOTSUPP | libc::ENOSYS }) => Ok(()),
        other => other,
    }
}

fn fallocate(files: &Files, mode: libc::c_int, offset: u64, len: u64) -> Result<(), JobError> {
    if len == 0 {
        return Ok(());
    }
    let mode = mode | libc::FALLOC_FL_KEEP_SIZE;
    loop {
        // SAFETY: takes a descriptor and numbers.
        if unsafe { libc::fallocate64(files.buffered(), mode, offset.cast_signed(), len.cast_signed()) } == 0
        {
            return Ok(());
        }
        retry_interrupted()?;
    }
}

fn extents(files: &Files, offset: u64, len: u64) -> Result<Vec<Extent>, JobError> {
    let end = offset + len;
    let data = |len| vec![Extent { len, kind: ExtentKind::Data }];
    if files.shape().device || len == 0 {
        return Ok(if len == 0 { Vec::new() } else { data(len) });
    }
    // A hole past the end of a truncated file would read as an error, not as zeroes.
    // SAFETY: takes a descriptor and numbers. The position it moves is used by nobody.
    let now = unsafe { libc::lseek64(files.buffered(), 0, libc::SEEK_END) };
    if u64::try_from(now).is_ok_and(|now| now < end) {
        return Err(JobError::Shrank { offset: now.cast_unsigned() });
    }
    let mut out = Vec::new();
    let mut at = offset;
    while at < end && out.len() < EXTENTS_MAX {
        let (kind, next) = match seek(files, at, libc::SEEK_DATA) {
            Ok(next) if next > at => (ExtentKind::Hole, next),
            Ok(_) => (ExtentKind::Data, seek(files, at, libc::SEEK_HOLE)?),
            Err(JobError::Os { errno: libc::ENXIO }) => (ExtentKind::Hole, end),
            Err(JobError::Os { errno: libc::EINVAL | libc::EOPNOTSUPP }) if out.is_empty() => {
                return Ok(data(len));
            }
            Err(error) => return Err(error),
        };
        let next = next.clamp(at + 1, end);
        out.push(Extent { len: next - at, kind });
        at = next;
    }
    Ok(out)
}

fn seek(files: &Files, at: u64, whence: libc::c_int) -> Result<u64, JobError> {
    // SAFETY: takes a descriptor and numbers.
    let next = unsafe { libc::lseek64(files.buffered(), at.cast_signed(), whence) };
    u64::try_from(next).map_err(|_| JobError::last_os())
}

/// After a failed call: `Ok` when it was only interrupted.
fn retry_interrupted() -> Result<(), JobError> {
    match io::Error::last_os_error().kind() {
        io::ErrorKind::Interrupted => Ok(()),
        _ => Err(JobError::last_os()),
    }
}
