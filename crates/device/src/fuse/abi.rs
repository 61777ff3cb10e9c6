//! Numbers of the FUSE protocol, under the names of `linux/fuse.h`.

/// Major version.
pub(crate) const FUSE_KERNEL_VERSION: u32 = 7;
/// The minor version spoken here; an older kernel says its own.
pub(crate) const FUSE_KERNEL_MINOR_VERSION: u32 = 40;
/// The oldest minor version with all that is used: `max_pages` came with it (Linux 4.20).
pub(crate) const MINOR_VERSION_MIN: u32 = 28;

/// The only inode.
pub(crate) const FUSE_ROOT_ID: u64 = 1;

/// Bytes of `fuse_in_header`.
pub(crate) const IN_HEADER: usize = 40;
/// Bytes of `fuse_out_header`.
pub(crate) const OUT_HEADER: usize = 16;
/// Bytes of `fuse_write_in`, after which the payload of a WRITE starts.
pub(crate) const WRITE_IN: usize = 40;

/// The longest READ and WRITE in bytes: 256 pages of 4 KiB, which is what `fs.fuse.max_pages_limit` allows.
pub(crate) const IO_MAX: u32 = 1 << 20;

/// Operations.
pub(crate) const FUSE_FORGET: u32 = 2;
pub(crate) const FUSE_GETATTR: u32 = 3;
pub(crate) const FUSE_SETATTR: u32 = 4;
pub(crate) const FUSE_OPEN: u32 = 14;
pub(crate) const FUSE_READ: u32 = 15;
pub(crate) const FUSE_WRITE: u32 = 16;
pub(crate) const FUSE_STATFS: u32 = 17;
pub(crate) const FUSE_RELEASE: u32 = 18;
pub(crate) const FUSE_FSYNC: u32 = 20;
pub(crate) const FUSE_INIT: u32 = 26;
pub(crate) const FUSE_BATCH_FORGET: u32 = 42;
pub(crate) const FUSE_FALLOCATE: u32 = 43;

/// Notification: drop pages of an inode.
pub(crate) const FUSE_NOTIFY_INVAL_INODE: i32 = 2;

/// INIT: READs of the page cache need not wait for each other.
pub(crate) const FUSE_ASYNC_READ: u32 = 1 << 0;
/// INIT: WRITEs may be longer than a page.
pub(crate) const FUSE_BIG_WRITES: u32 = 1 << 5;
/// INIT: asynchronous direct I/O is asked for asynchronously.
pub(crate) const FUSE_ASYNC_DIO: u32 = 1 << 15;
/// INIT: `max_pages` counts.
pub(crate) const FUSE_MAX_PAGES: u32 = 1 << 22;
/// INIT: pages are dropped when told, not when a time stamp changes.
pub(crate) const FUSE_EXPLICIT_INVAL_DATA: u32 = 1 << 25;

/// OPEN: past the page cache.
pub(crate) const FOPEN_DIRECT_IO: u32 = 1 << 0;
/// OPEN: keep the pages that are there.
pub(crate) const FOPEN_KEEP_CACHE: u32 = 1 << 1;
/// OPEN: direct writes need not wait for each other.
pub(crate) const FOPEN_PARALLEL_DIRECT_WRITES: u32 = 1 << 6;

/// READ: past the page cache. (It says that a lock owner is named, which is so for direct I/O only, whatever the flags
/// of the file are at that moment.)
pub(crate) const FUSE_READ_LOCKOWNER: u32 = 1 << 1;

/// SETATTR: what is to be set.
pub(crate) const FATTR_MODE: u32 = 1 << 0;
pub(crate) const FATTR_UID: u32 = 1 << 1;
pub(crate) const FATTR_GID: u32 = 1 << 2;
/// SETATTR: the size is to be set.
pub(crate) const FATTR_SIZE: u32 = 1 << 3;
/// SETATTR: it is asked for through an open file.
pub(crate) const FATTR_FH: u32 = 1 << 6;
