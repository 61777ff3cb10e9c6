//! A connection's bytes, sealed or plain.

use std::io::{self, IoSlice, IoSliceMut};
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

use crate::handshake::HandshakeError;
use crate::kernel::Kernel;
use crate::record::{ALERT, DATA, DATA_MAX, HANDSHAKE, HEADER, Key, RecordError, TRAILER, length};
use crate::session::{CLOSE_NOTIFY, KEY_UPDATE, Keys, Session, bad};

/// Bytes that are received at a time, when sealed.
const INCOMING: usize = 128 << 10;
/// Bytes that are sealed ahead of the socket. What comes first is decided before: little is enough.
const OUTGOING: usize = 64 << 10;
/// A connection over TCP. Sealed, whatever is sent or received is a record of TLS 1.3.
pub struct Wire {
    stream: TcpStream,
    records: Records,
}

/// A connection that belongs to no event loop.
pub struct Adrift {
    stream: std::net::TcpStream,
    records: Records,
}

/// Who seals and opens the records of a connection.
enum Records {
    /// There are none: bytes are as they are.
    None,
    /// This process.
    Daemon(Box<Sealed>),
    /// The kernel: to this process the bytes are as they are.
    Kernel(Box<Kernel>),
}

/// How what is said on a connection is kept from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encryption {
    /// Not at all.
    None,
    /// TLS 1.3, by this process.
    Daemon,
    /// TLS 1.3, by the kernel.
    Kernel,
}

/// Both directions of a sealed connection.
pub(crate) struct Sealed {
    session: Session,
    to_send: Key,
    to_receive: Key,
    /// What was received is in `at`; what is not there yet has room behind it.
    incoming: Vec<u8>,
    at: Range<usize>,
    /// Data of the record that was opened last, not yet taken.
    opened: Range<usize>,
    /// Sealed, and from `sent` on not sent.
    outgoing: Vec<u8>,
    sent: usize,
}

impl Sealed {
    fn new(keys: Keys) -> Result<Self, RecordError> {
        Ok(Self {
            session: Session::new(keys.next),
            to_send: Key::new(keys.to_send)?,
            to_receive: Key::new(keys.to_receive)?,
            incoming: vec![0; INCOMING],
            at: 0..0,
            opened: 0..0,
            outgoing: Vec::new(),
            sent: 0,
        })
    }

