//! Requests and replies on one connection.

use std::io;

use cards_wire::nbd::client::{Event, Outbox, Ready, Replies, ReplyError};
use cards_wire::nbd::{Command, Request};
use tokio::io::{Interest, Ready as Readiness};

use super::stream::{Connection, Stream};
use crate::exec::ZEROES;
use crate::job::RawBuf;

/// Most requests in flight; what most servers work on at a time is less.
pub(super) const IN_FLIGHT_MAX: usize = 64;
/// Bytes of the receive buffer: many small replies in one call.
const INPUT: usize = 64 << 10;
/// From how many bytes on the rest of a payload is received straight into its place.
const STRAIGHT_MIN: u32 = 16 << 10;
/// Reads of one turn, so that requests and commands have their turn too.
const READS: usize = 16;

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum Lost {
    #[error("the server closed the connection")]
    Closed,
    #[error("the server did not answer in time")]
    Silent,
    #[error("the server shuts down")]
    Leaves,
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Reply(#[from] ReplyError),
}

/// Who takes the replies.
pub(super) trait Sink {
    /// The next thing the server said.
    fn event(&mut self, event: Event<'_>);
    /// Where the next `len` bytes of the export's `offset` belong, for request `cookie`; `None` to get them
    /// as events.
    fn place(&self, cookie: u64, offset: u64, len: u32) -> Option<RawBuf>;
}

/// Something to send.
#[derive(Debug)]
enum Segment {
    Header([u8; Request::SIZE]),
    /// The payload of request `cookie`, in its owner's memory.
    Lent {
        cookie: u64,
        buf: RawBuf,
    },
    /// A payload whose owner is gone.
    Kept(Vec<u8>),
    Zeroes(usize),
}

impl AsRef<[u8]> for Segment {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Header(bytes) => bytes,
            // SAFETY: the buffer is lent until its job's completion, which follows the reply, or until
            // `keep_payloads` replaced it; the source of a write is written by nobody.
            Self::Lent { buf, .. } => unsafe { std::slice::from_raw_parts(buf.as_ptr(), buf.len()) },
            Self::Kept(bytes) => bytes,
            Self::Zeroes(len) => &ZEROES[..*len],
        }
    }
}

/// What follows a request's header.
#[derive(Debug, Clone, Copy)]
pub(super) enum Payload {
    None,
    Bytes(RawBuf),
    /// At most the length of [`ZEROES`].
    Zeroes(usize),
}

/// One connection in its transmission phase.
#[derive(Debug)]
pub(super) struct Link {
    stream: Stream,
    pub(super) ready: Ready,
    replies: Replies,
    out: Outbox<Segment>,
    input: Box<[u8]>,
}

impl Link {
    pub(super) fn new(connection: Connection) -> Self {
        let Connection { stream, ready } = connection;
        let replies = Replies::new(&ready.session, IN_FLIGHT_MAX);
        Self { stream, ready, replies, out: Outbox::default(), input: vec![0; INPUT].into() }
    }

    pub(super) fn in_flight(&self) -> usize {
        self.replies.in_flight()
    }

    /// Queues a request; fewer than [`IN_FLIGHT_MAX`] are in flight and none has its cookie.
    pub(super) fn ask(&mut self, request: &Request, payload: Payload) {
        self.replies.sent(request).expect("cookies are slab numbers, and the caller counts");
        self.out.push(Segment::Header(request.encode()));
        match payload {
            Payload::None => {}
            Payload::Bytes(buf) => self.out.push(Segment::Lent { cookie: request.cookie, buf }),
            Payload::Zeroes(len) => self.out.push(Segment::Zeroes(len)),
        }
    }

    /// Says goodbye, as far as the socket takes it: the server need not report a lost client.
    pub(super) fn leave(&mut self) {
        let request = Request { flags: 0, command: Command::Disc, cookie: 0, offset: 0, length: 0 };
        self.out.push(Segment::Header(request.encode()));
        // The disk is closed either way.
        let _ = self.send();
    }

    /// Copies what is left to send of the payloads of `cookies`, so that their memory can go.
    pub(super) fn keep_payloads(&mut self, cookies: &[u64]) {
        for segment in self.out.iter_mut() {
            if matches!(segment, Segment::Lent { cookie, .. } if cookies.contains(cookie)) {
                *segment = Segment::Kept(segment.as_ref().to_vec());
            }
        }
    }

    /// Sends as much as the socket takes.
    pub(super) fn send(&mut self) -> Result<(), Lost> {
        Ok(self.out.send(|slices| self.stream.try_write_vectored(slices))?)
    }

    /// Waits until there is something to do.
    pub(super) async fn wait(&self) -> Result<Readiness, Lost> {
        let interest =
            if self.out.is_empty() { Interest::READABLE } else { Interest::READABLE | Interest::WRITABLE };
        Ok(self.stream.ready(interest).await?)
    }

    /// Receives what is there; large payloads straight into their place.
    pub(super) fn receive(&mut self, sink: &mut impl Sink) -> Result<(), Lost> {
        for _ in 0..READS {
            let straight = match self.replies.payload() {
                Some((cookie, offset, left)) if left >= STRAIGHT_MIN => sink.place(cookie, offset, left),
                _ => None,
            };
            let buf = match straight {
                // SAFETY: the destination of a read that is in flight is lent to it alone, and initialized.
                Some(place) => unsafe { std::slice::from_raw_parts_mut(place.as_ptr(), place.len()) },
                None => &mut self.input[..],
            };
            let n = match self.stream.try_read(buf) {
                Ok(0) => return Err(Lost::Closed),
                Ok(n) => n,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            };
            let mut received: &[u8] = if straight.is_some() {
                self.replies.received(u32::try_from(n).expect("no more than the payload's rest, a u32"));
                &[]
            } else {
                &self.input[..n]
            };
            while let Some(event) = self.replies.advance(&mut received)? {
                sink.event(event);
            }
        }
        Ok(())
    }
}
