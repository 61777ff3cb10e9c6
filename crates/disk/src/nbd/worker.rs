//! The thread of an origin: serves while connected, reconnects when not.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use cards_wire::nbd::client::Uri;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, sleep, sleep_until};

use super::jobs::Jobs;
use super::link::{Link, Lost};
use super::stream::{self, Connection};
use crate::job::Work;
use crate::mailbox::{Mailbox, Reply};

/// Pause before the second attempt to reconnect; doubles to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// Part of the wait after which a silent connection is replaced if that costs nothing: its reads have the rest of the
/// wait for another one.
const SILENT_PART: u32 = 2;
/// Multiple of the wait after which a silent connection is replaced whatever that costs.
const SILENT_MAX: u32 = 10;

/// What engines ask of the thread.
#[derive(Debug)]
pub(super) enum Command {
    Work { work: Work, reply: Reply },
    Cancel { mailbox: Arc<Mailbox> },
    Stop,
}

/// The state of the thread.
#[derive(Debug)]
pub(super) struct Worker {
    name: String,
    uri: Uri,
    inbox: UnboundedReceiver<Command>,
    /// How long jobs wait for the server.
    wait: Duration,
    jobs: Jobs,
    link: Option<Link>,
    /// Of the first connection; a server that comes back must offer as much.
    size: u64,
    read_only: bool,
}

impl Worker {
    pub(super) fn new(
        name: String,
        uri: Uri,
        inbox: UnboundedReceiver<Command>,
        wait: Duration,
        copied: Arc<AtomicU64>,
        first: Connection,
    ) -> Self {
        let (size, read_only) = (first.ready.session.size, first.ready.session.read_only());
        Self {
            name,
            uri,
            inbox,
            wait,
            jobs: Jobs::new(wait, copied),
            link: Some(Link::new(first)),
            size,
            read_only,
        }
    }

    /// Until the disk is closed.
    pub(super) async fn run(mut self) {
        loop {
            let Err(lost) = self.serve().await else { break };
            tracing::warn!(disk = self.name, error = %lost, "connection to the origin lost");
            self.link = None;
            self.jobs.connection_lost();
            // One that shuts down takes connections for a while, only to say the same again.
            let pause = if matches!(lost, Lost::Leaves) { PAUSE_MIN } else { Duration::ZERO };
            if self.reconnect(pause).await.is_stop() {
                break;
            }
            tracing::info!(disk = self.name, "connected to the origin again");
        }
        if let Some(link) = &mut self.link {
            link.leave();
        }
        self.jobs.close();
    }

    /// Sends requests and receives replies; `Ok` when the disk is closed.
    async fn serve(&mut self) -> Result<(), Lost> {
        // Since when the server owes an answer and says nothing.
        let mut silent = Instant::now();
        loop {
            let Some(link) = &mut self.link else { return Err(Lost::Closed) };
            let due = self.jobs.expire(Some(link));
            let idle = link.in_flight() == 0;
            match self.jobs.server_leaves() {
                true if idle => return Err(Lost::Leaves),
                true => {}
                false => self.jobs.issue(link),
            }
            link.send()?;
            if idle {
                silent = Instant::now();
            }
            let patience =
                if self.jobs.are_safe() { self.wait / SILENT_PART } else { self.wait * SILENT_MAX };
            let silent_at = if link.in_flight() > 0 { silent + patience } else { far() };
            if silent_at <= Instant::now() {
                return Err(Lost::Silent);
            }
            tokio::select! {
                command = self.inbox.recv() => {
                    let mut next = command;
                    while let Some(command) = next {
                        if self.obey(command).is_stop() {
                            return Ok(());
                        }
                        next = self.inbox.try_recv().ok();
                    }
                }
                ready = link.wait() => {
                    if ready?.is_readable() {
                        silent = Instant::now();
                        self.jobs.heard(silent);
                        link.receive(&mut self.jobs)?;
                    }
                }
                () = sleep_until(due.map_or(silent_at, |due| due.min(silent_at))) => {}
            }
        }
    }

    /// Until there is a connection, or the disk is closed.
    async fn reconnect(&mut self, mut pause: Duration) -> Next {
        loop {
            let (uri, wait) = (self.uri.clone(), self.wait);
            let attempt = async move {
                sleep(pause).await;
                stream::establish(&uri, wait).await
            };
            tokio::pin!(attempt);
            let result = loop {
                let due = self.jobs.expire(None).unwrap_or_else(far);
                tokio::select! {
                    result = &mut attempt => break result,
                    command = self.inbox.recv() => {
                        if command.is_none_or(|command| self.obey(command).is_stop()) {
                            return Next::Stop;
                        }
                    }
                    () = sleep_until(due) => {}
                }
            };
            match result {
                Ok(Connection { ready, .. })
                    if ready.session.size < self.size || ready.session.read_only() != self.read_only =>
                {
                    let (had, has) = (self.size, ready.session.size);
                    tracing::error!(
                        disk = self.name,
                        had,
                        has,
                        "the origin came back smaller or with other rights"
                    );
                }
                Ok(connection) => {
                    self.link = Some(Link::new(connection));
                    return Next::Go;
                }
                Err(error) => tracing::debug!(disk = self.name, %error, "no connection to the origin yet"),
            }
            pause = (pause * 2).clamp(PAUSE_MIN, PAUSE_MAX);
        }
    }

    fn obey(&mut self, command: Command) -> Next {
        match command {
            Command::Work { work, reply } => self.jobs.push(work, reply),
            Command::Cancel { mailbox } => self.jobs.cancel(&mailbox, self.link.as_mut()),
            Command::Stop => return Next::Stop,
        }
        Next::Go
    }
}

/// Whether to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Go,
    Stop,
}

impl Next {
    fn is_stop(self) -> bool {
        self == Self::Stop
    }
}

/// Later than anything that is waited for.
fn far() -> Instant {
    Instant::now() + Duration::from_secs(86_400)
}
