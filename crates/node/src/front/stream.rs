//! A client's socket, TCP or unix, and what is sealed of it.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll};

use cards_tls::{Client, Fingerprint, HandshakeError, Service, Wire};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use crate::inbox::Accepted;

/// Bytes in flight to a client over a unix socket. A writer that has filled the buffer is woken when three
/// quarters are empty: with the system's default (208 KiB) the client has read the rest before the writer
/// runs, and a reply of 1 MiB takes several sleeps. TCP adapts its buffers itself.
const UNIX_SEND_BYTES: usize = 1 << 20;

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
        let result = match self {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, &mut buffer),
            Self::Unix(stream) => Pin::new(stream).poll_read(cx, &mut buffer),
            Self::Sealed(wire) => Pin::new(&mut **wire).poll_read(cx, &mut buffer),
        };
        result.map_ok(|()| buffer.filled().len())
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
