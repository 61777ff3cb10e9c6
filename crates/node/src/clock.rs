//! The clock of a daemon.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cards_coordinator::BootTime;
use cards_core::Instant;

/// Time since the daemon's start, as the core counts it. It runs on while the machine is suspended: a lease
/// must not outlast what the disk node thinks of it because a lid was closed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    origin: BootTime,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { origin: BootTime::now() }
    }

    pub(crate) fn now(&self) -> Instant {
        Instant(BootTime::now().since(self.origin).as_nanos() as u64)
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
