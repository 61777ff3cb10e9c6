//! Jobs on an origin, as requests: one request of a job at a time, as many as its length needs.
//!
//! What a lost connection costs is counted, not flagged, because several flushes may be in flight (one of each
//! engine): answered writes are numbered, a flush covers the writes answered before it was sent, and the
//! writes up to [`Jobs::durable_through`] are those that the last *answered* flush covers.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use cards_wire::nbd::client::Event;
use cards_wire::nbd::consts::{NBD_STATE_HOLE, NBD_STATE_ZERO};
use cards_wire::nbd::{Errno, Request};
use tokio::time::Instant;

use super::link::{IN_FLIGHT_MAX, Link, Sink};
use super::plan::{Plan, plan};
use crate::error::JobError;
use crate::job::{EXTENTS_MAX, Extent, ExtentKind, Op, Outcome, RawBuf, Work};
use crate::mailbox::{Mailbox, Reply};
use crate::slab::Slab;

/// A job, from its arrival to its answer.
#[derive(Debug)]
struct Task {
    work: Work,
    /// `None`: cancelled or expired; its buffer must not be touched any more.
    reply: Option<Reply>,
    /// Start of the time that it may wait for the server: its arrival, or the last answer to a request of it.
    since: Instant,
    /// A request of it was sent on some connection.
    sent: bool,
    /// Of a flush in flight: the last write that it covers.
    covers: u64,
    /// Bytes that earlier requests did.
    done: u64,
    /// Bytes of the request in flight.
    asked: u64,
    extents: Vec<Extent>,
    /// The server described more than [`EXTENTS_MAX`] runs; the rest is ignored.
    extents_cut: bool,
}

/// All jobs of an origin.
#[derive(Debug)]
pub(super) struct Jobs {
    /// Not sent yet, or to be sent again.
    waiting: VecDeque<Task>,
    /// With a request in flight; the number is its cookie.
    active: Slab<Task>,
    /// The cookies of `active`.
    cookies: BTreeSet<u32>,
    /// Those of them that need another request.
    continued: VecDeque<u32>,
    /// Jobs in `active` that change the disk.
    writing: usize,
    /// Expired writes in `active`: the server may still do them, at any moment.
    in_doubt: usize,
    /// Jobs that touch the range of a write in doubt.
    held: Vec<Task>,
    /// Number of the last write that was answered.
    last_write: u64,
    /// The last write that an answered flush covers.
    durable_through: u64,
    /// Writes that were answered but not flushed may be gone: no flush can succeed any more.
    writes_lost: bool,
    /// The server has said that it shuts down: it does nothing more on this connection.
    server_leaves: bool,
    /// When the server last said something.
    heard: Instant,
    /// Not before then has a job waited too long; `None` without jobs.
    next_expiry: Option<Instant>,
    /// How long a job waits for the server.
    wait: Duration,
    /// Bytes of reads copied out of the receive buffer.
    copied: Arc<AtomicU64>,
}

impl Jobs {
    /// No jobs yet; each will wait for `wait` at most.
    pub(super) fn new(wait: Duration, copied: Arc<AtomicU64>) -> Self {
        Self {
            waiting: VecDeque::new(),
            active: Slab::new(),
            continued: VecDeque::new(),
            cookies: BTreeSet::new(),
            writing: 0,
            in_doubt: 0,
            held: Vec::new(),
            last_write: 0,
            durable_through: 0,
            writes_lost: false,
            server_leaves: false,
            heard: Instant::now(),
            next_expiry: None,
            wait,
            copied,
        }
    }

    pub(super) fn push(&mut self, work: Work, reply: Reply) {
        // An origin that is away costs a job one wait, also one that was not at the disk yet.
        let since = work.since.unwrap_or_else(Instant::now);
        self.waiting.push_back(Task {
            work,
            reply: Some(reply),
            since,
            sent: false,
            covers: 0,
            done: 0,
            asked: 0,
            extents: Vec::new(),
            extents_cut: false,
        });
        let expiry = since + self.wait;
        self.next_expiry = Some(self.next_expiry.map_or(expiry, |next| next.min(expiry)));
    }

