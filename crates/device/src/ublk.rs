//! A volume as a disk of the kernel's ublk driver, `/dev/ublkbN`.
//!
//! The driver hands requests of the block layer to this process through an io_uring and takes the answers there. The
//! disk's page cache is the kernel's: nobody can withdraw pages of it, so it is not coherent with other nodes' writes.

mod abi;
mod control;
mod queue;
mod server;
mod tags;

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::{self, JoinHandle};

use cards_admin::Device as Where;
use cards_wire::nbd::consts::{
    NBD_FLAG_SEND_FLUSH, NBD_FLAG_SEND_FUA, NBD_FLAG_SEND_TRIM, NBD_FLAG_SEND_WRITE_ZEROES,
};

use crate::error::DeviceError;
use crate::fuse::IO_MAX;
use crate::inbox::{Input, inbox};
use crate::place::Description;
use crate::read_ahead;
use crate::session::Connected;
use crate::uplink::{self, Uplink};
use abi::{ATTR_FUA, ATTR_READ_ONLY, ATTR_VOLATILE_CACHE, Parameters, SECTOR};
use control::{Control, failed};
use queue::Queue;
use server::Server;

/// Requests at a time.
const DEPTH: u16 = 128;
/// Sectors of a DISCARD or WRITE_ZEROES, at most: 1 GiB, which a request of the protocol can say.
const ZEROES_MAX: u32 = 1 << 21;
/// What devices of ours remember, beside the process.
const MARK: u64 = u64::from_be_bytes(*b"CARD\0\0\0\0");
/// Where disks of the driver are.
const DISK: &str = "/dev/ublkb";

/// The thread that serves a disk.
type Serving = JoinHandle<io::Result<()>>;

/// A disk that is ready.
pub(crate) struct Disk {
    id: u32,
    path: PathBuf,
    number: (u32, u32),
    control: Mutex<Control>,
}

