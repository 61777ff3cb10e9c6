//! A small NBD client of one volume: requests in flight, and the memory that their data lands in.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cards_wire::nbd::client::{Event, OpenError, Replies, open};
use cards_wire::nbd::{Command, Request, Session};

use super::DemoError;

/// Most bytes of a request.
pub(super) const REQUEST: u32 = 256 << 10;
/// A daemon that says nothing for this long is stuck.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// A finished read.
pub(super) struct Chunk {
    pub(super) offset: u64,
    pub(super) data: Vec<u8>,
}

/// One request in flight; its number is the request's cookie.
struct Slot {
    command: Command,
    offset: u64,
    length: u32,
    /// Of a read, as long as it is.
    data: Vec<u8>,
}

/// A connection to the export `disk` of a daemon.
pub(super) struct Connection {
    path: PathBuf,
    stream: UnixStream,
    replies: Replies,
    slots: Vec<Slot>,
    free: Vec<usize>,
    /// Requests that have ended.
    ended: VecDeque<usize>,
    /// Memory for reads to come.
    spare: Vec<Vec<u8>>,
    out: Vec<u8>,
    input: Vec<u8>,
}

impl Connection {
    /// Connects to `disk` at `path`, for at most `depth` requests in flight.
    pub(super) fn open(path: &Path, depth: usize) -> Result<(Self, Session), DemoError> {
        let io = |source| DemoError::Socket { path: path.into(), source };
        let mut stream = UnixStream::connect(path).map_err(io)?;
        stream.set_read_timeout(Some(SILENCE_MAX)).map_err(io)?;
        stream.set_write_timeout(Some(SILENCE_MAX)).map_err(io)?;
        let failed = |error| match error {
            OpenError::Io(source) => io(source),
            OpenError::Handshake(source) => DemoError::Handshake { path: path.into(), source },
            OpenError::Closed => DemoError::Closed { path: path.into() },
        };
        let session = open(&mut stream, "disk").map_err(failed)?.session;
        let slot = || Slot { command: Command::Read, offset: 0, length: 0, data: Vec::new() };
        let connection = Self {
            path: path.into(),
            stream,
            replies: Replies::new(&session, depth),
            slots: (0..depth).map(|_| slot()).collect(),
            free: (0..depth).collect(),
            ended: VecDeque::with_capacity(depth),
            spare: Vec::new(),
            out: Vec::new(),
            input: vec![0; 64 << 10],
        };
        Ok((connection, session))
    }

    pub(super) fn in_flight(&self) -> usize {
        self.replies.in_flight()
    }

    /// Queues one read.
    pub(super) fn ask(&mut self, offset: u64, length: u32) -> Result<(), DemoError> {
        let mut data = self.spare.pop().unwrap_or_default();
        data.resize(length as usize, 0);
        self.queue(Command::Read, offset, length, data)
    }

    /// Queues one request; fewer than `depth` are in flight.
    fn queue(&mut self, command: Command, offset: u64, length: u32, data: Vec<u8>) -> Result<(), DemoError> {
        let slot =
            self.free.pop().expect("a slot is free whenever fewer than `depth` requests are in flight");
        let request = Request { flags: 0, command, cookie: slot as u64, offset, length };
        self.slots[slot] = Slot { command, offset, length, data };
        self.replies
            .sent(&request)
            .map_err(|source| DemoError::Request { path: self.path.clone(), source })?;
        self.out.extend_from_slice(&request.encode());
        Ok(())
    }

    /// Sends what is queued.
    pub(super) fn send(&mut self) -> Result<(), DemoError> {
        let sent = self.stream.write_all(&self.out);
        self.out.clear();
        sent.map_err(|source| DemoError::Socket { path: self.path.clone(), source })
    }

