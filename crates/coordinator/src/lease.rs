//! A lease as its holder counts it.

use std::time::Duration;

/// A point in time, since the machine was booted, suspended or not: a lease does not last longer because a lid was closed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct BootTime(Duration);

impl BootTime {
    /// Now.
    ///
    /// # Panics
    /// The kernel is older than Linux 2.6.39, or no Linux.
    #[must_use]
    pub fn now() -> Self {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the kernel writes the time where the pointer says, which is ours and lives until then.
        let done = unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut time) };
        assert_eq!(
            done,
            0,
            "every Linux since 2.6.39 has CLOCK_BOOTTIME: {}",
            std::io::Error::last_os_error()
        );
        Self(Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
    }

    /// Since the machine was booted.
    pub(crate) const fn since_boot(self) -> Duration {
        self.0
    }

    /// From then until this; zero if that is later.
    #[must_use]
    pub const fn since(self, then: Self) -> Duration {
        self.0.saturating_sub(then.0)
    }
}

/// A lease a member was given. It ends for the holder before it ends for the cluster: the holder counts from the
/// moment it asked, the coordinator from the later moment it was asked, and the holder takes off what two clocks
/// can run apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lease {
    /// When the holder asked, by its own clock.
    pub asked: BootTime,
    /// Length of the lease.
    pub length: Duration,
}

impl Lease {
    /// When the holder must stop to rely on it, if each of the two clocks runs wrong by at most `drift_ppm`
    /// millionths of the time that passes.
    #[must_use]
    pub fn ends(&self, drift_ppm: u32) -> BootTime {
        let kept = 1_000_000_u64.saturating_sub(2 * u64::from(drift_ppm));
        let ns = self.length.as_nanos().saturating_mul(u128::from(kept)) / 1_000_000;
        BootTime(self.asked.0.saturating_add(Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_ends_earlier_by_the_drift_of_both_clocks() {
        let lease = Lease { asked: BootTime::now(), length: Duration::from_secs(10) };
        assert_eq!(lease.ends(0).since(lease.asked), Duration::from_secs(10));
        assert_eq!(lease.ends(1000).since(lease.asked), Duration::from_millis(9980));
        assert_eq!(lease.ends(u32::MAX), lease.asked);
    }

    #[test]
    fn time_goes_on_as_the_kernel_counts_it_while_the_machine_is_suspended() {
        let uptime = || {
            let text = std::fs::read_to_string("/proc/uptime").unwrap();
            text.split(' ').next().unwrap().parse::<f64>().unwrap()
        };
        let (before, now, after) = (uptime(), BootTime::now().0.as_secs_f64(), uptime());
        assert!(before - 0.02 < now && now < after + 0.02, "{before} {now} {after}");
    }
}
