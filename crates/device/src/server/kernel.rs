//! The kernel's side of the server: what it asks of a file.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use cards_wire::nbd::consts::{NBD_FLAG_SEND_FLUSH, NBD_FLAG_SEND_TRIM, NBD_FLAG_SEND_WRITE_ZEROES};

use super::Server;
use super::keeping::Verdict;
use crate::fuse::{
    self, Channel, FOPEN_DIRECT_IO, FOPEN_KEEP_CACHE, FOPEN_PARALLEL_DIRECT_WRITES, Init, Operation, Request,
};
use crate::link::Payload;
use crate::requests::{Kind, Pending};
use crate::withdrawals::Cause;

/// Handles of open files: whether they use the kernel's pages.
const CACHED: u64 = 1;
const DIRECT: u64 = 2;

/// A payload up to this length, in bytes, is copied out of the buffer it was received in; a longer one takes the
/// buffer with it.
const COPIED_MAX: usize = 16 << 10;

impl Server {
    /// One request of the kernel.
    pub(super) fn requested(&mut self, Request { unique, operation }: Request) -> io::Result<()> {
        match operation {
            Operation::Init { major, minor, readahead_max, flags } => {
                let kernel = Init { minor, readahead_max, flags };
                match fuse::init(major, kernel) {
                    Some(answer) => self.channel.answer(unique, &answer),
                    None => {
                        self.channel.refuse(unique, libc::EPROTO);
                        let what =
                            format!("the kernel speaks FUSE {major}.{minor}; Linux 4.20 or later is needed");
                        return Err(io::Error::other(what));
                    }
                }
            }
            Operation::GetAttr => self.channel.answer(unique, &fuse::attributes(&self.settings.file)),
            Operation::SetAttr(change) => {
                // As with a block device: the size stays, and O_TRUNC means nothing. It comes as a change of size
                // without an open file.
                if change.open && change.size.is_some_and(|size| size != self.settings.file.size) {
                    self.channel.refuse(unique, libc::EINVAL);
                } else {
                    change.apply(&mut self.settings.file);
                    self.channel.answer(unique, &fuse::attributes(&self.settings.file));
                }
            }
            Operation::Open { flags } => self.open(unique, flags),
            Operation::Read { handle, offset, length, direct } => {
                self.read(unique, handle == CACHED && !direct, offset, length);
            }
            Operation::Write { offset, length } => self.write(unique, offset, length),
            Operation::Fsync => {
                if self.can(NBD_FLAG_SEND_FLUSH) {
                    self.start(Pending::new(unique, Kind::Flush, 0, 0));
                } else {
                    self.channel.answer(unique, &[]);
                }
            }
            Operation::Allocate { offset, length, mode } => self.allocate(unique, offset, length, mode),
            Operation::Release { handle } => {
                self.shared.open.fetch_sub(1, Ordering::Relaxed);
                if handle == CACHED && self.keeping.closed() {
                    self.withdrawals.withdraw_all(Cause::Closed);
                }
                self.channel.answer(unique, &[]);
            }
            Operation::Statistics => self.channel.answer(unique, &fuse::statistics(&self.settings.file)),
            Operation::Forget => {}
            Operation::Other => self.channel.refuse(unique, libc::ENOSYS),
        }
        Ok(())
    }

    /// Only files that are opened for reading use pages. So no page is ever dirty, and only READs lock pages.
    fn open(&mut self, unique: u64, flags: i32) {
        let reads = flags & libc::O_ACCMODE == libc::O_RDONLY;
        if !reads && self.settings.read_only {
            self.channel.refuse(unique, libc::EROFS);
        } else if !reads || flags & libc::O_DIRECT != 0 || self.settings.direct {
            self.opened(unique, DIRECT);
        } else if self.uplink.is_refusing() {
            self.channel.refuse(unique, libc::EIO);
        } else {
            self.opening.push(unique);
            self.want_pages();
        }
    }

    /// Answers the OPENs that wait.
    pub(super) fn opens(&mut self, verdict: Verdict) {
        let handle = match verdict {
            Verdict::Wait | Verdict::Clear => return,
            Verdict::Cached => CACHED,
            Verdict::Direct => DIRECT,
        };
        for unique in std::mem::take(&mut self.opening) {
            self.opened(unique, handle);
        }
        self.forbidden = handle == DIRECT && self.keeping.open() > 0;
        if self.forbidden {
            tracing::error!(
                "the daemon lets the kernel keep no pages any more, and files are open that need them: \
                 they fail with EIO; close and open them again"
            );
            for number in self.requests.all() {
                if self.requests.get(number).is_some_and(|one| one.kind == Kind::Read { cached: true }) {
                    self.fail(number, libc::EIO);
                }
            }
        }
    }

