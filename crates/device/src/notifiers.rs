//! Threads that have the kernel drop pages, because that may block.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::Instant;

use crate::fuse::Channel;
use crate::inbox::{Input, Mailbox};
use crate::job::Job;

/// Most idle threads that are kept.
const IDLE_MAX: usize = 2;

/// The threads. One at a time works on a notification that somebody waits for; the others are blocked by READs that
/// arrived meanwhile, at most one thread by each. So there are no more threads than READs, and two.
#[derive(Debug)]
pub(crate) struct Notifiers {
    channel: Arc<Channel>,
    mailbox: Mailbox,
    idle: Vec<Sender<Job>>,
}

impl Notifiers {
    /// No threads yet. They report to `mailbox`.
    pub(crate) fn new(channel: Arc<Channel>, mailbox: Mailbox) -> Self {
        Self { channel, mailbox, idle: Vec::new() }
    }

    /// Has the kernel drop the pages of `range`, from `start` on; then [`Input::Notified`] says so.
    ///
    /// # Errors
    /// There is no thread for it.
    pub(crate) fn notify(&mut self, token: u64, range: Range<u64>, start: Instant) -> io::Result<()> {
        let thread = match self.idle.pop() {
            Some(thread) => thread,
            None => self.spawn()?,
        };
        let job = Job { token, range, start, thread: thread.clone() };
        thread.send(job).map_err(|_| io::Error::other("a notification thread is gone"))
    }

    /// Takes back a thread that has done its work.
    pub(crate) fn done(&mut self, thread: Sender<Job>) {
        if self.idle.len() < IDLE_MAX {
            self.idle.push(thread);
        }
    }

    fn spawn(&self) -> io::Result<Sender<Job>> {
        let (sender, jobs) = mpsc::channel::<Job>();
        let (channel, mailbox) = (self.channel.clone(), self.mailbox.clone());
        let work = move || {
            while let Ok(Job { token, range, start, thread }) = jobs.recv() {
                thread::sleep(start.saturating_duration_since(Instant::now()));
                channel.invalidate(&range);
                if !mailbox.send(Input::Notified { token, thread }) {
                    return;
                }
            }
        };
        thread::Builder::new().name("notify".into()).stack_size(64 << 10).spawn(work)?;
        Ok(sender)
    }
}
