//! An object of a web server or an object store as a disk that nobody writes.
//!
//! One thread per disk has up to 32 connections, each with one request at a time, and keeps them for the next ones. Reads
//! that wait and are next to each other become one request, of at most 1 MiB.
//!
//! **One version.** At open the object's `ETag` is remembered (`Last-Modified` where there is no strong one). Every request
//! asks for that version (`If-Match`), and every answer must be of it and of exactly the bytes that were asked for: status,
//! version, range, size and length are checked before a byte is taken. What does not fit is an [`ObjectError`] of its own. An
//! object that has changed is an error and never a mixture; should the old version come back, reads succeed again.
//!
//! **Retries.** A connection that cannot be made or is lost, a server that is silent and statuses 408, 429 and 5xx are tried
//! again, with a growing pause (to 5 s, or what `Retry-After` says), for what is still missing, until nothing has come for
//! `reconnect_wait`; then the read fails with the last reason. In the queue that time counts only while the server gives nothing.
//! A silent connection is replaced after half of it. Any other error fails at once.
//!
//! | file | noun |
//! |---|---|
//! | `failure` | why an object cannot be read |
//! | `version` | which version was opened |
//! | `answer` | what the head of an answer says |
//! | `credentials`, `sign` | keys of object stores, and signatures with them |
//! | `trust` | the authorities of servers' certificates |
//! | `target` | where requests go and what they look like |
//! | `connection` | a connection, and those that are idle |
//! | `patience` | how long the server may take |
//! | `client` | a request and its answer |
//! | `transfer`, `queue` | reads that are one request, and those that wait |
//! | `health` | how the server does |
//! | `worker` | the thread |

mod answer;
mod client;
mod connection;
mod credentials;
mod failure;
mod health;
mod patience;
mod queue;
mod sign;
mod target;
mod transfer;
mod trust;
mod version;
mod worker;

use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::time::Instant;

pub use self::failure::{ObjectError, ObjectFailure};

use self::answer::Opened;
use self::client::Client;
use self::health::Health;
use self::target::Target;
use self::transfer::Part;
use self::version::Version;
use self::worker::{Command, Shared, Worker};
use crate::error::{Altered, DiskError, JobError};
use crate::job::{Extent, ExtentKind, Op, Outcome, Work};
use crate::mailbox::{Mailbox, Reply};
use crate::options::{DiskOptions, ObjectSource};

/// For the requests that open the object, beside `reconnect_wait`.
const OPEN_WAIT: Duration = Duration::from_secs(10);

/// An open object, as engines see it.
#[derive(Debug)]
pub(crate) struct Object {
    commands: UnboundedSender<Command>,
    thread: Option<JoinHandle<()>>,
    opened: Opened,
    seen: Arc<Seen>,
}

/// What the thread has seen.
#[derive(Debug, Default)]
struct Seen {
    /// Bytes copied from answers into buffers.
    copied: AtomicU64,
    /// The object is another one, or gone; none when the last answer was of the one that was opened.
    altered: Mutex<Option<ObjectFailure>>,
}

impl Seen {
    fn copied(&self, bytes: usize) {
        self.copied.fetch_add(bytes as u64, Relaxed);
    }

    /// The object is another one, or gone.
    fn altered(&self, failure: &ObjectFailure) {
        *self.lock() = Some(failure.clone());
    }

    /// It is the one that was opened.
    fn unaltered(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> MutexGuard<'_, Option<ObjectFailure>> {
        self.altered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Object {
    /// Asks the server about the object and starts the thread.
    pub(crate) fn open(source: &ObjectSource, options: &DiskOptions) -> Result<Self, DiskError> {
        let url = source.url.to_string();
        let failed = |failure| DiskError::Object { url: url.clone(), failure };
        let unstarted = |source: io::Error| DiskError::Unreachable { uri: url.clone(), source };
        let client = Client::new(Target::of(source).map_err(failed)?);
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(unstarted)?;
        let (commands, inbox) = unbounded_channel();
        let (send_opened, receive_opened) = mpsc::sync_channel(1);
        let seen = Arc::new(Seen::default());
        let (name, wait, shared_seen) = (url.clone(), options.reconnect_wait, Arc::clone(&seen));
        let thread = std::thread::Builder::new()
            .name("cards-object".into())
            .spawn(move || {
                runtime.block_on(async {
                    let opened = client.open(wait.min(OPEN_WAIT)).await;
                    // The opener waits for this; it cannot have gone.
                    let _ = send_opened.send(opened.clone());
                    if let Ok(opened) = opened {
                        let (seen, health) = (shared_seen, Health::new());
                        let shared = Shared { name, client, opened, wait, seen, health };
                        Worker::new(shared, inbox).run().await;
                    }
                });
                runtime.shutdown_background(); // a name look-up may still run
            })
            .map_err(unstarted)?;
        match receive_opened.recv() {
            Ok(Ok(opened)) => Ok(Self { commands, thread: Some(thread), opened, seen }),
            Ok(Err(failure)) => Err(failed(failure)),
            Err(mpsc::RecvError) => Err(unstarted(io::Error::other("the thread of the object ended"))),
        }
    }

    /// Bytes.
    pub(crate) fn size(&self) -> u64 {
        self.opened.size
    }

    /// What no other version of the object has; none where that cannot be said for sure over a restart.
    pub(crate) fn version(&self) -> Option<&str> {
        match &self.opened.version {
            Version::Tag(tag) => Some(tag),
            Version::Modified(_) => None,
        }
    }

    pub(crate) fn copied(&self) -> u64 {
        self.seen.copied.load(Relaxed)
    }

    /// What has become of the object since it was opened, as far as requests have shown.
    pub(crate) fn altered(&self, url: &str) -> Option<Altered> {
        let altered = self.seen.lock().clone();
        altered.map(|failure| Altered::Object { url: url.to_owned(), failure })
    }

    /// Does `work`; the answer comes through `reply`.
    pub(crate) fn submit(&self, work: Work, reply: Reply) {
        match work.op {
            Op::Read { buf, .. } if buf.len() == 0 => reply.send(Ok(Outcome::Done)),
            Op::Read { offset, buf } => {
                // A server that is away costs a job one wait, also one that was not at the disk yet.
                let since = work.since.unwrap_or_else(Instant::now);
                let part = Part { offset, buf, reply: Some(reply), since };
                // Without the thread the command is dropped, and the reply with it: that answers it.
                let _ = self.commands.send(Command::Read(part));
            }
            // There is nothing to be made durable.
            Op::Flush => reply.send(Ok(Outcome::Done)),
            Op::Extents { len: 0, .. } => reply.send(Ok(Outcome::Extents(Vec::new()))),
            Op::Extents { len, .. } => {
                reply.send(Ok(Outcome::Extents(vec![Extent { len, kind: ExtentKind::Data }])));
            }
            Op::Write { .. } | Op::Zero { .. } | Op::Trim { .. } => reply.send(Err(JobError::ReadOnly)),
        }
    }

    /// Answers everything of `mailbox` without waiting for the server; afterwards no buffer of it is used.
    pub(crate) fn cancel(&self, mailbox: &Arc<Mailbox>) {
        // Without the thread, there is nothing to cancel.
        let _ = self.commands.send(Command::Cancel { mailbox: Arc::clone(mailbox) });
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        let _ = self.commands.send(Command::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
