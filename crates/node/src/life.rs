//! Which life of the node this process is, and which one it follows.

use std::fs::{File, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// A life of a node. While it lasts, no other process can begin one in the same directory.
#[derive(Debug)]
pub(crate) struct Life {
    /// Its number: milliseconds since 1970, but later than that of the last life in this directory. So a clock that
    /// was set back does not make a node older than it was.
    pub(crate) incarnation: u64,
    /// The last life in this directory. It is over: its process had the lock that this one has.
    pub(crate) succeeds: Option<u64>,
    /// None if the directory takes no locks; nothing is known of earlier lives then.
    _lock: Option<File>,
}

/// Another process lives in the directory.
#[derive(Debug)]
pub(crate) struct InUse;

impl Life {
    /// Begins a life in `runtime_dir`.
    ///
    /// # Errors
    /// Another process lives there.
    pub(crate) fn begin(runtime_dir: &Path) -> Result<Self, InUse> {
        let path = runtime_dir.join("incarnation");
        let now = u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis());
        let now = now.unwrap_or(0);
        let opened = File::options().read(true).write(true).create(true).truncate(false).open(&path);
        let kept = opened.and_then(|mut file| {
            match file.try_lock() {
                Err(TryLockError::WouldBlock) => return Ok(Err(InUse)),
                Err(TryLockError::Error(error)) => return Err(error),
                Ok(()) => {}
            }
            let mut text = Vec::new();
            (&file).take(64).read_to_end(&mut text)?;
            let last: Option<u64> = std::str::from_utf8(&text).ok().and_then(|text| text.trim().parse().ok());
            // The core shifts it by 20 bits: what a broken file says must not overflow that.
            let last = last.filter(|last| (1..1 << 43).contains(last));
            let incarnation = now.max(last.unwrap_or(0) + 1);
            file.rewind()?;
            file.set_len(0)?;
            writeln!(file, "{incarnation}")?;
            Ok(Ok(Self { incarnation, succeeds: last, _lock: Some(file) }))
        });
        kept.unwrap_or_else(|error| {
            tracing::warn!(
                "{}: {error}; after a restart this node may have to wait until the leases of its last life are over",
                path.display()
            );
            Ok(Self { incarnation: now.max(1), succeeds: None, _lock: None })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lives_follow_each_other_even_if_the_clock_goes_back() {
        let dir = tempfile::tempdir().unwrap();
        let first = Life::begin(dir.path()).unwrap();
        assert_eq!(first.succeeds, None);
        let number = first.incarnation;
        drop(first);
        let second = Life::begin(dir.path()).unwrap();
        assert!(second.incarnation > number && second.succeeds == Some(number), "{second:?}");
        drop(second);
        let file = dir.path().join("incarnation");
        std::fs::write(&file, format!("{}\n", number + 1_000_000_000)).unwrap();
        assert_eq!(Life::begin(dir.path()).unwrap().incarnation, number + 1_000_000_001);
        std::fs::write(&file, "rubbish").unwrap();
        let after = Life::begin(dir.path()).unwrap();
        assert!(after.incarnation < number + 1_000_000_000 && after.succeeds.is_none());
    }

    #[test]
    fn two_do_not_live_in_one_directory() {
        let dir = tempfile::tempdir().unwrap();
        let _life = Life::begin(dir.path()).unwrap();
        assert!(Life::begin(dir.path()).is_err());
    }
}
