//! The thread that serves: requests of the kernel become requests to the daemon, its replies become answers.
//!
//! Data goes straight between the kernel's request and the buffers of the connection to the daemon.

use std::io;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cards_node::admin::{Device, Notice, Word};
use cards_wire::nbd::consts::{NBD_CMD_FLAG_DF, NBD_FLAG_SEND_DF};
use cards_wire::nbd::{Command, Errno, Request};

use super::abi::Descriptor;
use super::queue::Queue;
use super::tags::{Pending, Tags};
use crate::inbox::{Inbox, Input, Mailbox};
use crate::link::{Lost, Payload, Reply};
use crate::poll;
use crate::session::{Connected, Target, connect_again};

/// Buffers of WRITEs that are kept for the next ones.
const SPARE_MAX: usize = 16;

/// What a server is to serve, and how.
#[derive(Debug)]
pub(crate) struct Settings {
    /// Where the daemon is.
    pub(crate) target: Target,
    /// Bytes of the volume.
    pub(crate) size: u64,
    /// Nothing may be written.
    pub(crate) read_only: bool,
    /// How long requests wait for a daemon.
    pub(crate) give_up: Option<Duration>,
    /// Requests at a time.
    pub(crate) depth: u16,
}

/// The thread's state.
pub(crate) struct Server {
    settings: Settings,
    queue: Queue,
    tags: Tags,
    /// Tags for which the kernel will have no requests any more.
    over: usize,
    mailbox: Mailbox,
    inbox: Inbox,
    /// The daemon; none while it is gone.
    daemon: Option<Box<Connected>>,
    /// Since when it is gone.
    gone: Option<Instant>,
    /// Requests are answered with EIO: the daemon is gone for too long, or its volume is another one.
    refusing: bool,
    /// Where the volume is on this machine, once it is there.
    here: Option<Device>,
    ended: Arc<AtomicBool>,
    spare: Vec<Vec<u8>>,
}

impl Server {
    pub(crate) fn new(
        settings: Settings,
        queue: Queue,
        (mailbox, inbox): (Mailbox, Inbox),
        daemon: Connected,
        ended: Arc<AtomicBool>,
    ) -> Self {
        let tags = Tags::new(settings.depth);
        let (over, gone, refusing, here, spare) = (0, None, false, None, Vec::new());
        let daemon = Some(Box::new(daemon));
        Self { settings, queue, tags, over, mailbox, inbox, daemon, gone, refusing, here, ended, spare }
    }

    /// Serves until the disk is removed.
    ///
    /// # Errors
    /// The ring does not work, or the system gives no thread.
    pub(crate) fn run(mut self) -> io::Result<()> {
        let mut ready = Vec::new();
        // What is not answered then, the kernel has given up.
        while self.over < self.tags.idle() || self.over == 0 {
            self.wait(&mut ready);
            self.expire()?;
            self.inbox.clear();
            while let Some(input) = self.inbox.next() {
                self.input(input)?;
            }
            if ready.get(2..).is_some_and(|ready| ready.contains(&true)) {
                self.hear()?;
            }
            while let Some((tag, wanted)) = self.queue.next() {
                match wanted {
                    Ok(wanted) => self.requested(tag, &wanted)?,
                    Err(_) => self.over += 1,
                }
            }
            self.queue.send()?;
            self.send();
            self.reach()?;
        }
        Ok(())
    }

    fn wait(&self, ready: &mut Vec<bool>) {
        let mut descriptors = vec![(self.inbox.as_fd(), false), (self.queue.as_fd(), false)];
        if let Some(daemon) = &self.daemon {
            descriptors.push((daemon.watch.as_fd(), daemon.watch.is_behind()));
            descriptors.extend(daemon.links.iter().map(|link| (link.as_fd(), link.is_behind())));
        }
        let limit = self.deadline().map(|end| end.saturating_duration_since(Instant::now()));
        poll::wait(&descriptors, limit, ready);
    }

    /// When requests have waited for long enough.
    fn deadline(&self) -> Option<Instant> {
        match (self.gone, self.settings.give_up) {
            (Some(gone), Some(limit)) if !self.refusing => gone.checked_add(limit),
            _ => None,
        }
    }

    fn expire(&mut self) -> io::Result<()> {
        if self.deadline().is_some_and(|end| Instant::now() >= end) {
            let limit = self.settings.give_up.unwrap_or_default();
            tracing::error!(
                "no daemon for {limit:?}: requests fail with EIO from now on, until there is one"
            );
            self.refuse_all()?;
        }
        Ok(())
    }

