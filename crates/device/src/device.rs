//! A volume as a file, from start to end.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use cards_admin::Device as Where;
use cards_config::Mode;

use crate::directory::Directory;
use crate::error::DeviceError;
use crate::fuse::{self, Attributes};
use crate::inbox::{Input, inbox};
use crate::loop_device::LoopDevice;
use crate::place::{Description, Place};
use crate::read_ahead;
use crate::server::{Server, Settings, Shared};
use crate::session::{Connected, Target, connect_within};
use crate::ublk::{self, Disk};
use crate::uplink::{self, Uplink};

/// How long a file that was closed may count as open.
const CLOSING: Duration = Duration::from_millis(300);

/// What device to make.
#[derive(Clone, Debug)]
pub struct Options {
    /// Admin socket of the daemon. Where what the device keeps on this machine is, says [`Directory::path_for`].
    pub socket: PathBuf,
    /// The volume.
    pub volume: String,
    /// Where the file is to be, if not in that directory under the volume's name.
    pub path: Option<PathBuf>,
    /// How to attach the volume if the daemon does not have it attached, as after a restart; none: it must.
    pub mode: Option<Mode>,
    /// Make a loop device over the file.
    pub block: bool,
    /// Make a disk of the kernel's ublk driver instead of the file. `path`, `block` and `direct` mean nothing then.
    pub ublk: bool,
    /// Let the kernel keep no pages of the file.
    pub direct: bool,
    /// Let the daemon drop what has been read: the kernel, or whoever reads, keeps it.
    pub exclusive: bool,
    /// NBD connections to the daemon, at least 1.
    pub connections: usize,
    /// How long to look for the daemon at the start.
    pub connect_timeout: Duration,
    /// How long requests wait for a daemon that is gone before they fail with EIO; none: for ever.
    pub give_up: Option<Duration>,
}

/// A device that is ready.
#[derive(Debug)]
pub struct Device {
    place: Place,
    description: Description,
    block: Option<LoopDevice>,
    ublk: Option<Disk>,
    shared: Arc<Shared>,
    server: JoinHandle<io::Result<()>>,
}

impl Device {
    /// Makes the device and waits until it can be used.
    ///
    /// # Errors
    /// [`DeviceError`]; then nothing is left behind.
    pub fn start(options: Options) -> Result<Self, DeviceError> {
        let Options {
            socket,
            volume,
            path,
            mode,
            block,
            ublk,
            direct,
            exclusive,
            connections,
            connect_timeout,
            give_up,
        } = options;
        let dir = Arc::new(Directory::make(&socket)?);
        let left = Place::left(&dir, &volume);
        let place = Place::take(dir.clone(), &volume, path)?;
        if let Some(left) = left {
            ublk::delete_left(&left);
        }
        let connections = connections.max(1);
        let mut target = Target { socket, volume: volume.clone(), mode, exclusive, connections, claim: None };
        let daemon =
            connect_within(&target, connect_timeout).map_err(|e| DeviceError::session(&volume, e))?;
        target.claim = daemon.watching.claim;
        let claim = target.claim;
        if ublk {
            return Self::disk(place, target, daemon, give_up);
        }
        let read_only = daemon.session.read_only();
        let settings =
            Settings { file: attributes(&daemon), read_only, flags: daemon.session.flags, direct, dir };
        let size = settings.file.size;

        let (mailbox, inbox) = inbox().map_err(DeviceError::System)?;
        let path = place.path().to_path_buf();
        let channel = fuse::mount(&path, &volume, read_only);
        let channel = channel.map_err(|source| DeviceError::mount(path.clone(), source))?;
        let shared = Arc::new(Shared::default());
        let link = uplink::Settings { target, size, read_only, give_up };
        let uplink = Uplink::new(link, mailbox.clone(), shared.ended.clone());
        let server = Server::new(
            settings,
            shared.clone(),
            Arc::new(channel),
            (mailbox.clone(), inbox),
            (uplink, daemon),
            here("fuse", &path, (0, 0)),
        );
        let server = thread::Builder::new().name("serve".into()).spawn(move || server.run());
        let server = server.map_err(|error| undo(&path, DeviceError::System(error)))?;

        // From here on the file can be used, also by this process.
        let mut number = numbers(&path).map_err(|source| undo(&path, at(&path, source)))?;
        read_ahead::raise(number);
        let block = match block.then(|| LoopDevice::attach(&path, read_only)).transpose() {
            Ok(block) => block,
            Err(error) => return Err(undo(&path, error)),
        };
        let mut place_of = here("fuse", &path, number);
        if let Some(device) = &block {
            number = device.number();
            read_ahead::raise(number);
            place_of = here("loop", device.path(), number);
        }
        mailbox.send(Input::Here(place_of));
        let description = Description {
            volume,
            path,
            block: block.as_ref().map(|device| device.path().to_path_buf()),
            major: number.0,
            minor: number.1,
            size,
            read_only,
            pid: std::process::id(),
            claim,
        };
        let device = Self { place, description, block, ublk: None, shared, server };
        if let Err(error) = device.place.describe(&device.description) {
            // Nobody uses it yet.
            let _ = device.stop(true);
            return Err(error);
        }
        Ok(device)
    }

