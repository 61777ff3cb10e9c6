//! A connection's bytes, sealed or plain.

use std::io::{self, IoSlice, IoSliceMut};
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rustls::ConnectionTrafficSecrets;
use rustls::kernel::KernelConnection;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

use crate::record::{
    ALERT, DATA, DATA_MAX, HANDSHAKE, HEADER, Key, RECORDS_MAX, RecordError, TRAILER, length,
};

/// Bytes that are received at a time, when sealed.
const INCOMING: usize = 128 << 10;
/// Bytes that are sealed ahead of the socket. What comes first is decided before: little is enough.
const OUTGOING: usize = 64 << 10;
/// Records without data that are borne. For a message of 27 bytes a key is made: whoever could send as many as the network
/// takes would have the event loop to itself.
const IDLE_MAX: u32 = 32;
/// What each of them costs. A record with data pays one back, and one more for each KiB: a byte now and then is no cover.
const IDLE_COST: u32 = 16;
/// The alert of TLS that says that nothing more is sent (RFC 8446, section 6.1): whoever is cut off misses it.
const CLOSE_NOTIFY: [u8; 2] = [1, 0];
/// The message of TLS that says that the next key is used from now on (RFC 8446, section 4.6.3); the other end need not.
const KEY_UPDATE: [u8; 5] = [24, 0, 0, 1, 0];

/// A connection over TCP. Sealed, whatever is sent or received is a record of TLS 1.3.
pub struct Wire {
    stream: TcpStream,
    sealed: Option<Box<Sealed>>,
}

/// A connection that belongs to no event loop.
pub struct Adrift {
    stream: std::net::TcpStream,
    sealed: Option<Box<Sealed>>,
}

/// Whoever knows the next key of either direction.
pub(crate) trait Secrets: Send {
    fn next_to_send(&mut self) -> Result<(u64, ConnectionTrafficSecrets), rustls::Error>;
    fn next_to_receive(&mut self) -> Result<(u64, ConnectionTrafficSecrets), rustls::Error>;
}

impl<Data: Send> Secrets for KernelConnection<Data> {
    fn next_to_send(&mut self) -> Result<(u64, ConnectionTrafficSecrets), rustls::Error> {
        self.update_tx_secret()
    }

    fn next_to_receive(&mut self) -> Result<(u64, ConnectionTrafficSecrets), rustls::Error> {
        self.update_rx_secret()
    }
}

/// Both directions of a sealed connection.
pub(crate) struct Sealed {
    secrets: Box<dyn Secrets>,
    to_send: Key,
    to_receive: Key,
    /// What was received is in `at`; what is not there yet has room behind it.
    incoming: Vec<u8>,
    at: Range<usize>,
    /// Data of the record that was opened last, not yet taken.
    opened: Range<usize>,
    /// What records without data have cost, and others have not paid back.
    idle: u32,
    /// The other end has said that it sends no more.
    ended: bool,
    /// This end has.
    ends: bool,
    /// Sealed, and from `sent` on not sent.
    outgoing: Vec<u8>,
    sent: usize,
    /// The other end asks for the next key.
    update_asked: bool,
    /// Records that a key seals before the next one does.
    records_max: u64,
}

