//! Pages from the last life of this daemon.

use std::fs::{self, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::{Duration, Instant};

use cards_config::{PAGES_LOCK, device_dirs};

use crate::error::ServeError;
use crate::starting::Starting;

const LOOK: Duration = Duration::from_millis(10);

/// Waits until no device has pages that it got from an earlier life of this daemon. This life knows nothing of them: it
/// would write, or have others write, without having them withdrawn.
///
/// Devices withdraw their pages as soon as the daemon is gone. One that has not done so within `patience` does not run;
/// who reads its pages may read old contents until it does.
///
/// # Errors
/// It is not known whether there are such devices.
pub(crate) fn await_none(
    runtime_dir: &Path,
    patience: Duration,
    starting: &Starting,
) -> Result<(), ServeError> {
    let owner = |dir: &Path| fs::symlink_metadata(dir).ok().map(|found| found.uid());
    let own = fs::metadata(runtime_dir).ok().map(|found| found.uid());
    let start = Instant::now();
    for dir in device_dirs(runtime_dir) {
        let path = dir.join(PAGES_LOCK);
        match await_free(&path, patience.saturating_sub(start.elapsed()), starting) {
            // Where anybody may make directories, one of this name that cannot be looked into is not of a device.
            Err(source) if [own, Some(0)].contains(&owner(&dir)) => {
                return Err(ServeError::PagesLock { path, source });
            }
            _ => starting.goes_on(),
        }
    }
    Ok(())
}

/// Waits until nobody holds the lock `path`. Without one there is no device that ever had pages.
fn await_free(path: &Path, patience: Duration, starting: &Starting) -> io::Result<()> {
    let opened = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path);
    let lock = match opened {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened?,
    };
    let start = Instant::now();
    loop {
        match lock.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if start.elapsed() < patience => {
                starting.waits_for("local devices to give up pages of the last daemon", None);
                std::thread::sleep(LOOK);
            }
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
    use std::fs::File;

    use cards_config::Config;

    use super::*;

    #[test]
    fn a_daemon_waits_for_pages_of_its_last_life_and_not_for_ever() {
        let dir = tempfile::tempdir().unwrap();
        let starting = Starting::new(Config::new("lab", "n1"));
        let runtime = dir.path().join("run");
        fs::create_dir(&runtime).unwrap();
        await_none(&runtime, Duration::from_secs(60), &starting).unwrap();
        // Devices of the daemon's user, and those of root.
        for dir in device_dirs(&runtime) {
            fs::create_dir(&dir).unwrap();
            let device = File::create(dir.join(PAGES_LOCK)).unwrap();
            await_none(&runtime, Duration::from_secs(60), &starting).unwrap();
            device.lock_shared().unwrap();
            await_none(&runtime, Duration::from_millis(30), &starting).unwrap();
            std::thread::scope(|scope| {
                let daemon = scope.spawn(|| await_none(&runtime, Duration::from_secs(60), &starting));
                std::thread::sleep(Duration::from_millis(30));
                assert!(!daemon.is_finished());
                let said = starting.state().to_string();
                assert!(said.starts_with("starting: waits for local devices to give up pages"), "{said}");
                device.unlock().unwrap();
                daemon.join().unwrap().unwrap();
            });
        }
    }

    #[test]
    fn a_lock_that_cannot_be_looked_at_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let [inside, _] = device_dirs(dir.path());
        fs::create_dir(&inside).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", inside.join(PAGES_LOCK)).unwrap();
        let error = await_none(dir.path(), Duration::ZERO, &Starting::new(Config::new("lab", "n1")))
            .unwrap_err()
            .to_string();
        assert!(error.contains("dev/.pages.lock") && error.contains("local devices"), "{error}");
    }
}
