//! Why the journal of a disk is not opened: the disk is not the one that was served last.

use std::io;
use std::path::PathBuf;

/// Why a journal cannot be opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    /// The directory cannot be made, or the file not be read or replaced.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The disk is smaller than it was: what was at its end is gone.
    #[error("the disk was larger: {before} bytes")]
    Shrank { before: u64, journal: PathBuf },
    /// Another file is in the place of the disk, and it cannot have the contents of that one.
    #[error("the disk is another file, which {how}")]
    Replaced { how: Other, journal: PathBuf },
}

/// What tells that another file has not the contents of the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Other {
    /// Nothing was ever written to it.
    Blank,
    /// It is larger than the disk was.
    Larger {
        /// Bytes of the file.
        now: u64,
        /// Those of the disk.
        before: u64,
    },
}

impl std::fmt::Display for Other {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Blank => f.write_str("was never written"),
            Self::Larger { now, before } => write!(f, "has {now} bytes where the disk had {before}"),
        }
    }
}