fn bad(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

impl Sealed {
    pub(crate) fn new(
        to_send: (u64, ConnectionTrafficSecrets),
        to_receive: (u64, ConnectionTrafficSecrets),
        secrets: Box<dyn Secrets>,
        received: Vec<u8>,
    ) -> Result<Self, RecordError> {
        let mut incoming = vec![0; INCOMING.max(received.len())];
        incoming[..received.len()].copy_from_slice(&received);
        Ok(Self {
            secrets,
            to_send: Key::new(to_send)?,
            to_receive: Key::new(to_receive)?,
            incoming,
            at: 0..received.len(),
            opened: 0..0,
            idle: 0,
            ended: false,
            ends: false,
            outgoing: Vec::new(),
            sent: 0,
            update_asked: false,
            records_max: RECORDS_MAX,
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
        while !self.ended {
            let here = &mut self.incoming[self.at.clone()];
            let Some(length) = length(here).map_err(bad)?.filter(|&length| length <= here.len()) else {
                return Ok(false);
            };
            let (content, data) = self.to_receive.open(&mut here[..length]).map_err(bad)?;
            let data = self.at.start + data.start..self.at.start + data.end;
            self.at.start += length;
            if content == DATA && !data.is_empty() {
                self.idle = self.idle.saturating_sub(1 + (data.len() >> 10) as u32);
                self.opened = data;
                return Ok(true);
            }
            self.idle += IDLE_COST;
            if self.idle > IDLE_MAX * IDLE_COST {
                return Err(bad("too many records without data"));
            }
            match content {
                DATA => {}
                ALERT => match self.incoming[data] {
                    // The other end closes.
                    [_, 0] => self.ended = true,
                    [_, alert] => return Err(bad(broken_off(alert))),
                    _ => return Err(bad("an alert of no known length")),
                },
                HANDSHAKE => self.told(data)?,
                other => return Err(bad(RecordError::Type(other))),
            }
        }
        Ok(false)
    }

    /// The other end says something about the connection itself.
    fn told(&mut self, data: Range<usize>) -> io::Result<()> {
        match self.incoming[data] {
            [24, 0, 0, 1, asks @ (0 | 1)] => {
                self.to_receive = Key::new(self.secrets.next_to_receive().map_err(bad)?).map_err(bad)?;
                self.update_asked |= asks == 1;
                Ok(())
            }
            // No node gives tickets, and nobody needs to prove itself again.
            _ => Err(bad("a message of TLS that has no place here")),
        }
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
            if self.update_asked || self.to_send.sequence() >= self.records_max {
                self.to_send.seal(&mut self.outgoing, HANDSHAKE, |out| out.extend_from_slice(&KEY_UPDATE));
                self.to_send = Key::new(self.secrets.next_to_send().map_err(bad)?).map_err(bad)?;
                self.update_asked = false;
            }
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
        }
        Ok(taken)
    }
}

impl Wire {
    /// A connection as it is.
    #[must_use]
    pub fn plain(stream: TcpStream) -> Self {
        Self { stream, sealed: None }
    }

    pub(crate) fn sealed(stream: TcpStream, sealed: Sealed) -> Self {
        Self { stream, sealed: Some(Box::new(sealed)) }
    }

    /// Whoever listens in between learns nothing, and can change nothing.
    #[must_use]
    pub fn is_sealed(&self) -> bool {
        self.sealed.is_some()
    }

    /// The connection below.
    #[must_use]
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Something was received that has not been taken, so that the socket does not speak of it any more.
    #[must_use]
    pub fn holds_received(&self) -> bool {
        self.sealed.as_ref().is_some_and(|sealed| !sealed.opened.is_empty() || !sealed.at.is_empty())
    }

    /// Takes it from its event loop.
    ///
    /// # Errors
    /// The system refuses.
    pub fn set_adrift(self) -> io::Result<Adrift> {
        Ok(Adrift { stream: self.stream.into_std()?, sealed: self.sealed })
    }

    /// Receives into `parts`, one after the other; zero bytes when the other end has closed.
    pub fn poll_read_vectored(
        &mut self,
        cx: &mut Context<'_>,
        parts: &mut [IoSliceMut<'_>],
    ) -> Poll<io::Result<usize>> {
        let Some(sealed) = &mut self.sealed else { return receive(&self.stream, cx, parts) };
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
            if sealed.ended {
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
        if self.sealed.is_none() {
            return Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        }
        ready!(self.poll_flush(cx))?;
        let Some(sealed) = &mut self.sealed else { return Poll::Pending };
        let taken = sealed.seal(parts)?;
        // What the socket does not take now waits for the next call.
        if let Poll::Ready(Err(error)) = self.poll_flush(cx) {
            return Poll::Ready(Err(error));
        }
        Poll::Ready(Ok(taken))
    }

    /// Sends what was taken.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(sealed) = &mut self.sealed else { return Poll::Ready(Ok(())) };
        while sealed.sent < sealed.outgoing.len() {
            let left = &sealed.outgoing[sealed.sent..];
            match ready!(Pin::new(&mut self.stream).poll_write(cx, left))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => sealed.sent += count,
            }
        }
        sealed.outgoing.clear();
        sealed.sent = 0;
        Poll::Ready(Ok(()))
    }
}

impl Adrift {
    /// The connection below.
    #[must_use]
    pub fn stream(&self) -> &std::net::TcpStream {
        &self.stream
    }

    /// Gives it to the event loop of this thread.
    ///
    /// # Errors
    /// The system refuses.
    pub fn moor(self) -> io::Result<Wire> {
        Ok(Wire { stream: TcpStream::from_std(self.stream)?, sealed: self.sealed })
    }
}

/// Receives from a socket into `parts`.
fn receive(
    stream: &TcpStream,
    cx: &mut Context<'_>,
    parts: &mut [IoSliceMut<'_>],
) -> Poll<io::Result<usize>> {
    let room: usize = parts.iter().map(|part| part.len()).sum();
    loop {
        ready!(stream.poll_read_ready(cx))?;
        match stream.try_read_vectored(parts) {
            Ok(received) => {
                if 0 < received && received < room {
                    // The socket is drained: saying so spares a read that would find nothing.
                    let _ = stream.try_io(Interest::READABLE, || {
                        Err::<(), _>(io::Error::from(io::ErrorKind::WouldBlock))
                    });
                }
                return Poll::Ready(Ok(received));
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Poll::Ready(Err(error)),
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
        ready!(wire.poll_flush(cx))?;
        if let Some(sealed) = wire.sealed.as_mut().filter(|sealed| !sealed.ends) {
            sealed.ends = true;
            sealed.to_send.seal(&mut sealed.outgoing, ALERT, |out| out.extend_from_slice(&CLOSE_NOTIFY));
        }
        ready!(wire.poll_flush(cx))?;
        Pin::new(&mut wire.stream).poll_shutdown(cx)
    }
}

/// What an alert says (RFC 8446, section 6.2), where that is for whoever reads it to mend.
fn broken_off(alert: u8) -> String {
    let why = match alert {
        42 | 43 | 46 => "it does not take this end's certificate",
        44 => "this end's certificate is revoked",
        45 => "this end's certificate has ended, or the clocks of the two differ",
        48 => "it does not believe the authority of this end's certificate",
        116 => "this end has shown no certificate",
        _ => "see its log",
    };
    format!("the other end breaks off: {why} (TLS alert {alert})")
}

#[cfg(test)]
mod tests;
