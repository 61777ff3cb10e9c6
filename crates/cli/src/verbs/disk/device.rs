//! A file or block device, opened to be formatted or shown.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Seek as _, SeekFrom};
use std::os::unix::fs::{FileExt as _, FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use cards_layout::format::UNIT;

use super::DiskError;

/// An open device.
#[derive(Debug)]
pub(super) struct Device {
    path: PathBuf,
    file: File,
    size: u64,
}

impl Device {
    /// Opens it to be read, whether it is in use or not.
    pub(super) fn open(path: &Path) -> Result<Self, DiskError> {
        Self::with(path, OpenOptions::new().read(true))
    }

    /// Opens it to be written by this process alone.
    pub(super) fn open_exclusive(path: &Path) -> Result<Self, DiskError> {
        let is_device = std::fs::metadata(path).is_ok_and(|meta| meta.file_type().is_block_device());
        let mut options = OpenOptions::new();
        // Without O_CREAT this flag makes a block device that is mounted or claimed busy.
        options.read(true).write(true).custom_flags(if is_device { libc::O_EXCL } else { 0 });
        let device = Self::with(path, &options)?;
        match device.file.try_lock() {
            Ok(()) => Ok(device),
            Err(TryLockError::WouldBlock) => Err(DiskError::Busy { path: path.into() }),
            Err(TryLockError::Error(error)) => Err(device.failed("locking", error)),
        }
    }

    fn with(path: &Path, options: &OpenOptions) -> Result<Self, DiskError> {
        let failed = |action| move |source| DiskError::Os { path: path.into(), action, source };
        let kind = match std::fs::metadata(path) {
            Ok(meta) => meta.file_type(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(DiskError::Missing { path: path.into() });
            }
            Err(error) => return Err(failed("looking at it")(error)),
        };
        if !kind.is_file() && !kind.is_block_device() {
            return Err(DiskError::Kind { path: path.into() });
        }
        let mut file = options.open(path).map_err(|error| match error.raw_os_error() {
            Some(libc::EBUSY | libc::ETXTBSY) => DiskError::Busy { path: path.into() },
            _ => failed("opening it")(error),
        })?;
        let size = file.seek(SeekFrom::End(0)).map_err(failed("asking for its size"))?;
        Ok(Self { path: path.into(), file, size })
    }

    fn failed(&self, action: &'static str, source: io::Error) -> DiskError {
        DiskError::Os { path: self.path.clone(), action, source }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes of the device.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Reads `length` bytes at `offset`, fewer at the end of the device.
    pub(super) fn read(&self, offset: u64, length: usize) -> Result<Vec<u8>, DiskError> {
        let left = self.size.saturating_sub(offset);
        let mut bytes = vec![0; usize::try_from(left).map_or(length, |left| left.min(length))];
        self.file.read_exact_at(&mut bytes, offset).map_err(|error| self.failed("reading it", error))?;
        Ok(bytes)
    }

    /// Reads a page; what is behind the end of the device is zero.
    pub(super) fn page(&self, offset: u64) -> Result<[u8; UNIT], DiskError> {
        let mut page = [0; UNIT];
        let bytes = self.read(offset, UNIT)?;
        page[..bytes.len()].copy_from_slice(&bytes);
        Ok(page)
    }

    pub(super) fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), DiskError> {
        self.file.write_all_at(bytes, offset).map_err(|error| self.failed("writing it", error))
    }

    /// Returns when what was written survives a loss of power.
    pub(super) fn sync(&self) -> Result<(), DiskError> {
        self.file.sync_all().map_err(|error| self.failed("syncing it", error))
    }
}
