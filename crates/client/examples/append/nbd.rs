//! A small NBD client: fixed newstyle, simple replies, one request at a time.

use std::io;
use std::path::Path;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

const OPT_EXPORT_NAME: u32 = 1;
const CMD_READ: u16 = 0;
const CMD_WRITE: u16 = 1;
const CMD_FLUSH: u16 = 3;

/// An open export.
pub(crate) struct Nbd {
    stream: UnixStream,
    size: u64,
    cookie: u64,
}

impl Nbd {
    pub(crate) async fn open(socket: &Path, export: &str) -> io::Result<Self> {
        let mut stream = UnixStream::connect(socket).await?;
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting).await?;
        if &greeting[..16] != b"NBDMAGICIHAVEOPT" {
            return Err(io::Error::other("this is no NBD server"));
        }
        let mut hello = 3u32.to_be_bytes().to_vec();
        hello.extend(b"IHAVEOPT");
        hello.extend(OPT_EXPORT_NAME.to_be_bytes());
        hello.extend((export.len() as u32).to_be_bytes());
        hello.extend(export.as_bytes());
        stream.write_all(&hello).await?;
        let size = stream.read_u64().await?;
        stream.read_u16().await?;
        Ok(Self { stream, size, cookie: 0 })
    }

    /// Bytes of the volume.
    pub(crate) const fn size(&self) -> u64 {
        self.size
    }

    pub(crate) async fn read(&mut self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        self.ask(CMD_READ, offset, length as u32, &[]).await?;
        let mut bytes = vec![0; length];
        self.stream.read_exact(&mut bytes).await?;
        Ok(bytes)
    }

    pub(crate) async fn write(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.ask(CMD_WRITE, offset, bytes.len() as u32, bytes).await
    }

    pub(crate) async fn flush(&mut self) -> io::Result<()> {
        self.ask(CMD_FLUSH, 0, 0, &[]).await
    }

    /// Sends a request and waits for the head of its reply.
    async fn ask(&mut self, command: u16, offset: u64, length: u32, data: &[u8]) -> io::Result<()> {
        self.cookie += 1;
        let mut request = 0x2560_9513_u32.to_be_bytes().to_vec();
        request.extend(0u16.to_be_bytes());
        request.extend(command.to_be_bytes());
        request.extend(self.cookie.to_be_bytes());
        request.extend(offset.to_be_bytes());
        request.extend(length.to_be_bytes());
        request.extend(data);
        self.stream.write_all(&request).await?;
        let magic = self.stream.read_u32().await?;
        let error = self.stream.read_u32().await?;
        let cookie = self.stream.read_u64().await?;
        match (magic, error) {
            (0x6744_6698, 0) if cookie == self.cookie => Ok(()),
            (0x6744_6698, error) if error != 0 => Err(io::Error::from_raw_os_error(error as i32)),
            _ => Err(io::Error::other("the NBD server is out of step")),
        }
    }
}
