//! The kernel writes back to this process when memory is short: it must neither wait for that nor be swapped out.

use std::io;

use crate::io_flusher::set_io_flusher;

/// Prepares the process for that, as far as it may; says what it may not. Before the threads of a device are made.
///
/// What the process touches stays in memory (`MCL_ONFAULT`: what it does not touch, as most of the stacks, takes none). It
/// has little: no cache, and buffers for what is under way.
pub fn serve_write_back() {
    let remedy = "short memory can hold up what is written to the device; run it as root, or with CAP_SYS_RESOURCE and \
                  CAP_IPC_LOCK";
    if let Err(error) = set_io_flusher() {
        tracing::warn!(
            "the kernel does not know that its write-back depends on this process: {error}; {remedy}"
        );
    }
    if let Err(error) = lock_memory() {
        tracing::warn!("the memory of this process may be swapped out: {error}; {remedy}");
    }
}

fn lock_memory() -> io::Result<()> {
    let failed = |result| if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
    // Under a limit, memory that is asked for later would be refused: then nothing is locked.
    let unlimited = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the kernel reads the limit where the pointer says, which lives until then.
    failed(unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const unlimited) })?;
    // SAFETY: takes a number.
    failed(unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT) })
}
