//! The one place that reads the clock.

use std::io::Error;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cards_core::Instant;

/// Time since the daemon's start, as the core counts it. It runs on while the machine is suspended: a lease
/// must not outlast what the disk node thinks of it because a lid was closed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    origin: u64,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { origin: boot_time() }
    }

    pub(crate) fn now(&self) -> Instant {
        Instant(boot_time().saturating_sub(self.origin))
    }

    /// The time on this clock and, at the same moment, in microseconds since 1970 (UTC).
    pub(crate) fn now_and_utc_us(&self) -> (Instant, u64) {
        let mut looks = 0;
        loop {
            let before = self.now();
            let utc = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            looks += 1;
            // Unless the thread was put aside between the two looks.
            if self.now().since(before) < TOGETHER || looks == LOOKS_MAX {
                return (before, u64::try_from(utc.as_micros()).unwrap_or(u64::MAX));
            }
        }
    }
}

/// Two clocks read within this time are read together.
const TOGETHER: Duration = Duration::from_micros(5);
const LOOKS_MAX: u32 = 100;

/// Nanoseconds since the machine was booted, suspended or not.
fn boot_time() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes the time where the pointer says, which is ours and lives until then.
    let done = unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut time) };
    assert_eq!(done, 0, "every Linux since 2.6.39 has CLOCK_BOOTTIME: {}", Error::last_os_error());
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_on() {
        let clock = Clock::start();
        let now = clock.now();
        assert!(clock.now() >= now);
    }
}
