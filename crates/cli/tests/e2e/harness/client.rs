//! A plain NBD client over a raw socket (fixed newstyle, simple replies), for what no tool does: requests left
//! unread, broken ones, vanishing. All reads and writes are bounded by a time limit.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::SHORT;
use super::export::{Address, Export};

pub(crate) const CMD_READ: u16 = 0;
pub(crate) const CMD_WRITE: u16 = 1;
const CMD_DISC: u16 = 2;
pub(crate) const CMD_FLUSH: u16 = 3;
const FLAG_FUA: u16 = 1;
pub(crate) const OPT_GO: u32 = 7;
const REP_INFO: u32 = 3;
const REP_ACK: u32 = 1;
const INFO_EXPORT: u16 = 0;
const OPTION_MAGIC: &[u8; 8] = b"IHAVEOPT";
const REQUEST_MAGIC: u32 = 0x2560_9513;
const REPLY_MAGIC: u32 = 0x6744_6698;

/// A connected socket, with limits on every call.
pub(crate) enum Socket {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Socket {
    pub(crate) fn connect(address: &Address) -> io::Result<Socket> {
        let socket = match address {
            Address::Unix(path) => Socket::Unix(UnixStream::connect(path)?),
            Address::Tcp(address) => Socket::Tcp(TcpStream::connect_timeout(address, SHORT)?),
        };
        socket.limit(SHORT)?;
        Ok(socket)
    }

    /// Bounds each following read and write.
    pub(crate) fn limit(&self, limit: Duration) -> io::Result<()> {
        match self {
            Socket::Unix(s) => s.set_read_timeout(Some(limit)).and(s.set_write_timeout(Some(limit))),
            Socket::Tcp(s) => s.set_read_timeout(Some(limit)).and(s.set_write_timeout(Some(limit))),
        }
    }

    pub(crate) fn fetch<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.read_exact(&mut bytes)?;
        Ok(bytes)
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Unix(s) => s.read(buffer),
            Socket::Tcp(s) => s.read(buffer),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Unix(s) => s.write(bytes),
            Socket::Tcp(s) => s.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A connection in its option phase.
pub(crate) struct Handshake(pub(crate) Socket);

impl Handshake {
    pub(crate) fn start(address: &Address) -> io::Result<Handshake> {
        let mut socket = Socket::connect(address)?;
        let greeting: [u8; 18] = socket.fetch()?;
        if &greeting[..16] != b"NBDMAGICIHAVEOPT" {
            return Err(io::Error::other("not a newstyle greeting"));
        }
        socket.write_all(&3u32.to_be_bytes())?; // fixed newstyle, no zeroes
        Ok(Handshake(socket))
    }

    /// Sends an option that claims `length` bytes and carries `payload`.
    pub(crate) fn claim(&mut self, option: u32, length: u32, payload: &[u8]) -> io::Result<()> {
        let mut bytes = OPTION_MAGIC.to_vec();
        bytes.extend(option.to_be_bytes());
        bytes.extend(length.to_be_bytes());
        bytes.extend(payload);
        self.0.write_all(&bytes)
    }

    pub(crate) fn option(&mut self, option: u32, payload: &[u8]) -> io::Result<()> {
        self.claim(option, payload.len() as u32, payload)
    }

    /// One reply: its type and data.
    pub(crate) fn reply(&mut self) -> io::Result<(u32, Vec<u8>)> {
        let head: [u8; 20] = self.0.fetch()?;
        let number = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().unwrap());
        let mut data = vec![0; (number(16) as usize).min(1 << 16)];
        self.0.read_exact(&mut data)?;
        Ok((number(12), data))
    }

