//! Why a volume is not mounted, or not unmounted.

use std::path::PathBuf;

use super::options::OptionError;
use crate::error::Failure;
use crate::local::LocalError;

/// What was asked for was not done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MountError {
    #[error(transparent)]
    Local(#[from] LocalError),
    #[error(transparent)]
    Options(#[from] OptionError),
    /// The mount helper was called in a way that it does not know.
    #[error("{0}; usage: mount.cards VOLUME DIR [-fnsv] [-o OPTIONS], umount.cards DIR [-flnrv]")]
    Helper(String),
    /// `mount` has made a path of the volume's name.
    #[error("{}: a path is no volume; write the name of a volume, as cards:NAME if there is a file of that name", .0.display())]
    NoVolume(PathBuf),
    /// The mount point cannot be used.
    #[error("{}: {source}; create the directory first", dir.display())]
    Dir { dir: PathBuf, source: std::io::Error },
    /// What is mounted there is dead.
    #[error("{}: {source}; what was mounted there is gone: run `cards umount --lazy {}` first", dir.display(), dir.display())]
    Stale { dir: PathBuf, source: std::io::Error },
    /// It is a file.
    #[error("{}: a volume is mounted on a directory; create one", .0.display())]
    NotDir(PathBuf),
    /// Something is there already.
    #[error("{}: {what} is mounted there already; unmount it first, or use another directory", dir.display())]
    Occupied { dir: PathBuf, what: String },
    /// Nothing that can be mounted.
    #[error("volume {volume:?} has {what}, not a file system that can be mounted from here; {remedy}")]
    NoFileSystem { volume: String, what: String, remedy: String },
    /// Another node has a card that is in the way.
    #[error(
        "{error}; if it is mounted there: `cards umount {volume}` there, or `cards mount --takeover` here"
    )]
    Elsewhere { error: LocalError, volume: String },
    /// The kernel mounts it, but not so that it can be written.
    #[error("volume {volume:?} can only be mounted read-only here: {remedy}")]
    OnlyRead { volume: String, remedy: String },
    /// A read-only volume, to be written.
    #[error("volume {volume:?} is read-only; mount it with --read-only (-o ro)")]
    ReadOnlyVolume { volume: String },
    /// The kernel does not mount it.
    #[error("{dir}: volume {volume:?} ({kind}) is not mounted: {said}{hint}", dir = dir.display())]
    Mount { volume: String, kind: &'static str, dir: PathBuf, said: String, hint: String },
    /// Nothing is mounted there.
    #[error("{}: nothing is mounted there; `findmnt` lists what is mounted", .0.display())]
    NotMounted(PathBuf),
    /// A volume without a mount.
    #[error("volume {volume:?} is not mounted here{}", if *attached { format!("; `cards detach {volume}` detaches it") } else { String::new() })]
    VolumeNotMounted { volume: String, attached: bool },
    /// A volume with several mounts.
    #[error("volume {volume:?} is mounted at {points}; name one of them")]
    Several { volume: String, points: String },
    /// Somebody else's mount.
    #[error("{}: {what} is mounted there, which is no volume of this cluster; use umount", dir.display())]
    Foreign { dir: PathBuf, what: String },
    /// The kernel does not unmount it.
    #[error("{}: {said}", dir.display())]
    Umount { dir: PathBuf, said: String },
    /// Somebody uses it.
    #[error("{} is in use: {users}; end that first, or see what `cards umount --lazy` does", dir.display())]
    Busy { dir: PathBuf, users: String },
    /// Unmounted, and the rest is not done.
    #[error("{} is unmounted, but the volume is still attached: {reason}", dir.display())]
    StillAttached { dir: PathBuf, reason: LocalError },
}

impl Failure for MountError {}
