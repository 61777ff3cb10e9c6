//! How long a disk that was asked for something has answered nothing.
//!
//! It is seen in the disk's counters alone: who looks never waits for the disk.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cards_core::Instant;
use cards_disk::StatsSnapshot;

/// A file or device that is healthy answers something within this time, also while much is written to it.
const OF_DEVICE: Duration = Duration::from_secs(5);
/// So does a server that is there. What waits for one fails after `disk_wait`, which is the time to see why.
const OF_SERVER: Duration = Duration::from_secs(2);
/// One that is healthy may need seconds to make durable what was written before: see [`cards_array::group::GroupTiming::flush_timeout`].
const OF_FLUSH: Duration = Duration::from_secs(14);

/// How long a disk may take, at least one answer at a time. `modelled`: what it is slowed down by.
pub(crate) fn limit(is_remote: bool, modelled: Duration) -> Duration {
    let limit = if is_remote { OF_SERVER } else { OF_DEVICE };
    limit + modelled
}

/// What was seen of the answers of one disk.
#[derive(Debug, Default)]
pub(crate) struct Silence(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    /// Answers so far.
    answered: u64,
    /// Requests that wait.
    waiting: u64,
    /// Since when reads or writes have waited, or it answered last while they did.
    moving: Option<Instant>,
    /// When it answered last, or nothing waited for it.
    since: Instant,
    /// It is taken for one that does not answer: until it does, also if what has waited was given up.
    is_silent: bool,
}

/// What is new of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// It has not answered for so long.
    Silent(Lasts),
    /// It answers again, after so long.
    Answers(Duration),
}

/// A silence that lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lasts {
    pub(crate) time: Duration,
    /// Requests that wait.
    pub(crate) waiting: u64,
    /// So long reads or writes have waited.
    moving: Duration,
}

impl Lasts {
    /// Whether nothing is to be expected of the disk. One that does nothing but make writes durable is given its time.
    pub(crate) fn hangs(&self) -> bool {
        self.moving >= OF_DEVICE || self.time >= OF_FLUSH
    }

    /// What to say of the disk at `path`, without what to do.
    pub(crate) fn described(&self, path: &str) -> String {
        let Self { time, waiting, .. } = self;
        let wait = match waiting {
            1 => "1 request waits for it".to_owned(),
            waiting => format!("{waiting} requests wait for it"),
        };
        format!("{path} has not answered for {} s, and {wait}", time.as_secs())
    }
}

impl Seen {
    fn lasts(&self, now: Instant) -> Lasts {
        let moving = self.moving.map_or(Duration::ZERO, |moving| now.since(moving));
        Lasts { time: now.since(self.since), waiting: self.waiting, moving }
    }
}

impl Silence {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the counters of the disk, which may be silent for up to `limit`.
    pub(crate) fn look(&self, now: Instant, limit: Duration, counted: &StatsSnapshot) -> Option<News> {
        let mut seen = self.seen();
        let time = now.since(seen.since);
        seen.waiting = counted.in_flight;
        let waits = seen.moving.filter(|_| seen.answered == counted.answered).unwrap_or(now);
        seen.moving = (counted.moving > 0).then_some(waits);
        if seen.answered != counted.answered {
            seen.answered = counted.answered;
            seen.since = now;
            return std::mem::take(&mut seen.is_silent).then_some(News::Answers(time));
        }
        if seen.is_silent {
            return None;
        }
        if seen.waiting == 0 {
            seen.since = now;
            return None;
        }
        seen.is_silent = time >= limit;
        seen.is_silent.then(|| News::Silent(seen.lasts(now)))
    }

    /// The silence that requests wait for the end of.
    pub(crate) fn lasts(&self, now: Instant) -> Option<Lasts> {
        let seen = self.seen();
        (seen.is_silent && seen.waiting > 0).then(|| seen.lasts(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silence_is_told_once_and_its_end_once() {
        let silence = Silence::default();
        let look = |seconds: u64, in_flight, answered| {
            let counted = StatsSnapshot { in_flight, answered, ..StatsSnapshot::default() };
            silence.look(Instant(seconds * 1_000_000_000), OF_DEVICE, &counted)
        };
        let lasts = |seconds: u64| silence.lasts(Instant(seconds * 1_000_000_000));
        // Nobody asks it for anything.
        assert_eq!((look(10, 0, 0), look(100, 0, 0)), (None, None));
        assert_eq!((look(101, 2, 0), look(104, 2, 0), lasts(104)), (None, None, None));
        let lasting =
            |seconds, waiting| Lasts { time: Duration::from_secs(seconds), waiting, moving: Duration::ZERO };
        let begun = lasting(5, 3);
        assert_eq!(look(105, 3, 0), Some(News::Silent(begun)));
        assert_eq!(
            begun.described("/dev/sdb"),
            "/dev/sdb has not answered for 5 s, and 3 requests wait for it"
        );
        assert_eq!(look(106, 1, 0), None);
        assert_eq!(lasts(107), Some(lasting(7, 1)));
        // What has waited was given up: that is no answer, and waits no more.
        assert_eq!((look(108, 0, 0), lasts(108)), (None, None));
        assert_eq!((look(109, 1, 0), lasts(110)), (None, Some(lasting(10, 1))));
        assert_eq!(look(112, 0, 1), Some(News::Answers(Duration::from_secs(12))));
        assert_eq!((look(113, 0, 1), lasts(113)), (None, None));
        // One that answers something is merely slow.
        let slow: Vec<_> = (114..140).map(|second| look(second, 9, second / 4)).collect();
        assert_eq!(slow, [None; 26]);
    }

    /// Groups of copies give up a disk that hangs.
    #[test]
    fn a_disk_that_makes_writes_durable_does_not_hang_before_it_has_had_its_time() {
        let silence = Silence::default();
        let hangs = |seconds: u64, moving, answered| {
            let now = Instant(seconds * 1_000_000_000);
            let counted =
                StatsSnapshot { in_flight: 1 + moving, moving, answered, ..StatsSnapshot::default() };
            silence.look(now, OF_DEVICE, &counted);
            silence.lasts(now).is_some_and(|lasts| lasts.hangs())
        };
        assert_eq!([1, 6, 13, 15].map(|second| hangs(second, 0, 1)), [false, false, false, true], "a flush");
        assert_eq!([20, 25].map(|second| hangs(second, 1, 2)), [false, true], "a read");
        let later = [(30, 0), (36, 0), (37, 1), (42, 1)].map(|(second, moving)| hangs(second, moving, 3));
        assert_eq!(later, [false, false, false, true], "a flush, and a read that comes later");
    }
}
