//! The kernel's write-back may depend on this process: what the kernel may do for it when memory is short.
//!
//! A page of a file system on a volume is clean when this process has taken it. When memory is short, the kernel has whoever
//! allocates write such pages back: if that is this process, it would wait for itself. `PR_SET_IO_FLUSHER` (Linux 5.6)
//! says so to the kernel, which then has it wait for no write-back and does not slow it down for the pages that it makes dirty.

use std::io;

/// `PR_SET_IO_FLUSHER` of `linux/prctl.h`.
const PR_SET_IO_FLUSHER: libc::c_int = 57;

/// Says so for the calling thread and those that it makes from now on.
///
/// # Errors
/// The process has no `CAP_SYS_RESOURCE`, or the kernel is older.
pub fn set_io_flusher() -> io::Result<()> {
    // SAFETY: takes numbers only; on this option the kernel demands zeroes.
    match unsafe { libc::prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
