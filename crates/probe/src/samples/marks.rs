//! What had been measured at some times in the time of a sample, so that it can be told what was measured since any of them.

use cards_admin::{Mark, Measured};

/// Marks that are kept.
const MARKS_MAX: usize = 128;
/// The least distance between two, in microseconds.
const STEP_US: u64 = 20_000;

/// Measurements with their times, in order: one that is no later than the sample, then some in its time. The time of a sample may be months
/// shorter than that of its daemon, and becomes longer and shorter with the load: the distance between two follows it.
#[derive(Default)]
pub(super) struct Marks(Vec<Mark>);

impl Marks {
    /// Notes what has been measured so far, if it is time. The sample begins at `begins_us`.
    pub(super) fn note(&mut self, now_us: u64, begins_us: u64, measured: impl FnOnce() -> Measured) {
        let Self(marks) = self;
        if marks.is_empty() {
            // The sample began with its first client.
            marks.push((begins_us, Measured::default()));
        }
        let earlier = marks.partition_point(|(at, _)| *at <= begins_us);
        marks.drain(..earlier.saturating_sub(1));
        let span = marks.first().map_or(0, |(first, _)| now_us.saturating_sub(*first));
        let step = STEP_US.max(span / (MARKS_MAX as u64 / 2));
        if marks.last().is_some_and(|(last, _)| now_us < last.saturating_add(step)) {
            return;
        }
        marks.push((now_us, measured()));
        // Those from when it was shorter stand closer.
        if marks.len() > MARKS_MAX {
            let mut number = 0;
            marks.retain(|_| {
                number += 1;
                number % 2 == 1
            });
        }
    }

    /// All of them, and what has been measured by now.
    pub(super) fn with(&self, now: Mark) -> Vec<Mark> {
        let Self(marks) = self;
        let mut all = marks.clone();
        all.retain(|(at, _)| *at < now.0);
        all.push(now);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;

    fn hits(local_hits: u64) -> Measured {
        Measured { local_hits, ..Measured::default() }
    }

    /// The longest time between two marks in the time of the sample, in seconds, and how many there are.
    fn apart(marks: &Marks, begins_us: u64) -> (u64, usize) {
        let Marks(marks) = marks;
        assert!(marks.first().is_some_and(|(at, _)| *at <= begins_us), "{:?}", marks.first());
        let apart = marks.windows(2).map(|pair| pair[1].0 - pair[0].0).max().unwrap_or(0);
        (apart / SECOND, marks.len())
    }

    #[test]
    fn a_sample_that_grows_has_marks_all_the_way_and_no_more_than_fit() {
        let mut marks = Marks::default();
        for second in 1..=100_000 {
            marks.note(second * SECOND, SECOND, || hits(second));
        }
        let (apart, count) = apart(&marks, SECOND);
        assert!(apart <= 100_000 / 32 && (32..=MARKS_MAX).contains(&count), "{apart} s, {count}");
    }

    #[test]
    fn a_sample_of_the_last_minutes_of_a_long_life_has_as_many_marks() {
        let mut marks = Marks::default();
        for second in 1..=100_000u64 {
            marks.note(second * SECOND, second.saturating_sub(640).max(1) * SECOND, || hits(second));
        }
        let (apart, count) = apart(&marks, (100_000 - 640) * SECOND);
        assert!(apart <= 640 / 32 && (32..=MARKS_MAX).contains(&count), "{apart} s, {count}");
        // The load has grown, the time of the sample is shorter, and so are the distances soon.
        for second in 100_001..=100_200u64 {
            marks.note(second * SECOND, (second - 64) * SECOND, || hits(second));
        }
        assert!(self::apart(&marks, 100_136 * SECOND).0 <= 2);
    }

    #[test]
    fn the_last_mark_is_now() {
        let mut marks = Marks::default();
        marks.note(SECOND, 0, || hits(1));
        marks.note(2 * SECOND, 0, || hits(2));
        let begin = (0, hits(0));
        assert_eq!(marks.with((2 * SECOND, hits(3))), [begin, (SECOND, hits(1)), (2 * SECOND, hits(3))]);
        assert_eq!(Marks::default().with((7, hits(0))), [(7, hits(0))]);
    }
}
