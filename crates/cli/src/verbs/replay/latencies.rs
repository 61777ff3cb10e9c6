//! How long requests took.

use std::time::Duration;

/// Each doubling has so many buckets: a percentile is right to 2 %.
const PARTS: u64 = 1 << PART_BITS;
const PART_BITS: u32 = 5;

/// Times of requests, in constant memory.
#[derive(Clone, Debug)]
pub(super) struct Latencies {
    count: u64,
    total: Duration,
    /// By the highest bits of the nanoseconds.
    buckets: Vec<u64>,
}

impl Default for Latencies {
    fn default() -> Self {
        Self { count: 0, total: Duration::ZERO, buckets: vec![0; bucket_of(u64::MAX) + 1] }
    }
}

impl Latencies {
    pub(super) fn add(&mut self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.count += 1;
        self.total += time;
        self.buckets[bucket_of(nanos)] += 1;
    }

    /// Those of another as well.
    pub(super) fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.total += other.total;
        self.buckets.iter_mut().zip(&other.buckets).for_each(|(sum, more)| *sum += more);
    }

    pub(super) const fn count(&self) -> u64 {
        self.count
    }

    /// Microseconds; 0 of none.
    pub(super) fn mean_us(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.total.as_secs_f64() * 1e6 / self.count as f64 }
    }

    /// The time that a share of all, 0 to 1, does not exceed, in microseconds; 0 of none.
    pub(super) fn quantile_us(&self, share: f64) -> f64 {
        let rank = ((self.count as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        for (bucket, &count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return middle_of(bucket) as f64 / 1e3;
            }
        }
        0.0
    }
}

/// The first two times [`PARTS`] buckets are single nanoseconds, the next [`PARTS`] are pairs of them, and so on.
fn bucket_of(nanos: u64) -> usize {
    let doublings = (u64::BITS - nanos.leading_zeros()).saturating_sub(PART_BITS + 1);
    (PARTS * u64::from(doublings) + (nanos >> doublings)) as usize
}

fn middle_of(bucket: usize) -> u64 {
    let doublings = (bucket as u64 / PARTS).saturating_sub(1);
    let low = (bucket as u64 - PARTS * doublings) << doublings;
    low + ((1 << doublings) >> 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_narrow_and_in_order() {
        let mut last = 0;
        for nanos in (0..200).chain((8..64).map(|bits| (1 << bits) + (1 << (bits - 2)))).chain([u64::MAX]) {
            let bucket = bucket_of(nanos);
            assert!(bucket >= last, "{nanos}");
            last = bucket;
            let error = middle_of(bucket).abs_diff(nanos) as f64;
            assert!(error <= nanos as f64 / 60.0, "{nanos} is shown as {}", middle_of(bucket));
        }
    }

    #[test]
    fn percentiles_and_means() {
        let mut latencies = Latencies::default();
        assert_eq!((latencies.mean_us(), latencies.quantile_us(0.5)), (0.0, 0.0));
        (1..=100).for_each(|us| latencies.add(Duration::from_micros(us)));
        let mut other = Latencies::default();
        other.merge(&latencies);
        assert_eq!(other.count(), 100);
        assert!((other.mean_us() - 50.5).abs() < 1e-9);
        assert!((other.quantile_us(0.5) - 50.0).abs() < 1.0, "{}", other.quantile_us(0.5));
        assert!((other.quantile_us(0.99) - 99.0).abs() < 2.0, "{}", other.quantile_us(0.99));
    }
}
