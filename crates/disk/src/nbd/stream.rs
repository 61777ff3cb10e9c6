//! The socket to an origin server, and its handshake.

use std::io::{self, IoSlice};
use std::time::Duration;

use cards_wire::nbd::client::{Address, Handshake, HandshakeError, Ready, Step, Uri};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{Interest, Ready as Readiness};
use tokio::net::{TcpStream, UnixStream};

/// For the connection and the handshake together.
const DEADLINE: Duration = Duration::from_secs(10);

/// Part of the wait after which a host that owes nothing is asked for a sign of life, and between two such questions.
const PROBES: u32 = 4;

/// An open export.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) stream: Stream,
    pub(super) ready: Ready,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConnectError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
}

/// Either kind of socket.
#[derive(Debug)]
pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    pub(super) async fn ready(&self, interest: Interest) -> io::Result<Readiness> {
        match self {
            Self::Tcp(stream) => stream.ready(interest).await,
            Self::Unix(stream) => stream.ready(interest).await,
        }
    }

    pub(super) fn try_read(&self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_read(buf),
            Self::Unix(stream) => stream.try_read(buf),
        }
    }

    pub(super) fn try_write_vectored(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_write_vectored(bufs),
            Self::Unix(stream) => stream.try_write_vectored(bufs),
        }
    }
}

/// Connects and opens the export. A host that acknowledges nothing for `wait` is gone, and the connection with it; one
/// that does may have a server that stalls.
pub(super) async fn establish(uri: &Uri, wait: Duration) -> Result<Connection, ConnectError> {
    match tokio::time::timeout(DEADLINE, handshake(uri, wait)).await {
        Ok(result) => result,
        Err(_) => Err(io::Error::from(io::ErrorKind::TimedOut).into()),
    }
}

async fn handshake(uri: &Uri, wait: Duration) -> Result<Connection, ConnectError> {
    let mut handshake = Handshake::new(&uri.export)?;
    let stream = match &uri.address {
        Address::Tcp(host, port) => {
            let stream = TcpStream::connect((host.as_str(), *port)).await?;
            stream.set_nodelay(true)?;
            let probe = (wait / PROBES).max(Duration::from_secs(1));
            let socket = SockRef::from(&stream);
            socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(probe).with_interval(probe))?;
            socket.set_tcp_user_timeout(Some(wait))?;
            Stream::Tcp(stream)
        }
        Address::Unix(path) => Stream::Unix(UnixStream::connect(path).await?),
    };
    let mut buf = [0; 4096];
    let mut filled = 0;
    loop {
        // `advance` takes all it gets unless it is ready; the rest, if any, came too early.
        let mut received = &buf[..std::mem::take(&mut filled)];
        match handshake.advance(&mut received)? {
            Step::Send => {
                stream.ready(Interest::WRITABLE).await?;
                match stream.try_write_vectored(&[IoSlice::new(handshake.output())]) {
                    Ok(n) => handshake.sent(n),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => return Err(error.into()),
                }
            }
            Step::Receive => {
                stream.ready(Interest::READABLE).await?;
                match stream.try_read(&mut buf) {
                    Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                    Ok(n) => filled = n,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => return Err(error.into()),
                }
            }
            Step::Ready(_) if !received.is_empty() => {
                return Err(HandshakeError::Protocol("it replies before it was asked").into());
            }
            Step::Ready(ready) => return Ok(Connection { stream, ready }),
        }
    }
}
