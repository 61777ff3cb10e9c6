//! The `.lis` files of N. Megiddo and D. Modha, "ARC: a self-tuning, low overhead replacement cache", FAST
//! 2003: `start_block n_blocks ignored request_number`. No times, no operations: all is read.

use super::lines::{Parse, words};
use super::{Parsed, Raw};
use crate::Op;
use crate::number::integer;

pub(crate) struct Arc {
    block_bytes: u64,
}

impl Arc {
    pub(crate) fn new(block_bytes: u32) -> Self {
        Self { block_bytes: u64::from(block_bytes) }
    }
}

impl Parse for Arc {
    fn has_times(&self) -> bool {
        false
    }

    fn parse(&mut self, line: &[u8]) -> Result<Parsed, String> {
        let ([start, blocks, ..], count) = words::<4>(line);
        if count != 4 {
            return Err(format!("{count} numbers, not the 4 of this format"));
        }
        let bytes = |what, field| integer(what, field).map(|n| n.saturating_mul(self.block_bytes));
        Ok(Parsed::Request(Raw::new(Op::Read, bytes("block", start)?, bytes("number of blocks", blocks)?)))
    }
}
