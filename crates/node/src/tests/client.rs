//! A blocking NBD client.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use cards_wire::nbd::client::{Event, Failure, Handshake, Replies, Step};
use cards_wire::nbd::consts::NBD_CMD_FLAG_FUA;
use cards_wire::nbd::{Command, Errno, Request, Session};

pub(super) struct Client {
    pub(super) stream: UnixStream,
    pub(super) session: Session,
    replies: Replies,
    received: Vec<u8>,
    cookie: u64,
}

impl Client {
    pub(super) fn connect(socket: &Path) -> Self {
        Self::open(socket, "disk").unwrap()
    }

    pub(super) fn open(socket: &Path, export: &str) -> Result<Self, String> {
        let mut stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut handshake = Handshake::new(export).unwrap();
        let mut received = Vec::new();
        loop {
            let mut input = received.as_slice();
            let step = handshake.advance(&mut input).map_err(|error| error.to_string())?;
            let used = received.len() - input.len();
            received.drain(..used);
            match step {
                Step::Send => {
                    stream.write_all(handshake.output()).unwrap();
                    let sent = handshake.output().len();
                    handshake.sent(sent);
                }
                Step::Receive => receive(&mut stream, &mut received)?,
                Step::Ready(ready) => {
                    let replies = Replies::new(&ready.session, 1000);
                    return Ok(Self { stream, session: ready.session, replies, received, cookie: 0 });
                }
            }
        }
    }

    pub(super) fn send(
        &mut self,
        command: Command,
        flags: u16,
        offset: u64,
        length: u32,
        payload: &[u8],
    ) -> u64 {
        self.cookie += 1;
        let request = Request { flags, command, cookie: self.cookie, offset, length };
        self.replies.sent(&request).unwrap();
        self.stream.write_all(&request.encode()).unwrap();
        self.stream.write_all(payload).unwrap();
        self.cookie
    }

    /// Sends more of a payload.
    pub(super) fn push(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Waits for the next reply: its cookie, the data (from `base` on, if it was a read) and the result.
    pub(super) fn wait(&mut self, base: u64, data: &mut [u8]) -> (u64, Result<(), Errno>) {
        loop {
            let mut input = self.received.as_slice();
            let event = self.replies.advance(&mut input).unwrap();
            let mut done = None;
            let more = match event {
                Some(Event::Data { offset, bytes, .. }) => {
                    let at = (offset - base) as usize;
                    data[at..at + bytes.len()].copy_from_slice(bytes);
                    false
                }
                Some(Event::Done { cookie, result }) => {
                    done = Some((cookie, result.map_err(|failure: Failure| failure.errno)));
                    false
                }
                Some(_) => false,
                None => true,
            };
            let used = self.received.len() - input.len();
            self.received.drain(..used);
            if let Some(done) = done {
                return done;
            }
            if more {
                receive(&mut self.stream, &mut self.received).unwrap();
            }
        }
    }

    fn call(
        &mut self,
        command: Command,
        flags: u16,
        offset: u64,
        length: u32,
        payload: &[u8],
    ) -> Result<(), Errno> {
        let cookie = self.send(command, flags, offset, length, payload);
        let (answered, result) = self.wait(0, &mut []);
        assert_eq!(answered, cookie);
        result
    }

    pub(super) fn read(&mut self, offset: u64, length: usize) -> Result<Vec<u8>, Errno> {
        let cookie = self.send(Command::Read, 0, offset, length as u32, &[]);
        let mut data = vec![0xee; length];
        let (answered, result) = self.wait(offset, &mut data);
        assert_eq!(answered, cookie);
        result.map(|()| data)
    }

    pub(super) fn write(&mut self, offset: u64, data: &[u8]) -> Result<(), Errno> {
        self.call(Command::Write, 0, offset, data.len() as u32, data)
    }

    pub(super) fn write_fua(&mut self, offset: u64, data: &[u8]) -> Result<(), Errno> {
        self.call(Command::Write, NBD_CMD_FLAG_FUA, offset, data.len() as u32, data)
    }

    pub(super) fn command(&mut self, command: Command, offset: u64, length: u32) -> Result<(), Errno> {
        self.call(command, 0, offset, length, &[])
    }
}

fn receive(stream: &mut UnixStream, received: &mut Vec<u8>) -> Result<(), String> {
    let mut buffer = [0; 65536];
    match stream.read(&mut buffer) {
        Ok(0) => Err("closed".into()),
        Ok(bytes) => {
            received.extend_from_slice(&buffer[..bytes]);
            Ok(())
        }
        Err(error) => Err(error.to_string()),
    }
}
