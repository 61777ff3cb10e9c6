//! What has failed not long ago, at a disk of this node, at a volume of another one or on the way from a peer, for the status
//! and the metrics.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cards_core::Instant;
use cards_disk::{JobError, Managed, ObjectError, Op};

use cards_config::size;

/// How long after its last error a disk, or what a peer sends, is a problem.
pub(crate) const ERRORS_REMEMBERED: Duration = Duration::from_secs(300);
/// How long after the last request that was not answered a volume is a problem, at least: half as long again as they take to
/// fail.
pub(crate) const REQUESTS_REMEMBERED: Duration = Duration::from_secs(10);
/// Kinds of failures that are told apart; the one that was seen last longest ago gives way.
const CAUSES_MAX: usize = 6;

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
            Op::Extents { offset, len } => ("hole search", offset, len),
        };
        Self { name, offset, length }
    }

    /// Where: nothing for what has no place.
    fn place(&self) -> String {
        match self.length {
            0 => String::new(),
            length => format!(" of {} at byte {}", size::human(length), self.offset),
        }
    }

    /// How much harm its failure does: what was not written is lost, what was not read can be read again.
    fn harm(&self) -> u8 {
        match self.name {
            "flush" => 0,
            "write" | "zero" | "trim" => 1,
            _ => 2,
        }
    }
}

impl std::fmt::Display for Asked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a {}{}", self.name, self.place())
    }
}

/// What of a failure decides what is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// The file system, or the quota, of the disk is full.
    NoSpace,
    /// The file of the disk was cut short.
    Shrank,
    /// Data that do not fit their checksums.
    Damaged,
    /// The object of the disk is another one by now.
    Changed,
    /// Any other error.
    Other,
}

impl Kind {
    /// Of an error of a disk.
    pub(crate) fn of(error: JobError) -> Self {
        match error {
            JobError::Os { errno: libc::ENOSPC | libc::EDQUOT } => Self::NoSpace,
            JobError::Shrank { .. } => Self::Shrank,
            JobError::Damaged { .. } => Self::Damaged,
            JobError::Object(ObjectError::Changed) => Self::Changed,
            _ => Self::Other,
        }
    }

    /// Of an error of a managed disk: of one that serves nothing any more, of the error for which it does not.
    pub(crate) fn at(managed: &Managed, error: JobError) -> Self {
        match error {
            JobError::StoreFailed => Self::of(managed.failure().unwrap_or(error)),
            error => Self::of(error),
        }
    }
}

/// Failures that are remembered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Recent {
    /// A clause for each cause, the most harmful first.
    pub(crate) text: String,
    /// Their kinds in the same order, each once.
    pub(crate) kinds: Vec<Kind>,
}

/// The failures of one disk, card or peer.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    /// What all of them are called. None tells them apart by what was asked and by the error.
    noun: Option<&'static str>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    total: u64,
    causes: Vec<Series>,
}

/// Failures of one cause, of which each came while the one before was remembered.
#[derive(Debug)]
struct Series {
    count: u64,
    since: Instant,
    last: Instant,
    remembered: Duration,
    asked: Asked,
    kind: Kind,
    error: String,
}

