//! The block traces of Microsoft Research Cambridge: CSV without a header,
//! `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`; times in units of 100 ns since 1601.

use super::lines::{Parse, commas};
use super::ops::{Word, op};
use super::{Parsed, Raw};
use crate::Op;
use crate::names::Names;
use crate::number::{integer, time_ns};

#[derive(Default)]
pub(crate) struct Msr {
    names: Names,
    volume: Vec<u8>,
}

impl Parse for Msr {
    fn parse(&mut self, line: &[u8]) -> Result<Parsed, String> {
        let (fields, count) = commas::<7>(line);
        if count != 7 {
            return Err(format!("{count} fields, not the 7 of this format"));
        }
        let [time, host, disk, kind, offset, size, _response] = fields;
        let mut raw = Raw::new(Op::Read, integer("offset", offset)?, integer("size", size)?);
        raw.time_ns = time_ns(time, 100)?;
        let Word::Op(op) = op(kind)? else { return Ok(Parsed::Skip("another SCSI command")) };
        raw.op = op;
        raw.node = self.names.node(host)?;
        // One process per server: the trace does not tell them apart.
        raw.process = raw.node;
        // Disk 0 of one host is not disk 0 of another.
        self.volume.clear();
        self.volume.extend_from_slice(host);
        self.volume.push(b',');
        self.volume.extend_from_slice(disk);
        raw.volume = self.names.volume(&self.volume)?;
        Ok(Parsed::Request(raw))
    }
}
