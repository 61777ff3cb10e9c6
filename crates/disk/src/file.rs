//! Opening a file or a block device: checks, exclusive use, size.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt as _, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::error::{Altered, DiskError};
use crate::job::Op;
use crate::options::DiskOptions;
use crate::room::Room;

/// Alignment assumed for `O_DIRECT` on a regular file; the largest logical block size in common use.
const DIRECT_ALIGN: u32 = 4096;
/// How often a lock is tried that another process has.
const LOCK_AGAIN: Duration = Duration::from_millis(20);

/// A disk that is opened for use; its lock lasts as long as this value.
#[derive(Debug)]
pub(crate) struct Holder {
    path: PathBuf,
    read_only: bool,
    direct: bool,
    shape: Shape,
    /// Carries the lock; I/O goes through the descriptions of [`Files`].
    lock: File,
}

/// What does not change while the disk is open.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    /// Bytes.
    pub(crate) size: u64,
    /// Logical block size of the device, or the alignment direct I/O needs on a file; bytes.
    pub(crate) block_size: u32,
    pub(crate) device: bool,
}

impl Holder {
    /// Opens and locks `path`.
    pub(crate) fn open(path: &Path, options: &DiskOptions) -> Result<Self, DiskError> {
        let name = || path.to_owned();
        let os = |action| move |source| DiskError::Os { path: path.to_owned(), action, source };
        let meta = std::fs::metadata(path).map_err(|error| open_error(path, error))?;
        let kind = meta.file_type();
        if kind.is_dir() {
            return Err(DiskError::Directory { path: name() });
        }
        let device = kind.is_block_device();
        if !device && !kind.is_file() {
            let what = if kind.is_char_device() { "a character device" } else { "a pipe or a socket" };
            return Err(DiskError::Kind { path: name(), what });
        }
        let mut open = OpenOptions::new();
        open.read(true).write(!options.read_only);
        if device && !options.read_only {
            // Exclusive use of the device: fails while it is mounted or another program claims it.
            open.custom_flags(libc::O_EXCL);
        }
        let lock = match open.open(path) {
            Ok(file) => file,
            Err(error) if !options.read_only && write_refused(path, &error) => {
                // SAFETY: takes nothing and gives a number.
                let uid = unsafe { libc::geteuid() };
                return Err(match error.raw_os_error() {
                    Some(libc::EROFS) => DiskError::ReadOnly { path: name() },
                    _ => DiskError::NotWritable { path: name(), uid },
                });
            }
            Err(error) => return Err(open_error(path, error)),
        };
        let how = if options.read_only { libc::LOCK_SH } else { libc::LOCK_EX };
        lock_file(&lock, how, options.lock_wait).map_err(|error| match error.raw_os_error() {
            Some(libc::EWOULDBLOCK) => {
                DiskError::Busy { path: name(), by: "another daemon or program (flock)" }
            }
            _ => os("locking")(error),
        })?;
        let shape = if device {
            device_shape(&lock).map_err(os("asking the device for its size"))?
        } else {
            // Asked after the lock, of the opened file: the path may name another one by now.
            let size = lock.metadata().map_err(os("reading the size"))?.len();
            Shape { size, block_size: if options.direct { DIRECT_ALIGN } else { 512 }, device }
        };
        if shape.size == 0 {
            return Err(DiskError::Empty { path: name() });
        }
        let holder = Self { path: name(), read_only: options.read_only, direct: options.direct, shape, lock };
        holder.files()?; // proves that engines will be able to open theirs
        Ok(holder)
    }

    pub(crate) fn shape(&self) -> Shape {
        self.shape
    }

    /// What was done to it since it was opened, as far as path and descriptor tell. Blocks for as long as the file system
    /// takes.
    pub(crate) fn altered(&self) -> Option<Altered> {
        let path = || self.path.clone();
        let open = || format!("/proc/{}/fd/{}", std::process::id(), self.lock.as_raw_fd()).into();
        let hidden =
            |error: io::Error| Altered::Hidden { path: path(), errno: error.raw_os_error().unwrap_or(0) };
        let served = match self.lock.metadata() {
            Ok(served) => served,
            Err(error) => return Some(hidden(error)),
        };
        let size = if self.shape.device {
            device_shape(&self.lock).map(|shape| shape.size)
        } else {
            Ok(served.len())
        };
        match (std::fs::metadata(&self.path), size) {
            (Err(error), _) if error.kind() == io::ErrorKind::NotFound => Some(match served.nlink() {
                0 => Altered::Removed { path: path(), open: open() },
                _ => Altered::Moved { path: path() },
            }),
            (Err(error), _) | (_, Err(error)) => Some(hidden(error)),
            (Ok(there), _) if identity(&there) != identity(&served) => {
                Some(Altered::Replaced { path: path(), open: open() })
            }
            (_, Ok(size)) if size < self.shape.size => {
                Some(Altered::Cut { path: path(), size, served: self.shape.size })
            }
            _ => None,
        }
    }