    fn opened(&mut self, unique: u64, handle: u64) {
        // Pages of other open files stay in any case.
        let mut flags = FOPEN_KEEP_CACHE;
        if handle == CACHED {
            self.keeping.opened();
        } else {
            flags |= FOPEN_DIRECT_IO | FOPEN_PARALLEL_DIRECT_WRITES;
        }
        self.shared.open.fetch_add(1, Ordering::Relaxed);
        self.channel.answer(unique, &fuse::open(handle, flags));
    }

    fn read(&mut self, unique: u64, cached: bool, offset: u64, length: u32) {
        let inside = self.inside(offset, length.into());
        if inside == 0 {
            return self.channel.answer(unique, &[]);
        }
        let pending = Pending::new(unique, Kind::Read { cached }, offset, inside);
        if cached && self.forbidden {
            return self.channel.refuse(unique, libc::EIO);
        }
        if !cached || self.uplink.is_refusing() {
            return self.start(pending);
        }
        let number = self.requests.insert(pending);
        // Pages are locked past the end, too.
        self.withdrawals.received(number, offset..offset.saturating_add(length.into()));
    }

    fn write(&mut self, unique: u64, offset: u64, length: u32) {
        if self.settings.read_only {
            return self.channel.refuse(unique, libc::EROFS);
        }
        let inside = self.inside(offset, length.into());
        if inside == 0 {
            let errno = if length == 0 { None } else { Some(libc::ENOSPC) };
            return match errno {
                Some(errno) => self.channel.refuse(unique, errno),
                None => self.channel.answer(unique, &fuse::write(0)),
            };
        }
        let (start, length) = (Request::PAYLOAD, inside as usize);
        let payload = if length <= COPIED_MAX {
            let bytes = self.buffer[start..start + length].to_vec();
            Payload { buffer: Arc::new(bytes), start: 0, length }
        } else {
            let next = self.spare.pop().unwrap_or_else(|| vec![0; Channel::BUFFER]);
            Payload { buffer: Arc::new(std::mem::replace(&mut self.buffer, next)), start, length }
        };
        let mut pending = Pending::new(unique, Kind::Write, offset, inside);
        pending.payload = Some(payload);
        self.start(pending);
    }

    fn allocate(&mut self, unique: u64, offset: u64, length: u64, mode: i32) {
        let hole = mode & libc::FALLOC_FL_PUNCH_HOLE != 0;
        let zeroes = hole || mode & libc::FALLOC_FL_ZERO_RANGE != 0;
        let known = libc::FALLOC_FL_KEEP_SIZE | libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_ZERO_RANGE;
        let inside = self.inside(offset, length);
        // Whoever punches holes, as a loop device does for what is discarded, wants space back: where there is none to be had, zeroes
        // would be written for nothing.
        let refused =
            zeroes && !self.can(NBD_FLAG_SEND_WRITE_ZEROES) || hole && !self.can(NBD_FLAG_SEND_TRIM);
        if mode & !known != 0 || refused {
            self.channel.refuse(unique, libc::EOPNOTSUPP);
        } else if self.settings.read_only {
            self.channel.refuse(unique, libc::EROFS);
        } else if inside < length && !hole {
            self.channel.refuse(unique, libc::ENOSPC);
        } else if zeroes && inside > 0 {
            self.start(Pending::new(unique, Kind::Zeroes { hole }, offset, inside));
        } else {
            self.channel.answer(unique, &[]);
        }
    }

    /// Asks the daemon, now or as soon as it is there.
    fn start(&mut self, pending: Pending) {
        if self.uplink.is_refusing() {
            return self.channel.refuse(pending.unique, libc::EIO);
        }
        let number = self.requests.insert(pending);
        self.ask(number);
    }

    /// Bytes of a range that lie within the volume.
    fn inside(&self, offset: u64, length: u64) -> u64 {
        self.settings.file.size.saturating_sub(offset).min(length)
    }

    /// Whether the volume's server announced `flag`.
    fn can(&self, flag: u16) -> bool {
        self.settings.flags & flag != 0
    }
}
