//! An NBD server over memory: one thread, no allocation per request, no copy in user space for reads.
//!
//! It serves the benchmark's own clients on loopback and nobody else: a client that stops reading stops
//! the server, and writes are bounded only by the disk.

use std::io::{self, IoSlice, Read, Write};
use std::net::TcpListener;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixListener;
use std::time::Duration;

use cards_wire::nbd::consts::*;
use cards_wire::nbd::{Command, Request};

use super::write_all_vectored;
use crate::{Address, Error, content};

const EXPORT_FLAGS: u16 = NBD_FLAG_HAS_FLAGS | NBD_FLAG_SEND_FLUSH | NBD_FLAG_CAN_MULTI_CONN;
/// Requests taken by one `read`.
const RECEIVE_BYTES: usize = 256 << 10;
const OPTION_BYTES_MAX: u32 = 64 << 10;

trait Stream: Read + Write + AsRawFd {}
impl<T: Read + Write + AsRawFd> Stream for T {}

enum Listener {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Listener {
    fn fd(&self) -> RawFd {
        match self {
            Listener::Unix(listener) => listener.as_raw_fd(),
            Listener::Tcp(listener) => listener.as_raw_fd(),
        }
    }

    fn accept(&self) -> io::Result<Box<dyn Stream>> {
        let limit = Some(Duration::from_secs(10));
        Ok(match self {
            Listener::Unix(listener) => {
                let stream = listener.accept()?.0;
                stream.set_read_timeout(limit)?;
                Box::new(stream)
            }
            Listener::Tcp(listener) => {
                let stream = listener.accept()?.0;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(limit)?;
                Box::new(stream)
            }
        })
    }
}

/// Serves `size` bytes of [`content`] at `address` until the process is ended.
pub fn serve(address: &Address, size: u64) -> Result<(), Error> {
    let listening = |name: &dyn std::fmt::Display| Error::io(format!("listening on {name}"));
    let listener = match address {
        Address::Unix(path) => Listener::Unix(UnixListener::bind(path).map_err(listening(&path.display()))?),
        Address::Tcp(host, port) => {
            Listener::Tcp(TcpListener::bind((host.as_str(), *port)).map_err(listening(host))?)
        }
    };
    let mut memory = Vec::with_capacity(size as usize);
    content::append(&mut memory, 0, size as usize);
    let mut connections: Vec<Connection> = Vec::new();
    loop {
        let entry = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let mut polled = vec![entry(listener.fd())];
        polled.extend(connections.iter().map(|connection| entry(connection.stream.as_raw_fd())));
        // SAFETY: the pointer and length describe a live, exclusively borrowed vector.
        if unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, -1) } < 0 {
            continue;
        }
        let mut ready = polled[1..].iter().map(|entry| entry.revents != 0);
        connections.retain_mut(|connection| {
            let is_ready = ready.next().expect("one entry per connection");
            !is_ready || connection.turn(&mut memory).unwrap_or(false)
        });
        if polled[0].revents != 0
            && let Ok(mut stream) = listener.accept()
            && matches!(handshake(&mut stream, size), Ok(true))
        {
            connections.push(Connection::new(stream));
        }
    }
}

struct Connection {
    stream: Box<dyn Stream>,
    received: Box<[u8]>,
    held: usize,
    /// The write whose payload is arriving.
    write: Option<Payload>,
    replies: Vec<Reply>,
}

struct Payload {
    cookie: u64,
    at: usize,
    left: usize,
}

struct Reply {
    header: [u8; 16],
    at: usize,
    len: usize,
}

impl Reply {
    fn new(cookie: u64, error: u32, at: usize, len: usize) -> Reply {
        let mut header = [0; 16];
        header[..4].copy_from_slice(&NBD_SIMPLE_REPLY_MAGIC.to_be_bytes());
        header[4..8].copy_from_slice(&error.to_be_bytes());
        header[8..].copy_from_slice(&cookie.to_be_bytes());
        Reply { header, at, len }
    }
}

impl Connection {
    fn new(stream: Box<dyn Stream>) -> Connection {
        let received = vec![0; RECEIVE_BYTES].into_boxed_slice();
        Connection { stream, received, held: 0, write: None, replies: Vec::new() }
    }

    /// Takes what one `read` brings and answers all of it; false when the client is done.
    fn turn(&mut self, memory: &mut [u8]) -> io::Result<bool> {
        let len = self.stream.read(&mut self.received[self.held..])?;
        if len == 0 {
            return Ok(false);
        }
        let end = self.held + len;
        let Some(used) = self.parse(end, memory) else { return Ok(false) };
        self.received.copy_within(used..end, 0);
        self.held = end - used;
        let mut slices = Vec::with_capacity(2 * self.replies.len());
        for reply in &self.replies {
            slices.push(IoSlice::new(&reply.header));
            if reply.len > 0 {
                slices.push(IoSlice::new(&memory[reply.at..reply.at + reply.len]));
            }
        }
        write_all_vectored(&mut self.stream, &mut slices)?;
        self.replies.clear();
        Ok(true)
    }

