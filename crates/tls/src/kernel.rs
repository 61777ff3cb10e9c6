//! A connection whose records the kernel seals and opens (`Documentation/networking/tls.rst` of Linux): between the socket
//! and this process there are only data, as on a plain one.
//!
//! Whether the kernel can is seen by asking it, for each connection: the module `tls` may come while a daemon runs. What is
//! no data stays this process's: alerts, and changes of keys, which the kernel can since Linux 6.14. An older one is
//! told of a second key in vain, and the connection ends with an error that says so.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd as _;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use libc::{SOL_TLS, TLS_RX, TLS_TX, c_int};
use rustls::ConnectionTrafficSecrets;
use tokio::io::{AsyncWrite as _, Interest};
use tokio::net::TcpStream;

use crate::record::{ALERT, DATA_MAX, HANDSHAKE, RecordError};
use crate::session::{CLOSE_NOTIFY, KEY_UPDATE, Keys, Session, Traffic, bad};
use crate::wire::receive_some;

/// Bytes of the longest `struct tls12_crypto_info_*` of a cipher of TLS 1.3.
const INFO_MAX: usize = size_of::<libc::tls12_crypto_info_aes_gcm_256>();
/// Bytes of a record without data that are looked at: what nodes say is shorter.
const SAID_MAX: usize = 16;
/// Records beside the full ones that the kernel makes of one write at most: the last, and one that it cut for want of memory.
const RECORDS_BESIDE: usize = 2;

/// What this process keeps of such a connection.
pub(crate) struct Kernel {
    pub(crate) session: Session,
}

impl Kernel {
    /// Gives the keys to the kernel; back, if it has no TLS or not the cipher. Nothing behind the handshake may have been
    /// received.
    ///
    /// # Errors
    /// The kernel takes the key of one direction only.
    pub(crate) fn take(stream: &TcpStream, keys: Keys) -> io::Result<Result<Self, Keys>> {
        let (Some(to_send), Some(to_receive)) = (Info::of(&keys.to_send), Info::of(&keys.to_receive)) else {
            return Ok(Err(keys));
        };
        // With the first alone the socket is as before.
        let begun = set(stream, libc::SOL_TCP, libc::TCP_ULP, b"tls");
        if begun.and_then(|()| to_send.set(stream, TLS_TX)).is_err() {
            return Ok(Err(keys));
        }
        to_receive.set(stream, TLS_RX)?;
        // No node hides lengths: data are opened where they belong. A kernel before 6.0 copies them there.
        let _ = set(stream, SOL_TLS, libc::TLS_RX_EXPECT_NO_PAD, &c_int::from(true).to_ne_bytes());
        Ok(Ok(Self { session: Session::new(keys.next) }))
    }

    /// Receives into `parts`, one after the other; zero bytes when the other end has closed.
    pub(crate) fn poll_read_vectored(
        &mut self,
        stream: &TcpStream,
        cx: &mut Context<'_>,
        parts: &mut [IoSliceMut<'_>],
    ) -> Poll<io::Result<usize>> {
        while !self.session.ended {
            match ready!(receive_some(stream, cx, parts)) {
                Ok(received) => {
                    self.session.received(received);
                    return Poll::Ready(Ok(received));
                }
                // The next record is no data: the kernel gives it to whoever has room for its type.
                Err(error) if error.raw_os_error() == Some(libc::EIO) => {
                    let mut said = [0; SAID_MAX];
                    let (content, length) = receive_record(stream, &mut said).map_err(explain)?;
                    if let Some(next) = self.session.told(content, &said[..length])? {
                        renew(stream, &next, TLS_RX)?;
                    }
                }
                Err(error) => return Poll::Ready(Err(explain(error))),
            }
        }
        Poll::Ready(Ok(0))
    }

    /// Sends what it can of `parts`.
    pub(crate) fn poll_write_vectored(
        &mut self,
        stream: &mut TcpStream,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.session.has_to_update() {
            ready!(poll_send_record(stream, cx, HANDSHAKE, &KEY_UPDATE))?;
            renew(stream, &self.session.next_to_send()?, TLS_TX)?;
        }
        let sent = ready!(Pin::new(stream).poll_write_vectored(cx, parts)).map_err(explain)?;
        self.session.sealed(sent, sent / DATA_MAX + RECORDS_BESIDE);
        Poll::Ready(Ok(sent))
    }

    /// Says that nothing more is sent.
    pub(crate) fn poll_end(&mut self, stream: &TcpStream, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.session.ends {
            ready!(poll_send_record(stream, cx, ALERT, &CLOSE_NOTIFY))?;
            self.session.ends = true;
        }
        Poll::Ready(Ok(()))
    }
}

/// Gives the kernel the next key of a direction.
fn renew(stream: &TcpStream, next: &Traffic, direction: c_int) -> io::Result<()> {
    let info = Info::of(next).ok_or_else(|| bad(RecordError::Cipher))?;
    info.set(stream, direction).map_err(|error| {
        io::Error::other(format!(
            "a key has sealed all that it may, and the kernel takes no second one for a connection (Linux 6.14 does): {error}; \
             a new connection has new keys"
        ))
    })
}

/// What the kernel means by its error: it says the same of a record as [`RecordError`].
fn explain(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(libc::EBADMSG) => bad(RecordError::Seal),
        Some(libc::EMSGSIZE) => bad("a record that is longer than the most, as the kernel says"),
        Some(libc::EINVAL) => bad("what is no record of TLS 1.3, as the kernel says"),
        _ => error,
    }
}

