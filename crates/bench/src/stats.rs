//! The few statistics a comparison needs.

use hdrhistogram::Histogram;
use serde::Serialize;

/// The middle value; the mean of the two middle ones for an even count; `None` without values.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[half]),
        _ => Some((sorted[half - 1] + sorted[half]) / 2.0),
    }
}

/// Median over rounds of `ours / base` where both were measured in the round.
///
/// Comparing within the round cancels what the rest of the machine did in that minute.
pub fn median_ratio(ours: &[Option<f64>], base: &[Option<f64>]) -> Option<f64> {
    let ratios: Vec<f64> = ours
        .iter()
        .zip(base)
        .filter_map(|(ours, base)| match (ours, base) {
            (Some(ours), Some(base)) if *base > 0.0 => Some(ours / base),
            _ => None,
        })
        .collect();
    median(&ratios)
}

/// Request latencies in nanoseconds, to three significant digits, one minute at most.
#[derive(Debug, Clone)]
pub struct Latencies(Histogram<u64>);

/// The longest latency told apart; longer ones count as this.
const LATENCY_NS_MAX: u64 = 60_000_000_000;

impl Latencies {
    /// No latencies yet.
    pub fn new() -> Self {
        Latencies(Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3).expect("1 < max and 3 digits are valid"))
    }

    /// Adds one request.
    pub fn record(&mut self, ns: u64) {
        self.0.saturating_record(ns);
    }

    /// Adds all requests of `other`.
    pub fn add(&mut self, other: &Latencies) {
        self.0.add(&other.0).expect("both have the same bounds");
    }

    /// Mean and percentiles in microseconds.
    pub fn summary(&self) -> LatencySummary {
        let us = |q| self.0.value_at_quantile(q) as f64 / 1e3;
        LatencySummary { mean_us: self.0.mean() / 1e3, p50_us: us(0.5), p99_us: us(0.99), max_us: us(1.0) }
    }
}

impl Default for Latencies {
    fn default() -> Self {
        Self::new()
    }
}

/// Latency of one request, from being handed to the socket until its reply is parsed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LatencySummary {
    /// Arithmetic mean in microseconds.
    pub mean_us: f64,
    /// Half of the requests took at most this long.
    pub p50_us: f64,
    /// 99 of 100 requests took at most this long.
    pub p99_us: f64,
    /// All did.
    pub max_us: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_of_odd_even_and_none() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn ratios_pair_rounds_and_skip_missing_ones() {
        let ours = [Some(1.0), Some(30.0), None];
        let base = [Some(2.0), Some(10.0), Some(5.0)];
        assert_eq!(median_ratio(&ours, &base), Some(1.75));
        assert_eq!(median_ratio(&ours, &[None, None, None]), None);
        assert_eq!(median_ratio(&[Some(1.0)], &[Some(0.0)]), None);
    }

    #[test]
    fn percentiles_in_microseconds() {
        let mut latencies = Latencies::new();
        (1..=100).for_each(|us| latencies.record(us * 1000));
        let summary = latencies.summary();
        assert!((summary.mean_us - 50.5).abs() < 0.2, "{summary:?}");
        assert!((summary.p99_us - 99.0).abs() < 0.2, "{summary:?}");
        latencies.record(u64::MAX);
        assert!(latencies.summary().p99_us <= LATENCY_NS_MAX as f64);
    }
}
