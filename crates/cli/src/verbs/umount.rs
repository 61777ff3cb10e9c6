//! `cards umount`: a volume unmounted, and detached if it was attached for the mount.

use std::path::{Path, PathBuf};

use cards_device::mountinfo::{self, Mount};
use clap::Args;
use serde::Serialize;

use crate::context::Context;
use crate::daemon::Daemon;
use crate::error::Error;
use crate::local::{self, LocalError, Place, Release, Released, Server};
use crate::output;
use crate::signals::Signals;
use crate::verbs::mount::MountError;

/// Unmount a volume, and detach it if it was attached for the mount
#[derive(Debug, Args)]
#[command(after_help = "\
--lazy takes the mount out of the tree at once. Processes that have files open there go on writing to them, unseen,
and the volume stays attached until the last of them is closed: mount it nowhere else before.

Examples:
  cards umount /mnt
  cards umount data")]
pub(crate) struct Umount {
    /// Where it is mounted, or the name of the volume
    target: PathBuf,

    #[command(flatten)]
    daemon: Daemon,

    /// Unmount although it is in use (see below)
    #[arg(short, long)]
    lazy: bool,

    /// One JSON object
    #[arg(long)]
    json: bool,
}

impl Umount {
    pub(crate) fn run(self, _: &Context) -> Result<(), Error> {
        let unmount = Unmount { target: self.target, socket: self.daemon.socket().into(), lazy: self.lazy };
        let done = unmount.run(&Signals::block())?;
        for note in &done.notes {
            eprintln!("cards: {note}");
        }
        if self.json { output::print_json(&done) } else { Ok(()) }
    }
}

/// What is to be unmounted.
#[derive(Debug)]
pub(crate) struct Unmount {
    /// A directory or a volume.
    pub(crate) target: PathBuf,
    /// Admin socket of the daemon.
    pub(crate) socket: PathBuf,
    /// Although it is in use.
    pub(crate) lazy: bool,
}

/// What was unmounted, as printed.
#[derive(Debug, Serialize)]
pub(crate) struct Unmounted {
    volume: String,
    dir: PathBuf,
    detached: bool,
    /// What its user should know.
    pub(crate) notes: Vec<String>,
}

impl Unmount {
    /// Unmounts it.
    ///
    /// # Errors
    /// It stays mounted; or it is unmounted and still attached.
    pub(crate) fn run(self, signals: &Signals) -> Result<Unmounted, MountError> {
        let (place, dir) = self.find()?;
        let done = local::unmount(&dir, self.lazy).map_err(|source| LocalError::file(&dir, source))?;
        if !done.status.success() {
            let users = local::of_mount(&dir);
            return Err(if users.is_empty() {
                MountError::Umount { dir, said: local::said(&done) }
            } else {
                MountError::Busy { dir, users: local::list(&users) }
            });
        }
        let how = Release { lazy: self.lazy, keep_card: false, only_of_mount: true };
        let released = match local::release(&place, how, signals) {
            // Detached by somebody else meanwhile.
            Err(LocalError::NotHere { .. }) => Released::Gone { card: None, killed: false },
            done => done.map_err(|reason| MountError::StillAttached { dir: dir.clone(), reason })?,
        };
        let detached = matches!(released, Released::Gone { .. });
        Ok(Unmounted { volume: place.volume().into(), dir, detached, notes: released.notes(&place) })
    }

    /// The volume, and where it is mounted.
    fn find(&self) -> Result<(Place, PathBuf), MountError> {
        let mounts = mounts()?;
        let name = self.target.to_str().filter(|text| !text.contains('/'));
        let place = name.and_then(|name| Place::new(&self.socket, name).ok());
        if let Some(place) = place.filter(Place::was_served) {
            let points: Vec<&Path> = mounts
                .iter()
                .filter(|mount| place_of(mount, &self.socket).is_some_and(|of| of.file() == place.file()))
                .map(|mount| mount.point.as_path())
                .collect();
            let volume = place.volume().to_owned();
            return match points[..] {
                [] => {
                    let attached = Server::of(&place).is_ok_and(|server| server != Server::None);
                    Err(MountError::VolumeNotMounted { volume, attached })
                }
                [point] => Ok((place, point.into())),
                _ => {
                    let points: Vec<String> =
                        points.iter().map(|point| point.display().to_string()).collect();
                    Err(MountError::Several { volume, points: points.join(", ") })
                }
            };
        }
        let (dir, mount) =
            mount_at(&mounts, &self.target).ok_or_else(|| MountError::NotMounted(self.target.clone()))?;
        match place_of(mount, &self.socket) {
            Some(place) => Ok((place, dir)),
            None => {
                let what = format!("{} ({})", mount.source.display(), mount.kind);
                Err(MountError::Foreign { dir, what })
            }
        }
    }
}

/// The volume that is mounted at `dir`, if one is.
pub(crate) fn volume_at(dir: &Path, socket: &Path) -> Option<String> {
    let mounts = mountinfo::mounts().ok()?;
    let (_, mount) = mount_at(&mounts, dir)?;
    place_of(mount, socket).map(|place| place.volume().into())
}

/// The mount at `dir`. The path is taken as it is first: following it asks the file system, which may be dead.
fn mount_at<'a>(mounts: &'a [Mount], dir: &Path) -> Option<(PathBuf, &'a Mount)> {
    let plain = std::path::absolute(dir).ok()?;
    let plain: PathBuf = plain.components().collect();
    if let Some(mount) = mountinfo::at(mounts, &plain) {
        return Some((plain, mount));
    }
    let followed = dir.canonicalize().ok()?;
    mountinfo::at(mounts, &followed).map(|mount| (followed, mount))
}

/// The place of the volume that is mounted, if it is one: by the file behind its loop device, or else by what the
/// servers of the daemon at `socket` say.
fn place_of(mount: &Mount, socket: &Path) -> Option<Place> {
    if let Some(place) = cards_device::file_behind(mount.device).and_then(|file| Place::of_file(&file)) {
        return Some(place);
    }
    let serves = |place: &Place| match Server::of(place) {
        Ok(Server::Running(record)) => record.block.is_some() && (record.major, record.minor) == mount.device,
        Ok(server) => server.lost_disk() == Some(mount.device),
        Err(_) => false,
    };
    Place::all(socket).into_iter().find(serves)
}

fn mounts() -> Result<Vec<Mount>, LocalError> {
    mountinfo::mounts().map_err(|source| LocalError::file(Path::new("/proc/self/mountinfo"), source))
}
