//! One request at a time, for loads that depend on what the last answer was.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use cards_wire::nbd::Command;
use cards_wire::nbd::consts::NBD_SIMPLE_REPLY_MAGIC;

use crate::load::Target;
use crate::nbd::{self, ProtocolError};
use crate::{Address, Error, content};

/// A server that stays silent for this long is given up.
const SILENCE_LIMIT: Duration = Duration::from_secs(30);
/// The size of a simple reply, without data.
const REPLY_BYTES: usize = 16;

trait Stream: Read + Write + Send {}
impl Stream for TcpStream {}
impl Stream for UnixStream {}

/// One connection to an export.
pub(super) struct Client {
    stream: Box<dyn Stream>,
    uri: String,
    cookie: u64,
    out: Vec<u8>,
    block: Vec<u8>,
}

impl Client {
    /// Connects; requests will be of `block` bytes.
    pub(super) fn open(target: &Target, block: usize) -> Result<Client, Error> {
        let uri = target.uri.to_string();
        let stream = connect(target).map_err(|source| Error::Protocol { uri: uri.clone(), source })?;
        Ok(Client { stream, uri, cookie: 0, out: Vec::new(), block: vec![0; block] })
    }

    /// Reads the block at `offset`.
    pub(super) fn read(&mut self, offset: u64) -> Result<&[u8], Error> {
        self.out.clear();
        self.request(Command::Read, offset, self.block.len()).map_err(|source| self.error(source))?;
        let read = self.stream.read_exact(&mut self.block);
        read.map_err(|source| self.error(source.into()))?;
        Ok(&self.block)
    }

    /// Writes the test disk's content at `offset`.
    pub(super) fn write_content(&mut self, offset: u64) -> Result<(), Error> {
        let len = self.block.len();
        self.write(offset, |out| content::append(out, offset, len))
    }

    /// Writes `bytes` at `offset`.
    pub(super) fn write_bytes(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        self.write(offset, |out| out.extend_from_slice(bytes))
    }

    fn write(&mut self, offset: u64, append: impl FnOnce(&mut Vec<u8>)) -> Result<(), Error> {
        self.out.clear();
        append(&mut self.out);
        self.request(Command::Write, offset, self.out.len()).map_err(|source| self.error(source))
    }

    /// Sends a request with the bytes in `out` behind it, and takes the head of its reply.
    fn request(&mut self, command: Command, offset: u64, len: usize) -> Result<(), ProtocolError> {
        self.cookie += 1;
        let mut head = Vec::with_capacity(cards_wire::nbd::Request::SIZE + self.out.len());
        nbd::append_request(&mut head, command, self.cookie, offset, len as u32);
        head.extend_from_slice(&self.out);
        self.stream.write_all(&head)?;
        let mut reply = [0; REPLY_BYTES];
        self.stream.read_exact(&mut reply)?;
        let number = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().expect("4 bytes"));
        let cookie = u64::from_be_bytes(reply[8..].try_into().expect("8 bytes"));
        match (number(&reply[..4]), number(&reply[4..8])) {
            (NBD_SIMPLE_REPLY_MAGIC, _) if cookie != self.cookie => {
                Err(ProtocolError::Unexpected { what: "no such request is outstanding", cookie })
            }
            (NBD_SIMPLE_REPLY_MAGIC, 0) => Ok(()),
            (NBD_SIMPLE_REPLY_MAGIC, error) => Err(ProtocolError::Failed { error, offset, len: len as u32 }),
            (got, _) => Err(ProtocolError::Magic { what: "the reply magic", got: u64::from(got) }),
        }
    }

    fn error(&self, source: ProtocolError) -> Error {
        Error::Protocol { uri: self.uri.clone(), source }
    }

    /// The block that was read last is not what it should be.
    pub(super) fn wrong_content(&self, offset: u64) -> Error {
        self.error(ProtocolError::Content { offset, len: self.block.len() })
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let mut request = Vec::new();
        nbd::append_request(&mut request, Command::Disc, 0, 0, 0);
        // Whether the server still listens does not matter.
        let _: io::Result<()> = self.stream.write_all(&request);
    }
}

fn connect(target: &Target) -> Result<Box<dyn Stream>, ProtocolError> {
    let export = &target.uri.export;
    Ok(match &target.uri.address {
        Address::Unix(path) => {
            let mut stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(SILENCE_LIMIT))?;
            nbd::handshake(&mut stream, export, false)?;
            Box::new(stream)
        }
        Address::Tcp(host, port) => {
            let mut stream = TcpStream::connect((host.as_str(), *port))?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(SILENCE_LIMIT))?;
            nbd::handshake(&mut stream, export, false)?;
            Box::new(stream)
        }
    })
}