    /// The server said something.
    pub(super) fn heard(&mut self, now: Instant) {
        self.heard = now;
    }

    /// Whether the server has said that it shuts down. It may still answer what is in flight, but wants nothing more.
    pub(super) fn server_leaves(&self) -> bool {
        self.server_leaves
    }

    /// Whether losing the connection would cost nothing: no write is in flight on it, and none unflushed.
    pub(super) fn are_safe(&self) -> bool {
        self.writing == 0 && self.durable_through == self.last_write
    }

    /// Answers everything of `mailbox` at once; afterwards its buffers are not used. Requests in flight go on
    /// without.
    pub(super) fn cancel(&mut self, mailbox: &Arc<Mailbox>, link: Option<&mut Link>) {
        let ours = |task: &Task| task.reply.as_ref().is_some_and(|reply| reply.is_for(mailbox));
        self.abandon(ours, link, JobError::Os { errno: libc::ECANCELED });
    }

    /// Fails the jobs that have waited too long, and says when to come back.
    pub(super) fn expire(&mut self, link: Option<&mut Link>) -> Option<Instant> {
        let now = Instant::now();
        if self.next_expiry.is_none_or(|at| at > now) {
            return self.next_expiry;
        }
        let (wait, heard) = (self.wait, self.heard);
        // A job in the queue has been waiting for as long as the server has answered nobody. One in flight has a
        // request to be answered.
        let due = move |task: &Task| if task.sent { task.since } else { task.since.max(heard) } + wait;
        self.abandon(|task| due(task) <= now, link, JobError::Disconnected);
        let active = self.cookies.iter().filter_map(|&cookie| self.active.get(cookie));
        let live = active.filter(|task| task.reply.is_some());
        self.next_expiry = live.chain(&self.waiting).chain(&self.held).map(due).min();
        self.next_expiry
    }

    /// Answers the jobs that `which` picks with `error`; afterwards their buffers are not used. Requests in
    /// flight go on without.
    fn abandon(&mut self, which: impl Fn(&Task) -> bool, link: Option<&mut Link>, error: JobError) {
        let (mut abandoned, waiting): (Vec<_>, Vec<_>) = self.waiting.drain(..).partition(&which);
        self.waiting = waiting.into();
        abandoned.extend(self.held.extract_if(.., |task| which(task)));
        let mut replies: Vec<_> = abandoned.into_iter().filter_map(|task| task.reply).collect();
        let mut cookies = Vec::new();
        for &cookie in &self.cookies {
            let task = self.active.get_mut(cookie);
            if task.reply.is_some() && which(task) {
                replies.extend(task.reply.take());
                self.in_doubt += usize::from(task.work.op.writes());
                cookies.push(u64::from(cookie));
            }
        }
        if let Some(link) = link {
            link.keep_payloads(&cookies);
        }
        for reply in replies {
            reply.send(Err(error));
        }
    }

    /// Whether `task` touches a range that the server may still change for an abandoned write.
    fn is_in_doubt(&self, task: &Task) -> bool {
        let Some((start, len)) = task.work.op.range().filter(|_| self.in_doubt > 0) else { return false };
        let doubtful = self.cookies.iter().filter_map(|&cookie| self.active.get(cookie));
        let mut doubtful = doubtful.filter(|other| other.reply.is_none() && other.work.op.writes());
        doubtful.any(|other| {
            other.work.op.range().is_some_and(|(at, other)| start < at + other && at < start + len)
        })
    }

