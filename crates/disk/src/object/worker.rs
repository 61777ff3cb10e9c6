//! The thread of an object: several requests at a time, each tried until the wait is over.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::ops::ControlFlow;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use super::Seen;
use super::answer::Opened;
use super::client::Client;
use super::failure::{ObjectError, ObjectFailure};
use super::health::Health;
use super::patience::{PROGRESS, Patience};
use super::queue::Queue;
use super::transfer::{Part, Transfer};
use crate::error::JobError;
use crate::mailbox::Mailbox;

/// Most requests, and so connections, at a time.
const REQUESTS_MAX: usize = 32;
/// Pause before the second attempt; doubles to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// An attempt that has less time left is not made.
const LEFT_MIN: Duration = Duration::from_millis(10);

/// What engines ask of the thread.
#[derive(Debug)]
pub(super) enum Command {
    Read(Part),
    Cancel { mailbox: Arc<Mailbox> },
    Stop,
}

/// The state of the thread.
#[derive(Debug)]
pub(super) struct Worker {
    shared: Arc<Shared>,
    inbox: UnboundedReceiver<Command>,
    queue: Queue,
    tasks: JoinSet<()>,
    /// What the tasks have.
    transfers: Vec<Weak<Transfer>>,
}

/// What the requests share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) name: String,
    pub(super) client: Client,
    pub(super) opened: Opened,
    /// How long jobs wait for the server.
    pub(super) wait: Duration,
    pub(super) seen: Arc<Seen>,
    pub(super) health: Health,
}

impl Worker {
    pub(super) fn new(shared: Shared, inbox: UnboundedReceiver<Command>) -> Self {
        Self {
            shared: Arc::new(shared),
            inbox,
            queue: Queue::default(),
            tasks: JoinSet::new(),
            transfers: Vec::new(),
        }
    }

    /// Until the disk is closed. What then waits is answered as its reply is dropped.
    pub(super) async fn run(mut self) {
        loop {
            // All that has arrived, so that neighbours find each other.
            while let Ok(command) = self.inbox.try_recv() {
                if self.obey(command).is_break() {
                    return;
                }
            }
            while self.tasks.len() < REQUESTS_MAX
                && let Some((transfer, since)) = self.queue.pop()
            {
                self.start(transfer, since);
            }
            let due = self.queue.expire(self.shared.wait, self.shared.health.heard());
            tokio::select! {
                command = self.inbox.recv() => {
                    if command.is_none_or(|command| self.obey(command).is_break()) {
                        return;
                    }
                }
                Some(_) = self.tasks.join_next() => {}
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
            }
        }
    }

    fn obey(&mut self, command: Command) -> ControlFlow<()> {
        match command {
            Command::Read(part) => self.queue.push(part),
            Command::Cancel { mailbox } => self.cancel(&mailbox),
            Command::Stop => return ControlFlow::Break(()),
        }
        ControlFlow::Continue(())
    }

    fn start(&mut self, transfer: Transfer, since: Instant) {
        let transfer = Arc::new(transfer);
        self.transfers.retain(|transfer| transfer.strong_count() > 0);
        self.transfers.push(Arc::downgrade(&transfer));
        let shared = Arc::clone(&self.shared);
        self.tasks.spawn(async move { shared.carry_out(&transfer, since).await });
    }

    fn cancel(&mut self, mailbox: &Arc<Mailbox>) {
        self.queue.cancel(mailbox);
        self.transfers.iter().filter_map(Weak::upgrade).for_each(|transfer| transfer.cancel(mailbox));
    }
}

impl Shared {
    /// Asks until everything has come, or nothing can come, or the time is over.
    async fn carry_out(&self, transfer: &Transfer, since: Instant) {
        let mut patience = Patience::new(self.wait, since.max(self.health.heard()));
        let mut pause = PAUSE_MIN;
        let mut cause = None;
        while let Some(asked) = transfer.rest() {
            let mut came = 0;
            let take = |bytes: &[u8]| {
                if came == 0 {
                    // Before a read is answered: its reader may ask at once what has become of the object.
                    self.note_bytes();
                }
                came += bytes.len();
                self.health.hear();
                self.seen.copied(bytes.len());
                transfer.fill(bytes);
            };
            let (before, began) = (patience.clone(), Instant::now());
            let result = self.client.fetch(&self.opened, &asked, &mut patience, take).await;
            let Err(failure) = result else { continue };
            patience.failed(&before, came);
            self.note_failure(&failure);
            if came >= PROGRESS {
                pause = PAUSE_MIN;
            }
            // An attempt that the end of the time has ended says nothing of the server.
            let is_cut = failure.error == ObjectError::Silent && came == 0 && before.is_short_at(began);
            let error = cause.filter(|_| is_cut).unwrap_or(failure.error);
            cause = Some(error);
            let left = patience.left();
            if !error.is_transient() || left < LEFT_MIN {
                if self.health.may_say() {
                    tracing::warn!(disk = self.name, offset = asked.start, %failure, "a read of the object failed");
                }
                return transfer.fail(JobError::Object(error));
            }
            // Half of what is left, so that the last attempts are made shortly before the end.
            let longest = failure.retry_after.map_or(pause, |after| pause.max(after));
            sleep(jitter(longest).min(left / 2)).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Bytes of the version that was opened have come.
    fn note_bytes(&self) {
        if self.health.recover() {
            tracing::info!(disk = self.name, "the object can be read again");
        }
        self.seen.unaltered();
    }

    /// An attempt has failed: the log says when that begins, and the status what has become of the object.
    fn note_failure(&self, failure: &ObjectFailure) {
        if failure.error.is_transient() && self.health.fail() {
            tracing::warn!(disk = self.name, %failure, "the object cannot be read; it is tried again");
        }
        if matches!(failure.error, ObjectError::Changed | ObjectError::Missing) {
            self.seen.altered(failure);
        }
    }
}

/// From half of it to all: requests that failed together do not come again together.
fn jitter(pause: Duration) -> Duration {
    let random = RandomState::new().build_hasher().finish();
    pause / 2 + pause.mul_f64((random >> 40) as f64 / (1u64 << 25) as f64)
}
