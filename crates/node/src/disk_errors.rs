//! The errors that a disk of this node has reported, for the status and the metrics.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cards_core::Instant;
use cards_disk::{JobError, Op};

use crate::config::size;

/// How long after its last error a disk is a problem.
const REMEMBERED: Duration = Duration::from_secs(300);

/// What was asked of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) name: &'static str,
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

impl Asked {
    pub(crate) fn of(op: &Op) -> Self {
        let (name, offset, length) = match *op {
            Op::Read { offset, buf } => ("read", offset, buf.len() as u64),
            Op::Write { offset, buf, .. } => ("write", offset, buf.len() as u64),
            Op::Flush => ("flush", 0, 0),
            Op::Zero { offset, len, .. } => ("zero", offset, len),
            Op::Trim { offset, len } => ("trim", offset, len),
            Op::Extents { offset, len } => ("search for holes", offset, len),
        };
        Self { name, offset, length }
    }
}

impl std::fmt::Display for Asked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.length {
            0 => write!(f, "a {}", self.name),
            length => write!(f, "a {} of {} at byte {}", self.name, size::human(length), self.offset),
        }
    }
}

/// The errors of one disk.
#[derive(Debug, Default)]
pub(crate) struct DiskErrors(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    total: u64,
    series: Option<Series>,
}

/// Errors of which each came within [`REMEMBERED`] of the one before.
#[derive(Debug)]
struct Series {
    errors: u64,
    since: Instant,
    last: Instant,
    asked: Asked,
    error: JobError,
}

impl DiskErrors {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A job has failed.
    pub(crate) fn note(&self, now: Instant, asked: Asked, error: JobError) {
        if !is_of_disk(error) {
            return;
        }
        let mut state = self.state();
        state.total += 1;
        let series = state.series.take().filter(|series| series.is_recent(now));
        let (errors, since) = series.map_or((0, now), |series| (series.errors, series.since));
        state.series = Some(Series { errors: errors + 1, since, last: now, asked, error });
    }

    /// Errors since the daemon started.
    pub(crate) fn total(&self) -> u64 {
        self.state().total
    }

    /// What to say of the last errors, if they are not long ago.
    pub(crate) fn problem(&self, now: Instant, disk: &str) -> Option<String> {
        let state = self.state();
        let Series { errors, since, last, asked, error } =
            state.series.as_ref().filter(|series| series.is_recent(now))?;
        let ago = |then: &Instant| now.0.saturating_sub(then.0) / 1_000_000_000;
        let what = match errors {
            1 => format!("an operation failed {} s ago, {asked}", ago(last)),
            _ => format!(
                "{errors} operations failed in {} s, the last {} s ago, {asked}",
                ago(since),
                ago(last)
            ),
        };
        Some(format!("disk {disk}: {what}: {error}; see the kernel's log (dmesg) and the disk"))
    }
}

impl Series {
    fn is_recent(&self, now: Instant) -> bool {
        now < self.last + REMEMBERED
    }
}

/// It says something of the disk, and not of what was asked.
fn is_of_disk(error: JobError) -> bool {
    match error {
        JobError::OutOfRange { .. } | JobError::ReadOnly => false,
        JobError::Os { errno } => !matches!(errno, libc::ECANCELED | libc::EOPNOTSUPP | libc::EINVAL),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_errors_are_told_for_a_while() {
        let errors = DiskErrors::default();
        let at = |seconds: u64| Instant(seconds * 1_000_000_000);
        let asked = Asked { name: "read", offset: 1 << 20, length: 4096 };
        let eio = JobError::Os { errno: libc::EIO };
        errors.note(at(1), asked, JobError::Os { errno: libc::EOPNOTSUPP });
        assert_eq!((errors.total(), errors.problem(at(1), "err")), (0, None));
        errors.note(at(10), asked, eio);
        let said = errors.problem(at(12), "err").unwrap();
        assert!(
            said.starts_with("disk err: an operation failed 2 s ago, a read of 4 KiB at byte 1048576: Input")
        );
        errors.note(at(40), Asked { name: "flush", offset: 0, length: 0 }, eio);
        let said = errors.problem(at(41), "err").unwrap();
        assert!(said.contains("2 operations failed in 31 s, the last 1 s ago, a flush: Input"), "{said}");
        assert_eq!(errors.problem(at(341), "err"), None);
        errors.note(at(400), asked, eio);
        assert!(errors.problem(at(400), "err").unwrap().contains("an operation failed 0 s ago"));
        assert_eq!(errors.total(), 3);
    }
}
