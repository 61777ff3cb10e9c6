//! The format of the Storage Performance Council (UMass traces): `ASU,LBA,Size,Opcode,Timestamp`; sectors of
//! 512 bytes, bytes, seconds. More fields may follow.

use super::lines::{Parse, commas};
use super::ops::{Word, op};
use super::{NS_PER_S, Parsed, Raw, SECTOR};
use crate::Op;
use crate::names::Names;
use crate::number::{integer, time_ns};

#[derive(Default)]
pub(crate) struct Spc {
    names: Names,
}

impl Parse for Spc {
    fn parse(&mut self, line: &[u8]) -> Result<Parsed, String> {
        let ([asu, lba, size, opcode, time], count) = commas::<5>(line);
        if count < 5 {
            return Err(format!("{count} fields, not the 5 of this format"));
        }
        let mut raw =
            Raw::new(Op::Read, integer("sector", lba)?.saturating_mul(SECTOR), integer("size", size)?);
        raw.time_ns = time_ns(time, NS_PER_S)?;
        let Word::Op(op) = op(opcode)? else { return Ok(Parsed::Skip("another SCSI command")) };
        raw.op = op;
        raw.volume = self.names.volume(asu)?;
        Ok(Parsed::Request(raw))
    }
}
