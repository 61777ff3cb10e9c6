//! What has failed not long ago, at a disk of this node, at a volume of another one or on the way from a peer, for the status
//! and the metrics.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cards_core::Instant;
use cards_disk::Op;

use cards_config::size;

/// How long after its last error a disk, or what a peer sends, is a problem.
pub(crate) const ERRORS_REMEMBERED: Duration = Duration::from_secs(300);
/// How long after the last request that failed a volume is a problem, at least: half as long again as they take to fail.
pub(crate) const REQUESTS_REMEMBERED: Duration = Duration::from_secs(10);

/// What was asked.
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

/// The failures of one disk, card or peer.
#[derive(Debug, Default)]
pub(crate) struct Failures(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    total: u64,
    series: Option<Series>,
}

/// Failures of which each came while the one before was remembered.
#[derive(Debug)]
struct Series {
    count: u64,
    since: Instant,
    last: Instant,
    asked: Asked,
    error: String,
}

impl Failures {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One that is `remembered` for so long.
    pub(crate) fn note(&self, now: Instant, remembered: Duration, asked: Asked, error: String) {
        let mut state = self.state();
        state.total += 1;
        let series = state.series.take().filter(|series| now < series.last + remembered);
        let (count, since) = series.map_or((0, now), |series| (series.count, series.since));
        state.series = Some(Series { count: count + 1, since, last: now, asked, error });
    }

    /// How many since the daemon started.
    pub(crate) fn total(&self) -> u64 {
        self.state().total
    }

    /// What to say of the last ones, each a `what`, while they are `remembered`.
    pub(crate) fn recent(&self, now: Instant, remembered: Duration, what: &str) -> Option<String> {
        let state = self.state();
        let Series { count, since, last, asked, error } =
            state.series.as_ref().filter(|series| now < series.last + remembered)?;
        let ago = |then: &Instant| now.0.saturating_sub(then.0) / 1_000_000_000;
        Some(match count {
            1 => format!("1 {what} failed {} s ago, {asked}: {error}", ago(last)),
            _ => {
                let took = match last.since(*since).as_secs() {
                    0 => String::new(),
                    seconds => format!(" in {seconds} s"),
                };
                format!("{count} {what}s failed{took}, the last {} s ago, {asked}: {error}", ago(last))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_are_told_for_a_while() {
        let failures = Failures::default();
        let remembered = ERRORS_REMEMBERED;
        let at = |seconds: u64| Instant(seconds * 1_000_000_000);
        let asked = Asked { name: "read", offset: 1 << 20, length: 4096 };
        let told = |seconds| failures.recent(at(seconds), remembered, "operation");
        assert_eq!((failures.total(), told(1)), (0, None));
        failures.note(at(10), remembered, asked, "Input".into());
        assert_eq!(told(12).unwrap(), "1 operation failed 2 s ago, a read of 4 KiB at byte 1048576: Input");
        failures.note(at(40), remembered, Asked { name: "flush", offset: 0, length: 0 }, "Output".into());
        assert_eq!(told(41).unwrap(), "2 operations failed in 30 s, the last 1 s ago, a flush: Output");
        assert_eq!(told(47).unwrap(), "2 operations failed in 30 s, the last 7 s ago, a flush: Output");
        assert_eq!(told(341), None);
        failures.note(at(400), remembered, asked, "Input".into());
        assert!(told(400).unwrap().starts_with("1 operation failed 0 s ago"));
        failures.note(at(400), remembered, asked, "Input".into());
        assert!(told(406).unwrap().starts_with("2 operations failed, the last 6 s ago"));
        assert_eq!(failures.total(), 4);
    }
}
