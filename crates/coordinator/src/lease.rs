//! A lease as its holder counts it.

use std::time::{Duration, Instant};

/// A lease a member was given. It ends for the holder before it ends for the cluster: the holder counts from the
/// moment it asked, the coordinator from the later moment it was asked, and the holder takes off what two clocks
/// can run apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lease {
    /// When the holder asked, by its own clock.
    pub asked: Instant,
    /// Length of the lease.
    pub length: Duration,
}

impl Lease {
    /// When the holder must stop to rely on it, if each of the two clocks runs wrong by at most `drift_ppm`
    /// millionths of the time that passes.
    #[must_use]
    pub fn ends(&self, drift_ppm: u32) -> Instant {
        let kept = 1_000_000_u64.saturating_sub(2 * u64::from(drift_ppm));
        let ns = self.length.as_nanos().saturating_mul(u128::from(kept)) / 1_000_000;
        self.asked + Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_ends_earlier_by_the_drift_of_both_clocks() {
        let lease = Lease { asked: Instant::now(), length: Duration::from_secs(10) };
        assert_eq!(lease.ends(0) - lease.asked, Duration::from_secs(10));
        assert_eq!(lease.ends(1000) - lease.asked, Duration::from_millis(9980));
        assert_eq!(lease.ends(u32::MAX), lease.asked);
    }
}