    /// Asks for the export; refused is `ConnectionRefused` with the server's reason.
    pub(crate) fn go(mut self, name: &str) -> io::Result<Client> {
        self.option(OPT_GO, &go_payload(name))?;
        let mut client = Client { socket: self.0, size: 0, cookie: 0 };
        loop {
            let mut handshake = Handshake(client.socket);
            let (kind, data) = handshake.reply()?;
            client.socket = handshake.0;
            match kind {
                REP_ACK => return Ok(client),
                REP_INFO if data.len() == 12 && data[..2] == INFO_EXPORT.to_be_bytes() => {
                    client.size = u64::from_be_bytes(data[2..10].try_into().unwrap());
                }
                REP_INFO => {}
                error => {
                    let reason = format!("{error:#x}: {}", String::from_utf8_lossy(&data));
                    return Err(io::Error::new(io::ErrorKind::ConnectionRefused, reason));
                }
            }
        }
    }
}

/// The data of `NBD_OPT_GO` for `name`, no information requests.
pub(crate) fn go_payload(name: &str) -> Vec<u8> {
    let mut payload = (name.len() as u32).to_be_bytes().to_vec();
    payload.extend(name.as_bytes());
    payload.extend([0, 0]);
    payload
}

/// A connection in its transmission phase.
pub(crate) struct Client {
    pub(crate) socket: Socket,
    /// Bytes of the export.
    pub(crate) size: u64,
    cookie: u64,
}

impl Client {
    pub(crate) fn open(export: &Export) -> io::Result<Client> {
        Handshake::start(&export.address)?.go(&export.name)
    }

    /// Sends a request and returns its cookie; cookies count from 1.
    pub(crate) fn send(&mut self, command: u16, offset: u64, length: u32, data: &[u8]) -> io::Result<u64> {
        self.send_flagged(0, command, offset, length, data)
    }

    fn send_flagged(
        &mut self,
        flags: u16,
        command: u16,
        offset: u64,
        length: u32,
        data: &[u8],
    ) -> io::Result<u64> {
        self.cookie += 1;
        let mut bytes = Vec::with_capacity(28 + data.len());
        bytes.extend(REQUEST_MAGIC.to_be_bytes());
        bytes.extend(flags.to_be_bytes());
        bytes.extend(command.to_be_bytes());
        bytes.extend(self.cookie.to_be_bytes());
        bytes.extend(offset.to_be_bytes());
        bytes.extend(length.to_be_bytes());
        bytes.extend(data);
        self.socket.write_all(&bytes)?;
        Ok(self.cookie)
    }

    /// One simple reply's head: error number and cookie.
    pub(crate) fn reply(&mut self) -> io::Result<(u32, u64)> {
        let head: [u8; 16] = self.socket.fetch()?;
        let number = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().unwrap());
        if number(0) != REPLY_MAGIC {
            return Err(io::Error::other("bad reply magic"));
        }
        Ok((number(4), u64::from_be_bytes(head[8..].try_into().unwrap())))
    }

    /// Waits for the answer to the only request under way; the server's error becomes an OS error.
    fn done(&mut self, cookie: u64) -> io::Result<()> {
        match self.reply()? {
            (0, answered) if answered == cookie => Ok(()),
            (0, answered) => Err(io::Error::other(format!("reply {answered} to request {cookie}"))),
            (error, _) => Err(io::Error::from_raw_os_error(error as i32)),
        }
    }

    pub(crate) fn read(&mut self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let cookie = self.send(CMD_READ, offset, length as u32, &[])?;
        self.done(cookie)?;
        let mut data = vec![0; length];
        self.socket.read_exact(&mut data)?;
        Ok(data)
    }

    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        let cookie = self.send(CMD_WRITE, offset, data.len() as u32, data)?;
        self.done(cookie)
    }

    /// The same, and it is durable when it is answered.
    pub(crate) fn write_durably(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        let cookie = self.send_flagged(FLAG_FUA, CMD_WRITE, offset, data.len() as u32, data)?;
        self.done(cookie)
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let cookie = self.send(CMD_FLUSH, 0, 0, &[])?;
        self.done(cookie)
    }

    /// Takes leave as the protocol asks.
    pub(crate) fn close(mut self) {
        let _ = self.send(CMD_DISC, 0, 0, &[]);
    }
}
