//! Why a disk cannot be formatted or shown.

use std::io;
use std::path::PathBuf;

use cards_layout::format::SizeError;

use crate::error::Failure;

/// The verb did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DiskError {
    /// There is no such file.
    #[error(
        "{}: there is no such file or device; name the disk by its path, as `managed` in [[disk]] of node.toml does, and not as NODE:DISK. A new file is made \
         with `truncate -s 1G FILE`",
        path.display()
    )]
    Missing { path: PathBuf },
    /// Neither a file nor a block device.
    #[error("{}: is neither a file nor a block device; name one of these", path.display())]
    Kind { path: PathBuf },
    /// The device is in use.
    #[error("{}: is in use, mounted or open in a daemon; unmount it or stop the daemon first", path.display())]
    Busy { path: PathBuf },
    /// The device is in use, and what is on it can be looked at there.
    #[error(
        "{}: is in use, mounted or open in a daemon: stop that first; while a daemon serves it, `cards volume scrub` does this for one volume",
        path.display()
    )]
    Served { path: PathBuf },
    /// Another reason of the operating system's.
    #[error("{}: {action}: {source}", path.display())]
    Os { path: PathBuf, action: &'static str, source: io::Error },
    /// The device cannot have that format.
    #[error("{}: {source}; use a device of another size", path.display())]
    Size { path: PathBuf, source: SizeError },
    /// The file name is no name for a disk.
    #[error("{}: its file name cannot be the name of a disk; give one with --name", path.display())]
    Name { path: PathBuf },
    /// There are data on the device.
    #[error("{}: has {what}; formatting would destroy it. Name another device, or use --force", path.display())]
    Occupied { path: PathBuf, what: String },
    /// There are volumes on the device.
    #[error(
        "{}: is the managed disk {disk}, with {}: formatting would destroy {}. Name another device, or use --force={disk}",
        path.display(),
        volumes.join(", "),
        if volumes.len() == 1 { "it" } else { "them" }
    )]
    Volumes { path: PathBuf, disk: String, volumes: Vec<String> },
    /// No node has such a disk.
    #[error("no node has a managed disk {from:?}: there {}; see `cards disk list`", match there.as_slice() {
        [] => "are none".to_owned(),
        [one] => format!("is {one}"),
        all => format!("are {}", all.join(", ")),
    })]
    Unknown { from: String, there: Vec<String> },
    /// It cannot be opened as a daemon opens it.
    #[error("{0}")]
    Open(#[from] cards_disk::DiskError),
    /// It is open, and fails.
    #[error("{}: {source}", path.display())]
    Managed { path: PathBuf, source: Box<cards_disk::ManagedError> },
    /// There are no random numbers for a UUID.
    #[error("/dev/urandom: {0}; a disk needs a random UUID: is /dev mounted?")]
    Random(io::Error),
}

impl Failure for DiskError {}
