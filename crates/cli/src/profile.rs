//! A profile: the parts of a volume that a boot, or a job's start, reads, in a file.

mod file;

use std::path::PathBuf;

use crate::error::Failure;
pub(crate) use file::{Profile as File, RANGES_MAX};

/// A profile cannot be recorded or played.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProfileError {
    /// A file cannot be read.
    #[error("{}: {source}; name a profile that can be read", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    /// A file is something else.
    #[error("{}: no profile; `cards profile record` makes one", path.display())]
    NoProfile { path: PathBuf },
    /// A line of it makes no sense.
    #[error("{}: line {number}: {problem}; record the profile again", path.display())]
    Line { path: PathBuf, number: u64, problem: String },
    /// The file to write is there already.
    #[error("{} is there already; name another file, or add --force to replace it", path.display())]
    Exists { path: PathBuf },
    /// The file cannot be written.
    #[error("{}: {source}; name a file that can be written", path.display())]
    Write { path: PathBuf, source: std::io::Error },
    /// It is of something else.
    #[error("{}: a profile of volume {volume:?} with {size} bytes, and this is {asked:?} with {asked_size}; add --force if it fits all the same", path.display())]
    OtherVolume { path: PathBuf, volume: String, size: u64, asked: String, asked_size: u64 },
    /// Nothing was read.
    #[error("no client of this node has read volume {volume:?} meanwhile, so {} was not written", path.display())]
    Nothing { volume: String, path: PathBuf },
}

impl Failure for ProfileError {}
