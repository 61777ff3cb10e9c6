//! What the process costs the machine, under the names that all exporters use for it.

use std::io::Read as _;

/// Processor time of all threads so far, in seconds; none if the kernel does not say.
pub(super) fn cpu_seconds() -> Option<f64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes the time where the pointer says, which is ours and lives until then.
    let done = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    (done == 0).then(|| time.tv_sec as f64 + time.tv_nsec as f64 / 1e9)
}

/// Memory that the process has, in bytes; none if the kernel does not say.
pub(super) fn resident_bytes() -> Option<u64> {
    let mut text = String::new();
    std::fs::File::open("/proc/self/statm").ok()?.take(256).read_to_string(&mut text).ok()?;
    let pages: u64 = text.split_ascii_whitespace().nth(1)?.parse().ok()?;
    // SAFETY: takes a number and gives one, negative if it is not known.
    let page = u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok()?;
    pages.checked_mul(page)
}

/// Files and sockets that are open; none if the kernel does not say.
pub(super) fn open_files() -> Option<u64> {
    Some(std::fs::read_dir("/proc/self/fd").ok()?.count() as u64)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_kernel_says_what_the_process_costs() {
        assert!(super::cpu_seconds().is_some_and(|seconds| seconds > 0.0));
        assert!(super::resident_bytes().is_some_and(|bytes| bytes > 1 << 20));
        assert!(super::open_files().is_some_and(|files| files > 2));
    }
}
