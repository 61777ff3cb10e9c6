//! Jobs on an origin, as requests: one request of a job at a time, as many as its length needs.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use cards_wire::nbd::client::Event;
use cards_wire::nbd::consts::{NBD_STATE_HOLE, NBD_STATE_ZERO};
use cards_wire::nbd::{Command, Errno, Request};
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
    /// `None`: cancelled; its buffer must not be touched any more.
    reply: Option<Reply>,
    since: Instant,
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
    /// Writes were answered since the last flush was sent.
    unflushed: bool,
    /// Writes were answered before the flush that is in flight was sent.
    flushing: bool,
    /// A connection was lost with unflushed writes.
    writes_lost: bool,
    /// Bytes of reads copied out of the receive buffer.
    copied: Arc<AtomicU64>,
}

impl Jobs {
    pub(super) fn new(copied: Arc<AtomicU64>) -> Self {
        Self {
            waiting: VecDeque::new(),
            active: Slab::new(),
            continued: VecDeque::new(),
            cookies: BTreeSet::new(),
            unflushed: false,
            flushing: false,
            writes_lost: false,
            copied,
        }
    }

    pub(super) fn push(&mut self, work: Work, reply: Reply) {
        let (reply, since, extents) = (Some(reply), Instant::now(), Vec::new());
        self.waiting.push_back(Task { work, reply, since, done: 0, asked: 0, extents, extents_cut: false });
    }

    /// Answers everything of `mailbox` at once; afterwards its buffers are not used. Requests in flight go on
    /// without.
    pub(super) fn cancel(&mut self, mailbox: &Arc<Mailbox>, link: Option<&mut Link>) {
        let ours = |task: &Task| task.reply.as_ref().is_some_and(|reply| reply.is_for(mailbox));
        let (cancelled, waiting): (Vec<_>, Vec<_>) = self.waiting.drain(..).partition(ours);
        self.waiting = waiting.into();
        let mut replies: Vec<_> = cancelled.into_iter().filter_map(|task| task.reply).collect();
        let mut cookies = Vec::new();
        for &cookie in &self.cookies {
            let task = self.active.get_mut(cookie);
            if ours(task) {
                replies.extend(task.reply.take());
                cookies.push(u64::from(cookie));
            }
        }
        if let Some(link) = link {
            link.keep_payloads(&cookies);
        }
        for reply in replies {
            reply.send(Err(JobError::Os { errno: libc::ECANCELED }));
        }
    }

    /// Sends what may be sent.
    pub(super) fn issue(&mut self, link: &mut Link) {
        while link.in_flight() < IN_FLIGHT_MAX {
            let cookie = if let Some(cookie) = self.continued.pop_front() {
                cookie
            } else if let Some(task) = self.waiting.pop_front() {
                let cookie = self.active.insert(task);
                self.cookies.insert(cookie);
                cookie
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
                    self.answer(cookie, Err(JobError::Disconnected));
                }
                Plan::Ask { command, flags, offset, length, payload } => {
                    task.asked = u64::from(length);
                    if command == Command::Flush {
                        self.flushing |= std::mem::take(&mut self.unflushed);
                    }
                    link.ask(&Request { flags, command, cookie: u64::from(cookie), offset, length }, payload);
                }
            }
        }
    }

    /// The connection is gone; see the head of [`super`] for what becomes of the requests in flight.
    pub(super) fn connection_lost(&mut self) {
        self.writes_lost |= self.unflushed || self.flushing;
        (self.unflushed, self.flushing) = (false, false);
        self.continued.clear();
        // Backwards, so that the oldest is the first to be sent again.
        for cookie in std::mem::take(&mut self.cookies).into_iter().rev() {
            let mut task = self.active.remove(cookie);
            if task.reply.is_none() {
                continue;
            }
            if task.work.op.writes() {
                task.answer(Err(JobError::Disconnected));
            } else {
                // A flush too: if it had something to cover, `writes_lost` fails it.
                task.extents.clear();
                task.extents_cut = false;
                task.since = Instant::now();
                self.waiting.push_front(task);
            }
        }
    }

    /// While there is no connection: fails what has waited for `wait`, and says when to come back.
    pub(super) fn expire(&mut self, wait: Duration) -> Option<Instant> {
        let now = Instant::now();
        let mut next: Option<Instant> = None;
        let waiting = std::mem::take(&mut self.waiting);
        for task in waiting {
            let due = task.since + wait;
            if due <= now {
                task.answer(Err(JobError::Disconnected));
            } else {
                next = Some(next.map_or(due, |next| next.min(due)));
                self.waiting.push_back(task);
            }
        }
        next
    }

    /// Fails everything: the disk is closed.
    pub(super) fn close(&mut self) {
        self.connection_lost();
        self.expire(Duration::ZERO);
    }

    fn remove(&mut self, cookie: u32) -> Task {
        self.cookies.remove(&cookie);
        self.active.remove(cookie)
    }

    fn answer(&mut self, cookie: u32, result: Result<Outcome, JobError>) {
        self.remove(cookie).answer(result);
    }

    fn done(&mut self, cookie: u32, result: Result<(), JobError>) {
        let task = self.active.get_mut(cookie);
        match (&task.work.op, &result) {
            (Op::Flush, Ok(())) => self.flushing = false,
            (op, Ok(())) if op.writes() => self.unflushed = true,
            _ => {}
        }
        if let Err(error) = result {
            self.answer(cookie, Err(error));
            return;
        }
        task.done += task.asked;
        let outcome = match task.work.op {
            Op::Extents { .. } => Outcome::Extents(std::mem::take(&mut task.extents)),
            Op::Flush => Outcome::Done,
            op if op.range().is_some_and(|(_, len)| task.done < len) => {
                self.continued.push_back(cookie);
                return;
            }
            _ => Outcome::Done,
        };
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
