//! What an arbiter keeps of a register on its disk: one file, replaced as a whole.
//!
//! The file is a frame of [`cards_wire::register`] with its checksum, and a [`Mark`]. It is written under another name, synced,
//! renamed, and its directory is synced, before [`ArbiterStore::keep`] returns. So a crash at any moment leaves the last state or the
//! one that was being kept, and never half of one. Whoever opens it makes sure that no other process does: the caller has
//! locked the directory.
//!
//! The mark tells the file from a copy of it. A copy may be older than what this arbiter has voted for since, and must not
//! vote in its name.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use cards_register::StoreId;
use cards_wire::register::{FRAME_BYTES_MAX, RegisterError, StoreState, decode_state, encode_state};

use crate::ids::random;

/// The file of an arbiter.
#[derive(Debug)]
pub struct ArbiterStore {
    file: PathBuf,
    /// A write has failed: the file has one of two states.
    has_failed: bool,
    is_copy: bool,
}

/// What a file knows of itself, and a copy of it has otherwise: 32 bytes after the frame.
///
/// | bytes | what |
/// |---|---|
/// | 0-7 | number of the file in its file system |
/// | 8-19 | when that was made, as the file system says: seconds (8) and nanoseconds (4); zero if it does not |
/// | 20-27 | when it was last written, in whole seconds: set by hand |
/// | 28-31 | CRC-32 of these and of the frame |
struct Mark([u8; MARK_SIZE]);

const MARK_SIZE: usize = 32;

impl Mark {
    /// Of a file that was last written at that time.
    fn of(file: &fs::Metadata, written: SystemTime, frame: &[u8]) -> Self {
        let made = file.created().ok().and_then(since_1970).unwrap_or_default();
        let written = since_1970(written).unwrap_or_default();
        let mut bytes = [0; MARK_SIZE];
        bytes[..8].copy_from_slice(&file.ino().to_le_bytes());
        bytes[8..16].copy_from_slice(&made.as_secs().to_le_bytes());
        bytes[16..20].copy_from_slice(&made.subsec_nanos().to_le_bytes());
        bytes[20..28].copy_from_slice(&written.as_secs().to_le_bytes());
        Self::sealed(bytes, frame)
    }

    fn sealed(mut bytes: [u8; MARK_SIZE], frame: &[u8]) -> Self {
        let mut sum = crc32fast::Hasher::new();
        sum.update(&bytes[..28]);
        sum.update(frame);
        bytes[28..].copy_from_slice(&sum.finalize().to_le_bytes());
        Self(bytes)
    }

    /// Whether it is as it was written, with this frame.
    fn is_whole(&self, frame: &[u8]) -> bool {
        Self::sealed(self.0, frame).0 == self.0
    }

    /// Whether it is of another file than the one where it was found.
    fn is_elsewhere(&self, found: &fs::Metadata, frame: &[u8]) -> bool {
        // One that was copied over it has another time: that of the copy, with a fraction of a second.
        let written =
            found.modified().ok().filter(|time| since_1970(*time).is_some_and(|t| t.subsec_nanos() == 0));
        written.is_none_or(|written| Self::of(found, written, frame).0 != self.0)
    }
}

fn since_1970(time: SystemTime) -> Option<Duration> {
    time.duration_since(SystemTime::UNIX_EPOCH).ok()
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
        "it is damaged: {0}. With other nodes that keep the registry, remove it, and this node's arbiter begins anew as another; if it \
         is the only one, bring back a copy"
    )]
    Damaged(RegisterError),
    /// What tells it from a copy is not what was written.
    #[error(
        "it is damaged at its end. With other nodes that keep the registry, remove it, and this node's arbiter begins anew as another; \
         if it is the only one, bring back a copy"
    )]
    Mark,
    /// The state has no encoding.
    #[error("it cannot hold the state: {0}")]
    State(RegisterError),
    /// The disk refuses.
    #[error("it cannot be read or written: {0}; {remedy}", remedy = disk_remedy(.0))]
    Disk(io::Error),
    /// A write has failed before.
    #[error(
        "a write has failed before, and what it has is only known when it is opened again; see to its disk, then restart"
    )]
    Stopped,
}

