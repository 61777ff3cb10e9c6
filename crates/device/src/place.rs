//! Where a device is on this machine: its file, and beside it the lock and the description.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use cards_admin::Claim;
use serde::{Deserialize, Serialize};

use crate::directory::Directory;
use crate::error::DeviceError;
use crate::fuse;
use crate::loop_device;
use crate::mountinfo::{self, Mount};

/// How often, and how long apart, the lock is tried.
const LOOKS: u32 = 11;
const LOOK: Duration = Duration::from_millis(10);

/// A device that is ready, as written to its description and to standard output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Description {
    /// The volume.
    pub volume: String,
    /// The file, of the volume's size.
    pub path: PathBuf,
    /// The loop device over it, if one was asked for; or the disk of the ublk driver, which is the file, too.
    #[serde(default)]
    pub block: Option<PathBuf>,
    /// Device number: of the loop device, else of the file system that the file is.
    pub major: u32,
    /// Of the same.
    pub minor: u32,
    /// Size in bytes.
    pub size: u64,
    /// Nothing can be written.
    pub read_only: bool,
    /// The process that serves it.
    pub pid: u32,
    /// Present if it has the volume for itself: for a daemon that starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<Claim>,
}

impl Description {
    /// The path to use: of the block device if there is one.
    #[must_use]
    pub fn device(&self) -> &Path {
        self.block.as_deref().unwrap_or(&self.path)
    }

    /// Whether it is a disk of the ublk driver, beside which there is no file.
    #[must_use]
    pub fn is_ublk(&self) -> bool {
        self.block.as_ref() == Some(&self.path)
    }
}

/// The files of one volume's device. They are this process's as long as the value lives.
#[derive(Debug)]
pub(crate) struct Place {
    path: PathBuf,
    dir: Arc<Directory>,
    /// Name of the description in there.
    description: String,
    /// The file is ours, and goes with the device.
    made: bool,
    /// Holds the lock.
    _lock: File,
}

impl Place {
    /// Takes the place of `volume` in `dir`, or the file `path` if it is given, and clears away what a device
    /// left that was killed.
    ///
    /// # Errors
    /// It is taken, or cannot be used.
    pub(crate) fn take(
        dir: Arc<Directory>,
        volume: &str,
        path: Option<PathBuf>,
    ) -> Result<Self, DeviceError> {
        if volume.is_empty() || volume.starts_with('.') || volume.contains(['/', '\0']) {
            return Err(DeviceError::Name(volume.into()));
        }
        let path = path.unwrap_or_else(|| dir.path().join(volume));
        let lock = lock(&dir, volume, &path)?;
        let description = description_of(volume);
        let mut place = Self { path, dir, description, made: false, _lock: lock };
        place.clear()?;
        place.make()?;
        place.made = true;
        Ok(place)
    }

    /// What the last device of `volume` in `dir` said, if it did not end by itself.
    pub(crate) fn left(dir: &Directory, volume: &str) -> Option<Description> {
        serde_json::from_slice(&dir.read(&description_of(volume)).ok()??).ok()
    }

    /// The volume's file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Tells everybody that the device is ready.
    ///
    /// # Errors
    /// The description cannot be written.
    pub(crate) fn describe(&self, description: &Description) -> Result<(), DeviceError> {
        let mut text = serde_json::to_vec(description).map_err(|error| DeviceError::System(error.into()))?;
        text.push(b'\n');
        Ok(self.dir.replace(&self.description, &text)?)
    }

    /// Unmounts what is still mounted of the device of `volume`, which has ended otherwise than by being unmounted:
    /// nobody answers there.
    pub(crate) fn unmount_rest(&self, volume: &str) {
        let ours = |mount: Mount| mount.is_volume() && mount.source == Path::new(volume);
        if mount_at(&self.path).is_ok_and(|left| left.is_some_and(ours))
            && let Err(error) = fuse::unmount(&self.path, true)
        {
            tracing::error!("{}: {error}; unmount it by hand", self.path.display());
        }
    }

