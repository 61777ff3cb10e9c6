//! A client's socket, TCP or unix, and what is sealed of it.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use cards_tls::{Client, Fingerprint, HandshakeError, Service, Wire};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use crate::node::client::Accepted;

/// Bytes in flight to a client over a unix socket. A writer that has filled the buffer is woken when three
/// quarters are empty: with the system's default (208 KiB) the client has read the rest before the writer
/// runs, and a reply of 1 MiB takes several sleeps. TCP adapts its buffers itself.
const UNIX_SEND_BYTES: usize = 1 << 20;

/// A client of which nothing was heard for so long, not even that it has received what it was sent, is gone: its card and
/// its place are free. Longer than a path takes to come back, since its file system would not survive the end.
const VANISHED: Duration = Duration::from_mins(2);
/// How often an idle one is asked in the second half of that.
const PROBE: Duration = Duration::from_secs(10);

/// Has the kernel notice a client whose machine has vanished, idle or not.
fn watch(stream: &std::net::TcpStream) -> io::Result<()> {
    let socket = SockRef::from(stream);
    let probes = (VANISHED / 2).as_secs() / PROBE.as_secs();
    let keepalive =
        TcpKeepalive::new().with_time(VANISHED / 2).with_interval(PROBE).with_retries(probes as u32);
    socket.set_tcp_keepalive(&keepalive)?;
    socket.set_tcp_user_timeout(Some(VANISHED))
}

/// A socket registered with the runtime of its thread.
pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    /// Over TCP, in records of TLS.
    Sealed(Box<Wire>),
}

impl Stream {
    /// Registers an accepted socket here.
    pub(super) fn adopt(accepted: Accepted) -> io::Result<Self> {
        match accepted {
            Accepted::Tcp(stream) => {
                stream.set_nodelay(true)?;
                stream.set_nonblocking(true)?;
                watch(&stream)?;
                TcpStream::from_std(stream).map(Self::Tcp)
            }
            Accepted::Unix(stream) => {
                stream.set_nonblocking(true)?;
                // The kernel gives what net.core.wmem_max allows: less costs speed only.
                let _ = SockRef::from(&stream).set_send_buffer_size(UNIX_SEND_BYTES);
                UnixStream::from_std(stream).map(Self::Unix)
            }
        }
    }

    /// Receives into `buffer`; `Ok(0)` is the end of the stream.
    pub(super) fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut buffer = ReadBuf::new(buffer);
        self.poll_fill(cx, &mut buffer).map_ok(|()| buffer.filled().len())
    }

    /// Receives up to `most` bytes behind those of `bytes`, which has room for them; `Ok(0)` is the end of the stream.
    pub(super) fn poll_append(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &mut Vec<u8>,
        most: usize,
    ) -> Poll<io::Result<usize>> {
        let mut buffer = ReadBuf::uninit(&mut bytes.spare_capacity_mut()[..most]);
        let result = self.poll_fill(cx, &mut buffer);
        let count = buffer.filled().len();
        // SAFETY: so many bytes behind the length are filled, and lie within the capacity.
        unsafe { bytes.set_len(bytes.len() + count) };
        result.map_ok(|()| count)
    }

    fn poll_fill(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Unix(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Sealed(wire) => Pin::new(&mut **wire).poll_read(cx, buffer),
        }
    }

    /// Sends as much of `parts` as the socket takes.
    pub(super) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::Tcp(stream) => Pin::new(stream).poll_write_vectored(cx, parts),
            Self::Unix(stream) => Pin::new(stream).poll_write_vectored(cx, parts),
            Self::Sealed(wire) => wire.poll_write_vectored(cx, parts),
        }
    }

    /// Sends what was taken and has not left: what is sealed does not fit the socket in the portions it was taken in.
    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(_) | Self::Unix(_) => Poll::Ready(Ok(())),
            Self::Sealed(wire) => wire.poll_flush(cx),
        }
    }

    /// Begins TLS, in which the client proves who it is, and that it has a key.
    pub(super) async fn secure(
        self,
        service: &Service,
    ) -> Result<(Self, Client, Fingerprint), HandshakeError> {
        let Self::Tcp(stream) = self else {
            return Err(HandshakeError::Noise("TLS is spoken over TCP, and once".into()));
        };
        let (wire, client) = service.accept(stream).await?;
        let (client, key) = client.ok_or_else(|| HandshakeError::Noise("it shows no certificate".into()))?;
        Ok((Self::Sealed(Box::new(wire)), client, key))
    }

    /// Whether there is something to receive, as the kernel knows it: the runtime may not have heard of it yet.
    pub(super) fn has_more(&self) -> bool {
        let socket = match self {
            Self::Tcp(stream) => SockRef::from(stream),
            Self::Unix(stream) => SockRef::from(stream),
            Self::Sealed(wire) if wire.holds_received() => return true,
            Self::Sealed(wire) => SockRef::from(wire.stream()),
        };
        let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
        socket.recv_with_flags(&mut [MaybeUninit::uninit()], flags).is_ok_and(|bytes| bytes > 0)
    }

    /// Ends what is sent: the client reads to the end.
    pub(super) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Sealed(wire) => Pin::new(&mut **wire).poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_client_over_tcp_that_vanishes_is_noticed() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let _client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let Stream::Tcp(stream) = Stream::adopt(Accepted::Tcp(listener.accept().unwrap().0)).unwrap() else {
            panic!("TCP")
        };
        let socket = SockRef::from(&stream);
        assert!(socket.keepalive().unwrap());
        assert_eq!(socket.tcp_user_timeout().unwrap(), Some(VANISHED));
        let idle = socket.tcp_keepalive_time().unwrap()
            + socket.tcp_keepalive_interval().unwrap() * socket.tcp_keepalive_retries().unwrap();
        assert_eq!(idle, VANISHED);
    }

    #[tokio::test]
    async fn what_is_appended_is_no_more_than_was_wanted() {
        let (mut client, server) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut stream = Stream::adopt(Accepted::Unix(server)).unwrap();
        let mut bytes = Vec::with_capacity(16);
        bytes.push(0);
        std::io::Write::write_all(&mut client, &[1, 2, 3, 4]).unwrap();
        let count = std::future::poll_fn(|cx| stream.poll_append(cx, &mut bytes, 3)).await.unwrap();
        assert_eq!((count, &bytes[..]), (3, &[0, 1, 2, 3][..]));
        drop(client);
        for count in [1, 0] {
            let received = std::future::poll_fn(|cx| stream.poll_append(cx, &mut bytes, 4)).await.unwrap();
            assert_eq!(received, count);
        }
        assert_eq!(bytes, [0, 1, 2, 3, 4]);
    }
}
