//! The lock that tells a starting daemon that a kernel still keeps pages which its last life let it keep.

use std::fs::{File, TryLockError};
use std::sync::Arc;

use cards_config::PAGES_LOCK;

use crate::directory::{Directory, DirectoryError};

/// The lock; shared among the devices of a daemon, and held as long as there may be pages.
#[derive(Debug)]
pub(crate) struct PagesLock {
    dir: Arc<Directory>,
    held: Option<File>,
}

impl PagesLock {
    /// The lock in `dir`, not held.
    pub(crate) fn new(dir: Arc<Directory>) -> Self {
        Self { dir, held: None }
    }

    /// Takes it, unless a daemon is just starting; whether it is held now.
    ///
    /// # Errors
    /// There is no such file, and it cannot be made.
    pub(crate) fn take(&mut self) -> Result<bool, DirectoryError> {
        if self.held.is_none() {
            // The daemon opens it to read, and can lock it then.
            let file = self.dir.make_file(PAGES_LOCK, 0o644)?;
            match file.try_lock_shared() {
                Ok(()) => self.held = Some(file),
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(source)) => {
                    return Err(DirectoryError::Io { path: self.dir.path().join(PAGES_LOCK), source });
                }
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
        let dir = Arc::new(Directory::make(&dir.path().join("admin.sock")).unwrap());
        let daemon = File::create(dir.path().join(PAGES_LOCK)).unwrap();
        daemon.lock().unwrap();
        let (mut one, mut other) = (PagesLock::new(dir.clone()), PagesLock::new(dir));
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
