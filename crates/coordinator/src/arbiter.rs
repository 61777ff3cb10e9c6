//! What an arbiter keeps of a register on its disk: one file, replaced as a whole.
//!
//! The file is a frame of [`cards_wire::register`] with its checksum. It is written under another name, synced, renamed, and
//! its directory is synced, before [`ArbiterStore::keep`] returns. So a crash at any moment leaves the last state or the
//! one that was being kept, and never half of one. Whoever opens it makes sure that no other process does: the caller has
//! locked the directory.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use cards_register::StoreId;
use cards_wire::register::{FRAME_BYTES_MAX, RegisterError, StoreState, decode_state, encode_state};
use ring::rand::{SecureRandom as _, SystemRandom};

/// The file of an arbiter.
#[derive(Debug)]
pub struct ArbiterStore {
    file: PathBuf,
    /// A write has failed: the file has one of two states.
    has_failed: bool,
}

/// Why a store cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the arbiter's store {}: {problem}", file.display())]
pub struct StoreError {
    /// The file.
    pub file: PathBuf,
    /// What is wrong.
    pub problem: StoreProblem,
}

/// What is wrong with a store.
#[derive(Debug, thiserror::Error)]
pub enum StoreProblem {
    /// There is none.
    #[error("there is none")]
    Missing,
    /// There is one already.
    #[error("there is one already; open it")]
    Exists,
    /// Its bytes are not what was written.
    #[error(
        "it is damaged: {0}. No copy of it may be brought back: remove it, and this node's arbiter begins anew as another"
    )]
    Damaged(RegisterError),
    /// The state has no encoding.
    #[error("it cannot hold the state: {0}")]
    State(RegisterError),
    /// The disk refuses.
    #[error("it cannot be read or written: {0}; see to its disk, then restart")]
    Disk(io::Error),
    /// A write has failed before.
    #[error(
        "a write has failed before, and what it has is only known when it is opened again; see to its disk, then restart"
    )]
    Stopped,
}

impl ArbiterStore {
    /// An ID for a new store: no other store has it.
    ///
    /// # Panics
    /// The system has no random numbers.
    #[must_use]
    pub fn new_id() -> StoreId {
        let mut bytes = [0; 16];
        SystemRandom::new().fill(&mut bytes).expect("the system has random numbers");
        StoreId(u128::from_le_bytes(bytes))
    }

    /// Makes a store. Either the whole file is there afterwards or none.
    ///
    /// # Errors
    /// There is one already, or the disk refuses.
    pub fn create(file: &Path, state: &StoreState) -> Result<Self, StoreError> {
        let mut store = Self { file: file.to_owned(), has_failed: false };
        match fs::symlink_metadata(file) {
            Ok(_) => return Err(store.error(StoreProblem::Exists)),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(store.error(StoreProblem::Disk(error))),
        }
        store.keep(state)?;
        Ok(store)
    }

    /// Opens a store, and gives the state that was kept last.
    ///
    /// # Errors
    /// There is none, it is damaged, or the disk refuses.
    pub fn open(file: &Path) -> Result<(Self, StoreState), StoreError> {
        let store = Self { file: file.to_owned(), has_failed: false };
        let mut bytes = Vec::new();
        // One more than the longest: a file that has it is refused as too long.
        let read =
            File::open(file).and_then(|file| file.take(FRAME_BYTES_MAX as u64 + 1).read_to_end(&mut bytes));
        match read {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(store.error(StoreProblem::Missing));
            }
            Err(error) => return Err(store.error(StoreProblem::Disk(error))),
        }
        match decode_state(&bytes) {
            Ok(state) => Ok((store, state)),
            Err(damage) => Err(store.error(StoreProblem::Damaged(damage))),
        }
    }

    /// The file.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Makes a state durable in place of the last one. After an error the store keeps nothing any more.
    ///
    /// # Errors
    /// The disk refuses, or has before; the content is longer than any.
    pub fn keep(&mut self, state: &StoreState) -> Result<(), StoreError> {
        if self.has_failed {
            return Err(self.error(StoreProblem::Stopped));
        }
        let frame = encode_state(state).map_err(|error| self.error(StoreProblem::State(error)))?;
        // Until it is known to have succeeded, it is taken to have failed: also if it panics.
        self.has_failed = true;
        replace(&self.file, &frame).map_err(|error| self.error(StoreProblem::Disk(error)))?;
        self.has_failed = false;
        Ok(())
    }

    fn error(&self, problem: StoreProblem) -> StoreError {
        StoreError { file: self.file.clone(), problem }
    }
}

/// Replaces a file, and returns when that is durable.
fn replace(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let new = file.with_file_name(name);
    let mut written = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    written.write_all(bytes)?;
    written.sync_all()?;
    fs::rename(&new, file)?;
    let directory = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(directory)?.sync_all()
}