    fn input(&mut self, input: Input) -> io::Result<()> {
        match input {
            Input::Connected(daemon) => self.connected(daemon)?,
            Input::NotConnected(error) => tracing::warn!("waiting for the daemon: {error}"),
            Input::Here(device) => {
                self.here = Some(device);
                self.tell();
            }
            // No page is kept coherent here, so nobody drops any.
            Input::Notified { .. } => {}
        }
        Ok(())
    }

    /// One request of the kernel.
    fn requested(&mut self, tag: u16, wanted: &Descriptor) -> io::Result<()> {
        let mut pending = match Pending::parse(wanted) {
            Ok(_) if self.refusing => return self.queue.commit(tag, -libc::EIO),
            Ok(pending) => pending,
            Err(errno) => return self.queue.commit(tag, -errno),
        };
        if pending.command == Command::Write {
            let length = pending.length as usize;
            let mut buffer = self.spare.pop().unwrap_or_default();
            if buffer.len() < length {
                // No longer than the limit that the kernel was told, 1 MiB.
                buffer.resize(length, 0);
            }
            if let Err(error) = self.queue.take(tag, &mut buffer[..length]) {
                tracing::error!("a WRITE of {length} bytes at {}: {error}", pending.offset);
                return self.queue.commit(tag, -libc::EIO);
            }
            pending.payload = Some(Payload { buffer: Arc::new(buffer), start: 0, length });
        }
        self.tags.insert(tag, pending);
        self.ask(tag);
        Ok(())
    }

    /// Asks the daemon for a request, if it is there.
    fn ask(&mut self, tag: u16) {
        let Some(daemon) = &mut self.daemon else { return };
        let cookie = self.tags.ask(tag);
        let Some(pending) = self.tags.get(tag) else { return };
        let Some(link) = daemon.links.iter_mut().min_by_key(|link| link.in_flight()) else { return };
        let whole = match pending.command {
            Command::Read if daemon.session.flags & NBD_FLAG_SEND_DF != 0 => NBD_CMD_FLAG_DF,
            _ => 0,
        };
        let Pending { command, flags, offset, length, .. } = *pending;
        let request = Request { flags: flags | whole, command, cookie, offset, length };
        if let Err(error) = link.ask(&request, pending.payload.as_ref()) {
            self.lose(&error);
        }
    }

    /// Takes what the daemon says.
    fn hear(&mut self) -> io::Result<()> {
        let Some(mut daemon) = self.daemon.take() else { return Ok(()) };
        let mut heard = Ok(());
        let mut answered = Ok(());
        for link in &mut daemon.links {
            let mut shutting_down = false;
            heard = heard.and_then(|()| {
                link.receive(|reply| match self.replied(reply) {
                    Ok(goodbye) => shutting_down |= goodbye,
                    Err(error) => answered = Err(error),
                })?;
                if shutting_down { Err(Lost::ShuttingDown) } else { Ok(()) }
            });
        }
        while heard.is_ok() {
            match daemon.watch.next() {
                // It was never told that pages are kept, so that there are none to withdraw.
                Ok(Some(Notice::Withdraw { id, .. })) => daemon.watch.say(&Word::Withdrawn { id }),
                Ok(Some(Notice::Keeping { .. } | Notice::Valid { .. })) => {}
                Ok(None) => break,
                Err(error) => heard = Err(error),
            }
        }
        self.daemon = Some(daemon);
        if let Err(error) = heard {
            self.lose(&error);
        }
        answered
    }

    /// Takes a reply; whether it says that the daemon is shutting down.
    fn replied(&mut self, reply: Reply<'_>) -> io::Result<bool> {
        match reply {
            Reply::Part { cookie, offset, length, bytes } => {
                if let Some(tag) = self.tags.asked(cookie) {
                    match bytes {
                        Some(bytes) => self.give(tag, offset, bytes)?,
                        None => self.give(tag, offset, &vec![0; length])?,
                    }
                }
            }
            Reply::Done { cookie, result, data } => {
                let Some(tag) = self.tags.asked(cookie) else { return Ok(false) };
                match result {
                    // Sent again to the next life of the daemon.
                    Err(Errno::Shutdown) => return Ok(true),
                    Err(error) => self.finish(tag, Some(errno(error)))?,
                    Ok(()) => {
                        if let Some((offset, bytes)) = data {
                            self.give(tag, offset, bytes)?;
                        }
                        // Unless that has failed.
                        if self.tags.get(tag).is_some() {
                            self.finish(tag, None)?;
                        }
                    }
                }
            }
        }
        Ok(false)
    }

