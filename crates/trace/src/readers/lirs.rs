//! The traces of S. Jiang and X. Zhang, "LIRS", SIGMETRICS 2002: a block number per line, `*` between parts.
//! No times, no operations: all is read.

use super::lines::Parse;
use super::{Parsed, Raw};
use crate::Op;
use crate::number::integer;

pub(crate) struct Lirs {
    block_bytes: u64,
}

impl Lirs {
    pub(crate) fn new(block_bytes: u32) -> Self {
        Self { block_bytes: u64::from(block_bytes) }
    }
}

impl Parse for Lirs {
    fn has_times(&self) -> bool {
        false
    }

    fn parse(&mut self, line: &[u8]) -> Result<Parsed, String> {
        match line.trim_ascii() {
            b"*" | b"" => Ok(Parsed::Nothing),
            block => {
                let offset = integer("block", block)?.saturating_mul(self.block_bytes);
                Ok(Parsed::Request(Raw::new(Op::Read, offset, self.block_bytes)))
            }
        }
    }
}
