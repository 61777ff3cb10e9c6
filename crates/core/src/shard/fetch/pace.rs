//! How long nodes take to answer when they are asked for blocks, and when an answer is late.
//!
//! A question that is late by the measure of those before it is asked of the disk node, too, and the first answer counts
//! (hedged requests: J. Dean and L. A. Barroso, "The Tail at Scale", CACM 56(2), 2013). One node that stands still then
//! costs its readers some usual times instead of [`ShardConfig::peer_timeout`](crate::ShardConfig::peer_timeout). Only one
//! question in twenty may be asked twice, so that a cluster that is slow because it has much to do does not get more.

use crate::time::Duration;

/// No answer is late before: a disk takes as long, and so may the scheduler of a busy machine.
const LEAST: Duration = Duration::from_millis(10);
/// Answers for one question that may be asked twice.
const PRICE: u32 = 20;
/// So many can be asked twice after a long time without.
const SAVED: u32 = 16;

/// Of a shard's questions to nodes that need not be the disk's.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::shard) struct Pace {
    /// The smoothed time of an answer, and its smoothed distance from that: as TCP has its round trip (RFC 6298, 2).
    usual: Duration,
    spread: Duration,
    /// Answers that no second question has been paid with.
    saved: u32,
}

impl Pace {
    /// An answer came after `time`.
    pub(super) fn answered(&mut self, time: Duration) {
        self.spread = (self.spread * 3 + self.usual.abs_diff(time)) / 4;
        self.usual = (self.usual * 7 + time) / 8;
        self.saved = (self.saved + 1).min(SAVED * PRICE);
    }

    /// After how long an answer is late.
    pub(super) fn late(&self) -> Duration {
        (self.usual * 2 + self.spread * 4).max(LEAST)
    }

    /// A question is asked twice, if that may be.
    pub(super) fn hedge(&mut self) -> bool {
        let left = self.saved.checked_sub(PRICE);
        self.saved = left.unwrap_or(self.saved);
        left.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: Duration = Duration::from_millis(50);

    #[test]
    fn an_answer_is_late_after_a_few_usual_times() {
        let mut pace = Pace::default();
        assert_eq!(pace.late(), LEAST);
        (0..100).for_each(|_| pace.answered(USUAL));
        assert!((USUAL * 2..USUAL * 3).contains(&pace.late()), "{pace:?}");
        (0..100).for_each(|_| pace.answered(USUAL / 1_000));
        assert_eq!(pace.late(), LEAST);
    }

    #[test]
    fn times_that_differ_leave_more_room() {
        let mut pace = Pace::default();
        (0..100).for_each(|n| pace.answered(if n % 2 == 0 { USUAL / 100 } else { USUAL }));
        assert!(pace.late() > USUAL * 2, "{pace:?}");
    }

    #[test]
    fn one_in_twenty_is_asked_twice() {
        let mut pace = Pace::default();
        assert!(!pace.hedge(), "nothing is known yet");
        (0..1_000_000).for_each(|_| pace.answered(USUAL));
        assert_eq!((0..1_000).filter(|_| pace.hedge()).count(), SAVED as usize);
        let hedged = (0..1_000).filter(|_| {
            pace.answered(USUAL);
            pace.hedge()
        });
        assert_eq!(hedged.count(), 1_000 / PRICE as usize);
    }
}