    /// Removes what a killed device left: its loop device, its mount, its description.
    fn clear(&self) -> Result<(), DeviceError> {
        let absolute = absolute(&self.path).map_err(at(&self.path))?;
        for device in loop_device::loop_devices_over(&absolute) {
            if !loop_device::detach_stale(&device) {
                return Err(DeviceError::StaleLoop { device });
            }
        }
        while let Some(mount) = mount_at(&self.path).map_err(at(&self.path))? {
            // A live file system opens it. (Attributes say nothing: the kernel remembers them.)
            let opened = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&self.path);
            let dead =
                opened.is_err_and(|e| matches!(e.raw_os_error(), Some(libc::ENOTCONN | libc::ECONNABORTED)));
            if !dead || !mount.is_volume() {
                return Err(DeviceError::Busy { path: self.path.clone() });
            }
            tracing::warn!("{}: unmounting what an earlier device left", self.path.display());
            fuse::unmount(&self.path, true).map_err(at(&self.path))?;
        }
        Ok(self.dir.remove(&self.description)?)
    }

    /// Makes the plain file that the volume is mounted over.
    fn make(&self) -> Result<(), DeviceError> {
        // With contents of its own it is somebody's file.
        match fs::symlink_metadata(&self.path) {
            Ok(there) if there.is_file() && there.len() == 0 => return Ok(()),
            Ok(_) => {
                return Err(at(&self.path)(io::Error::other("not an empty plain file; name another --path")));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(at(&self.path)(error)),
        }
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&self.path);
        made.map(drop).map_err(at(&self.path))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // What cannot be removed is cleared away by the next device. The lock's file stays: another process may be
        // waiting to lock it.
        let _ = self.dir.remove(&self.description);
        if self.made && mount_at(&self.path).is_ok_and(|mount| mount.is_none()) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn description_of(volume: &str) -> String {
    format!("{volume}.json")
}

/// Locks the place of `volume` for this process and writes its number into the lock's file.
fn lock(dir: &Directory, volume: &str, path: &Path) -> Result<File, DeviceError> {
    let name = format!("{volume}.lock");
    // Who could read it could lock it, and pass for a device.
    let mut lock = dir.make_file(&name, 0o600)?;
    // Others look for an instant whether it is locked.
    let taken = (0..LOOKS).any(|look| {
        if look > 0 {
            thread::sleep(LOOK);
        }
        lock.try_lock().is_ok()
    });
    if !taken {
        let mut pid = String::new();
        let _ = (&lock).take(32).read_to_string(&mut pid);
        let (volume, pid, path) = (volume.into(), pid.trim().into(), path.into());
        return Err(DeviceError::Taken { volume, pid, path });
    }
    let written = lock.set_len(0).and_then(|()| lock.rewind());
    written.and_then(|()| writeln!(lock, "{}", std::process::id())).map_err(at(&dir.path().join(&name)))?;
    Ok(lock)
}

/// What is mounted on `path`, dead or alive.
fn mount_at(path: &Path) -> io::Result<Option<Mount>> {
    Ok(mountinfo::at(&mountinfo::mounts()?, &absolute(path)?).cloned())
}

/// The path as the kernel shows it. What it leads to may be a dead mount, which cannot be looked at; its directory can.
fn absolute(path: &Path) -> io::Result<PathBuf> {
    match (path.parent(), path.file_name()) {
        (Some(dir), Some(name)) if dir.as_os_str().is_empty() => Ok(fs::canonicalize(".")?.join(name)),
        (Some(dir), Some(name)) => Ok(fs::canonicalize(dir)?.join(name)),
        _ => Ok(path.to_path_buf()),
    }
}

fn at(path: &Path) -> impl Fn(io::Error) -> DeviceError {
    let path = path.to_path_buf();
    move |source| DeviceError::Io { path: path.clone(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(dir: &tempfile::TempDir) -> Arc<Directory> {
        Arc::new(Directory::make(&dir.path().join("admin.sock")).unwrap())
    }

    #[test]
    fn a_place_is_taken_once_and_the_second_is_told_by_whom() {
        let dir = tempfile::tempdir().unwrap();
        let first = Place::take(directory(&dir), "data", None).unwrap();
        let error = Place::take(directory(&dir), "data", None).unwrap_err();
        let DeviceError::Taken { pid, .. } = error else { panic!("{error}") };
        assert_eq!(pid, std::process::id().to_string());
        drop(first);
        assert!(!dir.path().join("dev/data").exists());
        Place::take(directory(&dir), "data", None).unwrap();
    }

    #[test]
    fn a_description_reads_as_documented() {
        let text = r#"{"volume":"data","path":"/run/cards/dev/data","block":"/dev/loop3","major":7,"minor":3,
                       "size":4096,"read_only":false,"pid":42,"more":1}"#;
        let description: Description = serde_json::from_str(text).unwrap();
        assert_eq!((description.device(), description.is_ublk()), (Path::new("/dev/loop3"), false));
        let file = Description { block: None, ..description.clone() };
        assert_eq!(file.device(), Path::new("/run/cards/dev/data"));
        assert!(Description { path: "/dev/loop3".into(), ..description }.is_ublk());
    }

    #[test]
    fn a_file_with_contents_is_not_mounted_over() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("mine"), "x").unwrap();
        let error = Place::take(directory(&dir), "data", Some(dir.path().join("mine"))).unwrap_err();
        assert!(error.to_string().contains("mine"), "{error}");
        assert!(dir.path().join("mine").exists());
    }

    #[test]
    fn names_that_leave_the_directory_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["", "..", "a/b", ".hidden"] {
            assert!(matches!(Place::take(directory(&dir), name, None), Err(DeviceError::Name(_))), "{name}");
        }
    }
}
