//! Columns that are let in less and less often.
//!
//! - One on a disk that is slow has cost clients a pause each time that it was dropped, and to be filled costs the disk more.
//! - One that says that it is back, and is not sealed when it is let in, may hear nothing: its link is cut one way. Nothing is served while the
//!   primary waits for it.

use cards_core::{Duration, Instant};

use crate::group::fence::GroupTiming;
use crate::group::map::COLUMNS_MAX;

/// When each column may be let in, and why not before.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Rests {
    /// When its disk was slow last.
    slow: [Option<Rest>; COLUMNS_MAX],
    /// When it was waited for in vain last.
    unheard: [Option<Rest>; COLUMNS_MAX],
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Rest {
    since: Instant,
    /// It is let in again after so long.
    pause: Duration,
}

impl Rests {
    /// How long a column rests that is dropped now because its disk is slow: not at all if that is the first time for long.
    pub(super) fn pause(&self, now: Instant, column: u8, timing: &GroupTiming) -> Duration {
        let longest = timing.rest * GroupTiming::REST_MAX;
        match self.slow[usize::from(column)] {
            Some(Rest { since, pause }) if now.since(since) < pause + longest * 2 => {
                (pause * 2).clamp(timing.rest, longest)
            }
            _ => Duration::ZERO,
        }
    }

    /// The column is dropped because its disk is slow.
    pub(super) fn begin(&mut self, now: Instant, column: u8, timing: &GroupTiming) {
        if timing.rest > Duration::ZERO {
            let pause = self.pause(now, column, timing);
            self.slow[usize::from(column)] = Some(Rest { since: now, pause });
        }
    }

    /// The column was waited for in vain.
    pub(super) fn put_off(&mut self, now: Instant, column: u8, timing: &GroupTiming) {
        let (unheard, lease) = (&mut self.unheard[usize::from(column)], timing.lease);
        let pause = unheard.map_or(lease, |last| (last.pause * 2).min(lease * GroupTiming::REST_MAX));
        *unheard = Some(Rest { since: now, pause });
    }

    /// The column hears what it is told.
    pub(super) const fn is_sealed(&mut self, column: u8) {
        self.unheard[column as usize] = None;
    }

    /// Whether the column may be let in.
    pub(super) fn is_over(&self, now: Instant, column: u8) -> bool {
        let column = usize::from(column);
        let rests = [self.slow[column], self.unheard[column]];
        rests.into_iter().flatten().all(|rest| rest.since + rest.pause <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_that_is_slow_again_and_again_rests_longer_each_time() {
        let timing = GroupTiming::default();
        let mut rests = Rests::default();
        let mut now = Instant(0);
        let mut pauses = alloc::vec::Vec::new();
        for _ in 0..9 {
            let pause = rests.pause(now, 1, &timing);
            rests.begin(now, 1, &timing);
            assert!(rests.is_over(now, 0) && rests.is_over(now + pause, 1));
            assert_eq!(rests.is_over(now, 1), pause == Duration::ZERO);
            pauses.push(pause.as_secs());
            now = now + pause + Duration::from_secs(60);
        }
        assert_eq!(pauses, [0, 10, 20, 40, 80, 160, 320, 320, 320]);
        let later = now + Duration::from_secs(700);
        assert_eq!(rests.pause(later, 1, &timing), Duration::ZERO, "it was sound for long");
    }
}
