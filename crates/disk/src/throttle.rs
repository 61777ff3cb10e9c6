//! A modelled slow disk: a delay before each read, and a rate that all engines share.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tokio::time::Instant;

use crate::job::Op;

/// Depth of the token bucket, as time at the configured rate. The runtime's timers tick in milliseconds;
/// without credit for a late wake-up a disk driven one request at a time would fall short of its rate.
const CREDIT: Duration = Duration::from_millis(2);

/// Says when a job may start. Shared by the engines of a disk.
#[derive(Debug)]
pub(crate) struct Throttle {
    epoch: Instant,
    delay: Duration,
    /// Bytes per second, 0 = unlimited.
    rate: u64,
    /// When the modelled disk has transferred everything granted so far, in nanoseconds after `epoch`: a
    /// token bucket kept as one number.
    busy_until_ns: AtomicU64,
}

impl Throttle {
    pub(crate) fn new(delay: Duration, rate: u64) -> Self {
        Self { epoch: Instant::now(), delay, rate, busy_until_ns: AtomicU64::new(0) }
    }

    /// When `op`, submitted at `now`, may start; `None` for at once.
    pub(crate) fn start_at(&self, op: &Op, now: Instant) -> Option<Instant> {
        let mut at = now;
        if matches!(op, Op::Read { .. }) {
            at += self.delay;
        }
        if self.rate > 0 && op.transfers() > 0 {
            let now_ns = ns(now.saturating_duration_since(self.epoch));
            at = at.max(self.epoch + Duration::from_nanos(self.reserve(op.transfers(), now_ns)));
        }
        (at > now).then_some(at)
    }

    /// Takes `bytes` from the bucket at `now_ns`; returns when the modelled disk has transferred them.
    fn reserve(&self, bytes: u64, now_ns: u64) -> u64 {
        let cost = ns(Duration::from_nanos(
            u64::try_from(u128::from(bytes) * 1_000_000_000 / u128::from(self.rate)).unwrap_or(u64::MAX),
        ));
        let mut end = 0;
        // `fetch_update` cannot fail: the closure always answers.
        let _ = self.busy_until_ns.fetch_update(Relaxed, Relaxed, |busy| {
            end = busy.max(now_ns.saturating_sub(ns(CREDIT))).saturating_add(cost).min(FAR_NS);
            Some(end)
        });
        end
    }
}

/// A century: far enough to mean never, near enough for an `Instant`.
const FAR_NS: u64 = 100 * 365 * 86_400 * 1_000_000_000;

fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(FAR_NS).min(FAR_NS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bucket_grants_the_rate_and_no_more() {
        let throttle = Throttle::new(Duration::ZERO, 1_000_000);
        let second = 1_000_000_000;
        // One second late: only the credit is kept, not the idle second.
        assert_eq!(throttle.reserve(10_000, second), second - ns(CREDIT) + 10_000_000);
        let end = (0..100).map(|_| throttle.reserve(10_000, second)).last().unwrap();
        assert_eq!(
            end,
            2 * second - ns(CREDIT) + 10_000_000,
            "100 x 10 kB more at 1 MB/s take a second more"
        );
    }

    #[test]
    fn an_absurdly_low_rate_does_not_overflow() {
        let throttle = Throttle::new(Duration::ZERO, 1);
        for _ in 0..3 {
            assert_eq!(throttle.reserve(u64::MAX, 0), FAR_NS);
        }
    }
}
