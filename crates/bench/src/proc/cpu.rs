//! What a server process has cost so far.

use std::collections::BTreeMap;
use std::fs;

use super::stat::Stat;
use super::tree;

/// User plus system time of a process in nanoseconds, all its threads, also those that ended.
///
/// Read from the kernel's CPU clock of the process, which is exact; `/proc/PID/stat` (10 ms ticks) where
/// that clock is not readable. `None` when the process is gone.
pub fn process_ns(pid: i32) -> Option<u64> {
    clock_ns(pid).or_else(|| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // SAFETY: sysconf has no preconditions.
        let ticks_per_s =
            u64::try_from(unsafe { libc::sysconf(libc::_SC_CLK_TCK) }).ok().filter(|&t| t > 0)?;
        Some(Stat::parse(&stat)?.cpu_ticks * (1_000_000_000 / ticks_per_s))
    })
}

fn clock_ns(pid: i32) -> Option<u64> {
    let mut clock = 0;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: both calls write one value into a live local; a pid that does not exist is an error return.
    let read = unsafe {
        libc::clock_getcpuclockid(pid, &mut clock) == 0 && libc::clock_gettime(clock, &mut time) == 0
    };
    read.then(|| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// Nanoseconds of processor time of this thread.
#[must_use]
pub fn thread_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one value into a live local. Every thread has the clock.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The CPU time of a set of process trees, kept also for processes that end while being watched.
#[derive(Debug, Default)]
pub struct Meter {
    roots: Vec<i32>,
    before: BTreeMap<i32, u64>,
    latest: BTreeMap<i32, u64>,
}

impl Meter {
    /// Starts counting from now for these processes and all they started or will start.
    pub fn start(roots: &[i32]) -> Meter {
        let mut meter = Meter { roots: roots.to_vec(), ..Meter::default() };
        meter.sample();
        meter.before = meter.latest.clone();
        meter
    }

    /// Looks again; call now and then when processes may come and go during the measurement.
    pub fn sample(&mut self) {
        for pid in tree::with_descendants(&self.roots) {
            if let Some(ns) = process_ns(pid) {
                self.latest.insert(pid, ns);
            }
        }
    }

    /// Nanoseconds used since [`Meter::start`], as of the last sample.
    pub fn used_ns(&self) -> u64 {
        self.latest
            .iter()
            .map(|(pid, now)| now.saturating_sub(self.before.get(pid).copied().unwrap_or(0)))
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_time_is_readable_and_a_missing_process_is_none() {
        assert!(process_ns(std::process::id() as i32).is_some_and(|ns| ns > 0));
        assert_eq!(process_ns(i32::MAX - 1), None);
    }

    #[test]
    fn the_meter_counts_only_what_comes_after_its_start() {
        let own = std::process::id() as i32;
        let total = process_ns(own).unwrap();
        let mut meter = Meter::start(&[own]);
        assert_eq!(meter.used_ns(), 0);
        let mut rng = crate::rng::Rng::new(1);
        while process_ns(own).unwrap() < total + 2_000_000 {
            rng.next_u64();
        }
        meter.sample();
        assert!(meter.used_ns() > 0);
    }
}
