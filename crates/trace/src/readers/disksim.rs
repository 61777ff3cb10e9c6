//! DiskSim's ascii format, which MQSim took over: `arrival device start_sector sectors type`. The lowest bit
//! of the type is set for reads. MQSim counts time in whole nanoseconds, DiskSim in milliseconds with a
//! decimal point.

use super::lines::{Parse, words};
use super::{NS_PER_MS, Parsed, Raw, SECTOR};
use crate::Op;
use crate::names::Names;
use crate::number::{integer, time_ns};

#[derive(Default)]
pub(crate) struct DiskSim {
    names: Names,
}

impl Parse for DiskSim {
    fn parse(&mut self, line: &[u8]) -> Result<Parsed, String> {
        let ([time, device, start, sectors, kind], count) = words::<5>(line);
        if count != 5 {
            return Err(format!("{count} numbers, not the 5 of this format"));
        }
        let op = if integer("type", kind)? & 1 == 1 { Op::Read } else { Op::Write };
        let bytes = |what, field| integer(what, field).map(|n| n.saturating_mul(SECTOR));
        let mut raw = Raw::new(op, bytes("sector", start)?, bytes("number of sectors", sectors)?);
        raw.time_ns = time_ns(time, if time.contains(&b'.') { NS_PER_MS } else { 1 })?;
        raw.volume = self.names.volume(device)?;
        Ok(Parsed::Request(raw))
    }
}