    /// Its room; none for a device, or if the file system does not say.
    pub(crate) fn room(&self) -> Option<Room> {
        let found = self.lock.metadata().ok().filter(|_| !self.shape.device)?;
        Room::of_file(&self.lock, &found).ok()
    }

    /// Descriptors of its own for one engine: the kernel reports a write-back error once to each description.
    pub(crate) fn files(&self) -> Result<Files, DiskError> {
        // Through /proc, so that it is the locked file even if the path names another one by now.
        let path = format!("/proc/self/fd/{}", self.lock.as_raw_fd());
        let open =
            |flags| OpenOptions::new().read(true).write(!self.read_only).custom_flags(flags).open(&path);
        let os = |source| DiskError::Os { path: self.path.clone(), action: "opening it again", source };
        let buffered = open(0).map_err(os)?;
        let direct = match self.direct.then(|| open(libc::O_DIRECT)).transpose() {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                return Err(DiskError::Direct { path: self.path.clone() });
            }
            other => other.map_err(os)?,
        };
        Ok(Files { buffered, direct, shape: self.shape })
    }
}

/// One engine's descriptors.
#[derive(Debug)]
pub(crate) struct Files {
    buffered: File,
    direct: Option<File>,
    shape: Shape,
}

impl Files {
    pub(crate) fn shape(&self) -> Shape {
        self.shape
    }

    /// The descriptor without `O_DIRECT`.
    pub(crate) fn buffered(&self) -> RawFd {
        self.buffered.as_raw_fd()
    }

    /// The descriptor for the rest of `op` after `done` bytes: direct where everything is aligned.
    pub(crate) fn fd(&self, op: &Op, done: usize) -> RawFd {
        let (Some(direct), Op::Read { offset, buf } | Op::Write { offset, buf, .. }) = (&self.direct, op)
        else {
            return self.buffered();
        };
        let rest = buf.skip(done);
        let align = u64::from(self.shape.block_size.max(512)) - 1;
        if (*offset | done as u64 | rest.len() as u64 | rest.as_ptr() as u64) & align == 0 {
            direct.as_raw_fd()
        } else {
            self.buffered()
        }
    }
}

/// What tells a file from all others; a device may have several nodes.
fn identity(meta: &std::fs::Metadata) -> (bool, u64, u64) {
    match meta.file_type().is_block_device() {
        true => (true, meta.rdev(), 0),
        false => (false, meta.dev(), meta.ino()),
    }
}

/// Locks a file as `how` says. A daemon that was killed a moment ago holds its lock for as long as the kernel is busy
/// with what it had asked for.
fn lock_file(file: &File, how: i32, wait: Duration) -> io::Result<()> {
    let start = Instant::now();
    loop {
        // SAFETY: flock takes a descriptor and flags.
        if unsafe { libc::flock(file.as_raw_fd(), how | libc::LOCK_NB) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EWOULDBLOCK) || start.elapsed() >= wait {
            return Err(error);
        }
        std::thread::sleep(LOCK_AGAIN);
    }
}

/// Whether `path` could be opened, only not for writing.
fn write_refused(path: &Path, error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EROFS | libc::EACCES | libc::EPERM))
        && OpenOptions::new().read(true).open(path).is_ok()
}

fn open_error(path: &Path, error: io::Error) -> DiskError {
    let path = path.to_owned();
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENXIO | libc::ENODEV | libc::ENOTDIR) => DiskError::Missing { path },
        Some(libc::EACCES | libc::EPERM) => DiskError::NotPermitted { path },
        Some(libc::EROFS) => DiskError::ReadOnly { path },
        Some(libc::EBUSY | libc::ETXTBSY) => {
            DiskError::Busy { path, by: "a mount or another program (exclusive open)" }
        }
        _ => DiskError::Os { path, action: "opening", source: error },
    }
}

/// `_IOR(0x12, 114, size_t)`: the size of a block device in bytes.
const BLKGETSIZE64: libc::Ioctl = 0x8008_1272_u32 as libc::Ioctl;
/// `_IO(0x12, 104)`: its logical block size in bytes.
const BLKSSZGET: libc::Ioctl = 0x1268;

fn device_shape(device: &File) -> io::Result<Shape> {
    let mut size = 0_u64;
    let mut block_size = 0 as libc::c_int;
    // SAFETY: the request writes one u64, into `size`.
    if unsafe { libc::ioctl(device.as_raw_fd(), BLKGETSIZE64, &raw mut size) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the request writes one int, into `block_size`.
    if unsafe { libc::ioctl(device.as_raw_fd(), BLKSSZGET, &raw mut block_size) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let block_size = u32::try_from(block_size).ok().filter(|size| size.is_power_of_two()).unwrap_or(512);
    Ok(Shape { size, block_size, device: true })
}
