//! Only one at a time attaches, detaches, mounts or unmounts a volume at a node.

use std::fs::{File, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::time::{Duration, Instant};

use super::place::TURN;
use super::{LocalError, Place};
use crate::signals::Signals;

/// How long to wait for somebody else to end.
const PATIENCE: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(20);

/// The right to change how a volume is attached here; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    _lock: File,
}

impl Turn {
    /// Waits for the turn.
    ///
    /// # Errors
    /// Somebody else has it for too long, or a signal asked this program to end.
    pub(crate) fn take(place: &Place, signals: &Signals) -> Result<Self, LocalError> {
        let path = place.path(TURN);
        let broken = |source| LocalError::file(&path, source);
        let mut lock = place.make_dir()?.make_file(&place.name(TURN), 0o600)?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            match lock.try_lock() {
                Ok(()) => break,
                Err(TryLockError::Error(source)) => return Err(broken(source)),
                Err(TryLockError::WouldBlock) if Instant::now() > deadline => {
                    let mut pid = String::new();
                    let _ = lock.take(20).read_to_string(&mut pid);
                    let (volume, pid) = (place.volume().to_owned(), pid.trim().to_owned());
                    return Err(LocalError::TurnOfAnother { volume, pid });
                }
                Err(TryLockError::WouldBlock) if signals.end_within(LOOK) => {
                    return Err(LocalError::Interrupted);
                }
                Err(TryLockError::WouldBlock) => {}
            }
        }
        lock.set_len(0).and_then(|()| lock.rewind()).map_err(broken)?;
        writeln!(lock, "{}", std::process::id()).map_err(broken)?;
        Ok(Self { _lock: lock })
    }
}
