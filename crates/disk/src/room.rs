//! What a sparse file still needs of its file system, and what is left there.

use std::fs::{File, Metadata};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Bytes of the units in which a file's blocks are counted, whatever those of its file system are.
const STAT_BLOCK: u64 = 512;
/// A disk is short of room below this, unless it needs less.
const LITTLE: u64 = 64 << 20;

/// The room of a disk that is a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Bytes of the disk that have no place on the file system yet: they were never written, or have been trimmed.
    pub unwritten: u64,
    /// Bytes that this process can still write on the file system.
    pub free: u64,
}

impl Room {
    /// The room of the file at `path`; none for a device.
    ///
    /// # Errors
    /// The file or its file system cannot be looked at.
    pub fn of(path: &Path) -> io::Result<Option<Self>> {
        let found = std::fs::metadata(path)?;
        if found.is_file() { Self::of_file(&File::open(path)?, &found).map(Some) } else { Ok(None) }
    }

    pub(crate) fn of_file(file: &File, found: &Metadata) -> io::Result<Self> {
        let written = found.blocks().saturating_mul(STAT_BLOCK);
        Ok(Self { unwritten: found.len().saturating_sub(written), free: free(file)? })
    }

    /// Writes of the whole disk would fail, and those of a small part of it will soon: less than a twentieth of the disk is left.
    #[must_use]
    pub fn is_short(&self, disk: u64) -> bool {
        self.unwritten > self.free && self.free < LITTLE.max(disk / 20)
    }
}

/// Bytes that this process can still write on the file system of an open file or directory.
///
/// # Errors
/// The file system does not say.
pub fn free(file: &File) -> io::Result<u64> {
    let mut found = MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: the descriptor is open for the length of the call, and the kernel writes one value of the type.
    if unsafe { libc::fstatvfs(file.as_raw_fd(), found.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has succeeded, so the value is written.
    let found = unsafe { found.assume_init() };
    // What root has for itself is not counted: the daemon is another user.
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sparse_file_needs_what_was_not_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk.img");
        std::fs::write(&path, vec![1; 1 << 20]).unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        file.sync_all().unwrap();
        file.set_len(4 << 20).unwrap();
        let room = Room::of(&path).unwrap().unwrap();
        assert!((2 << 20..=3 << 20).contains(&room.unwritten), "{room:?}");
        assert!(room.free > 0, "{room:?}");
        assert_eq!(Room::of(dir.path()).unwrap(), None);
    }

    #[test]
    fn a_disk_is_short_of_room_before_it_is_full() {
        let short = |unwritten: u64, free: u64, disk: u64| Room { unwritten, free }.is_short(disk);
        assert!(short(1 << 30, 0, 1 << 30));
        assert!(short(1 << 30, (64 << 20) - 1, 1 << 30));
        assert!(!short(1 << 30, 64 << 20, 1 << 30));
        assert!(short(1 << 40, 50 << 30, 1 << 40));
        assert!(!short(1 << 40, 52 << 30, 1 << 40));
        // What is left is enough for the rest.
        assert!(!short(1 << 20, 1 << 20, 1 << 40));
    }
}
