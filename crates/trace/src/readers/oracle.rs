//! libCacheSim's oracleGeneral: records of 24 bytes, little-endian: time in seconds (u32), object (u64), size
//! in bytes (u32), index of the object's next use (i64). For block traces the object is a block number. No
//! operations: all is read.

use super::{Decode, NS_PER_S, Parsed, Raw, u32_at, u64_at};
use crate::Op;

pub(crate) struct OracleGeneral {
    block_bytes: u64,
}

pub(crate) const BYTES: usize = 24;

impl OracleGeneral {
    pub(crate) fn new(block_bytes: u32) -> Self {
        Self { block_bytes: u64::from(block_bytes) }
    }
}

impl Decode for OracleGeneral {
    fn bytes(&self) -> usize {
        BYTES
    }

    fn decode(&mut self, record: &[u8]) -> Result<Parsed, String> {
        let offset = u64_at(record, 4).saturating_mul(self.block_bytes);
        let mut raw = Raw::new(Op::Read, offset, u64::from(u32_at(record, 12)));
        raw.time_ns = u64::from(u32_at(record, 0)) * NS_PER_S;
        Ok(Parsed::Request(raw))
    }
}

/// Whether the start of a file looks like it: times and next uses only go forward.
pub(crate) fn plausible(head: &[u8]) -> bool {
    let mut last_time = 0;
    let mut records = head.chunks_exact(BYTES).take(64).enumerate().peekable();
    records.peek().is_some()
        && records.all(|(index, record)| {
            let (time, size, next) = (u32_at(record, 0), u32_at(record, 12), u64_at(record, 16));
            let forward = time >= last_time;
            last_time = time;
            // -1: never used again.
            forward && size < 1 << 31 && (next == u64::MAX || (next > index as u64 && next < 1 << 40))
        })
}