    /// Moves data that was opened into `parts`, behind so many bytes that are there.
    fn take(&mut self, parts: &mut [IoSliceMut<'_>], mut behind: usize) -> usize {
        let mut taken = 0;
        for part in parts {
            let filled = behind.min(part.len());
            behind -= filled;
            let room = &mut part[filled..];
            let count = room.len().min(self.opened.len());
            room[..count].copy_from_slice(&self.incoming[self.opened.start..self.opened.start + count]);
            self.opened.start += count;
            taken += count;
        }
        taken
    }

    /// Opens the next record with data, if it is here.
    fn open(&mut self) -> io::Result<bool> {
        while !self.session.ended {
            let here = &mut self.incoming[self.at.clone()];
            let Some(length) = length(here).map_err(bad)?.filter(|&length| length <= here.len()) else {
                return Ok(false);
            };
            let (content, data) = self.to_receive.open(&mut here[..length]).map_err(bad)?;
            let data = self.at.start + data.start..self.at.start + data.end;
            self.at.start += length;
            if content == DATA && !data.is_empty() {
                self.session.received(data.len());
                self.opened = data;
                return Ok(true);
            }
            if let Some(next) = self.session.told(content, &self.incoming[data])? {
                self.to_receive = Key::new(next).map_err(bad)?;
            }
        }
        Ok(false)
    }

    /// Room for what is received next.
    fn room(&mut self) -> &mut [u8] {
        if self.at.is_empty() {
            self.at = 0..0;
        } else if self.at.start > 0 {
            self.incoming.copy_within(self.at.clone(), 0);
            self.at = 0..self.at.len();
        }
        &mut self.incoming[self.at.end..]
    }

    /// Seals data, as much as may wait for the socket.
    fn seal(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut parts = parts.iter().map(|part| &**part);
        let mut part: &[u8] = &[];
        let mut taken = 0;
        while self.outgoing.len() + HEADER + DATA_MAX + TRAILER <= OUTGOING {
            while part.is_empty() {
                match parts.next() {
                    Some(next) => part = next,
                    None => return Ok(taken),
                }
            }
            if self.session.has_to_update() {
                self.to_send.seal(&mut self.outgoing, HANDSHAKE, |out| out.extend_from_slice(&KEY_UPDATE));
                self.to_send = Key::new(self.session.next_to_send()?).map_err(bad)?;
            }
            let before = taken;
            self.to_send.seal(&mut self.outgoing, DATA, |out| {
                let end = out.len() + DATA_MAX;
                loop {
                    let (now, later) = part.split_at(part.len().min(end - out.len()));
                    out.extend_from_slice(now);
                    taken += now.len();
                    part = later;
                    if out.len() == end {
                        return;
                    }
                    match parts.next() {
                        Some(next) => part = next,
                        None => return,
                    }
                }
            });
            self.session.sealed(taken - before, 1);
        }
        Ok(taken)
    }

    /// Sends what is sealed.
    fn poll_flush(&mut self, stream: &mut TcpStream, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.sent < self.outgoing.len() {
            match ready!(Pin::new(&mut *stream).poll_write(cx, &self.outgoing[self.sent..]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => self.sent += count,
            }
        }
        self.outgoing.clear();
        self.sent = 0;
        Poll::Ready(Ok(()))
    }
}

impl Records {
    fn encryption(&self) -> Encryption {
        match self {
            Self::None => Encryption::None,
            Self::Daemon(_) => Encryption::Daemon,
            Self::Kernel(_) => Encryption::Kernel,
        }
    }
}

impl Wire {
    /// A connection as it is.
    #[must_use]
    pub fn plain(stream: TcpStream) -> Self {
        Self { stream, records: Records::None }
    }

    /// A connection whose records are sealed and opened here.
    pub(crate) fn sealed(stream: TcpStream, keys: Keys) -> Result<Self, RecordError> {
        Ok(Self { stream, records: Records::Daemon(Box::new(Sealed::new(keys)?)) })
    }

    /// A connection whose records the kernel seals and opens if it can.
    pub(crate) fn sealed_by_kernel(stream: TcpStream, keys: Keys) -> Result<Self, HandshakeError> {
        match Kernel::take(&stream, keys)? {
            Ok(kernel) => Ok(Self { stream, records: Records::Kernel(Box::new(kernel)) }),
            Err(keys) => Ok(Self::sealed(stream, keys)?),
        }
    }

    /// Whether whoever listens in between learns anything, and who sees to it.
    #[must_use]
    pub fn encryption(&self) -> Encryption {
        self.records.encryption()
    }

    /// The connection below.
    #[must_use]
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Something was received that has not been taken, so that the socket does not speak of it any more.
    #[must_use]
    pub fn holds_received(&self) -> bool {
        matches!(&self.records, Records::Daemon(sealed) if !sealed.opened.is_empty() || !sealed.at.is_empty())
    }

    /// Takes it from its event loop.
    ///
    /// # Errors
    /// The system refuses.
    pub fn set_adrift(self) -> io::Result<Adrift> {
        Ok(Adrift { stream: self.stream.into_std()?, records: self.records })
    }

    /// Receives into `parts`, one after the other; zero bytes when the other end has closed.
    pub fn poll_read_vectored(
        &mut self,
        cx: &mut Context<'_>,
        parts: &mut [IoSliceMut<'_>],
    ) -> Poll<io::Result<usize>> {
        let sealed = match &mut self.records {
            Records::None => return receive(&self.stream, cx, parts),
            Records::Kernel(kernel) => return kernel.poll_read_vectored(&self.stream, cx, parts),
            Records::Daemon(sealed) => sealed,
        };
        loop {
            if !sealed.opened.is_empty() {
                // Several records fill what is wanted, if they are here.
                let room: usize = parts.iter().map(|part| part.len()).sum();
                let mut taken = sealed.take(parts, 0);
                while taken < room && sealed.open()? {
                    taken += sealed.take(parts, taken);
                }
                return Poll::Ready(Ok(taken));
            }
            if sealed.open()? {
                continue;
            }
            if sealed.session.ended {
                return Poll::Ready(Ok(0));
            }
            let received = ready!(receive(&self.stream, cx, &mut [IoSliceMut::new(sealed.room())]))?;
            if received == 0 {
                // Without a word: the data are whole up to here, as each record is, but there may have been more.
                return Poll::Ready(Ok(0));
            }
            sealed.at.end += received;
        }
    }

    /// Sends what it can of `parts`, or takes it to be sent.
    pub fn poll_write_vectored(
        &mut self,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.records {
            Records::None => Pin::new(&mut self.stream).poll_write_vectored(cx, parts),
            Records::Kernel(kernel) => kernel.poll_write_vectored(&mut self.stream, cx, parts),
            Records::Daemon(sealed) => {
                ready!(sealed.poll_flush(&mut self.stream, cx))?;
                let taken = sealed.seal(parts)?;
                // What the socket does not take now waits for the next call.
                if let Poll::Ready(Err(error)) = sealed.poll_flush(&mut self.stream, cx) {
                    return Poll::Ready(Err(error));
                }
                Poll::Ready(Ok(taken))
            }
        }
    }

    /// Sends what was taken.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.records {
            Records::None | Records::Kernel(_) => Poll::Ready(Ok(())),
            Records::Daemon(sealed) => sealed.poll_flush(&mut self.stream, cx),
        }
    }
}

impl Adrift {
    /// The connection below.
    #[must_use]
    pub fn stream(&self) -> &std::net::TcpStream {
        &self.stream
    }

