//! The daemon's side of the server: asking, replies, notices, loss and return.

use std::io;
use std::ops::Range;
use std::time::{Duration, Instant};

use cards_admin::{Notice, Word};
use cards_wire::nbd::consts::{NBD_CMD_FLAG_DF, NBD_CMD_FLAG_NO_HOLE, NBD_FLAG_SEND_DF};
use cards_wire::nbd::{Command, Errno, Request};

use super::keeping::{Say, Verdict};
use super::{RETRY, SPARE_MAX, Server, TAKEN, Validity};
use crate::fuse::write;
use crate::link::{Lost, Reply};
use crate::requests::{Kind, take_back};
use crate::session::Connected;
use crate::withdrawals::{Cause, Output};

/// Zeroes asked for at a time, in bytes.
const ZEROES_MAX: u64 = 1 << 30;
/// See [`patience`]: half of the first, and the longest, which is far less than any lease.
const PATIENCE: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(64));

impl Server {
    /// A daemon serves the volume.
    pub(super) fn connected(&mut self, daemon: Box<Connected>) {
        self.uplink.take(daemon);
        if self.uplink.is_refusing() {
            return self.refuse_all();
        }
        self.uplink.say(&Word::Here(self.here.clone()));
        if self.keeping.open() > 0 || !self.opening.is_empty() {
            self.want_pages();
        }
        for number in self.requests.all() {
            let cached = self.requests.get(number).is_some_and(|one| one.kind == Kind::Read { cached: true });
            if !cached {
                self.ask(number);
            }
        }
    }

    /// The connection to the daemon broke.
    pub(super) fn lose(&mut self, why: &Lost) {
        self.uplink.lose(why);
        self.valid = None;
        self.requests.lost();
        self.withdrawals.lost();
        self.keeping.lost();
        self.dropped();
    }

    fn keeps(&mut self, say: Say) {
        if let Say::Keeps(pages) = say {
            self.uplink.say(&Word::Keeps { pages });
        }
    }

    /// Asks the daemon whether the kernel may keep pages; the answer goes to the OPENs that wait.
    pub(super) fn want_pages(&mut self) {
        let Some(daemon) = &self.uplink.daemon else { return };
        if !daemon.watching.coherent {
            return self.opens(Verdict::Direct);
        }
        // Pages of the daemon's last life are dropped first.
        if self.withdrawals.is_dropping() && !self.keeping.agreed() {
            return;
        }
        match self.lock.take() {
            Ok(true) => {}
            Ok(false) => {
                self.retry = Some(Instant::now() + RETRY);
                return;
            }
            Err(error) => {
                tracing::error!("{error}; the kernel keeps no pages");
                return self.opens(Verdict::Direct);
            }
        }
        let say = self.keeping.wanted();
        self.keeps(say);
        if self.keeping.agreed() {
            self.opens(Verdict::Cached);
        }
    }

    /// Takes what the daemon says.
    pub(super) fn hear(&mut self) {
        let Some(mut daemon) = self.uplink.daemon.take() else { return };
        let mut heard = Ok(());
        for link in &mut daemon.links {
            let mut shutting_down = false;
            heard = heard.and_then(|()| {
                link.receive(|reply| shutting_down |= self.replied(reply))?;
                if shutting_down { Err(Lost::ShuttingDown) } else { Ok(()) }
            });
        }
        while heard.is_ok() {
            match daemon.watch.next() {
                Ok(Some(notice)) => {
                    // What is said in return goes to this daemon.
                    self.uplink.daemon = Some(daemon);
                    self.noticed(notice);
                    match self.uplink.daemon.take() {
                        Some(same) => daemon = same,
                        None => return,
                    }
                }
                Ok(None) => break,
                Err(error) => heard = Err(error),
            }
        }
        self.uplink.daemon = Some(daemon);
        if let Err(error) = heard {
            self.lose(&error);
        }
    }

