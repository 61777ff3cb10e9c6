//! Loop devices: a block device over the volume's file.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::error::DeviceError;

/// Numbers of `linux/loop.h`.
const LOOP_CLR_FD: libc::Ioctl = 0x4C01;
const LOOP_SET_STATUS64: libc::Ioctl = 0x4C04;
const LOOP_GET_STATUS64: libc::Ioctl = 0x4C05;
const LOOP_CONFIGURE: libc::Ioctl = 0x4C0A;
const LOOP_CTL_GET_FREE: libc::Ioctl = 0x4C82;
const LO_FLAGS_READ_ONLY: u32 = 1;
const LO_FLAGS_AUTOCLEAR: u32 = 4;
const LO_FLAGS_DIRECT_IO: u32 = 16;

/// Free devices tried: others may take one between the question and the use.
const TRIES: usize = 20;

/// `struct loop_info64`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Info {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// `struct loop_config`.
#[repr(C)]
struct Configuration {
    fd: u32,
    block_size: u32,
    info: Info,
    reserved: [u64; 8],
}

const EMPTY: Info = Info {
    device: 0,
    inode: 0,
    rdevice: 0,
    offset: 0,
    size_limit: 0,
    number: 0,
    encrypt_type: 0,
    encrypt_key_size: 0,
    flags: 0,
    file_name: [0; 64],
    crypt_name: [0; 64],
    encrypt_key: [0; 32],
    init: [0; 2],
};

/// A loop device of ours.
#[derive(Clone, Debug)]
pub(crate) struct LoopDevice {
    path: PathBuf,
    number: libc::dev_t,
}

impl LoopDevice {
    /// Puts a free loop device over `file`, with sectors of `sector` bytes. It reads and writes past the page cache
    /// of the file, as it has one of its own.
    ///
    /// # Errors
    /// [`DeviceError::Loop`].
    pub(crate) fn attach(file: &Path, read_only: bool, sector: u32) -> Result<Self, DeviceError> {
        let failed = |source: io::Error| DeviceError::Loop {
            remedy: match source.raw_os_error() {
                Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => "load the module with `modprobe loop`",
                Some(libc::EACCES | libc::EPERM) => "run it as root",
                _ => "leave --block out and use the file, or see the kernel's log",
            },
            source,
        };
        // Opened so that it never uses pages.
        let backing = OpenOptions::new().read(true).write(!read_only).custom_flags(libc::O_DIRECT).open(file);
        let backing = backing.map_err(failed)?;
        let control = OpenOptions::new().read(true).write(true).open("/dev/loop-control").map_err(failed)?;
        let mut last = io::Error::from(io::ErrorKind::ResourceBusy);
        for _ in 0..TRIES {
            // SAFETY: the call takes no argument.
            let number = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) };
            if number < 0 {
                return Err(failed(io::Error::last_os_error()));
            }
            let path = PathBuf::from(format!("/dev/loop{number}"));
            match configure(&path, &backing, file, read_only, sector) {
                Ok(number) => return Ok(Self { path, number }),
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => last = error,
                Err(error) => return Err(failed(error)),
            }
        }
        Err(failed(last))
    }

    /// Its path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Its device number: major, minor.
    pub(crate) fn number(&self) -> (u32, u32) {
        (libc::major(self.number), libc::minor(self.number))
    }

    /// Detaches it from the file if nobody uses it; with `lazy`, else as soon as nobody does.
    ///
    /// # Errors
    /// [`DeviceError::InUse`].
    pub(crate) fn detach(&self, lazy: bool) -> Result<(), DeviceError> {
        match clear(&self.path, lazy) {
            Ok(()) => Ok(()),
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                let what = "mounted, or open in a process".into();
                Err(DeviceError::InUse { path: self.path.clone(), what })
            }
            Err(error) => Err(DeviceError::Io { path: self.path.clone(), source: error }),
        }
    }
}

/// The loop devices that are over `file`.
pub(crate) fn over(file: &Path) -> Vec<PathBuf> {
    let file = match (file.parent().and_then(|dir| fs::canonicalize(dir).ok()), file.file_name()) {
        (Some(dir), Some(name)) => dir.join(name),
        _ => return Vec::new(),
    };
    let mut found = Vec::new();
    for entry in fs::read_dir("/sys/block").into_iter().flatten().flatten() {
        let backing = fs::read_to_string(entry.path().join("loop/backing_file")).unwrap_or_default();
        if Path::new(backing.trim_end_matches('\n')) == file {
            found.push(Path::new("/dev").join(entry.file_name()));
        }
    }
    found
}

/// Detaches a loop device whose file is dead; whether it is detached.
pub(crate) fn detach_stale(device: &Path) -> bool {
    clear(device, false).is_ok()
}

fn configure(
    path: &Path,
    backing: &File,
    file: &Path,
    read_only: bool,
    sector: u32,
) -> io::Result<libc::dev_t> {
    let device = OpenOptions::new().read(true).write(!read_only).open(path)?;
    let mut info = EMPTY;
    info.flags = LO_FLAGS_DIRECT_IO | if read_only { LO_FLAGS_READ_ONLY } else { 0 };
    let name = file.as_os_str().as_encoded_bytes();
    let length = name.len().min(info.file_name.len() - 1);
    info.file_name[..length].copy_from_slice(&name[..length]);
    let configuration = Configuration {
        fd: u32::try_from(backing.as_raw_fd()).map_err(io::Error::other)?,
        block_size: sector,
        info,
        reserved: [0; 8],
    };
    // SAFETY: the argument is the structure the call reads, and outlives it.
    if unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE, &configuration) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(device.metadata()?.rdev())
}

/// Takes the file from a loop device. `EBUSY` if somebody uses it; then it is as it was, unless `lazy`.
fn clear(path: &Path, lazy: bool) -> io::Result<()> {
    if !lazy {
        // Refused while it is mounted, or is a part of another device.
        let exclusive = OpenOptions::new().read(true).custom_flags(libc::O_EXCL).open(path)?;
        drop(exclusive);
    }
    let device = File::open(path)?;
    // SAFETY: the call takes no argument.
    if unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CLR_FD) } != 0 {
        let error = io::Error::last_os_error();
        return if error.raw_os_error() == Some(libc::ENXIO) { Ok(()) } else { Err(error) };
    }
    drop(device);
    // The kernel detaches it when the last user closes it, which was perhaps not us.
    let device = File::open(path)?;
    let mut info = EMPTY;
    // SAFETY: the argument is the structure the call fills.
    let there = unsafe { libc::ioctl(device.as_raw_fd(), LOOP_GET_STATUS64, &mut info) } == 0;
    if !there || lazy {
        return Ok(());
    }
    info.flags &= !LO_FLAGS_AUTOCLEAR;
    // SAFETY: the argument is the structure the call reads. If it fails, the device is detached after all.
    unsafe { libc::ioctl(device.as_raw_fd(), LOOP_SET_STATUS64, &info) };
    Err(io::Error::from_raw_os_error(libc::EBUSY))
}
