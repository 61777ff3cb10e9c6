//! What is sealed and opened, record by record (RFC 8446, section 5).
//!
//! The library of TLS makes the connection and its keys; the records that carry data are made here, so that bytes go from
//! where they lie into the buffer that is sent, and from the buffer that was received to where they belong, with nothing
//! allocated between.

use std::ops::Range;

use ring::aead::{AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use rustls::ConnectionTrafficSecrets;

/// Bytes before what is sealed: type, version, length.
pub(crate) const HEADER: usize = 5;
/// Most bytes of data in a record.
pub(crate) const DATA_MAX: usize = 1 << 14;
/// Bytes behind the data: the type of the content, and the seal.
pub(crate) const TRAILER: usize = 17;
/// Most bytes that follow a header.
const LENGTH_MAX: usize = DATA_MAX + 256;
/// Types of content.
pub(crate) const ALERT: u8 = 21;
pub(crate) const HANDSHAKE: u8 = 22;
pub(crate) const DATA: u8 = 23;

/// Why a record cannot be opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RecordError {
    #[error("a record of type {0} amid encrypted ones")]
    Type(u8),
    #[error("a record of {0} bytes, where {LENGTH_MAX} is the most")]
    Length(usize),
    #[error("a record whose seal is broken: it was changed on its way")]
    Seal,
    #[error("a record without content")]
    Empty,
    #[error("a cipher that this release does not know")]
    Cipher,
}

/// One direction of a connection.
pub(crate) struct Key {
    key: LessSafeKey,
    iv: [u8; 12],
    sequence: u64,
}

impl Key {
    pub(crate) fn new((sequence, secrets): (u64, ConnectionTrafficSecrets)) -> Result<Self, RecordError> {
        let (algorithm, key, iv) = match &secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (&AES_128_GCM, key, iv),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (&AES_256_GCM, key, iv),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (&CHACHA20_POLY1305, key, iv),
            _ => return Err(RecordError::Cipher),
        };
        let key = UnboundKey::new(algorithm, key.as_ref()).map_err(|_| RecordError::Cipher)?;
        let iv = iv.as_ref().try_into().map_err(|_| RecordError::Cipher)?;
        Ok(Self { key: LessSafeKey::new(key), iv, sequence })
    }

    fn nonce(&mut self) -> Nonce {
        let mut nonce = self.iv;
        nonce[4..].iter_mut().zip(self.sequence.to_be_bytes()).for_each(|(byte, of)| *byte ^= of);
        self.sequence += 1;
        Nonce::assume_unique_for_key(nonce)
    }

    /// Seals what `fill` appends to `out`, at most [`DATA_MAX`] bytes, as a record behind what is there.
    pub(crate) fn seal(&mut self, out: &mut Vec<u8>, content: u8, fill: impl FnOnce(&mut Vec<u8>)) {
        let begin = out.len();
        out.extend_from_slice(&[0; HEADER]);
        fill(out);
        out.push(content);
        let length = out.len() - begin - HEADER + TRAILER - 1;
        debug_assert!(length <= DATA_MAX + TRAILER);
        let header = [DATA, 3, 3, (length >> 8) as u8, length as u8];
        out[begin..begin + HEADER].copy_from_slice(&header);
        let nonce = self.nonce();
        let sealed =
            self.key.seal_in_place_separate_tag(nonce, Aad::from(header), &mut out[begin + HEADER..]);
        let tag = sealed.expect("a record is far shorter than what a cipher takes");
        out.extend_from_slice(tag.as_ref());
    }

    /// Opens a whole record in its place: what it contains, and where that is now.
    pub(crate) fn open(&mut self, record: &mut [u8]) -> Result<(u8, Range<usize>), RecordError> {
        let (header, body) = record.split_at_mut(HEADER);
        if header[0] != DATA {
            return Err(RecordError::Type(header[0]));
        }
        let nonce = self.nonce();
        let opened =
            self.key.open_in_place(nonce, Aad::from(&*header), body).map_err(|_| RecordError::Seal)?;
        // Behind the content there is its type, and then zeros, if the other end hides lengths.
        let last = opened.iter().rposition(|&byte| byte != 0).ok_or(RecordError::Empty)?;
        if last > DATA_MAX {
            return Err(RecordError::Length(last));
        }
        Ok((opened[last], HEADER..HEADER + last))
    }
}

/// The length of the record that `bytes` begin with, header and all; none if its header is not whole.
pub(crate) fn length(bytes: &[u8]) -> Result<Option<usize>, RecordError> {
    let Some(&[_, _, _, high, low]) = bytes.first_chunk::<HEADER>() else { return Ok(None) };
    let length = usize::from(high) << 8 | usize::from(low);
    match length {
        0..=LENGTH_MAX => Ok(Some(HEADER + length)),
        _ => Err(RecordError::Length(length)),
    }
}
