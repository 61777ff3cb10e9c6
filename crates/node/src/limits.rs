//! Limits: how many requests and bytes per second the clients of a card, or of the whole node, may have.
//!
//! A [`Limiter`] has a bucket for requests and one for bytes, each kept as a theoretical arrival time (the generic cell
//! rate algorithm, GCRA): the time at which all that was granted would have been served at the rate. A request is due when
//! that time is no more than the burst ahead. Turns are given out in the order in which they are asked for, by one lock
//! that all data threads share, so a limit is one for a card however many threads its clients are on. Who has no limit
//! never takes the lock.
//!
//! In any time t, turns for no more than burst + rate × t are due; a request that is larger than the burst comes due when
//! the bucket is full, and those after it wait until it is paid for.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use cards_config::Limit;
use cards_core::Instant;

/// What a limit counts: requests, and bytes.
const KINDS: usize = 2;
const SECOND_NS: u128 = 1_000_000_000;

/// A limit, or none, that may change at any time.
#[derive(Debug)]
pub(crate) struct Limiter {
    /// There is a limit: all that is looked at where there is none.
    is_on: AtomicBool,
    /// Counts changes: turns of an earlier limit mean nothing.
    version: AtomicU64,
    buckets: Mutex<Option<Buckets>>,
}

/// When a request may be served.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) due: Instant,
    version: u64,
    /// The arrival times before it was given out and after, so that it can be given back.
    before: [u64; KINDS],
    after: [u64; KINDS],
}

impl Limiter {
    pub(crate) fn new(limit: Option<Limit>) -> Self {
        Self {
            is_on: AtomicBool::new(limit.is_some()),
            version: AtomicU64::new(0),
            buckets: Mutex::new(limit.map(Buckets::new)),
        }
    }

