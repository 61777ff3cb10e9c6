//! VMware's vscsiStats traces, as CloudPhysics stored them; little-endian, sectors of 512 bytes,
//! microseconds. Version 1: serial, bytes, segments (u32 each), command, version (u16 each), sector, time
//! (u64 each). Version 2: command, version, serial, bytes, segments, sector, time, response time.

use super::ops::scsi;
use super::{Decode, NS_PER_US, Parsed, Raw, SECTOR, u16_at, u32_at, u64_at};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Vscsi {
    V1,
    V2,
}

impl Vscsi {
    fn command(self, record: &[u8]) -> u16 {
        u16_at(record, if self == Self::V1 { 12 } else { 0 })
    }

    fn version(self, record: &[u8]) -> u16 {
        u16_at(record, if self == Self::V1 { 14 } else { 2 }) >> 8
    }

    fn number(self) -> u16 {
        if self == Self::V1 { 1 } else { 2 }
    }
}

impl Decode for Vscsi {
    fn bytes(&self) -> usize {
        if *self == Self::V1 { 32 } else { 40 }
    }

    fn decode(&mut self, record: &[u8]) -> Result<Parsed, String> {
        let (version, number) = (self.version(record), self.number());
        if version != number {
            return Err(format!(
                "the version is {version}, not {number} as before: damaged, or another format"
            ));
        }
        // The operation code is the low byte.
        let Some(op) = scsi(self.command(record) as u8) else {
            return Ok(Parsed::Skip("another SCSI command"));
        };
        let (bytes, sector, time) = match self {
            Self::V1 => (u32_at(record, 4), u64_at(record, 16), u64_at(record, 24)),
            Self::V2 => (u32_at(record, 8), u64_at(record, 16), u64_at(record, 24)),
        };
        let mut raw = Raw::new(op, sector.saturating_mul(SECTOR), u64::from(bytes));
        raw.time_ns =
            time.checked_mul(NS_PER_US).ok_or_else(|| format!("the time {time} us is out of range"))?;
        Ok(Parsed::Request(raw))
    }
}

/// The version, if the start of a file looks like one.
pub(crate) fn version_of(head: &[u8]) -> Option<Vscsi> {
    [Vscsi::V1, Vscsi::V2].into_iter().find(|version| {
        let mut records = head.chunks_exact(version.bytes()).take(64).peekable();
        records.peek().is_some()
            && records
                .all(|record| version.version(record) == version.number() && version.command(record) < 0x100)
    })
}
