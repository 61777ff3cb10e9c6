//! The thread that serves: requests of the kernel become requests to the daemon, its replies become answers.
//!
//! One thread does it all, so that what happens has an order: a reply that arrived before a withdrawal is passed on
//! before the withdrawal begins. Only what may block is done elsewhere: dropping pages, and reaching a daemon.

mod daemon;
mod keeping;
mod kernel;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::ops::Range;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use cards_admin::{Device, Word};

use crate::directory::Directory;
use crate::fuse::{Attributes, Channel, Received, Request};
use crate::inbox::{Inbox, Input, Mailbox};
use crate::notifiers::Notifiers;
use crate::pages_lock::PagesLock;
use crate::poll;
use crate::requests::Requests;
use crate::session::Connected;
use crate::uplink::Uplink;
use crate::withdrawals::Withdrawals;
use keeping::Keeping;

/// Requests of the kernel that are received before any is sent on.
const BATCH: usize = 64;
/// How long to wait for a lock that a starting daemon holds for a moment.
const RETRY: Duration = Duration::from_millis(10);
/// How long a page stays before it is dropped, at least. A program that waits for it finds it only when it runs again; if it
/// is gone by then, the kernel asks for it anew, and the program may wait for ever.
const TAKEN: Duration = Duration::from_millis(1);
/// Buffers for long WRITEs that are kept for the next ones.
const SPARE_MAX: usize = 16;

/// What a server is to serve, and how.
#[derive(Debug)]
pub(crate) struct Settings {
    /// What the file looks like.
    pub(crate) file: Attributes,
    /// Nothing may be written.
    pub(crate) read_only: bool,
    /// `NBD_FLAG_*` that the daemon announced.
    pub(crate) flags: u16,
    /// The kernel is to keep no pages.
    pub(crate) direct: bool,
    /// Where the [`PagesLock`] is.
    pub(crate) dir: Arc<Directory>,
}

/// What others may know of a server.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// Files that are open.
    pub(crate) open: AtomicUsize,
    /// It has ended.
    pub(crate) ended: Arc<AtomicBool>,
}

/// The thread's state.
#[derive(Debug)]
pub(crate) struct Server {
    settings: Settings,
    shared: Arc<Shared>,
    uplink: Uplink,
    channel: Arc<Channel>,
    inbox: Inbox,
    notifiers: Notifiers,
    requests: Requests,
    /// Requests that go on with another question.
    unasked: Vec<usize>,
    withdrawals: Withdrawals,
    /// READs whose answers withdrawals wait for, and until when.
    awaited: BTreeMap<usize, Instant>,
    /// Pages that were filled less than [`TAKEN`] ago, in order.
    filled: VecDeque<(Instant, Range<u64>)>,
    keeping: Keeping,
    /// Held while there may be pages.
    lock: PagesLock,
    /// When to try again to take it.
    retry: Option<Instant>,
    /// OPENs that wait for the agreement to keep pages.
    opening: Vec<u64>,
    /// The daemon lets the kernel keep no pages any more, though files are open that need them.
    forbidden: bool,
    /// Until when pages may be used; none: no more.
    valid: Option<Validity>,
    /// Where the volume is on this machine.
    here: Device,
    buffer: Vec<u8>,
    spare: Vec<Vec<u8>>,
}

/// How long pages may be used.
#[derive(Clone, Copy, Debug)]
enum Validity {
    For(Instant),
    Ever,
}

impl Server {
    pub(crate) fn new(
        settings: Settings,
        shared: Arc<Shared>,
        channel: Arc<Channel>,
        (mailbox, inbox): (Mailbox, Inbox),
        (uplink, daemon): (Uplink, Connected),
        here: Device,
    ) -> Self {
        // SAFETY: takes a plain number; the name is known everywhere.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        let mut server = Self {
            notifiers: Notifiers::new(channel.clone(), mailbox),
            withdrawals: Withdrawals::new(u64::try_from(page).unwrap_or(4096)),
            awaited: BTreeMap::new(),
            requests: Requests::default(),
            unasked: Vec::new(),
            filled: VecDeque::new(),
            keeping: Keeping::default(),
            lock: PagesLock::new(settings.dir.clone()),
            retry: None,
            opening: Vec::new(),
            forbidden: false,
            valid: None,
            buffer: vec![0; Channel::BUFFER],
            spare: Vec::new(),
            settings,
            shared,
            uplink,
            channel,
            inbox,
            here,
        };
        server.connected(Box::new(daemon));
        server
    }

    /// Serves until the file is unmounted.
    ///
    /// # Errors
    /// The system gives no threads, or the kernel speaks another protocol.
    pub(crate) fn run(mut self) -> io::Result<()> {
        let mut ready = Vec::new();
        loop {
            self.wait(&mut ready);
            self.expire();
            self.inbox.clear();
            while let Some(input) = self.inbox.next() {
                self.input(input);
            }
            // Replies before notices: one that was sent before a withdrawal is then passed on before it.
            if ready.get(2..).is_some_and(|ready| ready.contains(&true)) {
                self.hear();
            }
            if ready[1] && self.receive()? == Received::Unmounted {
                return Ok(());
            }
            self.settle()?;
            if let Err(error) = self.uplink.send() {
                self.lose(&error);
            }
            self.uplink.reach()?;
        }
    }

    fn wait(&self, ready: &mut Vec<bool>) {
        let mut descriptors = vec![(self.inbox.as_fd(), false), (self.channel.as_fd(), false)];
        descriptors.extend(self.uplink.descriptors());
        let limit = self.deadline().map(|end| end.saturating_duration_since(Instant::now()));
        poll::wait(&descriptors, limit, ready);
    }

    /// When something happens by itself.
    fn deadline(&self) -> Option<Instant> {
        let lapse = match self.valid {
            Some(Validity::For(end)) => Some(end),
            Some(Validity::Ever) | None => None,
        };
        let awaited = self.awaited.values().min().copied();
        [lapse, self.uplink.deadline(), self.retry, awaited].into_iter().flatten().min()
    }

    /// Does what is due.
    fn expire(&mut self) {
        if let Some(Validity::For(end)) = self.valid
            && Instant::now() >= end
        {
            tracing::debug!("the daemon has not renewed in time: all pages are dropped");
            self.valid = None;
            self.withdrawals.lapsed();
        }
        let now = Instant::now();
        for (read, _) in self.awaited.extract_if(.., |_, end| now >= *end) {
            self.withdrawals.overdue(read);
        }
        if self.retry.is_some_and(|retry| Instant::now() >= retry) {
            self.retry = None;
            self.want_pages();
        }
        if self.uplink.expires() {
            self.refuse_all();
        }
    }

    fn input(&mut self, input: Input) {
        match input {
            Input::Notified { token, thread } => {
                self.notifiers.done(thread);
                self.withdrawals.notified(token);
            }
            Input::Connected(daemon) => self.connected(daemon),
            Input::NotConnected(error) => {
                if self.uplink.missed(&error) {
                    self.refuse_all();
                }
            }
            Input::Here(device) => {
                self.here = device;
                self.uplink.say(&Word::Here(self.here.clone()));
            }
        }
    }

    /// Takes what the kernel asks, a batch at a time.
    fn receive(&mut self) -> io::Result<Received> {
        for _ in 0..BATCH {
            let length = match self.channel.receive(&mut self.buffer)? {
                Received::Request(length) => length,
                other => return Ok(other),
            };
            match Request::parse(&self.buffer[..length]) {
                Some(request) => self.requested(request)?,
                None => tracing::error!("a request of the kernel is shorter than its fields"),
            }
        }
        Ok(Received::Nothing)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Release);
    }
}
