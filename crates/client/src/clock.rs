//! The clock by which leases are judged: it runs on while the machine is suspended.

use std::time::Duration;

/// A point in time: since the machine was booted, suspended or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(Duration);

impl Moment {
    pub(crate) fn now() -> Self {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the kernel writes the time where the pointer says, which is ours and lives until then.
        let done = unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut time) };
        assert_eq!(done, 0, "every Linux since 2.6.39 has CLOCK_BOOTTIME");
        Self(Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
    }

    /// So many milliseconds later.
    pub(crate) fn after_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add(Duration::from_millis(ms)))
    }

    /// From now until then; zero if it is over.
    pub(crate) fn left(self) -> Duration {
        self.0.saturating_sub(Self::now().0)
    }
}
