use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use cards_wire::nbd::{Command, Request};

use super::{Mode, Options, Pattern};
use crate::content;
use crate::nbd::{self, Event, Export, ProtocolError, Replies, ReplyParser};
use crate::stats::Latencies;
use crate::{Address, Uri};

/// How long a server may take for the handshake.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(20);
/// Replies taken from the socket by one `read`.
const RECEIVE_BYTES: usize = 1 << 20;

trait Stream: Read + Write + AsRawFd {}
impl Stream for TcpStream {}
impl Stream for UnixStream {}

/// One connection with its slots, send buffer and unfinished reply.
pub(super) struct Connection {
    stream: Box<dyn Stream>,
    /// What the server said about the export.
    pub(super) export: Export,
    parser: ReplyParser,
    slots: Slots,
    /// Requests not yet accepted by the socket: `out[sent..]`.
    out: Vec<u8>,
    sent: usize,
    /// Received bytes: `received[..held]` is the start of a header that has not fully arrived.
    received: Box<[u8]>,
    held: usize,
    issued: u64,
    exhausted: bool,
}

struct Slots {
    table: Vec<Slot>,
    free: Vec<u32>,
    block: u32,
    reads: bool,
    verify: bool,
    latencies: Latencies,
    completed: u64,
    now: Instant,
}

#[derive(Clone, Copy)]
struct Slot {
    sent_at: Option<Instant>,
    offset: u64,
    /// Bytes of the read that arrived.
    filled: u32,
}

impl Connection {
    /// Connects and reaches the transmission phase.
    pub(super) fn open(uri: &Uri, options: &Options) -> Result<Connection, ProtocolError> {
        let (stream, export): (Box<dyn Stream>, Export) = match &uri.address {
            Address::Unix(path) => {
                let mut stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(HANDSHAKE_LIMIT))?;
                let export = nbd::handshake(&mut stream, &uri.export, options.structured)?;
                stream.set_nonblocking(true)?;
                (Box::new(stream), export)
            }
            Address::Tcp(host, port) => {
                let mut stream = TcpStream::connect((host.as_str(), *port))?;
                stream.set_read_timeout(Some(HANDSHAKE_LIMIT))?;
                stream.set_nodelay(true)?;
                let export = nbd::handshake(&mut stream, &uri.export, options.structured)?;
                stream.set_nonblocking(true)?;
                (Box::new(stream), export)
            }
        };
        let slots = Slots {
            table: vec![Slot { sent_at: None, offset: 0, filled: 0 }; options.depth],
            free: (0..options.depth as u32).rev().collect(),
            block: options.block,
            reads: options.mode == Mode::Read,
            verify: options.verify,
            latencies: Latencies::new(),
            completed: 0,
            now: Instant::now(),
        };
        Ok(Connection {
            stream,
            export,
            parser: ReplyParser::default(),
            slots,
            out: Vec::new(),
            sent: 0,
            received: vec![0; RECEIVE_BYTES].into_boxed_slice(),
            held: 0,
            issued: 0,
            exhausted: false,
        })
    }

    pub(super) fn fd(&self) -> RawFd {
        self.stream.as_raw_fd()
    }

    /// Requests without a reply.
    pub(super) fn outstanding(&self) -> usize {
        self.slots.table.len() - self.slots.free.len()
    }

    /// Nothing outstanding and nothing left to ask.
    pub(super) fn is_finished(&self) -> bool {
        self.exhausted && self.outstanding() == 0
    }

    /// Whether the socket did not accept everything.
    pub(super) fn wants_write(&self) -> bool {
        self.sent < self.out.len()
    }

    /// Answered requests and their latencies.
    pub(super) fn results(self) -> (u64, Latencies) {
        (self.slots.completed, self.slots.latencies)
    }

    /// Issues no more requests.
    pub(super) fn stop(&mut self) {
        self.exhausted = true;
    }

    /// Fills all free slots, then sends as much as the socket takes.
    pub(super) fn send(&mut self, pattern: &mut Pattern) -> Result<(), ProtocolError> {
        if !self.wants_write() {
            self.out.clear();
            self.sent = 0;
        }
        if !self.exhausted && !self.slots.free.is_empty() {
            self.fill(pattern);
        }
        self.flush()
    }

    fn fill(&mut self, pattern: &mut Pattern) {
        let now = Instant::now();
        let command = if self.slots.reads { Command::Read } else { Command::Write };
        while let Some(&index) = self.slots.free.last() {
            let Some(offset) = pattern.offset(self.issued) else {
                self.exhausted = true;
                return;
            };
            self.slots.free.pop();
            self.issued += 1;
            self.slots.table[index as usize] = Slot { sent_at: Some(now), offset, filled: 0 };
            nbd::append_request(&mut self.out, command, u64::from(index), offset, self.slots.block);
            if !self.slots.reads {
                content::append(&mut self.out, offset, self.slots.block as usize);
            }
        }
    }

    fn flush(&mut self) -> Result<(), ProtocolError> {
        while self.sent < self.out.len() {
            match self.stream.write(&self.out[self.sent..]) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::WriteZero).into()),
                Ok(len) => self.sent += len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Takes what arrived; returns whether anything did.
    pub(super) fn receive(&mut self) -> Result<bool, ProtocolError> {
        let len = match self.stream.read(&mut self.received[self.held..]) {
            Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            Ok(len) => len,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                return Ok(false);
            }
            Err(error) => return Err(error.into()),
        };
        self.slots.now = Instant::now();
        let end = self.held + len;
        let used = self.parser.feed(&self.received[..end], &mut self.slots)?;
        self.received.copy_within(used..end, 0);
        self.held = end - used;
        Ok(true)
    }

    /// Says goodbye; whether the server still listens does not matter.
    pub(super) fn disconnect(&mut self) {
        let mut request = Vec::with_capacity(Request::SIZE);
        nbd::append_request(&mut request, Command::Disc, 0, 0, 0);
        let _ = self.stream.write(&request);
    }
}

