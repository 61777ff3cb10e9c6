//! How long requests took, as a histogram whose buckets are the same everywhere.
//!
//! Four buckets for every power of two of microseconds: a quantile is wrong by an eighth at most, whatever its size.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Buckets of a histogram. The last one has everything from 2^26 µs (67 s) on.
pub const LATENCY_BUCKETS: usize = 101;

/// The bucket of a duration.
#[must_use]
pub const fn bucket_of(nanoseconds: u64) -> usize {
    let us = nanoseconds / 1_000;
    if us < 4 {
        return us as usize;
    }
    let exponent = 63 - us.leading_zeros() as usize;
    let bucket = 4 * (exponent - 1) + (us >> (exponent - 2)) as usize % 4;
    if bucket < LATENCY_BUCKETS { bucket } else { LATENCY_BUCKETS - 1 }
}

/// Where a bucket begins, in microseconds; it ends where the next one begins.
#[must_use]
pub const fn bucket_begin_us(bucket: usize) -> u64 {
    if bucket < 4 { bucket as u64 } else { (4 + bucket as u64 % 4) << (bucket / 4 - 1) }
}

/// A histogram of durations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<(u64, u64)>", into = "Vec<(u64, u64)>")]
pub struct Latencies {
    /// Counts by bucket, without the zeroes at the end.
    buckets: Vec<u64>,
}

impl Latencies {
    /// Adds `count` durations to a bucket; beyond the last one, to the last one.
    pub fn add(&mut self, bucket: usize, count: u64) {
        let bucket = bucket.min(LATENCY_BUCKETS - 1);
        if count > 0 && bucket >= self.buckets.len() {
            self.buckets.resize(bucket + 1, 0);
        }
        if let Some(sum) = self.buckets.get_mut(bucket) {
            *sum = sum.saturating_add(count);
        }
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// How many are shorter than this bucket's begin.
    #[must_use]
    pub fn below(&self, bucket: usize) -> u64 {
        self.buckets.iter().take(bucket).fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// All of both.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let mut sum = self.clone();
        other.buckets.iter().enumerate().for_each(|(bucket, count)| sum.add(bucket, *count));
        sum
    }

    /// Those counted since `before`, an earlier reading; a daemon that restarted in between counts from 0.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        if self.count() < before.count() {
            return self.clone();
        }
        let mut since = Self::default();
        for (bucket, count) in self.buckets.iter().enumerate() {
            let counted = before.buckets.get(bucket).copied().unwrap_or_default();
            since.add(bucket, count.saturating_sub(counted));
        }
        since
    }

    /// So much of them took no longer, 0.99 for the 99th percentile; nothing if there are none. Within a bucket they
    /// are taken to be spread evenly; what is beyond the last bucket's begin is taken to be there.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let wanted = share.clamp(0.0, 1.0) * self.count() as f64;
        let mut below = 0.0;
        for (bucket, count) in self.buckets.iter().enumerate().filter(|(_, count)| **count > 0) {
            let count = *count as f64;
            if below + count >= wanted {
                let begin = bucket_begin_us(bucket) as f64;
                let width = match bucket + 1 {
                    LATENCY_BUCKETS => 0.0,
                    next => bucket_begin_us(next) as f64 - begin,
                };
                return Some(Duration::from_secs_f64((begin + width * (wanted - below) / count) / 1e6));
            }
            below += count;
        }
        None
    }
}

/// Where each bucket that is not empty begins, in microseconds, with its count.
impl From<Latencies> for Vec<(u64, u64)> {
    fn from(latencies: Latencies) -> Self {
        let counts = latencies.buckets.into_iter().enumerate();
        counts.filter(|(_, count)| *count > 0).map(|(i, count)| (bucket_begin_us(i), count)).collect()
    }
}

impl From<Vec<(u64, u64)>> for Latencies {
    fn from(pairs: Vec<(u64, u64)>) -> Self {
        let mut latencies = Self::default();
        for (begin_us, count) in pairs {
            latencies.add(bucket_of(begin_us.saturating_mul(1_000)), count);
        }
        latencies
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(nanoseconds: impl IntoIterator<Item = u64>) -> Latencies {
        let mut latencies = Latencies::default();
        nanoseconds.into_iter().for_each(|ns| latencies.add(bucket_of(ns), 1));
        latencies
    }

    #[test]
    fn buckets_follow_each_other_without_gaps() {
        for bucket in 0..LATENCY_BUCKETS {
            let begin = bucket_begin_us(bucket);
            assert_eq!(bucket_of(begin * 1_000), bucket);
            assert_eq!(bucket_of(begin * 1_000 + 999), bucket);
            if begin > 0 {
                assert_eq!(bucket_of(begin * 1_000 - 1), bucket - 1);
            }
            let end = bucket_begin_us(bucket + 1);
            assert!(begin < 4 || (end - begin) * 4 <= begin, "{begin}..{end} is wide");
        }
        assert_eq!(bucket_begin_us(LATENCY_BUCKETS - 1), 1 << 26);
        assert_eq!(bucket_of(u64::MAX), LATENCY_BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_near_what_was_counted() {
        let latencies = of((1..=1_000_000).step_by(7).map(|us| us * 1_000));
        for (share, exact) in [(0.5, 0.5), (0.9, 0.9), (0.99, 0.99), (1.0, 1.0)] {
            let found = latencies.quantile(share).unwrap().as_secs_f64();
            assert!((found / exact - 1.0).abs() < 0.05, "{share}: {found}");
        }
        assert_eq!(Latencies::default().quantile(0.5), None);
        assert_eq!(of([u64::MAX]).quantile(0.99), Some(Duration::from_secs_f64(67.108_864)));
    }

    #[test]
    fn differences_and_sums_fit_together() {
        let (before, later) = (of([5_000, 70_000]), of([5_000, 70_000, 70_000, 1]));
        let since = later.since(&before);
        assert_eq!((since.count(), before.plus(&since)), (2, later.clone()));
        assert_eq!(before.since(&later), before, "the daemon has restarted");
        assert_eq!((later.below(bucket_of(70_000)), later.below(0)), (2, 0));
    }

    #[test]
    fn a_histogram_reads_back_as_it_was_written() {
        let latencies = of([0, 4_000, 4_000, 90_000_000_000]);
        let text = serde_json::to_string(&latencies).unwrap();
        assert_eq!(text, "[[0,1],[4,2],[67108864,1]]");
        assert_eq!(serde_json::from_str::<Latencies>(&text).unwrap(), latencies);
        let odd: Latencies =
            serde_json::from_str("[[18446744073709551615,18446744073709551615],[3,1]]").unwrap();
        assert_eq!(odd.count(), u64::MAX);
    }
}