impl std::fmt::Debug for Disk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Disk").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Disk {
    /// Makes the disk and waits until it can be used. The thread ends when the disk does, and then sets `ended`.
    ///
    /// # Errors
    /// [`DeviceError::Ublk`], [`DeviceError::System`]; then nothing is left behind.
    pub(crate) fn start(
        link: uplink::Settings,
        daemon: Connected,
        ended: Arc<AtomicBool>,
    ) -> Result<(Self, Serving), DeviceError> {
        let mut control = Control::open()?;
        let id = control.add(DEPTH, IO_MAX, mark(std::process::id()))?;
        let started = Self::serve(&mut control, id, link, daemon, ended);
        match started {
            Ok((number, thread)) => {
                let disk = Self { id, path: path(id), number, control: Mutex::new(control) };
                Ok((disk, thread))
            }
            Err(error) => {
                if let Err(error) = control.delete(id) {
                    tracing::error!("/dev/ublkc{id}: {error}");
                }
                Err(error)
            }
        }
    }

    fn serve(
        control: &mut Control,
        id: u32,
        link: uplink::Settings,
        daemon: Connected,
        ended: Arc<AtomicBool>,
    ) -> Result<((u32, u32), Serving), DeviceError> {
        control.set(id, &parameters(&daemon))?;
        let (mailbox, inbox) = inbox().map_err(DeviceError::System)?;
        let uplink = Uplink::new(link, mailbox.clone(), ended.clone());
        let (opened, is_open) = mpsc::channel();
        let work = move || match Queue::open(id, DEPTH) {
            Ok(queue) => {
                // Who started it waits, or has no use for it any more.
                let _ = opened.send(Ok(()));
                Server::new(uplink, (queue, DEPTH), inbox, daemon, ended).run()
            }
            Err(error) => {
                let _ = opened.send(Err(error));
                Ok(())
            }
        };
        let thread = thread::Builder::new().name("serve".into()).spawn(work).map_err(DeviceError::System)?;
        let open = is_open.recv().unwrap_or_else(|_| Err(io::Error::other("the serving thread panicked")));
        open.map_err(|source| failed("the queue", source, "see the kernel's log"))?;
        let started = control.start(id).and_then(|()| {
            let disk = fs::metadata(path(id)).map_err(|source| DeviceError::Io { path: path(id), source })?;
            Ok((libc::major(disk.rdev()), libc::minor(disk.rdev())))
        });
        match started {
            Ok((major, minor)) => {
                read_ahead::raise((major, minor));
                let (path, pid) = (path(id), std::process::id());
                mailbox.send(Input::Here(Where { kind: "ublk".into(), path, major, minor, pid }));
                Ok(((major, minor), thread))
            }
            Err(error) => {
                // Takes the queue from the thread, which ends then.
                if control.stop(id).is_ok() {
                    let _ = thread.join();
                }
                Err(error)
            }
        }
    }

    /// What it is and where; the disk is block device and file in one.
    pub(crate) fn description(&self, volume: &str, size: u64, read_only: bool) -> Description {
        Description {
            volume: volume.into(),
            path: self.path.clone(),
            block: Some(self.path.clone()),
            major: self.number.0,
            minor: self.number.1,
            size,
            read_only,
            pid: std::process::id(),
            claim: None,
        }
    }

    /// Removes the disk unless somebody has claimed it. Who has only opened it, gets errors.
    ///
    /// # Errors
    /// [`DeviceError::UblkInUse`].
    pub(crate) fn stop(&self) -> Result<(), DeviceError> {
        let path = &self.path;
        match fs::OpenOptions::new().read(true).custom_flags(libc::O_EXCL).open(path) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                return Err(DeviceError::UblkInUse { path: path.clone() });
            }
            // Without a disk, there is nobody who uses it.
            Ok(_) | Err(_) => {}
        }
        self.control().stop(self.id)
    }

    /// Deletes the device, whose thread has ended.
    ///
    /// # Errors
    /// [`DeviceError::Ublk`].
    pub(crate) fn delete(&self) -> Result<(), DeviceError> {
        self.control().delete(self.id)
    }

    fn control(&self) -> MutexGuard<'_, Control> {
        // A command is over or was not begun when its caller panics.
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Deletes the device of the ublk driver that a killed process has left, if `left` is the description of one and the
/// kernel still has it. If something is mounted from its disk, it goes with the last use of that.
pub fn delete_left(left: &Description) {
    let name = left.block.as_ref().and_then(|block| block.to_str()?.strip_prefix(DISK));
    let Some(id) = name.and_then(|name| name.parse().ok()) else { return };
    let Ok(mut control) = Control::open() else { return };
    // Another device may have the number by now.
    if control.mark(id) == Some(mark(left.pid)) {
        tracing::warn!("{}: deleting what an earlier device left", path(id).display());
        if let Err(error) = control.delete_unused(id) {
            tracing::error!("{}: {error}", path(id).display());
        }
    }
}

fn mark(pid: u32) -> u64 {
    MARK | u64::from(pid)
}

fn path(id: u32) -> PathBuf {
    format!("{DISK}{id}").into()
}

/// The disk as the volume offers it.
fn parameters(daemon: &Connected) -> Parameters {
    let session = &daemon.session;
    let can = |flag| session.flags & flag != 0;
    let attribute = |has, attribute| if has { attribute } else { 0 };
    // A power of two.
    let block = daemon.watching.block.max(SECTOR as u32);
    let writes = !session.read_only();
    Parameters {
        attributes: attribute(!writes, ATTR_READ_ONLY)
            | attribute(can(NBD_FLAG_SEND_FLUSH), ATTR_VOLATILE_CACHE)
            | attribute(can(NBD_FLAG_SEND_FUA), ATTR_FUA),
        // The daemon takes requests of any length.
        logical_shift: SECTOR.trailing_zeros() as u8,
        physical_shift: block.trailing_zeros() as u8,
        io_max: (u64::from(IO_MAX) / SECTOR) as u32,
        size: session.size / SECTOR,
        discard_max: if writes && can(NBD_FLAG_SEND_TRIM) { ZEROES_MAX } else { 0 },
        zeroes_max: if writes && can(NBD_FLAG_SEND_WRITE_ZEROES) { ZEROES_MAX } else { 0 },
    }
}
