//! What had been measured at some times in the past, to measure over the time of a sample.

use cards_admin::Measured;

/// Marks that are kept.
const MARKS_MAX: usize = 64;
/// The first distance between two, in microseconds.
const STEP_US: u64 = 1_000_000;

/// Measurements with their times. The distance between two marks doubles whenever there are too many,
/// so that they reach back to the beginning in a bounded memory.
#[derive(Default)]
pub(super) struct Marks {
    /// In order of time, in microseconds since 1970 (UTC).
    marks: Vec<(u64, Measured)>,
    step_us: u64,
}

impl Marks {
    /// Notes what has been measured so far, if it is time.
    pub(super) fn note(&mut self, now_us: u64, measured: impl FnOnce() -> Measured) {
        let step = self.step_us.max(STEP_US);
        if self.marks.last().is_some_and(|(last, _)| now_us < last.saturating_add(step)) {
            return;
        }
        self.marks.push((now_us, measured()));
        if self.marks.len() > MARKS_MAX {
            self.step_us = step * 2;
            let mut number = 0;
            self.marks.retain(|_| {
                number += 1;
                number % 2 == 1
            });
        }
    }

    /// What had been measured at the last mark that is not later than a time; nothing if all are.
    pub(super) fn at(&self, time_us: u64) -> Measured {
        let later = self.marks.partition_point(|(at, _)| *at <= time_us);
        let last = later.checked_sub(1).and_then(|last| self.marks.get(last));
        last.map(|(_, measured)| *measured).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_reach_back_to_the_beginning_and_are_bounded() {
        let mut marks = Marks::default();
        for second in 1..=10_000 {
            marks.note(second * 1_000_000, || Measured { local_hits: second, ..Measured::default() });
        }
        assert!(marks.marks.len() <= MARKS_MAX);
        let hits = |time: u64| marks.at(time * 1_000_000).local_hits;
        assert_eq!((hits(0), hits(1)), (0, 1));
        for second in [500, 5_000, 10_000] {
            assert!((second - 400..=second).contains(&hits(second)), "{}", hits(second));
        }
        assert_eq!(Marks::default().at(7), Measured::default());
    }
}
