//! What can go wrong, when a disk is opened and while it is used.

use std::io;
use std::path::PathBuf;

use cards_wire::nbd::client::{HandshakeError, UriError};

use crate::managed::ManagedError;
use crate::object::{ObjectError, ObjectFailure};

/// Why a disk cannot be contributed. Each message names the disk, the reason and the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiskError {
    #[error("disk {path}: no such file or device; create it first (truncate -s 1G {path}) or correct `path`")]
    Missing { path: PathBuf },
    #[error(
        "disk {path}: permission denied; give the daemon's user read and write access, or run it as a user that has it"
    )]
    NotPermitted { path: PathBuf },
    #[error(
        "disk {path}: the daemon's user (uid {uid}) may read but not write it; let that user write it, or set `read_only = true`"
    )]
    NotWritable { path: PathBuf, uid: u32 },
    #[error("disk {path}: is read-only; set `read_only = true`, or make it writable")]
    ReadOnly { path: PathBuf },
    #[error("disk {path}: is a directory; name a file or a block device")]
    Directory { path: PathBuf },
    #[error("disk {path}: is {what}; only regular files and block devices can be contributed")]
    Kind { path: PathBuf, what: &'static str },
    #[error("disk {path}: is empty (0 bytes); give it a size (truncate -s 1G {path})")]
    Empty { path: PathBuf },
    #[error("disk {path}: in use by {by}; stop that first, or contribute another disk")]
    Busy { path: PathBuf, by: &'static str },
    #[error("disk {path}: its file system has no O_DIRECT; set `direct = false`")]
    Direct { path: PathBuf },
    #[error(
        "disk {path}: {action} failed: {source}; see the kernel's log (dmesg), or contribute another disk"
    )]
    Os { path: PathBuf, action: &'static str, source: io::Error },
    #[error("disk {uri}: {source}")]
    Uri { uri: String, source: UriError },
    #[error("disk {uri}: no connection: {source}; check that the server runs and the address is right")]
    Unreachable { uri: String, source: io::Error },
    #[error("disk {uri}: {source}; check the export's name (nbdinfo --list)")]
    Handshake { uri: String, source: HandshakeError },
    #[error("disk {uri}: the export {reason}; contribute another one")]
    Export { uri: String, reason: &'static str },
    #[error("disk {path}: {source}")]
    Managed { path: PathBuf, source: Box<ManagedError> },
    #[error("disk {url}: {}", failure.with_remedy())]
    Object { url: String, failure: ObjectFailure },
    #[error(
        "fault {spec:?}: {reason}; write for example read-eio=3, sync-eio=1+, write-short=1+2, slow=20ms"
    )]
    Fault { spec: String, reason: &'static str },
}

impl DiskError {
    /// Whether the server that has the disk is merely away, so that it can be opened later.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Object { failure, .. } => failure.error.is_transient(),
            _ => false,
        }
    }
}

/// What was done to a file, a device or an object while it is served. Each message names the path, the harm and the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Altered {
    #[error(
        "{path} was removed while it is served: what it holds is lost when this daemon ends; stop its writers and save \
         it before that (cp {open} {path}), then restart this daemon"
    )]
    Removed { path: PathBuf, open: PathBuf },
    #[error(
        "{path} is not there any more, but what was there is served: move it back there, or correct its path in node.toml"
    )]
    Moved { path: PathBuf },
    #[error(
        "{path} is another file or device than the one that is served, which a restart would not find: put that one \
         back (it is open as {open}), or restart this daemon if the new one is meant"
    )]
    Replaced { path: PathBuf, open: PathBuf },
    #[error(
        "{path} was cut off: it has {size} bytes of {served}, and what was beyond is lost; give it its size again \
         (truncate -s {served} {path}) and restore the contents"
    )]
    Cut { path: PathBuf, size: u64, served: u64 },
    #[error(
        "{path} was cut off: it has {size} bytes of {served}, and what was beyond is lost, so nothing of this disk is served any more: do not make it longer \
         again: that brings nothing back, and what was lost is damaged then (mended from other copies where there are any, else EIO); stop this daemon and bring a copy of the whole disk back, or format another disk under \
         another name and have the copies on this one replaced (`cards volume replace`)"
    )]
    ManagedCut { path: PathBuf, size: u64, served: u64 },
    #[error(
        "{url}: {failure}: what no node has cached cannot be read any more; bring the version that was opened back, or restart \
         this daemon to serve the one that is there"
    )]
    Object { url: String, failure: ObjectFailure },
    #[error("{path}: it cannot be seen whether it is still what is served: {source}", source = io::Error::from_raw_os_error(*errno))]
    Hidden { path: PathBuf, errno: i32 },
}