    /// Sends what may be sent.
    pub(super) fn issue(&mut self, link: &mut Link) {
        while link.in_flight() < IN_FLIGHT_MAX {
            let cookie = if let Some(cookie) = self.continued.pop_front() {
                cookie
            } else if let Some(task) = self.waiting.pop_front() {
                if self.is_in_doubt(&task) {
                    // The server may do requests in flight in any order.
                    self.held.push(task);
                    continue;
                }
                self.insert(task)
            } else {
                return;
            };
            let task = self.active.get_mut(cookie);
            if task.reply.is_none() {
                self.remove(cookie);
                continue;
            }
            match plan(&link.ready, &task.work.op, task.done) {
                Plan::Answer(result) => self.answer(cookie, result),
                Plan::Ask { .. } if self.writes_lost && matches!(task.work.op, Op::Flush) => {
                    self.answer(cookie, Err(JobError::WritesLost));
                }
                Plan::Ask { command, flags, offset, length, payload } => {
                    task.asked = u64::from(length);
                    task.covers = self.last_write;
                    if !std::mem::replace(&mut task.sent, true) {
                        task.since = task.since.max(self.heard);
                    }
                    link.ask(&Request { flags, command, cookie: u64::from(cookie), offset, length }, payload);
                }
            }
        }
    }

    /// The connection is gone; see the head of [`super`] for what becomes of the requests in flight.
    pub(super) fn connection_lost(&mut self) {
        self.server_leaves = false;
        if self.durable_through < self.last_write {
            self.writes_lost = true;
            self.durable_through = self.last_write;
        }
        self.continued.clear();
        (self.writing, self.in_doubt) = (0, 0);
        self.waiting.extend(self.held.drain(..));
        // Backwards, so that the oldest is the first to be sent again.
        for cookie in std::mem::take(&mut self.cookies).into_iter().rev() {
            let mut task = self.active.remove(cookie);
            if task.reply.is_none() {
                continue;
            }
            if task.work.op.writes() {
                task.answer(Err(JobError::Disconnected));
            } else {
                // A flush too: if it had something to cover, `writes_lost` fails it. What it has waited counts.
                task.extents.clear();
                task.extents_cut = false;
                self.waiting.push_front(task);
            }
        }
    }

    /// Fails everything: the disk is closed.
    pub(super) fn close(&mut self) {
        self.connection_lost();
        self.abandon(|_| true, None, JobError::Disconnected);
    }

    fn insert(&mut self, task: Task) -> u32 {
        self.writing += usize::from(task.work.op.writes());
        let cookie = self.active.insert(task);
        self.cookies.insert(cookie);
        cookie
    }

    fn remove(&mut self, cookie: u32) -> Task {
        self.cookies.remove(&cookie);
        let task = self.active.remove(cookie);
        if task.work.op.writes() {
            self.writing -= 1;
            if task.reply.is_none() {
                self.in_doubt -= 1;
                self.waiting.extend(self.held.drain(..));
            }
        }
        task
    }

    fn answer(&mut self, cookie: u32, result: Result<Outcome, JobError>) {
        self.remove(cookie).answer(result);
    }

    /// The server does not do the request, because it shuts down: the next connection is asked. No copy of a write is left
    /// behind in a queue, for this is its answer.
    fn refused(&mut self, cookie: u32) {
        self.server_leaves = true;
        let mut task = self.remove(cookie);
        if task.reply.is_some() {
            task.extents.clear();
            task.extents_cut = false;
            self.waiting.push_front(task);
        } else if matches!(task.work.op, Op::Flush) {
            self.writes_lost = true;
        }
    }

