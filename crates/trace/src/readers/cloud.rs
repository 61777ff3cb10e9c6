//! The block traces of two clouds: CSV without a header, a volume per virtual disk.

use super::lines::{Parse, commas};
use super::ops::{Word, op};
use super::{NS_PER_S, NS_PER_US, Parsed, Raw, SECTOR};
use crate::Op;
use crate::names::Names;
use crate::number::{integer, shown, time_ns};

/// Alibaba: `device_id,opcode,offset,length,timestamp`; R or W, bytes, microseconds.
#[derive(Default)]
pub(crate) struct Alibaba {
    names: Names,
}

impl Parse for Alibaba {
    fn parse(&mut self, line: &[u8]) -> Result<Parsed, String> {
        let ([device, opcode, offset, length, time], count) = commas::<5>(line);
        if count != 5 {
            return Err(format!("{count} fields, not the 5 of this format"));
        }
        let mut raw = Raw::new(Op::Read, integer("offset", offset)?, integer("length", length)?);
        raw.time_ns = time_ns(time, NS_PER_US)?;
        let Word::Op(op) = op(opcode)? else { return Ok(Parsed::Skip("another SCSI command")) };
        raw.op = op;
        raw.volume = self.names.volume(device)?;
        Ok(Parsed::Request(raw))
    }
}

/// Tencent: `timestamp,offset,size,type,volume`; seconds, sectors of 512 bytes, 0 read and 1 write.
#[derive(Default)]
pub(crate) struct Tencent {
    names: Names,
}

impl Parse for Tencent {
    fn parse(&mut self, line: &[u8]) -> Result<Parsed, String> {
        let ([time, offset, size, kind, volume], count) = commas::<5>(line);
        if count != 5 {
            return Err(format!("{count} fields, not the 5 of this format"));
        }
        let op = match kind {
            b"0" => Op::Read,
            b"1" => Op::Write,
            other => return Err(format!("the type {} is neither 0 (read) nor 1 (write)", shown(other))),
        };
        let sectors = |what, field| integer(what, field).map(|n| n.saturating_mul(SECTOR));
        let mut raw = Raw::new(op, sectors("offset", offset)?, sectors("size", size)?);
        raw.time_ns = time_ns(time, NS_PER_S)?;
        raw.volume = self.names.volume(volume)?;
        Ok(Parsed::Request(raw))
    }
}
