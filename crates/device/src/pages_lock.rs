//! The lock that tells a starting daemon that a kernel still keeps pages which its last life let it keep.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::PathBuf;

/// In the directory of the devices.
pub(crate) const NAME: &str = ".pages.lock";

/// The lock; shared among the devices of a daemon, and held as long as there may be pages.
#[derive(Debug)]
pub(crate) struct PagesLock {
    path: PathBuf,
    held: Option<File>,
}

impl PagesLock {
    /// The lock at `path`, not held.
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, held: None }
    }

    /// Takes it, unless a daemon is just starting; whether it is held now.
    ///
    /// # Errors
    /// There is no such file, and it cannot be made.
    pub(crate) fn take(&mut self) -> io::Result<bool> {
        if self.held.is_none() {
            let file =
                OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&self.path)?;
            match file.try_lock_shared() {
                Ok(()) => self.held = Some(file),
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        Ok(self.held.is_some())
    }

    /// Gives it up: there are no pages.
    pub(crate) fn release(&mut self) {
        self.held = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_starting_daemon_keeps_devices_out_and_devices_keep_it_out() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(NAME);
        let daemon = File::create(&path).unwrap();
        daemon.lock().unwrap();
        let (mut one, mut other) = (PagesLock::new(path.clone()), PagesLock::new(path));
        assert!(!one.take().unwrap());
        daemon.unlock().unwrap();
        assert!(one.take().unwrap() && other.take().unwrap());
        assert!(daemon.try_lock().is_err());
        one.release();
        assert!(daemon.try_lock().is_err());
        other.release();
        daemon.try_lock().unwrap();
    }
}
