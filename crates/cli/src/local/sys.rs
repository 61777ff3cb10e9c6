//! System calls that the standard library does not have.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::Duration;

const LOOP_CLR_FD: libc::Ioctl = 0x4c01;

/// Whether this process may mount and set up block devices, as far as its user says it.
pub(crate) fn is_root() -> bool {
    // SAFETY: geteuid has no preconditions and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// A process, whatever becomes of its number.
#[derive(Debug)]
pub(crate) struct Process(OwnedFd);

impl Process {
    /// The process that has the number now.
    pub(crate) fn open(pid: u32) -> io::Result<Self> {
        // SAFETY: takes two numbers and returns a new descriptor or an error.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, libc::c_long::from(pid), 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call has just returned this descriptor, and nobody else has it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd as i32) }))
    }

    /// Sends `signal`.
    pub(crate) fn signal(&self, signal: i32) -> io::Result<()> {
        let none = std::ptr::null::<libc::siginfo_t>();
        // SAFETY: the descriptor is open, and without a siginfo the call reads no memory.
        let sent = unsafe { libc::syscall(libc::SYS_pidfd_send_signal, self.0.as_raw_fd(), signal, none, 0) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Whether the process ends within `timeout`.
    pub(crate) fn ends_within(&self, timeout: Duration) -> bool {
        let mut poll = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let timeout_ms = timeout.as_millis().min(3_600_000) as i32;
        // SAFETY: one valid pollfd, whose descriptor is open.
        unsafe { libc::poll(&mut poll, 1, timeout_ms) == 1 }
    }
}

/// Takes the mount at `point` out of the tree; it ends when nobody uses it any more.
pub(crate) fn unmount_lazily(point: &Path) -> io::Result<()> {
    let path = CString::new(point.as_os_str().as_bytes())?;
    // SAFETY: a string that ends with zero and outlives the call.
    match unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH | libc::UMOUNT_NOFOLLOW) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Takes the file away from a loop device; from one that is in use, when it is no longer.
pub(crate) fn clear_loop(device: &Path) -> io::Result<()> {
    let device = File::open(device)?;
    // SAFETY: the descriptor is open, and the request takes no argument.
    match unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CLR_FD, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_after_its_end() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let process = Process::open(child.id()).unwrap();
        assert!(!process.ends_within(Duration::from_millis(1)));
        process.signal(libc::SIGTERM).unwrap();
        assert!(process.ends_within(Duration::from_secs(10)));
        child.wait().unwrap();
        assert_eq!(process.signal(libc::SIGTERM).unwrap_err().raw_os_error(), Some(libc::ESRCH));
    }

    #[test]
    fn what_is_no_mount_point_cannot_be_unmounted() {
        assert!(unmount_lazily(Path::new("/nonexistent")).is_err());
        assert!(clear_loop(Path::new("/dev/null")).is_err());
    }
}
