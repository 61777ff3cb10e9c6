//! CSV with a header.

use super::columns::{Column, heading, plain};
use super::lines::Parse;
use super::ops::{Word, op};
use super::{Parsed, Raw};
use crate::Op;
use crate::names::Names;
use crate::number::{integer, time_ns};

pub(crate) struct Csv {
    columns: Vec<Column>,
    names: Names,
    has_times: bool,
    has_processes: bool,
}

impl Csv {
    pub(crate) fn new(header: &[u8]) -> Result<Self, String> {
        let columns = heading(header)?;
        let has_times = columns.iter().any(|column| matches!(column, Column::Time(_)));
        let has_processes = columns.contains(&Column::Process);
        Ok(Self { columns, names: Names::default(), has_times, has_processes })
    }
}

impl Parse for Csv {
    fn has_times(&self) -> bool {
        self.has_times
    }

    fn parse(&mut self, line: &[u8]) -> Result<Parsed, String> {
        let mut raw = Raw::new(Op::Read, 0, 0);
        let mut process = &[][..];
        let mut skip = None;
        let mut columns = self.columns.iter();
        for field in line.split(|&b| b == b',') {
            let Some(&column) = columns.next() else {
                return Err(format!("more fields than the {} of the header", self.columns.len()));
            };
            match column {
                Column::Time(unit_ns) => raw.time_ns = time_ns(plain(field), unit_ns)?,
                Column::Node => raw.node = self.names.node(plain(field))?,
                // Numbered below: it needs the node, whose column may come later.
                Column::Process => process = plain(field),
                Column::Volume => raw.volume = self.names.volume(plain(field))?,
                Column::Op => match op(plain(field))? {
                    Word::Op(op) => raw.op = op,
                    Word::OtherCommand => skip = Some("another SCSI command"),
                },
                // What is too large is refused as too large: saturate.
                Column::Offset(unit) => raw.offset = integer("offset", plain(field))?.saturating_mul(unit),
                Column::Size(unit) => raw.bytes = integer("size", plain(field))?.saturating_mul(unit),
                Column::Ignored => {}
            }
        }
        if columns.next().is_some() {
            return Err(format!("fewer fields than the {} of the header", self.columns.len()));
        }
        if let Some(reason) = skip {
            return Ok(Parsed::Skip(reason));
        }
        raw.process = if self.has_processes { self.names.process(raw.node, process)? } else { raw.node };
        Ok(Parsed::Request(raw))
    }
}
