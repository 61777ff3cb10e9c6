//! What was seen of the disks of a node and of its `state_dir` when they were looked at last.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cards_config::size;
use cards_disk::{Altered, Room};

/// What was seen of one disk.
#[derive(Debug, Default)]
pub(crate) struct Seen(Mutex<Look>);

/// What one look has seen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Look {
    pub(crate) altered: Option<Altered>,
    pub(crate) room: Option<Room>,
}

impl Seen {
    fn look(&self) -> MutexGuard<'_, Look> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a new look, and gives the one before.
    pub(crate) fn replace(&self, look: Look) -> Look {
        std::mem::replace(&mut *self.look(), look)
    }

    /// What was done to the disk, for people.
    pub(crate) fn altered(&self, disk: &str) -> Option<String> {
        self.look().altered.as_ref().map(|altered| format!("disk {disk}: {altered}"))
    }

    /// Its file was cut short.
    pub(crate) fn is_cut(&self) -> bool {
        matches!(self.look().altered, Some(Altered::Cut { .. } | Altered::ManagedCut { .. }))
    }

    /// The room of the disk, if it is a file.
    pub(crate) fn room(&self) -> Option<Room> {
        self.look().room
    }
}

/// What was seen of `state_dir`: the bytes that are left there while they are few.
#[derive(Debug, Default)]
pub(crate) struct StateSeen(Mutex<Option<u64>>);

impl StateSeen {
    /// That `state_dir` is full, for people.
    pub(crate) fn problem(&self, path: &Path) -> Option<String> {
        let left = (*self.0.lock().unwrap_or_else(PoisonError::into_inner))?;
        Some(full(path, left))
    }

    /// Says in the log when it becomes full, and when there is room again.
    pub(crate) fn note(&self, path: &Path, left: Option<u64>) {
        let before = std::mem::replace(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), left);
        match (before, left) {
            (None, Some(left)) => tracing::error!("{}", full(path, left)),
            (Some(_), None) => tracing::info!("state_dir: {} has room again", path.display()),
            _ => {}
        }
    }
}

fn full(path: &Path, left: u64) -> String {
    format!(
        "state_dir: {} has {} left: make room. I/O goes on, but what this node must not forget (members, journals of disks) \
         cannot be written, and who attaches may have to wait",
        path.display(),
        size::human(left)
    )
}

/// What to say of a disk whose file will have no room; `disk` is its name, also if it is a managed disk with volumes.
pub(crate) fn short_of_room(disk: &str, path: &str, room: Room) -> String {
    format!(
        "disk {disk}: the file system of {path} has {} left, and {} of the disk were never written: make room, or writes there fail \
         (ENOSPC)",
        size::human(room.free),
        size::human(room.unwritten)
    )
}
