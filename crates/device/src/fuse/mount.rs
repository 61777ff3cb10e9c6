//! Mounting over a file, and unmounting.

use std::ffi::CString;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use super::Channel;
use super::abi::IO_MAX;

/// The kind of file system, in `/proc/self/mountinfo`.
pub(crate) const KIND: &str = "fuse.cards";

/// The volume cannot be mounted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MountError {
    /// No `/dev/fuse`.
    #[error(
        "/dev/fuse: {0}; load the module with `modprobe fuse`, and in a container pass --device /dev/fuse"
    )]
    NoFuse(io::Error),
    /// Not allowed.
    #[error("mounting needs root (CAP_SYS_ADMIN): {0}; run it as root")]
    NotAllowed(io::Error),
    /// Any other reason.
    #[error("mount: {0}; does the path name a plain file that nothing is mounted on?")]
    Failed(io::Error),
}

/// Mounts a file system of one file over the file `path`. `source` is its name in `/proc/self/mountinfo`.
///
/// # Errors
/// [`MountError`].
pub(crate) fn mount(path: &Path, source: &str, read_only: bool) -> Result<Channel, MountError> {
    let device = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/fuse");
    let device: OwnedFd = match device {
        Ok(file) => file.into(),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return Err(MountError::NotAllowed(error));
        }
        Err(error) => return Err(MountError::NoFuse(error)),
    };
    // SAFETY: both have no preconditions and cannot fail.
    let (uid, gid) = unsafe { (libc::getuid(), libc::getgid()) };
    let options = format!(
        "fd={},rootmode=100600,user_id={uid},group_id={gid},default_permissions,allow_other,max_read={IO_MAX}",
        device.as_raw_fd()
    );
    let (target, source) = (string(path.as_os_str().as_bytes())?, string(source.as_bytes())?);
    let (kind, options) = (string(KIND.as_bytes())?, string(options.as_bytes())?);
    let flags =
        libc::MS_NODEV | libc::MS_NOSUID | libc::MS_NOATIME | if read_only { libc::MS_RDONLY } else { 0 };
    // SAFETY: every pointer is a string that outlives the call.
    let done = unsafe {
        libc::mount(source.as_ptr(), target.as_ptr(), kind.as_ptr(), flags, options.as_ptr().cast())
    };
    if done == 0 {
        return Ok(Channel::new(device));
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EPERM) => Err(MountError::NotAllowed(error)),
        Some(libc::ENODEV) => Err(MountError::NoFuse(error)),
        _ => Err(MountError::Failed(error)),
    }
}

/// Unmounts what is mounted on `path`: if nobody uses it, or, `lazy`, from sight now and for good once nobody does.
///
/// # Errors
/// In use (`EBUSY`), not mounted (`EINVAL`), or not allowed.
pub(crate) fn unmount(path: &Path, lazy: bool) -> io::Result<()> {
    let target = CString::new(path.as_os_str().as_bytes())?;
    let flags = libc::UMOUNT_NOFOLLOW | if lazy { libc::MNT_DETACH } else { 0 };
    // SAFETY: the pointer is a string that outlives the call.
    match unsafe { libc::umount2(target.as_ptr(), flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn string(bytes: &[u8]) -> Result<CString, MountError> {
    CString::new(bytes).map_err(|error| MountError::Failed(error.into()))
}