    /// Passes on a part of a READ's data.
    fn give(&mut self, tag: u16, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let Some(pending) = self.tags.get(tag) else { return Ok(()) };
        let (start, length) = (pending.offset, u64::from(pending.length));
        // Further data would be that of another tag.
        let inside = offset.checked_sub(start).filter(|at| at.saturating_add(bytes.len() as u64) <= length);
        let given = match inside {
            Some(at) => self.queue.give(tag, at, bytes),
            None => Err(io::Error::other("the daemon answers with data of another place")),
        };
        given.or_else(|error| {
            tracing::error!("a READ of {length} bytes at {start}: {error}");
            self.finish(tag, Some(libc::EIO))
        })
    }

    /// Answers the kernel: all is done, or nothing, with this error.
    fn finish(&mut self, tag: u16, errno: Option<i32>) -> io::Result<()> {
        let Some(pending) = self.tags.remove(tag) else { return Ok(()) };
        let done = match pending.command {
            // At most 1 MiB.
            Command::Read | Command::Write => pending.length as i32,
            _ => 0,
        };
        if let Some(buffer) = pending.payload.and_then(|payload| Arc::try_unwrap(payload.buffer).ok())
            && self.spare.len() < SPARE_MAX
        {
            self.spare.push(buffer);
        }
        self.queue.commit(tag, errno.map_or(done, |errno| -errno))
    }

    /// Answers everything with EIO, until there is a daemon.
    fn refuse_all(&mut self) -> io::Result<()> {
        self.refusing = true;
        self.tags.all().into_iter().try_for_each(|tag| self.finish(tag, Some(libc::EIO)))
    }

    /// A daemon serves the volume.
    fn connected(&mut self, daemon: Box<Connected>) -> io::Result<()> {
        let (size, read_only) = (daemon.session.size, daemon.session.read_only());
        if (size, read_only) != (self.settings.size, self.settings.read_only) {
            tracing::error!(
                "the volume has {size} bytes now and had {}, read-only {read_only} and was {}: requests fail with \
                 EIO from now on; detach it and attach it again",
                self.settings.size,
                self.settings.read_only
            );
            return self.refuse_all();
        }
        if let Some(gone) = self.gone.take() {
            tracing::info!("the daemon is back after {:?}", gone.elapsed());
        }
        self.refusing = false;
        self.daemon = Some(daemon);
        self.tell();
        for tag in self.tags.all() {
            self.ask(tag);
        }
        Ok(())
    }

    /// Tells the daemon where the volume is.
    fn tell(&mut self) {
        if let (Some(daemon), Some(here)) = (&mut self.daemon, &self.here) {
            daemon.watch.say(&Word::Here(here.clone()));
        }
    }

    /// The connection to the daemon broke.
    fn lose(&mut self, why: &Lost) {
        if self.daemon.take().is_some() {
            tracing::warn!("the daemon is gone ({why}); requests wait for it");
        }
        self.tags.lost();
    }

    /// Sends what was queued.
    fn send(&mut self) {
        let Some(daemon) = &mut self.daemon else { return };
        let mut done: Result<(), Lost> = daemon.watch.send();
        for link in &mut daemon.links {
            done = done.and_then(|()| link.send());
        }
        if let Err(error) = done {
            self.lose(&error);
        }
    }

    /// Looks for a daemon if it has just been lost.
    fn reach(&mut self) -> io::Result<()> {
        if self.daemon.is_some() || self.gone.is_some() {
            return Ok(());
        }
        self.gone = Some(Instant::now());
        connect_again(self.settings.target.clone(), self.mailbox.clone(), self.ended.clone())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
    }
}

/// The error number that the block layer tells apart; any other is EIO to it.
fn errno(error: Errno) -> i32 {
    match error {
        Errno::NoSpc => libc::ENOSPC,
        Errno::NotSup => libc::EOPNOTSUPP,
        Errno::NoMem => libc::ENOMEM,
        Errno::Perm | Errno::Io | Errno::Inval | Errno::Overflow | Errno::Shutdown => libc::EIO,
    }
}