    /// Whether there is a limit.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    pub(crate) fn limit(&self) -> Option<Limit> {
        self.lock().as_ref().map(|buckets| buckets.limit)
    }

    /// Has another limit, with full buckets. Turns that were given out are void: whoever waits asks again.
    pub(crate) fn set(&self, limit: Option<Limit>) {
        let mut buckets = self.lock();
        *buckets = limit.map(Buckets::new);
        self.version.fetch_add(1, Ordering::Relaxed);
        self.is_on.store(limit.is_some(), Ordering::Relaxed);
    }

    /// The turn of a request of so many bytes that comes `now`, behind all that have one; none if there is no limit.
    pub(crate) fn take_turn(&self, now: Instant, bytes: u32) -> Option<Turn> {
        let mut buckets = self.lock();
        let buckets = buckets.as_mut()?;
        let before = buckets.arrivals;
        let due = buckets.take(now.0, bytes);
        let version = self.version.load(Ordering::Relaxed);
        Some(Turn { due: Instant(due), version, before, after: buckets.arrivals })
    }

    /// Whether the turn is one of the limit there is now.
    pub(crate) fn is_current(&self, turn: &Turn) -> bool {
        turn.version == self.version.load(Ordering::Relaxed)
    }

    /// Nobody comes for the turn. It is free for others if it was the last that was given out; else those behind it keep
    /// theirs, and it is as if it had been used.
    pub(crate) fn give_back(&self, turn: &Turn) {
        let mut buckets = self.lock();
        if let Some(buckets) = buckets.as_mut().filter(|buckets| buckets.arrivals == turn.after)
            && self.is_current(turn)
        {
            buckets.arrivals = turn.before;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Buckets>> {
        self.buckets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The state of a limit. Times are in nanoseconds of the node's clock.
#[derive(Debug)]
struct Buckets {
    limit: Limit,
    /// Units per second of each kind, if they are limited.
    rates: [Option<u64>; KINDS],
    burst: u64,
    /// The theoretical arrival times.
    arrivals: [u64; KINDS],
}

impl Buckets {
    fn new(limit: Limit) -> Self {
        let burst = u64::try_from(limit.burst.as_nanos()).unwrap_or(u64::MAX);
        Self { limit, rates: [limit.iops, limit.bytes], burst, arrivals: [0; KINDS] }
    }

    /// Grants a request that comes at `now`; says when it is due.
    fn take(&mut self, now: u64, bytes: u32) -> u64 {
        let amounts = [1, bytes];
        let costs: [u64; KINDS] =
            std::array::from_fn(|kind| self.rates[kind].map_or(0, |rate| cost(amounts[kind], rate)));
        let mut due = now;
        for (arrival, cost) in self.arrivals.iter().zip(costs).filter(|(_, cost)| *cost > 0) {
            // One that is larger than the bucket waits until that is full.
            due = due.max((arrival + cost.min(self.burst)).saturating_sub(self.burst));
        }
        for (arrival, cost) in self.arrivals.iter_mut().zip(costs) {
            *arrival = (*arrival).max(due) + cost;
        }
        due
    }
}

/// How long `amount` takes at `rate` per second, rounded up, in nanoseconds. A rate is never 0: see [`Limit::validate`].
fn cost(amount: u32, rate: u64) -> u64 {
    let cost = (u128::from(amount) * SECOND_NS).div_ceil(u128::from(rate));
    u64::try_from(cost).unwrap_or(u64::MAX >> 1)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use cards_core::mix;

    use super::*;

    const MS: u64 = 1_000_000;

    fn limit(iops: Option<u64>, bytes: Option<u64>, burst: Duration) -> Limit {
        let limit = Limit { iops, bytes, burst };
        limit.validate("limit").unwrap();
        limit
    }

    fn ms(count: u64) -> Instant {
        Instant(count * MS)
    }

    /// In every span of time that begins and ends with a request, no more has come due than the burst and the rate allow,
    /// beside the one request by which a bucket may be overdrawn.
    #[track_caller]
    fn check(limit: Limit, mut served: Vec<(Instant, u32)>) {
        served.sort_by_key(|(due, _)| *due);
        let largest = served.iter().map(|(_, bytes)| u128::from(*bytes)).max().unwrap_or(0);
        let burst = limit.burst.as_nanos();
        for (i, (from, _)) in served.iter().enumerate() {
            let (mut requests, mut bytes) = (0_u128, 0_u128);
            for (due, length) in &served[i..] {
                requests += 1;
                bytes += u128::from(*length);
                let time = u128::from(due.0 - from.0) + burst;
                for (amount, largest, rate) in [(requests, 1, limit.iops), (bytes, largest, limit.bytes)] {
                    let Some(rate) = rate.map(u128::from) else { continue };
                    let overdrawn = if burst * rate < largest * SECOND_NS { largest } else { 0 };
                    let most = time * rate / SECOND_NS + overdrawn;
                    assert!(amount <= most, "{amount} of {most} in {time} ns: {limit:?}");
                }
            }
        }
    }

    #[test]
    fn no_more_comes_due_than_burst_and_rate_allow() {
        for seed in 0..200 {
            let dice = |i: u64, sides: u64| mix(seed * 10_000 + i) % sides;
            let iops = (dice(0, 3) > 0).then(|| 1 + dice(1, 20_000));
            let bytes = (dice(2, 3) > 0 || iops.is_none()).then(|| (64 << 10) + dice(3, 200 << 20));
            let limit = limit(iops, bytes, Duration::from_millis(10 + dice(4, 2_000)));
            let limiter = Limiter::new(Some(limit));
            let mut now = Instant(dice(5, 1 << 40));
            let served = (0..300).map(|i| {
                // Storms and pauses.
                if dice(100 + i, 8) == 0 {
                    now = Instant(now.0 + dice(1_000 + i, 3_000 * MS));
                }
                let length = dice(2_000 + i, 1 << dice(3_000 + i, 21)) as u32;
                (limiter.take_turn(now, length).unwrap().due, length)
            });
            check(limit, served.collect());
        }
    }

    #[test]
    fn what_is_asked_for_without_a_pause_has_the_rate() {
        let limiter = Limiter::new(Some(limit(Some(1_000), None, Duration::from_millis(100))));
        let due: Vec<Instant> = (0..1_101).map(|_| limiter.take_turn(ms(7), 0).unwrap().due).collect();
        assert!(due[..100].iter().all(|due| *due == ms(7)), "the burst comes at once");
        assert_eq!((due[100], due[101], due[1_100]), (ms(8), ms(9), ms(1_008)));
    }

    /// Timers are late; who catches up within the burst has the whole rate.
    #[test]
    fn who_is_late_loses_nothing() {
        let limiter = Limiter::new(Some(limit(Some(1_000), None, Duration::from_millis(100))));
        let (mut now, mut count) = (0, 0);
        while now < 10_000 * MS {
            let due = limiter.take_turn(Instant(now), 0).unwrap().due.0;
            count += 1;
            if due > now {
                now = due + 5 * MS;
            }
        }
        assert!((10_000..=10_105).contains(&count), "{count}");
    }

    #[test]
    fn the_scarcer_of_the_two_decides() {
        let both = limit(Some(1_000), Some(1 << 20), Duration::from_millis(10));
        let due = |bytes| {
            let limiter = Limiter::new(Some(both));
            (0..1_010).map(|_| limiter.take_turn(ms(0), bytes).unwrap().due.0).last().unwrap()
        };
        // 1,000 beyond the burst of ten, and 1,010 × 64 KiB at 1 MiB/s.
        assert_eq!(due(0), 1_000 * MS);
        assert!((63_000 * MS..63_200 * MS).contains(&due(64 << 10)), "{}", due(64 << 10));
    }

    #[test]
    fn a_request_larger_than_the_burst_is_served_and_paid_for() {
        let limiter = Limiter::new(Some(limit(None, Some(1 << 20), Duration::from_millis(10))));
        assert_eq!(limiter.take_turn(ms(5), 32 << 20).unwrap().due, ms(5));
        assert_eq!(limiter.take_turn(ms(5), 1 << 20).unwrap().due, ms(32_005));
    }

    #[test]
    fn the_last_turn_can_be_given_back_and_an_earlier_one_is_spent() {
        let limiter = Limiter::new(Some(limit(Some(1), None, Duration::from_secs(1))));
        let due = || limiter.take_turn(ms(0), 0).unwrap();
        let [first, second, third] = [due(), due(), due()];
        assert_eq!([first.due, second.due, third.due], [ms(0), ms(1_000), ms(2_000)]);
        limiter.give_back(&third);
        limiter.give_back(&third);
        let again = due();
        assert_eq!(again.due, ms(2_000));
        limiter.give_back(&second);
        assert_eq!(due().due, ms(3_000), "nobody has two turns at once");
    }

    #[test]
    fn another_limit_makes_turns_void() {
        let slow = limit(Some(1), None, Duration::from_secs(1));
        let limiter = Limiter::new(Some(slow));
        let turns: Vec<Turn> = (0..100).map(|_| limiter.take_turn(ms(0), 0).unwrap()).collect();
        limiter.set(Some(slow));
        assert!(turns.iter().all(|turn| !limiter.is_current(turn)));
        turns.iter().for_each(|turn| limiter.give_back(turn));
        assert_eq!(limiter.take_turn(ms(0), 0).unwrap().due, ms(0));
        limiter.set(None);
        assert!(limiter.take_turn(ms(0), 0).is_none() && !limiter.is_on() && limiter.limit().is_none());
    }

    #[test]
    fn threads_share_one_limit() {
        let limit = limit(Some(10_000), Some(64 << 20), Duration::from_millis(20));
        let limiter = Limiter::new(Some(limit));
        let served: Vec<(Instant, u32)> = std::thread::scope(|scope| {
            let take = |i: u64| (limiter.take_turn(Instant(i * 1_000), 4096).unwrap().due, 4096);
            let threads: Vec<_> =
                (0..4).map(|_| scope.spawn(move || (0..500).map(take).collect::<Vec<_>>())).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        check(limit, served);
    }
}