    fn noticed(&mut self, notice: Notice) {
        match notice {
            Notice::Withdraw { id, ranges } => {
                let range = |(offset, length): (u64, u64)| offset..offset.saturating_add(length);
                let ranges: Vec<_> = ranges.into_iter().map(range).collect();
                self.withdrawals.withdraw(Cause::Daemon(id), &ranges);
            }
            Notice::Keeping { pages } => {
                let verdict = self.keeping.answered(pages);
                if verdict == Verdict::Clear {
                    // Mappings of files that are open for writing fill pages, too, and nobody withdrew those.
                    self.withdrawals.withdraw_all(Cause::Opening);
                }
                self.opens(verdict);
            }
            Notice::Valid { for_ms } => {
                if self.keeping.granted() {
                    let end = for_ms.map(|ms| Instant::now() + Duration::from_millis(ms.min(1 << 32)));
                    self.valid = Some(end.map_or(Validity::Ever, Validity::For));
                    self.withdrawals.valid();
                }
            }
        }
    }

    /// Takes a reply; whether it says that the daemon is shutting down.
    fn replied(&mut self, reply: Reply<'_>) -> bool {
        match reply {
            Reply::Part { cookie, offset, length, bytes } => {
                if let Some((number, true)) = self.requests.asked(cookie)
                    && let Some(pending) = self.requests.get(number)
                {
                    pending.assemble(offset, length, bytes);
                }
            }
            Reply::Done { cookie, result, data } => {
                let Some((number, last)) = self.requests.replied(cookie) else { return false };
                if !last {
                    // Only READs of pages are asked for again before there is an answer.
                    self.withdrawals.replied(number, last);
                    return false;
                }
                match result {
                    // Sent again to the next life of the daemon.
                    Err(Errno::Shutdown) => return true,
                    Err(error) => self.fail(number, errno(error)),
                    Ok(()) => self.succeed(number, data),
                }
            }
        }
        false
    }

    /// Answers the kernel.
    fn succeed(&mut self, number: usize, data: Option<(u64, &[u8])>) {
        let Some(pending) = self.requests.get(number) else { return };
        match pending.kind {
            Kind::Read { cached } => {
                if cached && !self.withdrawals.replied(number, true) {
                    return;
                }
                match (&mut pending.assembled, data) {
                    (None, Some((_, bytes))) => self.channel.answer(pending.unique, bytes),
                    (None, None) => self.channel.answer(pending.unique, &[]),
                    (Some(_), data) => {
                        if let Some((offset, bytes)) = data {
                            pending.assemble(offset, bytes.len(), Some(bytes));
                        }
                        self.channel.answer(pending.unique, pending.assembled.as_deref().unwrap_or_default());
                    }
                }
                if cached {
                    let now = Instant::now();
                    let pages = pending.offset..pending.offset + pending.length;
                    while self.filled.pop_front_if(|(at, _)| *at + TAKEN <= now).is_some() {}
                    self.filled.push_back((now, pages));
                    self.withdrawals.answered(number);
                }
            }
            Kind::Write => self.channel.answer(pending.unique, &write(pending.length as u32)),
            Kind::Flush => self.channel.answer(pending.unique, &[]),
            Kind::Zeroes { .. } => {
                pending.done += (pending.length - pending.done).min(ZEROES_MAX);
                if pending.done < pending.length {
                    // Not from here: the connection that replies is busy with it.
                    self.unasked.push(number);
                    return;
                }
                self.channel.answer(pending.unique, &[]);
            }
        }
        self.finish(number);
    }

    /// Answers the kernel with an error.
    pub(super) fn fail(&mut self, number: usize, errno: i32) {
        let Some(pending) = self.requests.get(number) else { return };
        self.channel.refuse(pending.unique, errno);
        if pending.kind == (Kind::Read { cached: true }) {
            self.withdrawals.answered(number);
        }
        self.finish(number);
    }

    /// When those who wait for pages of `range` have had the time to take them.
    fn taken(&self, range: &Range<u64>) -> Instant {
        let overlaps = |pages: &Range<u64>| pages.start < range.end && range.start < pages.end;
        let last = self.filled.iter().rev().find(|(_, pages)| overlaps(pages));
        last.map_or_else(Instant::now, |(at, _)| *at + TAKEN)
    }