    /// Waits for some bytes, payload straight into its slot, and takes what they finish.
    pub(super) fn receive(&mut self) -> Result<(), DemoError> {
        if let Some((cookie, offset, left)) = self.replies.payload() {
            // The replies check each cookie and range against the requests.
            let slot = &mut self.slots[cookie as usize];
            let start = (offset - slot.offset) as usize;
            let bytes =
                read_some(&mut self.stream, &mut slot.data[start..start + left as usize], &self.path)?;
            self.replies.received(bytes as u32);
            return self.take(0);
        }
        let bytes = read_some(&mut self.stream, &mut self.input, &self.path)?;
        self.take(bytes)
    }

    /// Follows the replies in the first `bytes` of the input.
    fn take(&mut self, bytes: usize) -> Result<(), DemoError> {
        let mut input = &self.input[..bytes];
        loop {
            let event = self.replies.advance(&mut input);
            match event.map_err(|source| DemoError::Reply { path: self.path.clone(), source })? {
                None => return Ok(()),
                Some(Event::Data { cookie, offset, bytes }) => {
                    let slot = &mut self.slots[cookie as usize];
                    let start = (offset - slot.offset) as usize;
                    slot.data[start..start + bytes.len()].copy_from_slice(bytes);
                }
                Some(Event::Hole { cookie, offset, length }) => {
                    let slot = &mut self.slots[cookie as usize];
                    let start = (offset - slot.offset) as usize;
                    slot.data[start..start + length as usize].fill(0);
                }
                Some(Event::Extent { .. }) => {}
                Some(Event::Done { cookie, result }) => {
                    let number = cookie as usize;
                    let Slot { command, offset, length, .. } = self.slots[number];
                    if let Err(failure) = result {
                        self.free.push(number);
                        let reason = format!("{:?} {}", failure.errno, failure.message);
                        let (path, reason) = (self.path.clone(), reason.trim_end().into());
                        let what = if command == Command::Read { "reading" } else { "writing" };
                        return Err(DemoError::Failed { path, what, offset, length, reason });
                    }
                    self.ended.push_back(number);
                }
            }
        }
    }

    /// The next request that has ended: of a read, its bytes.
    pub(super) fn finished(&mut self) -> Option<Chunk> {
        let number = self.ended.pop_front()?;
        self.free.push(number);
        let slot = &mut self.slots[number];
        Some(Chunk { offset: slot.offset, data: std::mem::take(&mut slot.data) })
    }

    /// The memory of a read that is not needed any more.
    pub(super) fn reuse(&mut self, chunk: Chunk) {
        self.spare.push(chunk.data);
    }

    /// Reads, with nothing else in flight.
    pub(super) fn read(&mut self, offset: u64, length: u32) -> Result<Chunk, DemoError> {
        self.ask(offset, length)?;
        self.end()
    }

    /// Writes, with nothing else in flight.
    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), DemoError> {
        self.queue(Command::Write, offset, bytes.len() as u32, Vec::new())?;
        self.out.extend_from_slice(bytes);
        self.end().map(drop)
    }

    /// Sends the one request that is queued, and waits for its end.
    fn end(&mut self) -> Result<Chunk, DemoError> {
        self.send()?;
        loop {
            if let Some(chunk) = self.finished() {
                return Ok(chunk);
            }
            self.receive()?;
        }
    }

    /// Says goodbye.
    pub(super) fn close(mut self) {
        let request = Request { flags: 0, command: Command::Disc, cookie: 0, offset: 0, length: 0 };
        // All data is here; a server that is gone already does not matter any more.
        let _ = self.stream.write_all(&request.encode());
    }
}

fn read_some(stream: &mut UnixStream, buffer: &mut [u8], path: &Path) -> Result<usize, DemoError> {
    loop {
        match stream.read(buffer) {
            Ok(0) => return Err(DemoError::Closed { path: path.into() }),
            Ok(bytes) => return Ok(bytes),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(source) => return Err(DemoError::Socket { path: path.into(), source }),
        }
    }
}