    fn done(&mut self, cookie: u32, result: Result<(), JobError>) {
        let task = self.active.get_mut(cookie);
        if matches!(task.work.op, Op::Flush) {
            match result {
                Ok(()) => self.durable_through = self.durable_through.max(task.covers),
                // Nobody waits for this answer, and the server's next flush may succeed without what this one lost.
                Err(_) => self.writes_lost |= task.reply.is_none(),
            }
        }
        if let Err(error) = result {
            self.answer(cookie, Err(error));
            return;
        }
        task.done += task.asked;
        task.since = Instant::now();
        let outcome = match task.work.op {
            Op::Extents { .. } => Outcome::Extents(std::mem::take(&mut task.extents)),
            Op::Flush => Outcome::Done,
            op if op.range().is_some_and(|(_, len)| task.done < len) => {
                self.continued.push_back(cookie);
                return;
            }
            _ => Outcome::Done,
        };
        // A client that was told of a failure has nothing that a flush must make durable.
        if task.work.op.writes() && task.reply.is_some() {
            self.last_write += 1;
        }
        self.answer(cookie, Ok(outcome));
    }

    /// The buffer of a read in flight, from `offset` of the export on.
    fn destination(&self, cookie: u64, offset: u64, len: usize) -> Option<RawBuf> {
        let task = self.active.get(u32::try_from(cookie).ok()?)?;
        task.reply.as_ref()?;
        let Op::Read { offset: start, buf } = task.work.op else { return None };
        let skip = usize::try_from(offset.checked_sub(start)?).ok()?;
        (skip.checked_add(len)? <= buf.len()).then(|| buf.skip(skip).first(len))
    }
}

impl Task {
    fn answer(self, result: Result<Outcome, JobError>) {
        if let Some(reply) = self.reply {
            reply.send(result);
        }
    }
}

impl Sink for Jobs {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Data { cookie, offset, bytes } => {
                if let Some(to) = self.destination(cookie, offset, bytes.len()) {
                    // SAFETY: `destination` has the length of `bytes`, and is lent to this read alone.
                    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.as_ptr(), bytes.len()) };
                    self.copied.fetch_add(bytes.len() as u64, Relaxed);
                }
            }
            Event::Hole { cookie, offset, length } => {
                if let Some(to) = self.destination(cookie, offset, length as usize) {
                    // SAFETY: as above.
                    unsafe { std::ptr::write_bytes(to.as_ptr(), 0, to.len()) };
                }
            }
            Event::Extent { cookie, length, flags } => {
                let hole = NBD_STATE_HOLE | NBD_STATE_ZERO;
                let kind = if flags & hole == hole { ExtentKind::Hole } else { ExtentKind::Data };
                self.active.get_mut(number(cookie)).extend(Extent { len: u64::from(length), kind });
            }
            Event::Done { cookie, result: Err(failure) } if failure.errno == Errno::Shutdown => {
                self.refused(number(cookie));
            }
            Event::Done { cookie, result } => {
                let result = result.map_err(|failure| JobError::Os { errno: errno(failure.errno) });
                self.done(number(cookie), result);
            }
        }
    }

    fn place(&self, cookie: u64, offset: u64, len: u32) -> Option<RawBuf> {
        self.destination(cookie, offset, len as usize)
    }
}

impl Task {
    fn extend(&mut self, extent: Extent) {
        if self.extents_cut {
            return;
        }
        let full = self.extents.len() == EXTENTS_MAX;
        match self.extents.last_mut() {
            Some(last) if last.kind == extent.kind => last.len += extent.len,
            _ if full => self.extents_cut = true,
            _ => self.extents.push(extent),
        }
    }
}

/// The codec delivers events for cookies in flight only, and those are slab numbers.
fn number(cookie: u64) -> u32 {
    u32::try_from(cookie).expect("cookies are slab numbers")
}

/// The protocol's error numbers are Linux's by design, but not by definition.
fn errno(errno: Errno) -> i32 {
    match errno {
        Errno::Perm => libc::EPERM,
        Errno::Io => libc::EIO,
        Errno::NoMem => libc::ENOMEM,
        Errno::Inval => libc::EINVAL,
        Errno::NoSpc => libc::ENOSPC,
        Errno::Overflow => libc::EOVERFLOW,
        Errno::NotSup => libc::EOPNOTSUPP,
        Errno::Shutdown => libc::ESHUTDOWN,
    }
}
