//! Pinning, as `taskset` does it.

use std::fs;
use std::io;

/// Which core serves and which core asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Cores {
    /// Where servers run.
    pub server: usize,
    /// Where load generators run.
    pub client: usize,
}

impl Cores {
    /// The first two cores this process may use; `None` when it may use only one, in which case
    /// nothing is pinned and client and server compete.
    pub fn pick() -> Option<Cores> {
        let usable = usable();
        Some(Cores { server: *usable.first()?, client: *usable.get(1)? })
    }
}

/// The cores this process may run on, ascending.
fn usable() -> Vec<usize> {
    // SAFETY: a zeroed cpu_set_t is an empty set, and the call writes at most its size.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) != 0 {
            return Vec::new();
        }
        set
    };
    // SAFETY: CPU_ISSET reads within the set for every index below CPU_SETSIZE.
    (0..libc::CPU_SETSIZE as usize).filter(|&core| unsafe { libc::CPU_ISSET(core, &set) }).collect()
}

/// Pins one thread (0 = the calling one) to `core`.
///
/// Async-signal-safe: it may run between fork and exec.
pub fn pin_thread(thread: libc::pid_t, core: usize) -> io::Result<()> {
    if core >= libc::CPU_SETSIZE as usize {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    // SAFETY: a zeroed cpu_set_t is an empty set; `core` is within it; the call only reads it.
    let done = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(thread, size_of::<libc::cpu_set_t>(), &set)
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Pins every thread of a running process.
pub fn pin_process(pid: i32, core: usize) -> io::Result<()> {
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        if let Some(thread) = task?.file_name().to_str().and_then(|name| name.parse().ok()) {
            match pin_thread(thread, core) {
                // It has ended meanwhile, as those do that take a cache's memory at the start.
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                result => result?,
            }
        }
    }
    Ok(())
}
