//! The file that a disk is: whether it is the one that was served before.

use std::fs::{self, File};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

/// Tells a file from all others that have had its path. The number of the device is no part: it changes when a machine starts anew.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileIdentity {
    inode: u64,
    /// When it was made, in nanoseconds since 1970: file systems give the inode of a removed file to the next one. None where the
    /// file system does not know.
    born_ns: Option<u64>,
}

impl FileIdentity {
    /// None of what is no regular file, or is not there.
    pub(super) fn of(path: &Path) -> Option<Self> {
        let about = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
        let born = about.created().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let born_ns = born.and_then(|since| u64::try_from(since.as_nanos()).ok());
        Some(Self { inode: about.ino(), born_ns })
    }
}

/// Whether a file has no data at all, only a length. False where the file system cannot tell.
pub(super) fn is_blank(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return false };
    // SAFETY: moves the offset of a descriptor that nothing else uses.
    let found = unsafe { libc::lseek(file.as_raw_fd(), 0, libc::SEEK_DATA) };
    found < 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::ENXIO)
}