    /// The volume as a disk of the ublk driver, with no file.
    fn disk(
        place: Place,
        target: Target,
        daemon: Connected,
        give_up: Option<Duration>,
    ) -> Result<Self, DeviceError> {
        let (size, read_only) = (daemon.session.size, daemon.session.read_only());
        let (volume, claim) = (target.volume.clone(), target.claim);
        let shared = Arc::new(Shared::default());
        let link = uplink::Settings { target, size, read_only, give_up };
        let (disk, server) = Disk::start(link, daemon, shared.ended.clone())?;
        let description = Description { claim, ..disk.description(&volume, size, read_only) };
        let device = Self { place, description, block: None, ublk: Some(disk), shared, server };
        if let Err(error) = device.place.describe(&device.description) {
            // Nobody uses it yet.
            let _ = device.stop(true).and_then(|()| device.join());
            return Err(error);
        }
        Ok(device)
    }

    /// What it is and where.
    #[must_use]
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// Whether it has been unmounted, here or from outside.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.shared.ended.load(Ordering::Acquire)
    }

    /// Ends it if nobody uses it; or, `lazy`, takes it out of sight now and ends it when nobody does. Then
    /// [`Self::has_ended`].
    ///
    /// # Errors
    /// [`DeviceError::InUse`]: it goes on as before.
    pub fn stop(&self, lazy: bool) -> Result<(), DeviceError> {
        if let Some(disk) = &self.ublk {
            return disk.stop();
        }
        let path = self.place.path();
        let own = usize::from(self.block.is_some());
        let count = || self.shared.open.load(Ordering::Relaxed).saturating_sub(own);
        // The kernel reports a close a moment after it has returned.
        let end = Instant::now() + CLOSING;
        while !lazy && count() > 0 && Instant::now() < end {
            thread::sleep(Duration::from_millis(5));
        }
        let open = count();
        if open > 0 && !lazy {
            let what = format!("open {open} times; `fuser -v` and `lsof` show by whom");
            return Err(DeviceError::InUse { path: path.into(), what });
        }
        if let Some(device) = &self.block {
            device.detach(lazy)?;
        }
        match fuse::unmount(path, lazy) {
            Ok(()) => Ok(()),
            // Already unmounted.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                let what = "open, or something is mounted from it".into();
                Err(DeviceError::InUse { path: path.into(), what })
            }
            Err(source) => Err(at(path, source)),
        }
    }

    /// Waits until it has ended, and removes what it left on this machine.
    ///
    /// # Errors
    /// It ended because it could not go on.
    pub fn join(self) -> Result<(), DeviceError> {
        let done =
            self.server.join().unwrap_or_else(|_| Err(io::Error::other("the serving thread panicked")));
        if let Some(device) = &self.block {
            // Its file is gone with the mount, so that it is of no use to anybody.
            let _ = device.detach(true);
        }
        if let Some(disk) = &self.ublk {
            disk.delete()?;
        }
        self.place.unmount_rest(&self.description.volume);
        done.map_err(DeviceError::System)
    }
}

/// Unmounts after a failure; gives the failure back.
fn undo(path: &Path, error: DeviceError) -> DeviceError {
    if let Err(error) = fuse::unmount(path, true) {
        tracing::error!("{}: {error}; unmount it by hand", path.display());
    }
    error
}

fn attributes(daemon: &Connected) -> Attributes {
    let permissions = if daemon.session.read_only() { 0o400 } else { 0o600 };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    // SAFETY: both have no preconditions and cannot fail.
    let (uid, gid) = unsafe { (libc::getuid(), libc::getgid()) };
    Attributes {
        size: daemon.session.size,
        block: daemon.watching.block.max(4096),
        mode: libc::S_IFREG | permissions,
        uid,
        gid,
        time: now.as_secs(),
    }
}

fn here(kind: &str, path: &Path, (major, minor): (u32, u32)) -> Where {
    Where { kind: kind.into(), path: path.into(), major, minor, pid: std::process::id() }
}

/// The device number of the file system that the file is. Its answer shows that the device serves.
fn numbers(path: &Path) -> io::Result<(u32, u32)> {
    let number = fs::metadata(path)?.dev();
    Ok((libc::major(number), libc::minor(number)))
}

fn at(path: &Path, source: io::Error) -> DeviceError {
    DeviceError::Io { path: path.into(), source }
}
