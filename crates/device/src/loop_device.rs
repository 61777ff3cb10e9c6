//! Loop devices: a block device over the volume's file.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

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

/// Bytes of a sector.
const SECTOR: u32 = 512;
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
#[derive(Debug)]
pub(crate) struct LoopDevice {
    path: PathBuf,
    number: libc::dev_t,
    /// It is, or will be, somebody else's: its number is free again once it is detached.
    let_go: AtomicBool,
}

impl LoopDevice {
    /// Puts a free loop device over `file`, with sectors of 512 bytes. It reads and writes past the page cache of the
    /// file, as it has one of its own.
    ///
    /// # Errors
    /// [`DeviceError::Loop`].
    pub(crate) fn attach(file: &Path, read_only: bool) -> Result<Self, DeviceError> {
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
            match configure(&path, &backing, file, read_only) {
                Ok(number) => return Ok(Self { path, number, let_go: AtomicBool::new(false) }),
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

    /// Detaches it from the file if nobody uses it; with `lazy`, else as soon as nobody does. Done once, it is not done
    /// again: the device may be another file's by then.
    ///
    /// # Errors
    /// [`DeviceError::InUse`].
    pub(crate) fn detach(&self, lazy: bool) -> Result<(), DeviceError> {
        if self.let_go.load(Ordering::Relaxed) {
            return Ok(());
        }
        match clear(&self.path, lazy) {
            Ok(()) => {
                self.let_go.store(true, Ordering::Relaxed);
                Ok(())
            }
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                let what = "mounted, or open in a process".into();
                Err(DeviceError::InUse { path: self.path.clone(), what })
            }
            Err(error) => Err(DeviceError::Io { path: self.path.clone(), source: error }),
        }
    }
}

/// The loop devices that are over `file`, whose directory has no symbolic links in its path.
pub fn loop_devices_over(file: &Path) -> Vec<PathBuf> {
    let devices = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let ours = devices.filter(|entry| file_of(&entry.path()).as_deref() == Some(file));
    ours.map(|entry| Path::new("/dev").join(entry.file_name())).collect()
}

/// The file behind the block device `major:minor`, if that is a loop device.
#[must_use]
pub fn file_behind((major, minor): (u32, u32)) -> Option<PathBuf> {
    file_of(Path::new(&format!("/sys/dev/block/{major}:{minor}")))
}

/// The file behind a loop device, by its directory of sysfs.
fn file_of(device: &Path) -> Option<PathBuf> {
    let text = fs::read(device.join("loop/backing_file")).ok()?;
    Some(PathBuf::from(OsStr::from_bytes(text.strip_suffix(b"\n").unwrap_or(&text))))
}

/// Detaches a loop device whose file is dead; whether it is detached.
pub(crate) fn detach_stale(device: &Path) -> bool {
    clear(device, false).is_ok()
}

fn configure(path: &Path, backing: &File, file: &Path, read_only: bool) -> io::Result<libc::dev_t> {
    let device = OpenOptions::new().read(true).write(!read_only).open(path)?;
    let mut info = EMPTY;
    info.flags = LO_FLAGS_DIRECT_IO | if read_only { LO_FLAGS_READ_ONLY } else { 0 };
    let name = file.as_os_str().as_encoded_bytes();
    let length = name.len().min(info.file_name.len() - 1);
    info.file_name[..length].copy_from_slice(&name[..length]);
    let configuration = Configuration {
        fd: u32::try_from(backing.as_raw_fd()).map_err(io::Error::other)?,
        block_size: SECTOR,
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
    let before = status(&device);
    // SAFETY: the call takes no argument.
    if unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CLR_FD) } != 0 {
        let error = io::Error::last_os_error();
        return if error.raw_os_error() == Some(libc::ENXIO) { Ok(()) } else { Err(error) };
    }
    drop(device);
    // The kernel detaches it when the last user closes it, which was perhaps not us. If there is another file by now,
    // it has done so.
    let device = File::open(path)?;
    let file = |info: &Info| (info.device, info.inode);
    let Some(mut info) = status(&device) else { return Ok(()) };
    if lazy || before.as_ref().map(file) != Some(file(&info)) {
        return Ok(());
    }
    info.flags &= !LO_FLAGS_AUTOCLEAR;
    // SAFETY: the argument is the structure the call reads. If it fails, the device is detached after all.
    unsafe { libc::ioctl(device.as_raw_fd(), LOOP_SET_STATUS64, &info) };
    Err(io::Error::from_raw_os_error(libc::EBUSY))
}

/// What the kernel says of a loop device; nothing if it has no file.
fn status(device: &File) -> Option<Info> {
    let mut info = EMPTY;
    // SAFETY: the argument is the structure the call fills.
    let there = unsafe { libc::ioctl(device.as_raw_fd(), LOOP_GET_STATUS64, &mut info) } == 0;
    there.then_some(info)
}