impl Failures {
    /// Failures that are all called so and counted together.
    pub(crate) fn called(noun: &'static str) -> Self {
        Self { noun: Some(noun), state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One that is `remembered` for so long.
    pub(crate) fn note(&self, now: Instant, remembered: Duration, asked: Asked, kind: Kind, error: String) {
        let mut state = self.state();
        state.total += 1;
        state.causes.retain(|series| series.is_remembered(now));
        let is_same = |series: &Series| {
            self.noun.is_some() || (series.asked.name == asked.name && series.error == error)
        };
        let at = state.causes.iter().position(is_same);
        let before = at.map(|at| state.causes.swap_remove(at));
        if state.causes.len() == CAUSES_MAX
            && let Some(oldest) = (0..CAUSES_MAX).min_by_key(|&at| state.causes[at].last)
        {
            state.causes.swap_remove(oldest);
        }
        let (count, since) = before.map_or((0, now), |series| (series.count, series.since));
        state.causes.push(Series { count: count + 1, since, last: now, remembered, asked, kind, error });
    }

    /// How many since the daemon started.
    pub(crate) fn total(&self) -> u64 {
        self.state().total
    }

    /// What to say of those that are remembered.
    pub(crate) fn recent(&self, now: Instant) -> Option<Recent> {
        let state = self.state();
        let mut causes: Vec<&Series> =
            state.causes.iter().filter(|series| series.is_remembered(now)).collect();
        causes.sort_by_key(|series| (series.asked.harm(), std::cmp::Reverse(series.count)));
        let clauses: Vec<String> = causes.iter().map(|series| series.clause(now, self.noun)).collect();
        let mut kinds: Vec<Kind> = Vec::new();
        for series in causes {
            if !kinds.contains(&series.kind) {
                kinds.push(series.kind);
            }
        }
        (!clauses.is_empty()).then(|| Recent { text: clauses.join("; "), kinds })
    }
}

impl Series {
    fn is_remembered(&self, now: Instant) -> bool {
        now < self.last + self.remembered
    }

    fn clause(&self, now: Instant, noun: Option<&str>) -> String {
        let Self { count, since, last, asked, error, .. } = self;
        let ago = now.0.saturating_sub(last.0) / 1_000_000_000;
        let what = noun.unwrap_or(asked.name);
        let where_ = match noun {
            None if asked.length == 0 => String::new(),
            None => format!(",{}", asked.place()),
            Some(_) => format!(", {asked}"),
        };
        match count {
            1 => format!("1 {what} failed {ago} s ago{where_}: {error}"),
            _ => {
                let took = match last.since(*since).as_secs() {
                    0 => String::new(),
                    seconds => format!(" in {seconds} s"),
                };
                let many = if what.ends_with("sh") || what.ends_with("ch") { "es" } else { "s" };
                format!("{count} {what}{many} failed{took}, the last {ago} s ago{where_}: {error}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant(seconds * 1_000_000_000)
    }

    #[test]
    fn the_last_ones_are_told_for_a_while_by_cause() {
        let failures = Failures::default();
        let remembered = ERRORS_REMEMBERED;
        let asked = Asked { name: "read", offset: 1 << 20, length: 4096 };
        let told = |seconds| failures.recent(at(seconds)).map(|recent| recent.text);
        assert_eq!((failures.total(), told(1)), (0, None));
        failures.note(at(10), remembered, asked, Kind::Other, "Input".into());
        assert_eq!(told(12).unwrap(), "1 read failed 2 s ago, of 4 KiB at byte 1048576: Input");
        failures.note(at(40), remembered, asked, Kind::Other, "Input".into());
        assert_eq!(
            told(41).unwrap(),
            "2 reads failed in 30 s, the last 1 s ago, of 4 KiB at byte 1048576: Input"
        );
        // What was not written comes before what can be read again, however often that fails.
        failures.note(
            at(42),
            remembered,
            Asked { name: "flush", offset: 0, length: 0 },
            Kind::Other,
            "Output".into(),
        );
        failures.note(at(43), remembered, Asked { name: "write", ..asked }, Kind::NoSpace, "No space".into());
        assert_eq!(
            told(44).unwrap(),
            "1 flush failed 2 s ago: Output; 1 write failed 1 s ago, of 4 KiB at byte 1048576: No space; \
             2 reads failed in 30 s, the last 4 s ago, of 4 KiB at byte 1048576: Input"
        );
        let kinds = failures.recent(at(44)).unwrap().kinds;
        assert_eq!(kinds, [Kind::Other, Kind::NoSpace]);
        assert!(told(341).unwrap().starts_with("1 flush"));
        assert_eq!(told(343), None);
        failures.note(at(400), remembered, asked, Kind::Other, "Input".into());
        assert!(told(400).unwrap().starts_with("1 read failed 0 s ago"));
        failures.note(at(400), remembered, asked, Kind::Other, "Input".into());
        assert!(told(406).unwrap().starts_with("2 reads failed, the last 6 s ago"));
        assert_eq!(failures.total(), 6);
    }

    #[test]
    fn causes_are_bounded_and_those_with_one_noun_are_one() {
        let asked = Asked { name: "block", offset: 0, length: 4096 };
        let (many, one) = (Failures::default(), Failures::called("checksum"));
        for number in 0..20 {
            many.note(at(number), ERRORS_REMEMBERED, asked, Kind::Other, format!("error {number}"));
            one.note(at(number), ERRORS_REMEMBERED, asked, Kind::Other, format!("error {number}"));
        }
        assert_eq!(many.recent(at(20)).unwrap().text.matches("failed").count(), CAUSES_MAX);
        assert_eq!(
            one.recent(at(20)).unwrap().text,
            "20 checksums failed in 19 s, the last 1 s ago, a block of 4 KiB at byte 0: error 19"
        );
    }
}