/// Why one job failed. Small and `Copy`: it travels in completions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JobError {
    /// The range is not on the disk. Nothing was done.
    #[error("{len} bytes at {offset} reach past the end of the disk ({size} bytes)")]
    OutOfRange { offset: u64, len: u64, size: u64 },
    /// A write, zero or trim on a read-only disk. Nothing was done.
    #[error("the disk is read-only")]
    ReadOnly,
    /// The file ended inside the range: somebody truncated it after it was opened.
    #[error("disk shrank: no data at {offset}, though the disk had more when it was opened")]
    Shrank { offset: u64 },
    /// An earlier sync failed; see the crate documentation.
    #[error(
        "an earlier sync of this disk failed; what it covered may be lost: check the data and open the disk again"
    )]
    SyncFailed,
    /// The connection to the origin was lost while a write was in flight, or no answer came in time. Whether a write
    /// was done is not known; a flush lost nothing and may be tried again.
    #[error("no answer from the origin server")]
    Disconnected,
    /// The connection to the origin was lost before a flush had covered all answered writes.
    #[error(
        "connection to the origin server lost with unflushed writes; they may be gone: check the data and open the disk again"
    )]
    WritesLost,
    /// What is wrong with the object, its server or the way to it; of what is tried again: at the last attempt.
    #[error(transparent)]
    Object(ObjectError),
    /// What was read of a managed disk is not what was written there. Nothing of it was delivered.
    #[error(
        "checksum: the {} KiB at byte {offset} of the volume are not what was written there; write them anew from a backup, and see to the \
         device",
        length / 1024
    )]
    Damaged { offset: u64, length: u64 },
    /// A managed disk could not keep its tables, or make durable what it had taken.
    #[error("the managed disk has failed: it could not write its tables, or sync")]
    StoreFailed,
    /// What the operating system or the origin server answered.
    #[error("{}", io::Error::from_raw_os_error(*errno))]
    Os { errno: i32 },
}

impl JobError {
    /// The Linux errno a client is answered with.
    pub fn errno(self) -> i32 {
        match self {
            Self::OutOfRange { .. } => libc::EINVAL,
            Self::ReadOnly => libc::EPERM,
            Self::Shrank { .. }
            | Self::SyncFailed
            | Self::Disconnected
            | Self::WritesLost
            | Self::Damaged { .. }
            | Self::StoreFailed
            | Self::Object(_) => libc::EIO,
            Self::Os { errno } => errno,
        }
    }

    /// Whether the disk itself has said it, and not this process for it.
    pub(crate) fn is_answer(self) -> bool {
        match self {
            Self::OutOfRange { .. }
            | Self::ReadOnly
            | Self::SyncFailed
            | Self::Disconnected
            | Self::WritesLost
            | Self::StoreFailed => false,
            Self::Object(error) => !error.is_transient(),
            Self::Shrank { .. } | Self::Damaged { .. } | Self::Os { .. } => true,
        }
    }

    /// The error of the last system call of this thread.
    pub(crate) fn last_os() -> Self {
        Self::Os { errno: io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO) }
    }
}
