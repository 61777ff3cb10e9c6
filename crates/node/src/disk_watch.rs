//! Looks every few seconds whether the files and devices of this node's disks are still what was opened, and whether there is room
//! for what will be written to them and to `state_dir`.
//!
//! On a thread of its own: a file system that hangs must hold up nothing else.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use cards_config::size;
use cards_disk::{Altered, Room};

use crate::node::Node;
use crate::problems::short_of_room;

/// How often.
const EVERY: Duration = Duration::from_secs(2);
/// How long the end of a daemon waits for the thread: one that a file system holds is left behind.
const END: Duration = Duration::from_secs(1);

/// `state_dir` has room for the journals of some disks and their successors, or is as good as full.
const STATE_BYTES_MIN: u64 = 4 << 20;

/// What was seen of one disk.
#[derive(Debug, Default)]
pub(crate) struct Seen(Mutex<Look>);

#[derive(Clone, Debug, Default)]
struct Look {
    altered: Option<Altered>,
    room: Option<Room>,
}

impl Seen {
    fn look(&self) -> MutexGuard<'_, Look> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was done to the disk, for people.
    pub(crate) fn altered(&self, disk: &str) -> Option<String> {
        self.look().altered.as_ref().map(|altered| format!("disk {disk}: {altered}"))
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
    fn note(&self, path: &Path, left: Option<u64>) {
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

/// The thread. Dropped, it ends.
pub(crate) struct DiskWatch {
    end: Option<Sender<()>>,
    thread: JoinHandle<()>,
}

impl DiskWatch {
    /// Starts the thread.
    ///
    /// # Errors
    /// There is none to be had.
    pub(crate) fn start(node: &Arc<Node>) -> io::Result<Self> {
        let node = Arc::clone(node);
        let (end, ended) = mpsc::channel();
        let thread = thread::Builder::new().name("cards-disk-watch".into()).spawn(move || {
            look(&node);
            while ended.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                look(&node);
            }
        })?;
        Ok(Self { end: Some(end), thread })
    }
}

impl Drop for DiskWatch {
    fn drop(&mut self) {
        drop(self.end.take());
        let until = Instant::now() + END;
        while !self.thread.is_finished() && Instant::now() < until {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

fn look(node: &Node) {
    let path = &node.config.state_dir;
    // That it is missing is said where it is needed.
    let left = File::open(path).and_then(|directory| cards_disk::free(&directory)).ok();
    node.state_seen.note(path, left.filter(|&left| left < STATE_BYTES_MIN));
    for ((disk, spec), seen) in node.disks.iter().zip(&node.own).zip(&node.disks_seen) {
        let Look { altered, room } = Look { altered: disk.altered(), room: disk.room() };
        let before = std::mem::replace(&mut *seen.look(), Look { altered: altered.clone(), room });
        let is_short = |room: Option<Room>| room.filter(|room| room.is_short(disk.size()) && !spec.read_only);
        match (is_short(before.room), is_short(room)) {
            (None, Some(room)) => tracing::warn!("{}", short_of_room(&spec.name, disk.name(), room)),
            (Some(_), None) => tracing::info!("disk {}: there is room again", spec.name),
            _ => {}
        }
        if before.altered == altered {
            continue;
        }
        match &altered {
            Some(altered) => tracing::error!("disk {}: {altered}", spec.name),
            None => tracing::info!("disk {}: {disk} is again what is served", spec.name),
        }
    }
}
