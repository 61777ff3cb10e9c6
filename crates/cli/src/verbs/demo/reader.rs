//! A small NBD client that reads a whole volume, many requests in flight, and compares it with its disk.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cards_wire::nbd::client::{Event, Handshake, Replies, Step};
use cards_wire::nbd::{Command, Request, Session};

use super::DemoError;
use crate::signals::{Arrived, Signals};

/// Reads in flight.
const DEPTH: usize = 32;
/// Bytes of a read.
const REQUEST: u32 = 256 << 10;
/// A daemon that says nothing for this long is stuck.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// Reads the export `disk` at `socket` from start to end and compares it with `image`; how long the reads
/// took. `progress` is told of each finished read's bytes.
pub(super) fn read_all(
    socket: &Path,
    image: &Path,
    signals: &Signals,
    mut progress: impl FnMut(u64),
) -> Result<Duration, DemoError> {
    let unreadable = |source| DemoError::Image { path: image.into(), source };
    let original = File::open(image).map_err(unreadable)?;
    let (mut connection, session) = Connection::open(socket)?;
    let image_bytes = original.metadata().map_err(unreadable)?.len();
    if session.size != image_bytes {
        return Err(DemoError::Size { path: socket.into(), volume: session.size, image: image_bytes });
    }
    let start = Instant::now();
    let mut next = 0;
    let mut finished = 0;
    let mut expected = vec![0; REQUEST as usize];
    while finished < session.size {
        while next < session.size && connection.replies.in_flight() < DEPTH {
            let length = u64::from(REQUEST).min(session.size - next) as u32;
            connection.ask(next, length)?;
            next += u64::from(length);
        }
        connection.send()?;
        connection.receive()?;
        while let Some(Chunk { slot, offset, length }) = connection.finished.pop_front() {
            let expected = &mut expected[..length];
            original.read_exact_at(expected, offset).map_err(unreadable)?;
            if connection.slots[slot].data[..length] != *expected {
                return Err(DemoError::Differs { path: socket.into(), offset });
            }
            connection.free.push(slot);
            finished += length as u64;
            progress(length as u64);
        }
        if signals.wait(Duration::ZERO).is_some_and(Arrived::ends) {
            return Err(DemoError::Interrupted);
        }
    }
    let elapsed = start.elapsed();
    connection.close();
    Ok(elapsed)
}

/// A finished read.
struct Chunk {
    slot: usize,
    offset: u64,
    length: usize,
}

/// The memory of one read in flight; its number is the read's cookie.
struct Slot {
    offset: u64,
    length: u32,
    data: Vec<u8>,
}

struct Connection {
    path: PathBuf,
    stream: UnixStream,
    replies: Replies,
    slots: Vec<Slot>,
    free: Vec<usize>,
    finished: VecDeque<Chunk>,
    out: Vec<u8>,
    input: Vec<u8>,
}

impl Connection {
    fn open(path: &Path) -> Result<(Self, Session), DemoError> {
        let io = |source| DemoError::Socket { path: path.into(), source };
        let mut stream = UnixStream::connect(path).map_err(io)?;
        stream.set_read_timeout(Some(SILENCE_MAX)).map_err(io)?;
        stream.set_write_timeout(Some(SILENCE_MAX)).map_err(io)?;
        let handshake = |source| DemoError::Handshake { path: path.into(), source };
        let mut shake = Handshake::new("disk").map_err(handshake)?;
        let mut received = Vec::new();
        let mut buffer = [0; 4096];
        let session = loop {
            let mut input = received.as_slice();
            let step = shake.advance(&mut input).map_err(handshake)?;
            received = input.to_vec();
            match step {
                Step::Send => {
                    stream.write_all(shake.output()).map_err(io)?;
                    shake.sent(shake.output().len());
                }
                Step::Receive => match stream.read(&mut buffer).map_err(io)? {
                    0 => return Err(DemoError::Closed { path: path.into() }),
                    bytes => received.extend_from_slice(&buffer[..bytes]),
                },
                Step::Ready(ready) => break ready.session,
            }
        };
        let slot = || Slot { offset: 0, length: 0, data: vec![0; REQUEST as usize] };
        let connection = Self {
            path: path.into(),
            stream,
            replies: Replies::new(&session, DEPTH),
            slots: (0..DEPTH).map(|_| slot()).collect(),
            free: (0..DEPTH).collect(),
            finished: VecDeque::with_capacity(DEPTH),
            out: Vec::new(),
            input: vec![0; 64 << 10],
        };
        Ok((connection, session))
    }

    /// Queues one read.
    fn ask(&mut self, offset: u64, length: u32) -> Result<(), DemoError> {
        let slot = self.free.pop().expect("a slot is free whenever fewer than DEPTH reads are in flight");
        self.slots[slot].offset = offset;
        self.slots[slot].length = length;
        let request = Request { flags: 0, command: Command::Read, cookie: slot as u64, offset, length };
        self.replies
            .sent(&request)
            .map_err(|source| DemoError::Request { path: self.path.clone(), source })?;
        self.out.extend_from_slice(&request.encode());
        Ok(())
    }

    /// Sends what is queued.
    fn send(&mut self) -> Result<(), DemoError> {
        let sent = self.stream.write_all(&self.out);
        self.out.clear();
        sent.map_err(|source| DemoError::Socket { path: self.path.clone(), source })
    }

    /// Waits for some bytes, payload straight into its slot, and takes what they finish.
    fn receive(&mut self) -> Result<(), DemoError> {
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
                    let Slot { offset, length, .. } = self.slots[cookie as usize];
                    if let Err(failure) = result {
                        let reason = format!("{:?} {}", failure.errno, failure.message);
                        let (path, reason) = (self.path.clone(), reason.trim_end().into());
                        return Err(DemoError::Read { path, offset, length, reason });
                    }
                    self.finished.push_back(Chunk { slot: cookie as usize, offset, length: length as usize });
                }
            }
        }
    }

    /// Says goodbye.
    fn close(mut self) {
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
