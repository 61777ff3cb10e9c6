//! Writing and reading the fields of a body: little-endian numbers, strings and lists with 16-bit lengths.

use cards_core::{Generation, IoError, NodeId, PgId, RequestId};

use super::FrameError;
use crate::bytes::Cursor;

/// A body under construction.
#[derive(Debug, Default)]
pub(super) struct Writer {
    pub(super) bytes: Vec<u8>,
}

impl Writer {
    pub(super) fn byte(&mut self, value: u8) {
        self.bytes.push(value);
    }

    pub(super) fn flag(&mut self, value: bool) {
        self.byte(u8::from(value));
    }

    pub(super) fn u16(&mut self, value: u16) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(super) fn u32(&mut self, value: u32) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(super) fn volume(&mut self, volume: PgId) {
        self.u64(volume.to_wire());
    }

    /// The length of a list or string, which must be within `limit` (itself below 2^16).
    pub(super) fn length(
        &mut self,
        what: &'static str,
        length: usize,
        limit: usize,
    ) -> Result<(), FrameError> {
        match u16::try_from(length) {
            Ok(short) if length <= limit => {
                self.u16(short);
                Ok(())
            }
            _ => Err(FrameError::TooLong { what, length: length as u64, limit: limit as u64 }),
        }
    }

    pub(super) fn string(&mut self, what: &'static str, text: &str, limit: usize) -> Result<(), FrameError> {
        self.length(what, text.len(), limit)?;
        self.bytes.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

/// A body being read.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    cursor: Cursor<'a>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { cursor: Cursor::new(bytes) }
    }

    pub(super) fn byte(&mut self, what: &'static str) -> Result<u8, FrameError> {
        self.cursor.byte().ok_or(FrameError::Short(what))
    }

    pub(super) fn flag(&mut self, what: &'static str) -> Result<bool, FrameError> {
        match self.byte(what)? {
            0 => Ok(false),
            1 => Ok(true),
            value => Err(FrameError::Field { what, value: value.into() }),
        }
    }

    pub(super) fn u16(&mut self, what: &'static str) -> Result<u16, FrameError> {
        self.cursor.le16().ok_or(FrameError::Short(what))
    }

    pub(super) fn u32(&mut self, what: &'static str) -> Result<u32, FrameError> {
        self.cursor.le32().ok_or(FrameError::Short(what))
    }

    pub(super) fn u64(&mut self, what: &'static str) -> Result<u64, FrameError> {
        self.cursor.le64().ok_or(FrameError::Short(what))
    }

    /// The length of a list or string. A list's entries are then read one by one, and memory grows with
    /// what is there, not with what was announced.
    pub(super) fn length(&mut self, what: &'static str, limit: usize) -> Result<usize, FrameError> {
        let length = usize::from(self.u16(what)?);
        if length > limit {
            return Err(FrameError::TooLong { what, length: length as u64, limit: limit as u64 });
        }
        Ok(length)
    }

    pub(super) fn string(&mut self, what: &'static str, limit: usize) -> Result<String, FrameError> {
        let length = self.length(what, limit)?;
        let bytes = self.cursor.take(length).ok_or(FrameError::Short(what))?;
        let text = std::str::from_utf8(bytes);
        text.map(str::to_owned).map_err(|error| {
            let at = error.valid_up_to();
            FrameError::Field { what, value: bytes.get(at).copied().unwrap_or_default().into() }
        })
    }

    pub(super) fn request(&mut self) -> Result<RequestId, FrameError> {
        self.u64("request").map(RequestId)
    }

    pub(super) fn generation(&mut self) -> Result<Generation, FrameError> {
        self.u64("generation").map(Generation)
    }

    pub(super) fn volume(&mut self) -> Result<PgId, FrameError> {
        group(self.u64("placement group")?)
    }

    pub(super) fn node(&mut self) -> Result<NodeId, FrameError> {
        node(self.u16("node")?)
    }

    pub(super) fn end(&self) -> Result<(), FrameError> {
        match self.cursor.rest().len() {
            0 => Ok(()),
            more => Err(FrameError::Trailing(more)),
        }
    }
}

/// A member of a cluster of the largest size.
pub(super) fn group(value: u64) -> Result<PgId, FrameError> {
    PgId::from_wire(value).ok_or(FrameError::Field { what: "placement group", value })
}

pub(super) fn node(value: u16) -> Result<NodeId, FrameError> {
    if usize::from(value) < NodeId::MAX_NODES {
        Ok(NodeId(value))
    } else {
        Err(FrameError::Field { what: "node", value: value.into() })
    }
}

/// An error's number; 0 is success.
pub(super) fn error_code(error: IoError) -> u8 {
    match error {
        IoError::Io => 1,
        IoError::NoSpace => 2,
        IoError::NotPermitted => 3,
        IoError::NotSupported => 4,
        IoError::NotAttached => 5,
        IoError::Invalid => 6,
        IoError::Busy => 7,
        IoError::PowerLost => 8,
        IoError::SyncFailed => 9,
        IoError::NoAnswer => 10,
        IoError::OutcomeUnknown => 11,
    }
}

/// The result behind a number.
pub(super) fn result(code: u8) -> Result<Result<(), IoError>, FrameError> {
    Ok(Err(match code {
        0 => return Ok(Ok(())),
        1 => IoError::Io,
        2 => IoError::NoSpace,
        3 => IoError::NotPermitted,
        4 => IoError::NotSupported,
        5 => IoError::NotAttached,
        6 => IoError::Invalid,
        7 => IoError::Busy,
        8 => IoError::PowerLost,
        9 => IoError::SyncFailed,
        10 => IoError::NoAnswer,
        11 => IoError::OutcomeUnknown,
        _ => return Err(FrameError::Field { what: "result", value: code.into() }),
    }))
}
