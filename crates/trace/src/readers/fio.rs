//! What fio writes with `write_iolog`: version 2 (no times, waits) and version 3 (times, in microseconds).

use super::lines::{Parse, words};
use super::{NS_PER_US, Parsed, Raw};
use crate::Op;
use crate::names::Names;
use crate::number::{integer, shown, time_ns};

pub(crate) struct Fio {
    has_times: bool,
    names: Names,
    /// Waits since the last request: the time that its process spent on other things.
    wait_ns: u64,
}

impl Fio {
    pub(crate) fn new(header: &[u8]) -> Result<Self, String> {
        let has_times = match header.trim_ascii() {
            b"fio version 2 iolog" => false,
            b"fio version 3 iolog" => true,
            other => {
                return Err(format!(
                    "{} is not \"fio version 2 iolog\" or \"fio version 3 iolog\"",
                    shown(other)
                ));
            }
        };
        Ok(Self { has_times, names: Names::default(), wait_ns: 0 })
    }
}

impl Parse for Fio {
    fn has_times(&self) -> bool {
        self.has_times
    }

    fn parse(&mut self, line: &[u8]) -> Result<Parsed, String> {
        let (fields, count) = words::<5>(line);
        let (time, [file, action, offset, length], count) = match (self.has_times, fields) {
            (true, [time, file, action, offset, length]) => {
                (time, [file, action, offset, length], count.saturating_sub(1))
            }
            (false, [file, action, offset, length, _]) => (&[][..], [file, action, offset, length], count),
        };
        if count != 2 && count != 4 {
            return Err(
                "a line of an iolog has a file and an action, and an offset and a length if it moves data"
                    .to_owned(),
            );
        }
        let op = match action {
            b"add" => {
                self.names.volume(file)?;
                return Ok(Parsed::Nothing);
            }
            b"wait" => {
                let wait_ns = integer("wait", offset)?.saturating_mul(NS_PER_US);
                self.wait_ns = self.wait_ns.saturating_add(wait_ns);
                return Ok(Parsed::Nothing);
            }
            b"open" => Op::Open,
            b"close" => Op::Close,
            b"read" => Op::Read,
            b"write" => Op::Write,
            b"trim" => Op::Trim,
            b"sync" | b"datasync" => Op::Flush,
            other => return Err(format!("the action {} is not known", shown(other))),
        };
        let mut raw = Raw::new(op, 0, 0);
        if op.is_data() || op == Op::Trim {
            raw.offset = integer("offset", offset)?;
            raw.bytes = integer("length", length)?;
        }
        if self.has_times {
            raw.time_ns = time_ns(time, NS_PER_US)?;
        }
        raw.compute_ns = std::mem::take(&mut self.wait_ns);
        raw.volume = self.names.volume(file)?;
        Ok(Parsed::Request(raw))
    }
}
