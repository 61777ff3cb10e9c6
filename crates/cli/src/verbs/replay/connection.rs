//! An NBD connection that does one request at a time.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cards_trace::{Op, Request};
use cards_wire::nbd::client::{Event, Failure, OpenError, Replies, open};
use cards_wire::nbd::{self, Command};

use super::ReplayError;

/// A daemon that says nothing for this long is stuck.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// Bytes received at a time; what is read is of no interest.
const BUFFER: usize = 256 << 10;

/// A client of the volume `disk` at one node.
pub(super) struct Connection {
    path: PathBuf,
    stream: UnixStream,
    replies: Replies,
    input: Vec<u8>,
    out: Vec<u8>,
    /// What it is, where, and how long.
    under_way: Option<(&'static str, u64, u32)>,
}

impl Connection {
    pub(super) fn open(path: &Path) -> Result<Self, ReplayError> {
        let io = |source| ReplayError::Socket { path: path.into(), source };
        let mut stream = UnixStream::connect(path).map_err(io)?;
        stream.set_read_timeout(Some(SILENCE_MAX)).map_err(io)?;
        stream.set_write_timeout(Some(SILENCE_MAX)).map_err(io)?;
        let failed = |error| match error {
            OpenError::Io(source) => io(source),
            OpenError::Handshake(source) => ReplayError::Handshake { path: path.into(), source },
            OpenError::Closed => ReplayError::Closed { path: path.into() },
        };
        let session = open(&mut stream, "disk").map_err(failed)?.session;
        let (path, replies, input) = (path.into(), Replies::new(&session, 1), vec![0; BUFFER]);
        Ok(Self { path, stream, replies, input, out: Vec::new(), under_way: None })
    }

    /// Sends a request that reads, writes or trims; what is written are zeroes.
    pub(super) fn begin(&mut self, request: &Request) -> Result<(), ReplayError> {
        let (command, what, payload) = match request.op {
            Op::Read => (Command::Read, "a read", 0),
            Op::Write => (Command::Write, "a write", request.bytes),
            Op::Trim => (Command::Trim, "a trim", 0),
            // Left out by `Load`.
            Op::Flush | Op::Open | Op::Close | Op::Send { .. } => return Ok(()),
        };
        let (offset, length) = (request.offset, request.bytes);
        let header = nbd::Request { flags: 0, command, cookie: 1, offset, length };
        self.replies
            .sent(&header)
            .map_err(|source| ReplayError::Request { path: self.path.clone(), source })?;
        self.out.clear();
        self.out.extend_from_slice(&header.encode());
        self.out.resize(self.out.len() + payload as usize, 0);
        self.under_way = Some((what, offset, length));
        self.stream.write_all(&self.out).map_err(|source| self.broken(source))
    }

    /// Waits for the end of the request under way.
    pub(super) fn wait(&mut self) -> Result<(), ReplayError> {
        let began = Instant::now();
        loop {
            if self.take()? {
                return Ok(());
            }
            if began.elapsed() > SILENCE_MAX {
                return Err(self.broken(ErrorKind::TimedOut.into()));
            }
        }
    }

    /// Whether the request under way has ended. Takes what has arrived.
    pub(super) fn poll(&mut self) -> Result<bool, ReplayError> {
        self.stream.set_nonblocking(true).map_err(|source| self.broken(source))?;
        let ended = self.take();
        self.stream.set_nonblocking(false).map_err(|source| self.broken(source))?;
        ended
    }

    /// Receives once.
    fn take(&mut self) -> Result<bool, ReplayError> {
        let received = match self.stream.read(&mut self.input) {
            Ok(0) => return Err(ReplayError::Closed { path: self.path.clone() }),
            Ok(received) => received,
            Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {
                return Ok(false);
            }
            Err(source) => return Err(self.broken(source)),
        };
        let mut rest = &self.input[..received];
        loop {
            let event = self.replies.advance(&mut rest);
            match event.map_err(|source| ReplayError::Reply { path: self.path.clone(), source })? {
                Some(Event::Done { result, .. }) => return self.judge(result).map(|()| true),
                Some(Event::Data { .. } | Event::Hole { .. } | Event::Extent { .. }) => {}
                None => return Ok(false),
            }
        }
    }

    fn judge(&mut self, result: Result<(), Failure>) -> Result<(), ReplayError> {
        let (what, offset, length) = self.under_way.take().unwrap_or(("a request", 0, 0));
        result.map_err(|failure| {
            let reason = format!("{:?} {}", failure.errno, failure.message).trim_end().to_owned();
            ReplayError::Failed { path: self.path.clone(), what, offset, length, reason }
        })
    }

    fn broken(&self, source: std::io::Error) -> ReplayError {
        ReplayError::Socket { path: self.path.clone(), source }
    }
}
