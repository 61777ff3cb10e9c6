//! Looks every few seconds whether the files and devices of this node's disks are still what was opened, and whether there is room
//! for what will be written to them and to `state_dir`.
//!
//! On a thread of its own: a file system that hangs must hold up nothing else.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use cards_disk::{Altered, Room};

use crate::node::Node;
use crate::node::disk_seen::{Look, short_of_room};

/// How often.
const EVERY: Duration = Duration::from_secs(2);
/// How long the end of a daemon waits for the thread: one that a file system holds is left behind.
const END: Duration = Duration::from_secs(1);

/// `state_dir` has room for the journals of some disks and their successors, or is as good as full.
const STATE_BYTES_MIN: u64 = 4 << 20;

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
        let found = match disk.managed() {
            // What is done to its file is told once.
            Some(_) => Look { altered: None, room: disk.room() },
            None => Look { altered: disk.altered(), room: disk.room() },
        };
        let (room, altered) = (found.room, found.altered.clone());
        let before = seen.replace(found);
        if disk.managed().is_none() {
            tell_room(&spec.name, disk.name(), [before.room, room], disk.size(), spec.read_only);
            tell_altered(&spec.name, disk.name(), [before.altered, altered]);
        }
    }
    for (managed, seen) in node.managed.iter().zip(&node.managed_seen) {
        let found = Look { altered: managed.altered(), room: managed.room() };
        let (room, altered) = (found.room, found.altered.clone());
        let before = seen.replace(found);
        let name = managed.disk_name().as_str();
        tell_room(name, managed.path(), [before.room, room], managed.size(), false);
        tell_altered(name, managed.path(), [before.altered, altered]);
    }
}

/// Logs when a file has no room any more, and when it has again.
fn tell_room(name: &str, path: &str, [before, now]: [Option<Room>; 2], size: u64, is_read_only: bool) {
    let short = |room: Option<Room>| room.filter(|room| room.is_short(size) && !is_read_only);
    match (short(before), short(now)) {
        (None, Some(room)) => tracing::warn!("{}", short_of_room(name, path, room)),
        (Some(_), None) => tracing::info!("disk {name}: there is room again"),
        _ => {}
    }
}

/// Logs what was done to a file or device, and when that is over.
fn tell_altered(name: &str, path: &str, [before, now]: [Option<Altered>; 2]) {
    match now {
        now if before == now => {}
        Some(altered) => tracing::error!("disk {name}: {altered}"),
        None => tracing::info!("disk {name}: {path} is again what is served"),
    }
}