    /// As [`Wire::encryption`].
    #[must_use]
    pub fn encryption(&self) -> Encryption {
        self.records.encryption()
    }

    /// Gives it to the event loop of this thread.
    ///
    /// # Errors
    /// The system refuses.
    pub fn moor(self) -> io::Result<Wire> {
        Ok(Wire { stream: TcpStream::from_std(self.stream)?, records: self.records })
    }
}

/// Receives from a socket into `parts`.
fn receive(
    stream: &TcpStream,
    cx: &mut Context<'_>,
    parts: &mut [IoSliceMut<'_>],
) -> Poll<io::Result<usize>> {
    let room: usize = parts.iter().map(|part| part.len()).sum();
    let received = ready!(receive_some(stream, cx, parts))?;
    if 0 < received && received < room {
        // The socket is drained: saying so spares a read that would find nothing.
        let _ =
            stream.try_io(Interest::READABLE, || Err::<(), _>(io::Error::from(io::ErrorKind::WouldBlock)));
    }
    Poll::Ready(Ok(received))
}

/// Receives from a socket into `parts`, and concludes nothing from how much that was.
pub(crate) fn receive_some(
    stream: &TcpStream,
    cx: &mut Context<'_>,
    parts: &mut [IoSliceMut<'_>],
) -> Poll<io::Result<usize>> {
    loop {
        ready!(stream.poll_read_ready(cx))?;
        match stream.try_read_vectored(parts) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            received => return Poll::Ready(received),
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let room = buffer.initialize_unfilled();
        let received = ready!(self.get_mut().poll_read_vectored(cx, &mut [IoSliceMut::new(room)]))?;
        buffer.advance(received);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.get_mut().poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let wire = self.get_mut();
        match &mut wire.records {
            Records::None => {}
            Records::Kernel(kernel) => ready!(kernel.poll_end(&wire.stream, cx))?,
            Records::Daemon(sealed) => {
                ready!(sealed.poll_flush(&mut wire.stream, cx))?;
                if !std::mem::replace(&mut sealed.session.ends, true) {
                    sealed
                        .to_send
                        .seal(&mut sealed.outgoing, ALERT, |out| out.extend_from_slice(&CLOSE_NOTIFY));
                }
                ready!(sealed.poll_flush(&mut wire.stream, cx))?;
            }
        }
        Pin::new(&mut wire.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests;
