//! Requests that took long: the last ones and the slowest ones, and a line in the log.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cards_admin::{SlowRequest, SlowRequests, WaitKind};
use cards_core::{Instant, NodeId, PgId};

use crate::counts::Counts;
use crate::names::Names;
use crate::ticket::Ticket;
use crate::waits::WaitReasons;

/// So many of the last ones are kept.
const LAST_MAX: usize = 128;
/// So many of the slowest ones are kept.
const SLOWEST_MAX: usize = 32;
/// At most one line of the log in this time.
const PAUSE: Duration = Duration::from_secs(1);

/// The slow requests of a daemon.
pub(crate) struct Slow {
    /// In nanoseconds; the largest number if nothing is noted.
    threshold_ns: u64,
    /// A request that failed after this time may have failed because of it.
    disk_wait: Duration,
    me: NodeId,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    /// All there were.
    count: u64,
    last: VecDeque<Note>,
    /// The slowest first.
    slowest: Vec<Note>,
    logged: Option<Instant>,
    /// Since the last line of the log.
    unlogged: u64,
}

/// What a request waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Waited {
    /// As the core had it.
    For(WaitReasons),
    /// Its reply was ready, and its client did not take it.
    Client,
}

#[derive(Clone, Copy)]
struct Note {
    at: Instant,
    volume: PgId,
    ticket: Ticket,
    took: Duration,
    failed: bool,
    wait: (WaitKind, Option<NodeId>),
}

impl Slow {
    /// Notes requests from `threshold` on; none if it is zero.
    pub(crate) fn new(me: NodeId, threshold: Duration, disk_wait: Duration) -> Self {
        let threshold_ns = match u64::try_from(threshold.as_nanos()) {
            Ok(0) | Err(_) => u64::MAX,
            Ok(threshold_ns) => threshold_ns,
        };
        Self { threshold_ns, disk_wait, me, kept: Mutex::default() }
    }

    /// Whether a request that took so many nanoseconds is to be noted.
    #[inline]
    pub(crate) const fn is(&self, took_ns: u64) -> bool {
        took_ns >= self.threshold_ns
    }

    /// Notes a slow request that ends now.
    #[cold]
    pub(crate) fn note(
        &self,
        (names, counts): (&dyn Names, &Counts),
        volume: PgId,
        ticket: Ticket,
        now: Instant,
        failed: bool,
        waited: Waited,
    ) {
        let wait = match waited {
            _ if ticket.waited_for_limit(now.since(ticket.start)) => (WaitKind::Limit, None),
            Waited::For(reasons) => reasons.wait(self.me, volume),
            Waited::Client => (WaitKind::Client, None),
        };
        let note = Note { at: now, volume, ticket, took: now.since(ticket.start), failed, wait };
        let Some(others) = self.lock().add(note) else { return };
        let shown = note.show(names, counts, (now, 0));
        tracing::warn!(
            volume = shown.volume,
            op = ticket.op.name(),
            offset = ticket.offset,
            length = ticket.length,
            took_ms = shown.took_us / 1_000,
            failed,
            waited_for = shown.waited_for.name(),
            at = shown.node.as_deref().unwrap_or("-"),
            more_unlogged = others,
            "a request was slow{}",
            if failed && note.took >= self.disk_wait { ", and failed after disk_wait" } else { "" }
        );
    }

    /// What has been noted, at most so many of each. `at`: now, and in microseconds since 1970 (UTC).
    pub(crate) fn show(
        &self,
        (names, counts): (&dyn Names, &Counts),
        at: (Instant, u64),
        most: usize,
    ) -> SlowRequests {
        let (count, last, slowest) = {
            let kept = self.lock();
            (kept.count, kept.last.iter().copied().collect::<Vec<_>>(), kept.slowest.clone())
        };
        let show = |note: &Note| note.show(names, counts, at);
        SlowRequests {
            threshold_ms: (self.threshold_ns < u64::MAX).then_some(self.threshold_ns / 1_000_000),
            count,
            last: last.iter().rev().take(most).map(show).collect(),
            slowest: slowest.iter().take(most).map(show).collect(),
        }
    }

    /// How many there were.
    pub(crate) fn count(&self) -> u64 {
        self.lock().count
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    /// Keeps a note. If it may be logged: how many others there were since the last that was.
    fn add(&mut self, note: Note) -> Option<u64> {
        self.count += 1;
        if self.last.len() == LAST_MAX {
            self.last.pop_front();
        }
        self.last.push_back(note);
        let place = self.slowest.partition_point(|other| other.took >= note.took);
        if place < SLOWEST_MAX {
            self.slowest.truncate(SLOWEST_MAX - 1);
            self.slowest.insert(place, note);
        }
        if self.logged.is_some_and(|logged| note.at.since(logged) < PAUSE) {
            self.unlogged += 1;
            return None;
        }
        self.logged = Some(note.at);
        Some(std::mem::take(&mut self.unlogged))
    }
}

impl Note {
    fn show(&self, names: &dyn Names, counts: &Counts, (now, utc_us): (Instant, u64)) -> SlowRequest {
        let ago_us = now.since(self.at).as_micros() as u64;
        let (waited_for, at) = self.wait;
        SlowRequest {
            time_ms: utc_us.saturating_sub(ago_us) / 1_000,
            volume: counts.name(self.volume).unwrap_or_default(),
            op: self.ticket.op,
            offset: self.ticket.offset,
            length: self.ticket.length,
            took_us: self.took.as_micros() as u64,
            failed: self.failed,
            waited_for,
            node: at.map(|at| names.node(at)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ticket::Mark;
    use cards_admin::Op;

    fn note(at: Duration, took_ms: u64) -> Note {
        let at = Instant(at.as_nanos() as u64);
        let ticket = Ticket {
            start: Instant(0),
            offset: 0,
            length: 0,
            throttled_ms: 0,
            op: Op::Read,
            mark: Mark::Done,
        };
        let took = Duration::from_millis(took_ms);
        Note { at, volume: PgId(0), ticket, took, failed: false, wait: (WaitKind::Other, None) }
    }

    #[test]
    fn the_last_and_the_slowest_are_kept_and_no_more() {
        let mut kept = Kept::default();
        for i in 0..1_000 {
            kept.add(note(Duration::from_millis(i), (i * 7) % 1_000));
        }
        assert_eq!((kept.count, kept.last.len(), kept.slowest.len()), (1_000, LAST_MAX, SLOWEST_MAX));
        let slowest: Vec<u128> = kept.slowest.iter().map(|note| note.took.as_millis()).collect();
        assert_eq!(slowest, (1_000 - SLOWEST_MAX as u128..1_000).rev().collect::<Vec<_>>());
        assert_eq!(kept.last.back().map(|note| note.at), Some(Instant(999_000_000)));
    }

    #[test]
    fn a_storm_is_one_line_a_second() {
        let mut kept = Kept::default();
        let lines: Vec<u64> =
            (0..2_500).filter_map(|ms| kept.add(note(Duration::from_millis(ms), 1))).collect();
        assert_eq!(lines, [0, 999, 999]);
    }

    #[test]
    fn zero_notes_nothing() {
        let slow = |threshold| Slow::new(NodeId(0), threshold, Duration::ZERO);
        assert!(!slow(Duration::ZERO).is(3_600_000_000_000));
        assert!(slow(Duration::from_millis(1)).is(1_000_000));
    }
}
