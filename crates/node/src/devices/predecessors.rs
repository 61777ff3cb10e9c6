//! Pages from the last life of this daemon.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// In the runtime directory: devices hold this file locked, shared, while a kernel keeps pages for them.
const LOCK: &str = "dev/.pages.lock";
const LOOK: Duration = Duration::from_millis(10);

/// Waits until no device has pages that it got from an earlier life of this daemon. This life knows nothing of them: it
/// would write, or have others write, without having them withdrawn.
///
/// Devices withdraw their pages as soon as the daemon is gone. One that has not done so within `patience` does not run;
/// who reads its pages may read old contents until it does.
///
/// # Errors
/// The file cannot be made.
pub(crate) fn await_none(runtime_dir: &Path, patience: Duration) -> io::Result<()> {
    let path = runtime_dir.join(LOCK);
    fs::create_dir_all(runtime_dir.join("dev"))?;
    let lock = File::create(&path)?;
    let start = Instant::now();
    loop {
        match lock.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if start.elapsed() < patience => std::thread::sleep(LOOK),
            Err(TryLockError::WouldBlock) => {
                tracing::warn!(
                    "a local device keeps {} locked and does not withdraw its pages: who reads them may read old contents",
                    path.display()
                );
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_waits_for_pages_of_its_last_life_and_not_for_ever() {
        let dir = tempfile::tempdir().unwrap();
        await_none(dir.path(), Duration::from_secs(60)).unwrap();
        let device = File::open(dir.path().join(LOCK)).unwrap();
        device.lock_shared().unwrap();
        await_none(dir.path(), Duration::from_millis(30)).unwrap();
        std::thread::scope(|scope| {
            let daemon = scope.spawn(|| await_none(dir.path(), Duration::from_secs(60)));
            std::thread::sleep(Duration::from_millis(30));
            assert!(!daemon.is_finished());
            device.unlock().unwrap();
            daemon.join().unwrap().unwrap();
        });
    }
}
