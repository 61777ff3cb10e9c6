//! One NBD connection to the daemon, after the handshake: requests go out in bulk, replies come in whole.

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use cards_wire::nbd::client::{Event, Outbox, Replies, ReplyError, SendError};
use cards_wire::nbd::consts::NBD_STRUCTURED_REPLY_MAGIC;
use cards_wire::nbd::{Errno, Request, Session};

use crate::fuse::IO_MAX;

/// Bytes of the receive buffer: a few of the longest replies.
const INPUT: usize = 4 << 20;
/// The longest chunk in bytes: the longest data and its offset, or an error with the longest message.
const CHUNK_MAX: usize = IO_MAX as usize + 64;
/// Bytes of a simple reply, and of a structured reply's header.
const SIMPLE: usize = 16;
const STRUCTURED: usize = 20;
/// A payload up to this length, in bytes, is copied behind its header: one slice less costs more than the copy.
const COPIED_MAX: usize = 16 << 10;

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Lost {
    /// The other end closed it.
    #[error("the daemon closed the connection")]
    Closed,
    /// The socket failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The replies make no sense.
    #[error(transparent)]
    Reply(#[from] ReplyError),
    /// More was asked than can be told apart.
    #[error(transparent)]
    Send(#[from] SendError),
    /// The daemon says goodbye.
    #[error("the daemon is shutting down")]
    ShuttingDown,
    /// It says something else than a notice.
    #[error("the daemon says {0:?}, which is no notice; are daemon and device of the same version?")]
    NoNotice(String),
    /// A chunk longer than any that was asked for.
    #[error("a reply chunk of {0} bytes, over the limit of {CHUNK_MAX}")]
    TooLong(usize),
}

/// What a reply says.
#[derive(Debug)]
pub(crate) enum Reply<'a> {
    /// A part of the data of a READ, for `offset` of the volume, when it comes in several; zeroes if `bytes` is
    /// none.
    Part { cookie: u64, offset: u64, length: usize, bytes: Option<&'a [u8]> },
    /// The request is over. `data` is what a READ still lacked, and where it belongs: all of it, unless there were
    /// parts.
    Done { cookie: u64, result: Result<(), Errno>, data: Option<(u64, &'a [u8])> },
}

/// Something to send.
#[derive(Debug)]
enum Segment {
    Bytes(Vec<u8>),
    /// The payload of a WRITE, from this byte of the buffer on.
    Shared(Arc<Vec<u8>>, usize, usize),
}

impl AsRef<[u8]> for Segment {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Shared(buffer, start, end) => &buffer[*start..*end],
        }
    }
}

/// The payload of a WRITE: a part of a shared buffer.
#[derive(Clone, Debug)]
pub(crate) struct Payload {
    pub(crate) buffer: Arc<Vec<u8>>,
    pub(crate) start: usize,
    pub(crate) length: usize,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Link {
    stream: UnixStream,
    replies: Replies,
    out: Outbox<Segment>,
    input: Vec<u8>,
    /// What is received and not used is `input[start..end]`.
    start: usize,
    end: usize,
}

impl Link {
    /// A connection whose handshake settled `session`, with structured replies.
    ///
    /// # Errors
    /// The socket cannot be set not to block.
    pub(crate) fn new(stream: UnixStream, session: &Session) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        let replies = Replies::new(session, usize::MAX);
        Ok(Self { stream, replies, out: Outbox::default(), input: vec![0; INPUT], start: 0, end: 0 })
    }

    /// Requests that are not answered.
    pub(crate) fn in_flight(&self) -> usize {
        self.replies.in_flight()
    }

    /// Whether something is left to send.
    pub(crate) fn is_behind(&self) -> bool {
        !self.out.is_empty()
    }

    /// Queues a request, whose cookie is not in use on this connection; [`Self::send`] sends it.
    ///
    /// # Errors
    /// The cookie is in use.
    pub(crate) fn ask(&mut self, request: &Request, payload: Option<&Payload>) -> Result<(), Lost> {
        self.replies.sent(request)?;
        if !matches!(self.out.last_mut(), Some(Segment::Bytes(bytes)) if bytes.len() < COPIED_MAX) {
            self.out.push(Segment::Bytes(Vec::new()));
        }
        let Some(Segment::Bytes(bytes)) = self.out.last_mut() else { return Ok(()) };
        bytes.extend_from_slice(&request.encode());
        if let Some(Payload { buffer, start, length }) = payload {
            if *length <= COPIED_MAX {
                bytes.extend_from_slice(&buffer[*start..start + length]);
            } else {
                self.out.push(Segment::Shared(buffer.clone(), *start, start + length));
            }
        }
        Ok(())
    }

    /// Sends as much as the socket takes.
    ///
    /// # Errors
    /// The connection broke.
    pub(crate) fn send(&mut self) -> Result<(), Lost> {
        Ok(self.out.send(|slices| (&self.stream).write_vectored(slices))?)
    }

    /// Receives what is there and gives every reply to `sink`.
    ///
    /// # Errors
    /// The connection broke, or the other end breaks the protocol.
    pub(crate) fn receive(&mut self, mut sink: impl FnMut(Reply<'_>)) -> Result<(), Lost> {
        loop {
            let room = self.input.len() - self.end;
            let read = match self.stream.read(&mut self.input[self.end..]) {
                Ok(0) => return Err(Lost::Closed),
                Ok(n) => n,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            };
            self.end += read;
            let wanted = self.deliver(&mut sink)?;
            self.make_room(wanted);
            if read < room {
                return Ok(());
            }
        }
    }

    /// Gives every whole reply to `sink`; the length of the one that is not whole yet, as far as it is known.
    fn deliver(&mut self, sink: &mut impl FnMut(Reply<'_>)) -> Result<usize, Lost> {
        loop {
            let received = &self.input[self.start..self.end];
            let length = length(received)?;
            if received.len() < length {
                return Ok(length);
            }
            let mut whole = &received[..length];
            let mut data = None;
            while let Some(event) = self.replies.advance(&mut whole)? {
                match event {
                    Event::Data { cookie, offset, bytes } => data = Some((cookie, offset, bytes)),
                    Event::Hole { cookie, offset, length } => {
                        sink(Reply::Part { cookie, offset, length: length as usize, bytes: None });
                    }
                    Event::Extent { .. } => {}
                    Event::Done { cookie, result } => {
                        let data = data.take().map(|(_, offset, bytes)| (offset, bytes));
                        sink(Reply::Done { cookie, result: result.map_err(|failure| failure.errno), data });
                    }
                }
            }
            if let Some((cookie, offset, bytes)) = data {
                sink(Reply::Part { cookie, offset, length: bytes.len(), bytes: Some(bytes) });
            }
            self.start += length;
        }
    }

    /// Moves what is left to the front if a reply of `wanted` bytes has no room behind it.
    fn make_room(&mut self, wanted: usize) {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.input.len() - self.start < wanted {
            self.input.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
    }
}

/// The length of the reply chunk that `received` starts with, or of what is needed to know it.
fn length(received: &[u8]) -> Result<usize, Lost> {
    if !received.starts_with(&NBD_STRUCTURED_REPLY_MAGIC.to_be_bytes()) {
        return Ok(SIMPLE);
    }
    let Some(length) = received.get(16..STRUCTURED).and_then(|bytes| bytes.try_into().ok()) else {
        return Ok(STRUCTURED);
    };
    match u32::from_be_bytes(length) as usize {
        length if length > CHUNK_MAX => Err(Lost::TooLong(length)),
        length => Ok(STRUCTURED + length),
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