    fn finish(&mut self, number: usize) {
        self.awaited.remove(&number);
        if let Some(buffer) = self.requests.remove(number).and_then(take_back)
            && self.spare.len() < SPARE_MAX
            && buffer.len() == self.buffer.len()
        {
            self.spare.push(buffer);
        }
    }

    /// Answers everything with EIO.
    pub(super) fn refuse_all(&mut self) {
        for number in self.requests.all() {
            self.fail(number, libc::EIO);
        }
        for unique in std::mem::take(&mut self.opening) {
            self.channel.refuse(unique, libc::EIO);
        }
    }

    /// Asks the daemon for a request, if it is there.
    pub(super) fn ask(&mut self, number: usize) {
        let Some(daemon) = &mut self.uplink.daemon else { return };
        let cookie = self.requests.ask(number);
        let Some(pending) = self.requests.get(number) else { return };
        let Some(link) = daemon.links.iter_mut().min_by_key(|link| link.in_flight()) else { return };
        let whole = daemon.session.flags & NBD_FLAG_SEND_DF;
        let (command, flags) = match pending.kind {
            Kind::Read { .. } if whole != 0 => (Command::Read, NBD_CMD_FLAG_DF),
            Kind::Read { .. } => (Command::Read, 0),
            Kind::Write => (Command::Write, 0),
            Kind::Flush => (Command::Flush, 0),
            Kind::Zeroes { hole: true } => (Command::WriteZeroes, 0),
            Kind::Zeroes { hole: false } => (Command::WriteZeroes, NBD_CMD_FLAG_NO_HOLE),
        };
        let left = pending.length - pending.done;
        // READs and WRITEs are far shorter.
        let length = left.min(ZEROES_MAX) as u32;
        let request = Request { flags, command, cookie, offset: pending.offset + pending.done, length };
        if let Err(error) = link.ask(&request, pending.payload.as_ref()) {
            self.lose(&error);
        }
    }

    /// Does what the withdrawals ask for.
    pub(super) fn settle(&mut self) -> io::Result<()> {
        for number in std::mem::take(&mut self.unasked) {
            self.ask(number);
        }
        while let Some(output) = self.withdrawals.poll() {
            match output {
                Output::Ask(number) => self.ask(number),
                Output::Notify { token, range } => {
                    let start = self.taken(&range);
                    self.notifiers.notify(token, range, start)?;
                }
                Output::Await { read, voided } => {
                    self.awaited.insert(read, Instant::now() + patience(voided));
                }
                Output::Done(Cause::Daemon(id)) => self.uplink.say(&Word::Withdrawn { id }),
                Output::Done(Cause::Opening) => {
                    let verdict = self.keeping.cleared();
                    self.opens(verdict);
                }
                Output::Done(Cause::Closed) => {
                    let say = self.keeping.dropped(!self.opening.is_empty());
                    if say != Say::Nothing {
                        self.valid = None;
                        self.withdrawals.lapsed();
                    }
                    self.keeps(say);
                    self.dropped();
                }
                Output::Done(Cause::Nobody) => self.dropped(),
            }
        }
        Ok(())
    }
}

impl Server {
    /// Pages were dropped that nobody waited for.
    fn dropped(&mut self) {
        if self.withdrawals.is_dropping() || self.keeping.told() {
            return;
        }
        self.lock.release();
        if self.keeping.open() > 0 || !self.opening.is_empty() {
            self.want_pages();
        }
    }
}

/// How long a withdrawal waits for the answer to a READ of which so many were thrown away.
fn patience(voided: u32) -> Duration {
    PATIENCE.0.saturating_mul(1 << voided.min(16)).min(PATIENCE.1)
}

/// The platform's number of a protocol's error.
fn errno(error: Errno) -> i32 {
    match error {
        Errno::Perm => libc::EPERM,
        Errno::Io | Errno::Shutdown => libc::EIO,
        Errno::NoMem => libc::ENOMEM,
        Errno::Inval => libc::EINVAL,
        Errno::NoSpc => libc::ENOSPC,
        Errno::Overflow => libc::EOVERFLOW,
        Errno::NotSup => libc::EOPNOTSUPP,
    }
}
