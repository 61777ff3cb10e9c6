//! The one place that reads the clock.

use std::io::{Error, Write as _};
use std::path::Path;
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

/// Which life of the node this is: milliseconds since 1970, but later than that of the last life, which is
/// kept in the runtime directory. So a clock that was set back does not make a node older than it was.
pub(crate) fn incarnation(runtime_dir: &Path) -> u64 {
    let path = runtime_dir.join("incarnation");
    let last: u64 =
        std::fs::read_to_string(&path).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    // The core shifts it by 20 bits: what a broken file says must not overflow that.
    let last = if last < 1 << 43 { last } else { 0 };
    let life = u64::try_from(since.as_millis()).unwrap_or(0).max(last + 1);
    let kept = std::fs::File::create(&path).and_then(|mut file| writeln!(file, "{life}"));
    if let Err(error) = kept {
        tracing::warn!(
            "{}: {error}; a clock that is set back may now delay this node's return",
            path.display()
        );
    }
    life
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lives_follow_each_other_even_if_the_clock_goes_back() {
        let dir = tempfile::tempdir().unwrap();
        let first = incarnation(dir.path());
        assert!(incarnation(dir.path()) > first);
        std::fs::write(dir.path().join("incarnation"), format!("{}\n", first + 1_000_000_000)).unwrap();
        assert_eq!(incarnation(dir.path()), first + 1_000_000_001);
        std::fs::write(dir.path().join("incarnation"), "rubbish").unwrap();
        assert!(incarnation(dir.path()) < first + 1_000_000_000);
    }

    #[test]
    fn time_goes_on() {
        let clock = Clock::start();
        let now = clock.now();
        assert!(clock.now() >= now);
    }
}
