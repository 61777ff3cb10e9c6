//! Bare lists of block numbers, as simulators of caches keep them: little-endian, of 32 or 64 bits. All is read.

use super::{Decode, Parsed, Raw, u32_at, u64_at};
use crate::Op;

pub(crate) struct Blocks {
    /// Of a number in the file.
    number_bytes: usize,
    block_bytes: u32,
}

impl Blocks {
    pub(crate) const fn of_32_bits(block_bytes: u32) -> Self {
        Self { number_bytes: 4, block_bytes }
    }

    pub(crate) const fn of_64_bits(block_bytes: u32) -> Self {
        Self { number_bytes: 8, block_bytes }
    }
}

impl Decode for Blocks {
    fn bytes(&self) -> usize {
        self.number_bytes
    }

    fn decode(&mut self, record: &[u8]) -> Result<Parsed, String> {
        let number = if self.number_bytes == 4 { u32_at(record, 0).into() } else { u64_at(record, 0) };
        let offset = number.checked_mul(self.block_bytes.into()).ok_or_else(|| {
            format!("block {number} lies beyond 2^64 bytes: is it a list of u32, or are blocks smaller?")
        })?;
        Ok(Parsed::Request(Raw::new(Op::Read, offset, self.block_bytes.into())))
    }

    fn has_times(&self) -> bool {
        false
    }
}
