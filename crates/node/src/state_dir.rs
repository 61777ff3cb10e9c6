//! What a node must not forget: files that are there as a whole, and what to do where they cannot be written.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;

/// Replaces a file as a whole, durably.
///
/// # Errors
/// As of the system calls.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut file = File::create(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&new, path)?;
    match path.parent() {
        Some(directory) => File::open(directory)?.sync_all(),
        None => Ok(()),
    }
}

/// It has no room left.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// What to do about a `state_dir` that cannot be written.
pub(crate) fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "make room there",
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied | io::ErrorKind::NotADirectory => {
            "create it for the daemon's user or set another one"
        }
        io::ErrorKind::ReadOnlyFilesystem => "mount it writable or set another one",
        _ => "see to its disk or set another one",
    }
}
