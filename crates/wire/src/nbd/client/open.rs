//! The handshake over a stream that blocks.

use std::io::{self, Read, Write};
use std::mem;

use thiserror::Error;

use super::{Handshake, HandshakeError, Ready, Step};

/// Why an export could not be opened.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The stream broke.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The server cannot be used.
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    /// The stream ended.
    #[error("the server closed the connection")]
    Closed,
}

/// Opens `export` on a connection that blocks.
///
/// # Errors
/// The connection broke or ended, or the server refuses or breaks the protocol.
pub fn open(stream: &mut (impl Read + Write), export: &str) -> Result<Ready, OpenError> {
    let mut handshake = Handshake::new(export)?;
    let mut buffer = [0; 4096];
    let mut filled = 0;
    loop {
        // `advance` takes all it gets unless it is ready; the rest, if any, came too early.
        let mut received = &buffer[..mem::take(&mut filled)];
        match handshake.advance(&mut received)? {
            Step::Send => {
                stream.write_all(handshake.output())?;
                handshake.sent(handshake.output().len());
            }
            Step::Receive => {
                filled = stream.read(&mut buffer)?;
                if filled == 0 {
                    return Err(OpenError::Closed);
                }
            }
            Step::Ready(_) if !received.is_empty() => {
                return Err(HandshakeError::Protocol("it replies before it was asked").into());
            }
            Step::Ready(ready) => return Ok(ready),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a server says, whatever it is told.
    struct Server(&'static [u8]);

    impl Read for Server {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0.read(buffer)
        }
    }

    impl Write for Server {
        fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
            Ok(buffer.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn who_is_no_server_or_ends_early_is_told_apart() {
        let said = |bytes| open(&mut Server(bytes), "disk").unwrap_err();
        assert!(matches!(said(b""), OpenError::Closed));
        assert!(matches!(said(b"NBDMAGICIHAVEOPT"), OpenError::Closed));
        let other = said(b"SSH-2.0-OpenSSH_9.2\r\n");
        assert!(matches!(other, OpenError::Handshake(HandshakeError::NotNbd(_))), "{other}");
    }
}