impl Slots {
    fn outstanding(&mut self, cookie: u64) -> Result<&mut Slot, ProtocolError> {
        usize::try_from(cookie)
            .ok()
            .and_then(|index| self.table.get_mut(index))
            .filter(|slot| slot.sent_at.is_some())
            .ok_or(ProtocolError::Unexpected { what: "no such request is outstanding", cookie })
    }

    /// Counts bytes of a read that arrived for `cookie`.
    fn arrived(&mut self, cookie: u64, at: u64, absolute: bool, len: usize) -> Result<u64, ProtocolError> {
        let block = self.block;
        let slot = self.outstanding(cookie)?;
        let offset = if absolute { at } else { slot.offset + at };
        let inside = offset >= slot.offset && offset + len as u64 <= slot.offset + u64::from(block);
        if !inside || len > (block - slot.filled) as usize {
            return Err(ProtocolError::Unexpected { what: "data outside of what was asked for", cookie });
        }
        slot.filled += len as u32;
        Ok(offset)
    }
}

impl Replies for Slots {
    fn data_len(&self, cookie: u64) -> Result<u32, ProtocolError> {
        let known = self.table.get(cookie as usize).is_some_and(|slot| slot.sent_at.is_some());
        if !known {
            return Err(ProtocolError::Unexpected { what: "no such request is outstanding", cookie });
        }
        Ok(if self.reads { self.block } else { 0 })
    }

    fn event(&mut self, event: Event<'_>) -> Result<(), ProtocolError> {
        match event {
            Event::Data { cookie, at, absolute, bytes } => {
                let offset = self.arrived(cookie, at, absolute, bytes.len())?;
                if self.verify && !content::matches(offset, bytes) {
                    return Err(ProtocolError::Content { offset, len: bytes.len() });
                }
            }
            Event::Hole { cookie, at, len } => {
                let offset = self.arrived(cookie, at, true, len as usize)?;
                if self.verify {
                    return Err(ProtocolError::Content { offset, len: len as usize });
                }
            }
            Event::Done { cookie, error } => {
                let (now, block, reads) = (self.now, self.block, self.reads);
                let slot = self.outstanding(cookie)?;
                let offset = slot.offset;
                if error != 0 {
                    return Err(ProtocolError::Failed { error, offset, len: block });
                }
                if reads && slot.filled != block {
                    return Err(ProtocolError::Unexpected { what: "a read without all of its data", cookie });
                }
                let sent_at = slot.sent_at.take().expect("outstanding slots have a send time");
                self.latencies.record(now.saturating_duration_since(sent_at).as_nanos() as u64);
                self.completed += 1;
                self.free.push(cookie as u32);
            }
        }
        Ok(())
    }
}