fn disk_remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "run this as root or as the daemon's user (sudo)",
        _ => "see to its disk, then restart",
    }
}

impl ArbiterStore {
    /// An ID for a new store: no other store has it.
    ///
    /// # Panics
    /// The system has no random numbers.
    #[must_use]
    pub fn new_id() -> StoreId {
        StoreId(random())
    }

    /// A store that has this file, whatever is there.
    pub(crate) fn at(file: &Path) -> Self {
        Self { file: file.to_owned(), has_failed: false, is_copy: false }
    }

    /// Makes a store. Either the whole file is there afterwards or none.
    ///
    /// # Errors
    /// There is one already, or the disk refuses.
    pub fn create(file: &Path, state: &StoreState) -> Result<Self, StoreError> {
        let mut store = Self::at(file);
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
        let mut store = Self::at(file);
        let mut bytes = Vec::new();
        // One more than the longest: a file that has it is refused as too long.
        let longest = (FRAME_BYTES_MAX + MARK_SIZE) as u64 + 1;
        let read = File::open(file).and_then(|file| {
            let found = file.metadata()?;
            file.take(longest).read_to_end(&mut bytes)?;
            Ok(found)
        });
        let found = match read {
            Ok(found) => found,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(store.error(StoreProblem::Missing));
            }
            Err(error) => return Err(store.error(StoreProblem::Disk(error))),
        };
        let (frame, mark) = match bytes.split_last_chunk::<MARK_SIZE>() {
            Some((frame, mark)) => (frame, Mark(*mark)),
            None => return Err(store.error(StoreProblem::Mark)),
        };
        let state = decode_state(frame).map_err(|damage| store.error(StoreProblem::Damaged(damage)))?;
        if !mark.is_whole(frame) {
            return Err(store.error(StoreProblem::Mark));
        }
        store.is_copy = mark.is_elsewhere(&found, frame);
        Ok((store, state))
    }

    /// The file is not the one that was written, but a copy, perhaps an old one.
    #[must_use]
    pub const fn is_copy(&self) -> bool {
        self.is_copy
    }

    /// Moves the file out of the way, to its name with `suffix`, in place of one that is there. The store keeps nothing any more.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn set_aside(&mut self, suffix: &str) -> Result<PathBuf, StoreError> {
        self.has_failed = true;
        let aside = beside(&self.file, suffix);
        let renamed = fs::rename(&self.file, &aside).and_then(|()| sync_directory(&aside));
        renamed.map_err(|error| self.error(StoreProblem::Disk(error)))?;
        Ok(aside)
    }

    /// Removes the file, and returns when that is durable: one that a power cut brought back would be taken for the state.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn remove(&self) -> Result<(), StoreError> {
        let removed = fs::remove_file(&self.file).and_then(|()| sync_directory(&self.file));
        removed.map_err(|error| self.error(StoreProblem::Disk(error)))
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

/// The same name with a suffix.
pub(crate) fn beside(file: &Path, suffix: &str) -> PathBuf {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(suffix);
    file.with_file_name(name)
}

/// Replaces a file by a frame and its mark, and returns when that is durable.
fn replace(file: &Path, frame: &[u8]) -> io::Result<()> {
    let new = beside(file, ".new");
    // Not one that somebody else has made: its number and age are of the mark.
    match fs::remove_file(&new) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut written = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    // Whole seconds: all file systems keep them.
    let now = SystemTime::UNIX_EPOCH
        + Duration::from_secs(since_1970(SystemTime::now()).unwrap_or_default().as_secs());
    let mark = Mark::of(&written.metadata()?, now, frame);
    written.write_all(frame)?;
    written.write_all(&mark.0)?;
    written.set_modified(now)?;
    written.sync_all()?;
    fs::rename(&new, file)?;
    sync_directory(file)
}

/// Makes durable which files there are beside this one.
fn sync_directory(file: &Path) -> io::Result<()> {
    let directory = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(directory)?.sync_all()
}
