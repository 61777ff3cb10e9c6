//! Another NBD server's export as a disk: the origin.
//!
//! One thread and one connection per disk, whatever the number of engines: a flush then covers what any
//! engine wrote, also with servers that do not offer `CAN_MULTI_CONN`.
//!
//! A job that has no answer for `reconnect_wait` fails with EIO, whether the server stalls or is away; in the
//! queue that time counts only while the server answers nobody. The connection of a server that stalls is
//! **kept**: the server may only be slow, and what it has done is not lost. Then:
//!
//! - a late answer is taken: a flush still covers what was answered before it;
//! - a write that was given up may still be done, at any moment: jobs that touch its range wait for its answer;
//! - a flush that was given up lost nothing, so the next may succeed.
//!
//! A silent connection without writes, in flight or unflushed, costs nothing: after half of `reconnect_wait` it is
//! replaced, and its reads are sent again. Any other is replaced when the kernel says that the host acknowledges
//! nothing (TCP), or after ten times `reconnect_wait`.
//!
//! A server that says that it shuts down (ESHUTDOWN) has not done the request, not even a write: it waits for the next
//! connection, which is made when the other requests in flight are answered.
//!
//! When the connection is lost the thread reconnects, at once and then with a growing pause (to 5 s), and
//! meanwhile:
//!
//! - what was not sent waits;
//! - reads, hole maps and flushes in flight are sent again: they change nothing;
//! - **writes, zeroes and trims in flight fail**. They are not sent again: the server may still hold the old
//!   connection's copy in a queue, and that copy could land after a later write of the same block;
//! - writes that were answered but that no *answered* flush covers may be lost, if it was the server and not the
//!   network that failed: **the next flush fails**, and with it, as after any failed sync, all later ones until
//!   the disk is opened again. A connection lost with nothing unflushed costs nothing.
//!
//! A server may demand requests in whole blocks of up to 4096 bytes; then reads, writes and zeroes that are not fail with
//! EINVAL.

mod jobs;
mod link;
mod plan;
mod stream;
mod worker;

use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use cards_wire::nbd::client::{Ready, Uri};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use self::stream::ConnectError;
use self::worker::{Command, Worker};
use crate::error::DiskError;
use crate::job::Work;
use crate::mailbox::{Mailbox, Reply};
use crate::options::DiskOptions;

/// Largest minimum block of a server that can be an origin; the smallest caching unit, in bytes.
const MINIMUM_BLOCK_MAX: u32 = 4096;

/// The connection to an origin server, as engines see it.
#[derive(Debug)]
pub(crate) struct Origin {
    commands: UnboundedSender<Command>,
    thread: Option<JoinHandle<()>>,
    /// What the first connection negotiated.
    ready: Ready,
    /// Bytes of reads copied out of the receive buffer.
    copied: Arc<AtomicU64>,
}

impl Origin {
    /// Connects to the export `text` names and starts its thread.
    pub(crate) fn connect(text: &str, options: &DiskOptions) -> Result<Self, DiskError> {
        let uri: Uri = text.parse().map_err(|source| DiskError::Uri { uri: text.to_owned(), source })?;
        let unreachable = |source| DiskError::Unreachable { uri: text.to_owned(), source };
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(unreachable)?;
        let (commands, inbox) = unbounded_channel();
        let (opened, open) = mpsc::sync_channel(1);
        let (name, wait) = (text.to_owned(), options.reconnect_wait);
        let copied = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&copied);
        let thread = std::thread::Builder::new()
            .name("cards-origin".into())
            .spawn(move || {
                runtime.block_on(async {
                    match stream::establish(&uri, wait).await {
                        Ok(connection) => {
                            // The opener waits for this; it cannot have gone.
                            let _ = opened.send(Ok(connection.ready));
                            Worker::new(name, uri, inbox, wait, counter, connection).run().await;
                        }
                        Err(error) => _ = opened.send(Err(error)),
                    }
                });
                runtime.shutdown_background(); // a name look-up may still run
            })
            .map_err(unreachable)?;
        let ready = match open.recv() {
            Ok(Ok(ready)) => ready,
            Ok(Err(ConnectError::Io(source))) => return Err(unreachable(source)),
            Ok(Err(ConnectError::Handshake(source))) => {
                return Err(DiskError::Handshake { uri: text.to_owned(), source });
            }
            Err(mpsc::RecvError) => {
                return Err(unreachable(io::Error::other("the connection's thread ended")));
            }
        };
        // Dropped on refusal, which ends the thread.
        let origin = Self { commands, thread: Some(thread), ready, copied };
        let refuse = |reason| Err(DiskError::Export { uri: text.to_owned(), reason });
        if origin.size() == 0 {
            return refuse("is empty (0 bytes)");
        }
        if ready.minimum_block > MINIMUM_BLOCK_MAX {
            return refuse("wants requests in units of more than 4096 bytes");
        }
        if origin.read_only() && !options.read_only {
            return refuse("is read-only; set `read_only = true`");
        }
        Ok(origin)
    }

    pub(crate) fn size(&self) -> u64 {
        self.ready.session.size
    }

    pub(crate) fn block_size(&self) -> u32 {
        self.ready.minimum_block.max(512)
    }

    pub(crate) fn read_only(&self) -> bool {
        self.ready.session.read_only()
    }

    pub(crate) fn copied(&self) -> u64 {
        self.copied.load(Relaxed)
    }

    /// Sends `work`; the answer comes through `reply`.
    pub(crate) fn submit(&self, work: Work, reply: Reply) {
        // Without the thread the command is dropped, and the reply with it: that answers it.
        let _ = self.commands.send(Command::Work { work, reply });
    }

    /// Answers everything of `mailbox` without waiting for the server; afterwards no buffer of it is used.
    pub(crate) fn cancel(&self, mailbox: &Arc<Mailbox>) {
        // Without the thread, there is nothing to cancel.
        let _ = self.commands.send(Command::Cancel { mailbox: Arc::clone(mailbox) });
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        let _ = self.commands.send(Command::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
