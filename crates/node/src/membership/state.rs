//! What a node with a coordinator must not forget.

use std::fs::{File, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use cards_coordinator::{History, Route};
use serde::{Deserialize, Serialize};

use crate::life::Holder;

/// The file `membership.json` in `state_dir`.
#[derive(Debug)]
pub(crate) struct StateFile {
    path: PathBuf,
    state: State,
    /// No other process uses the directory. So whoever had the last membership is gone.
    _lock: File,
}

/// What the file has.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct State {
    /// The last membership of this node (its incarnation in the registry); zero: none.
    pub(crate) membership: u64,
    /// The highest epoch the node has heard of. A registry behind it is an old copy.
    pub(crate) epoch: u64,
    /// Which registry it is. Another one of a cluster of the same name is not followed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) registry: Option<History>,
    /// The nodes that keep it, as this one has heard last: whom to ask when the node that the configuration names is away.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) arbiters: Vec<Route>,
}

/// Longest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 16 << 10;

impl StateFile {
    /// Reads the file; a directory without one has no past.
    ///
    /// # Errors
    /// The directory cannot be made or is another process's, or the file cannot be read. A damaged file is an error, too: what it said is not guessed.
    pub(crate) fn open(state_dir: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(state_dir)?;
        let lock = File::options().write(true).create(true).truncate(false).open(state_dir.join("lock"))?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => {
                let pid = Holder::of(&lock).map(|holder| format!(" (process {})", holder.pid));
                io::Error::new(
                    io::ErrorKind::ResourceBusy,
                    format!(
                        "is in use by another daemon{}, which has its file `lock`; stop it, or set another state_dir",
                        pid.unwrap_or_default()
                    ),
                )
            }
            TryLockError::Error(error) => error,
        })?;
        let path = state_dir.join("membership.json");
        let state = match File::open(&path) {
            Ok(file) => {
                let mut bytes = Vec::new();
                file.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
                serde_json::from_slice(&bytes).map_err(|error| {
                    let remedy = "bring back a copy; if this node is new to the cluster, remove the file";
                    io::Error::new(io::ErrorKind::InvalidData, format!("is damaged ({error}); {remedy}"))
                })?
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => State::default(),
            Err(error) => return Err(error),
        };
        Ok(Self { path, state, _lock: lock })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn state(&self) -> State {
        self.state.clone()
    }

    /// Replaces the file if anything is new, and returns when that is durable.
    ///
    /// # Errors
    /// The disk refuses.
    pub(crate) fn store(&mut self, state: State) -> io::Result<()> {
        if state == self.state {
            return Ok(());
        }
        let new = self.path.with_extension("new");
        let mut file = File::create(&new)?;
        let text = serde_json::to_vec(&state)?;
        file.write_all(&text)?;
        file.sync_all()?;
        std::fs::rename(&new, &self.path)?;
        if let Some(directory) = self.path.parent() {
            File::open(directory)?.sync_all()?;
        }
        self.state = state;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_stored_is_there_again() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = StateFile::open(dir.path()).unwrap();
        assert_eq!(file.state(), State::default());
        let arbiters = vec![Route { node: "n1".into(), address: "10.0.0.1:7400".into() }];
        let state = State { membership: 7, epoch: 3, registry: Some(History(9)), arbiters };
        file.store(state.clone()).unwrap();
        drop(file);
        assert_eq!(StateFile::open(dir.path()).unwrap().state(), state);
    }

    #[test]
    fn a_directory_has_one_user() {
        let dir = tempfile::tempdir().unwrap();
        let _file = StateFile::open(dir.path()).unwrap();
        let error = StateFile::open(dir.path()).unwrap_err();
        assert!(error.to_string().contains("another daemon"), "{error}");
    }

    #[test]
    fn a_file_that_was_cut_short_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        StateFile::open(dir.path())
            .unwrap()
            .store(State { membership: 7, epoch: 3, ..State::default() })
            .unwrap();
        let path = dir.path().join("membership.json");
        let whole = std::fs::read(&path).unwrap();
        for length in 0..whole.len() {
            std::fs::write(&path, &whole[..length]).unwrap();
            let error = StateFile::open(dir.path()).unwrap_err();
            assert!(error.to_string().contains("is damaged"), "{length}: {error}");
        }
    }
}
