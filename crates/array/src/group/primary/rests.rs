//! Columns on slow disks. Each time that one is dropped it has cost clients a pause, and to be filled costs the disk more: so it is let in
//! later each time.

use cards_core::{Duration, Instant};

use crate::group::fence::GroupTiming;
use crate::group::map::COLUMNS_MAX;

/// The last time that each column was dropped because its disk was slow.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Rests([Option<Rest>; COLUMNS_MAX]);

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Rest {
    dropped: Instant,
    /// It is let in again after so long.
    pause: Duration,
}

impl Rests {
    /// How long a column rests that is dropped now: not at all if that is the first time for long.
    pub(super) fn pause(&self, now: Instant, column: u8, timing: &GroupTiming) -> Duration {
        let longest = timing.rest * GroupTiming::REST_MAX;
        match self.0[usize::from(column)] {
            Some(Rest { dropped, pause }) if now.since(dropped) < pause + longest * 2 => {
                (pause * 2).clamp(timing.rest, longest)
            }
            _ => Duration::ZERO,
        }
    }

    /// The column is dropped.
    pub(super) fn begin(&mut self, now: Instant, column: u8, timing: &GroupTiming) {
        if timing.rest > Duration::ZERO {
            let pause = self.pause(now, column, timing);
            self.0[usize::from(column)] = Some(Rest { dropped: now, pause });
        }
    }

    /// Whether the column may be let in.
    pub(super) fn is_over(&self, now: Instant, column: u8) -> bool {
        self.0[usize::from(column)].is_none_or(|rest| rest.dropped + rest.pause <= now)
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
        assert_eq!(
            rests.pause(now + Duration::from_secs(700), 1, &timing),
            Duration::ZERO,
            "it was sound for long"
        );
    }
}
