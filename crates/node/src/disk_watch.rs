//! Looks every few seconds whether the files and devices of this node's disks are still what was opened.
//!
//! On a thread of its own: a file system that hangs must hold up nothing else.

use std::io;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use cards_disk::Altered;

use crate::node::Node;

/// How often.
const EVERY: Duration = Duration::from_secs(2);
/// How long the end of a daemon waits for the thread: one that a file system holds is left behind.
const END: Duration = Duration::from_secs(1);

/// What was seen of one disk.
#[derive(Debug, Default)]
pub(crate) struct Seen(Mutex<Option<Altered>>);

impl Seen {
    /// What was done to the disk, for people.
    pub(crate) fn problem(&self, disk: &str) -> Option<String> {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.as_ref().map(|altered| format!("disk {disk}: {altered}"))
    }

    fn replace(&self, altered: Option<Altered>) -> Option<Altered> {
        std::mem::replace(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), altered)
    }
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
    for ((disk, spec), seen) in node.disks.iter().zip(&node.own).zip(&node.disks_seen) {
        let altered = disk.altered();
        if seen.replace(altered.clone()) == altered {
            continue;
        }
        match altered {
            Some(altered) => tracing::error!("disk {}: {altered}", spec.name),
            None => tracing::info!("disk {}: {disk} is again what is served", spec.name),
        }
    }
}
