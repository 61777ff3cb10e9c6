//! The thread that serves: requests of the kernel become requests to the daemon, its replies become answers.
//!
//! Data goes straight between the kernel's request and the buffers of the connection to the daemon.

use std::io;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use cards_admin::{Device, Notice, Word};
use cards_wire::nbd::consts::{NBD_CMD_FLAG_DF, NBD_FLAG_SEND_DF};
use cards_wire::nbd::{Command, Errno, Request};

use super::abi::Descriptor;
use super::queue::Queue;
use super::tags::{Pending, Tags};
use crate::inbox::{Inbox, Input};
use crate::link::{Lost, Payload, Reply};
use crate::poll;
use crate::session::Connected;
use crate::uplink::Uplink;

/// Buffers of WRITEs that are kept for the next ones.
const SPARE_MAX: usize = 16;

/// The thread's state.
pub(crate) struct Server {
    uplink: Uplink,
    queue: Queue,
    tags: Tags,
    /// Tags for which the kernel will have no requests any more.
    over: usize,
    inbox: Inbox,
    /// Where the volume is on this machine, once it is there.
    here: Option<Device>,
    ended: Arc<AtomicBool>,
    spare: Vec<Vec<u8>>,
}

impl Server {
    /// Serves the requests of `queue`, of `depth` tags.
    pub(crate) fn new(
        mut uplink: Uplink,
        (queue, depth): (Queue, u16),
        inbox: Inbox,
        daemon: Connected,
        ended: Arc<AtomicBool>,
    ) -> Self {
        uplink.take(Box::new(daemon));
        let (tags, over, here, spare) = (Tags::new(depth), 0, None, Vec::new());
        Self { uplink, queue, tags, over, inbox, here, ended, spare }
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
            if self.uplink.expires() {
                self.refuse_all()?;
            }
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
            if let Err(error) = self.uplink.send() {
                self.lose(&error);
            }
            self.uplink.reach()?;
        }
        Ok(())
    }

    fn wait(&self, ready: &mut Vec<bool>) {
        let mut descriptors = vec![(self.inbox.as_fd(), false), (self.queue.as_fd(), false)];
        descriptors.extend(self.uplink.descriptors());
        let limit = self.uplink.deadline().map(|end| end.saturating_duration_since(Instant::now()));
        poll::wait(&descriptors, limit, ready);
    }

    fn input(&mut self, input: Input) -> io::Result<()> {
        match input {
            Input::Connected(daemon) => self.connected(daemon)?,
            Input::NotConnected(error) => {
                if self.uplink.missed(&error) {
                    self.refuse_all()?;
                }
            }
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
            Ok(_) if self.uplink.is_refusing() => return self.queue.commit(tag, -libc::EIO),
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
        let Some(daemon) = &mut self.uplink.daemon else { return };
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
        let Some(mut daemon) = self.uplink.daemon.take() else { return Ok(()) };
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
        self.uplink.daemon = Some(daemon);
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

    /// Answers everything with EIO.
    fn refuse_all(&mut self) -> io::Result<()> {
        self.tags.all().into_iter().try_for_each(|tag| self.finish(tag, Some(libc::EIO)))
    }

    /// A daemon serves the volume.
    fn connected(&mut self, daemon: Box<Connected>) -> io::Result<()> {
        self.uplink.take(daemon);
        if self.uplink.is_refusing() {
            return self.refuse_all();
        }
        self.tell();
        for tag in self.tags.all() {
            self.ask(tag);
        }
        Ok(())
    }

    /// Tells the daemon where the volume is.
    fn tell(&mut self) {
        if let Some(here) = &self.here {
            self.uplink.say(&Word::Here(here.clone()));
        }
    }

    /// The connection to the daemon broke.
    fn lose(&mut self, why: &Lost) {
        self.uplink.lose(why);
        self.tags.lost();
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