    /// Bytes used of `received[..end]`; `None` when the client disconnects or speaks something else.
    fn parse(&mut self, end: usize, memory: &mut [u8]) -> Option<usize> {
        let mut used = 0;
        loop {
            let rest = &self.received[used..end];
            if let Some(write) = &mut self.write {
                let len = rest.len().min(write.left);
                memory[write.at..write.at + len].copy_from_slice(&rest[..len]);
                used += len;
                write.at += len;
                write.left -= len;
                if write.left > 0 {
                    return Some(used);
                }
                self.replies.push(Reply::new(write.cookie, 0, 0, 0));
                self.write = None;
                continue;
            }
            let mut tail = rest;
            let Ok(taken) = Request::take(&mut tail) else { return None };
            let Some(request) = taken else { return Some(used) };
            used += Request::SIZE;
            let (cookie, len) = (request.cookie, request.length as usize);
            let at = usize::try_from(request.offset).ok();
            let at = at.filter(|at| at.checked_add(len).is_some_and(|end| end <= memory.len()));
            match (request.command, at) {
                (Command::Read, Some(at)) => self.replies.push(Reply::new(cookie, 0, at, len)),
                (Command::Write, Some(at)) => self.write = Some(Payload { cookie, at, left: len }),
                // A payload that has no place cannot be skipped cheaply, so the connection ends.
                (Command::Write | Command::Disc, _) => return None,
                (Command::Flush, _) => self.replies.push(Reply::new(cookie, 0, 0, 0)),
                _ => self.replies.push(Reply::new(cookie, NBD_EINVAL, 0, 0)),
            }
        }
    }
}

/// The server's side of the fixed newstyle handshake, for any export name; false when the client leaves.
fn handshake(stream: &mut Box<dyn Stream>, size: u64) -> io::Result<bool> {
    let reply = |option: u32, code: u32, payload: &[u8]| {
        let mut bytes = REP_MAGIC.to_be_bytes().to_vec();
        bytes.extend_from_slice(&option.to_be_bytes());
        bytes.extend_from_slice(&code.to_be_bytes());
        bytes.extend_from_slice(&(payload.len() as u32).to_be_bytes());
        bytes.extend_from_slice(payload);
        bytes
    };
    let mut greeting = INIT_PASSWD.to_be_bytes().to_vec();
    greeting.extend_from_slice(&OPTS_MAGIC.to_be_bytes());
    greeting.extend_from_slice(&(NBD_FLAG_FIXED_NEWSTYLE | NBD_FLAG_NO_ZEROES).to_be_bytes());
    stream.write_all(&greeting)?;
    let mut client_flags = [0; 4];
    stream.read_exact(&mut client_flags)?;
    loop {
        let mut header = [0; 16];
        stream.read_exact(&mut header)?;
        let option = u32::from_be_bytes(header[8..12].try_into().expect("4 bytes"));
        let len = u32::from_be_bytes(header[12..].try_into().expect("4 bytes"));
        if header[..8] != OPTS_MAGIC.to_be_bytes() || len > OPTION_BYTES_MAX {
            return Ok(false);
        }
        let mut payload = vec![0; len as usize];
        stream.read_exact(&mut payload)?;
        match option {
            NBD_OPT_GO | NBD_OPT_INFO => {
                let mut info = NBD_INFO_EXPORT.to_be_bytes().to_vec();
                info.extend_from_slice(&size.to_be_bytes());
                info.extend_from_slice(&EXPORT_FLAGS.to_be_bytes());
                let mut bytes = reply(option, NBD_REP_INFO, &info);
                bytes.extend(reply(option, NBD_REP_ACK, &[]));
                stream.write_all(&bytes)?;
                if option == NBD_OPT_GO {
                    return Ok(true);
                }
            }
            NBD_OPT_ABORT => {
                stream.write_all(&reply(option, NBD_REP_ACK, &[]))?;
                return Ok(false);
            }
            _ => stream.write_all(&reply(option, NBD_REP_ERR_UNSUP, &[]))?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Uri;
    use crate::load::{self, Access, Mode, Options, Target};

    fn start(size: u64) -> (tempfile::TempDir, Target) {
        let dir = tempfile::tempdir().unwrap();
        let address = Address::Unix(dir.path().join("s"));
        let uri = Uri { address: address.clone(), export: String::new() };
        // The thread ends with the test process: the server has no stop, as it has none in use.
        std::thread::spawn(move || serve(&address, size));
        // The path exists before anybody listens there.
        while load::probe(&uri, &Options::default()).is_err() {
            std::thread::yield_now();
        }
        (dir, Target { uri, pids: Vec::new() })
    }

    #[test]
    fn loads_of_every_shape_verify() {
        let (_dir, target) = start(8 << 20);
        assert_eq!(load::read_all(&target).unwrap().requests, 32);
        assert_eq!(load::fill(&target).unwrap().requests, 32);
        let base = Options { access: Access::Once, verify: true, ..Options::default() };
        for (block, depth, connections) in [(4096, 1, 1), (4096, 32, 4), (128 << 10, 8, 3), (1 << 20, 4, 1)] {
            for mode in [Mode::Read, Mode::Write] {
                for structured in [false, true] {
                    let options = Options { mode, block, depth, connections, structured, ..base.clone() };
                    let outcome = load::run(&target, &options).unwrap();
                    assert_eq!(outcome.requests, (8 << 20) / u64::from(block));
                    assert!(outcome.latency.p99_us >= outcome.latency.p50_us);
                }
            }
        }
        load::read_all(&target).unwrap();
    }

    #[test]
    fn impossible_loads_are_refused_by_flag() {
        let (_dir, target) = start(1 << 20);
        let cases = [
            Options { block: 1000, ..Options::default() },
            Options { depth: 0, ..Options::default() },
            Options { connections: 1000, ..Options::default() },
            Options { block: 32 << 20, depth: 100, ..Options::default() },
            Options { block: 2 << 20, depth: 1, ..Options::default() },
        ];
        for options in cases {
            assert!(matches!(load::run(&target, &options), Err(Error::Option { .. })), "{options:?}");
        }
    }
}
