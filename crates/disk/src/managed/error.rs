//! Why a managed disk cannot be used, and why a volume cannot be made.

use std::io;

use cards_array::store::{OpenError, StoreError};
use cards_layout::format::SuperblockError;

use crate::error::JobError;

/// What is wrong with a managed disk. Each message says what is the matter and what to do; the disk is named around it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManagedError {
    /// Neither superblock is valid.
    #[error("{}", no_superblock(a, b))]
    NoSuperblock {
        /// What is wrong with slot A.
        a: SuperblockError,
        /// The same of slot B.
        b: SuperblockError,
    },
    /// The format is another one.
    #[error("the superblock cannot be read: {0}")]
    Version(SuperblockError),
    /// The device is smaller than it was.
    #[error(
        "has {now} bytes and had {before} when it was formatted: it was cut short, or is another one; bring back what was there"
    )]
    Short {
        /// Bytes of the device.
        now: u64,
        /// Those it had.
        before: u64,
    },
    /// Another cluster has it.
    #[error(
        "is of cluster {theirs:?}, and this node is of {ours:?}: correct `managed`; `cards disk format --force` makes it a new disk, and what \
         is on it is lost then"
    )]
    Cluster {
        /// The cluster that has it.
        theirs: String,
        /// That of this node.
        ours: String,
    },
    /// It is another disk.
    #[error(
        "is called {found:?} and not {wanted:?}: another disk is in its place, or `name` in node.toml is wrong"
    )]
    Name {
        /// What it is called.
        found: String,
        /// What was said.
        wanted: String,
    },
    /// A name in the configuration cannot be written to the disk.
    #[error(
        "{what} {text:?} is no name for a disk: use 1 to 64 letters, digits, dots, dashes and underscores"
    )]
    Text {
        /// What it is the name of.
        what: &'static str,
        /// The name.
        text: String,
    },
    /// Its journal is not on it.
    #[error("has its journal on another disk, which this version cannot use; use a newer version")]
    Journal,
    /// A volume is laid out in a way that cannot be served.
    #[error(
        "has volume {volume:?} (copy {column} of group {group}), whose layout this version cannot serve; use a newer one"
    )]
    Layout {
        /// The volume.
        volume: String,
        /// The placement group.
        group: u16,
        /// The column of the group.
        column: u8,
    },
    /// A volume has more bytes than its pieces.
    #[error(
        "volume {volume:?} has {bytes} bytes and pieces for {space}: the tables are wrong; replace the disk"
    )]
    Space {
        /// The volume.
        volume: String,
        /// Bytes of the volume.
        bytes: u64,
        /// Bytes of its pieces.
        space: u64,
    },
    /// Its tables are damaged.
    #[error(transparent)]
    Tables(#[from] OpenError),
    /// It cannot be read or written.
    #[error("cannot be read: {0}; see the kernel's log (dmesg), or replace the disk")]
    Read(JobError),
    /// The store refuses, or has failed.
    #[error("{0}")]
    Store(#[from] StoreError),
    /// Its thread has ended.
    #[error("is closed: its daemon is ending; start it again")]
    Closed,
    /// There is no thread or event loop for it.
    #[error("no thread for it: {0}; raise the limits on processes and open files")]
    Thread(io::Error),
    /// There are no random numbers for a UUID.
    #[error("/dev/urandom: {0}; a volume needs a random UUID: is /dev mounted?")]
    Random(io::Error),
    /// The name is taken.
    #[error("has a volume {volume:?} already; choose another name, or remove that one")]
    Exists {
        /// The name.
        volume: String,
    },
    /// There is no volume of this name.
    #[error("has no volume {volume:?}{}", volumes(there))]
    NoVolume {
        /// The name.
        volume: String,
        /// The volumes that there are.
        there: Vec<String>,
    },
    /// A part of a volume that cannot be looked at.
    #[error("volume {volume:?} has {bytes} bytes: name a range of it in multiples of 4096")]
    Range {
        /// The volume.
        volume: String,
        /// Its bytes.
        bytes: u64,
    },
    /// A volume cannot have this size.
    #[error("a volume cannot have {bytes} bytes: use a multiple of 4096, such as 10G")]
    Size {
        /// The size.
        bytes: u64,
    },
}

/// Whether it is a managed disk at all decides what to do: formatting one that is damaged ends what is on it.
fn no_superblock(a: &SuperblockError, b: &SuperblockError) -> String {
    let found = format!("at byte 0, {a}; at byte 65536, {b}");
    match (a, b) {
        (SuperblockError::Magic(_), SuperblockError::Magic(_)) => format!(
            "is no managed disk: {found}. `cards disk format` makes it one, and what is on it is lost then; a disk that is used as it is has \
             `path` in node.toml"
        ),
        _ => format!(
            "is a managed disk, and both of its superblocks are damaged: {found}. Its volumes may be whole: do not format it, but bring \
             back a copy of the disk, and see to the device (dmesg)"
        ),
    }
}

fn volumes(there: &[String]) -> String {
    match there {
        [] => "; it has none".into(),
        there => format!("; it has {}", there.join(", ")),
    }
}