/// A `struct tls12_crypto_info_*` of Linux: what it has to know of the key of one direction.
struct Info {
    bytes: [u8; INFO_MAX],
    length: usize,
}

impl Info {
    /// None for a cipher that TLS 1.3 has not.
    fn of((sequence, secrets): &Traffic) -> Option<Self> {
        // The `salt` is what of a nonce no record changes, as TLS 1.2 has it of AES-GCM.
        let (cipher, salt, key, iv) = match secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (libc::TLS_CIPHER_AES_GCM_128, 4, key, iv),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (libc::TLS_CIPHER_AES_GCM_256, 4, key, iv),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => {
                (libc::TLS_CIPHER_CHACHA20_POLY1305, 0, key, iv)
            }
            _ => return None,
        };
        let (salt, iv) = iv.as_ref().split_at_checked(salt)?;
        let mut info = Self { bytes: [0; INFO_MAX], length: 0 };
        // The order of the fields of all these structures, between which there are no gaps.
        let (version, cipher) = (libc::TLS_1_3_VERSION.to_ne_bytes(), cipher.to_ne_bytes());
        let sequence = sequence.to_be_bytes();
        for field in [&version, &cipher, iv, key.as_ref(), salt, &sequence] {
            info.bytes.get_mut(info.length..info.length + field.len())?.copy_from_slice(field);
            info.length += field.len();
        }
        Some(info)
    }

    fn set(&self, stream: &TcpStream, direction: c_int) -> io::Result<()> {
        set(stream, SOL_TLS, direction, &self.bytes[..self.length])
    }
}

fn set(stream: &TcpStream, level: c_int, option: c_int, value: &[u8]) -> io::Result<()> {
    // SAFETY: the kernel reads `value`, which is of the length that is given, while the call lasts.
    let done = unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            level,
            option,
            value.as_ptr().cast(),
            value.len() as libc::socklen_t,
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A control message with the type of a record, as the kernel wants and gives it.
#[repr(C)]
struct RecordType {
    header: libc::cmsghdr,
    content: u8,
}

/// Calls `call` with a message of one part, to which a record's type belongs.
fn with_message(
    data: *mut u8,
    length: usize,
    record: &mut RecordType,
    call: impl FnOnce(&mut libc::msghdr) -> isize,
) -> io::Result<usize> {
    let mut part = libc::iovec { iov_base: data.cast(), iov_len: length };
    // SAFETY: a structure of integers and pointers, which all may be zero.
    let mut message: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut *record).cast();
    message.msg_controllen = size_of::<RecordType>() as _;
    usize::try_from(call(&mut message)).map_err(|_| io::Error::last_os_error())
}

/// Sends a record of that content.
fn poll_send_record(
    stream: &TcpStream,
    cx: &mut Context<'_>,
    content: u8,
    data: &[u8],
) -> Poll<io::Result<()>> {
    let send = || {
        let header = libc::cmsghdr {
            cmsg_len: (size_of::<libc::cmsghdr>() + size_of_val(&content)) as _,
            cmsg_level: SOL_TLS,
            cmsg_type: libc::TLS_SET_RECORD_TYPE,
        };
        let mut record = RecordType { header, content };
        with_message(data.as_ptr().cast_mut(), data.len(), &mut record, |message| {
            // SAFETY: the message's parts are alive, and the kernel only reads them.
            unsafe { libc::sendmsg(stream.as_raw_fd(), message, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) }
        })
    };
    loop {
        ready!(stream.poll_write_ready(cx))?;
        match stream.try_io(Interest::WRITABLE, send) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            sent => return Poll::Ready(sent.map(drop).map_err(explain)),
        }
    }
}

/// Receives the record that is next: its content, and how many bytes of it are in `data` now.
fn receive_record(stream: &TcpStream, data: &mut [u8]) -> io::Result<(u8, usize)> {
    let header = libc::cmsghdr { cmsg_len: 0, cmsg_level: 0, cmsg_type: 0 };
    let mut record = RecordType { header, content: 0 };
    let received = with_message(data.as_mut_ptr(), data.len(), &mut record, |message| {
        // SAFETY: the message's parts are alive and borrowed for writing, and the kernel writes no more than their lengths.
        unsafe { libc::recvmsg(stream.as_raw_fd(), message, libc::MSG_DONTWAIT) }
    })?;
    match (record.header.cmsg_level, record.header.cmsg_type) {
        (SOL_TLS, libc::TLS_GET_RECORD_TYPE) => Ok((record.content, received)),
        _ => Err(io::Error::other("the kernel gives a record of TLS without its type")),
    }
}

#[cfg(test)]
mod tests;
