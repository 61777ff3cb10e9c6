//! The text that darshan-dxt-parser makes of a Darshan log: a part per file and rank, each with headings that
//! name them, then a line per operation: `X_POSIX rank op segment offset length start end`.

use super::lines::{Parse, words};
use super::{NS_PER_S, Parsed, Raw};
use crate::Op;
use crate::format::DxtLevel;
use crate::names::Names;
use crate::number::{integer, shown, time_ns};

pub(crate) struct Dxt {
    module: &'static [u8],
    names: Names,
    node: Option<u32>,
    volume: Option<u16>,
}

impl Dxt {
    pub(crate) fn new(level: DxtLevel) -> Self {
        Self { module: level.module().as_bytes(), names: Names::default(), node: None, volume: None }
    }

    /// `# DXT, file_id: 1, file_name: /a` and `# DXT, rank: 0, hostname: n1`.
    fn heading(&mut self, line: &[u8]) -> Result<(), String> {
        if let Some(file) = value(line, b"file_name:") {
            // The next part has a heading for its host.
            (self.volume, self.node) = (Some(self.names.volume(file)?), None);
        } else if let Some(host) = value(line, b"hostname:") {
            self.node = Some(self.names.node(host)?);
        }
        Ok(())
    }
}

impl Parse for Dxt {
    fn parse(&mut self, line: &[u8]) -> Result<Parsed, String> {
        let line = line.trim_ascii();
        if line.is_empty() {
            return Ok(Parsed::Nothing);
        }
        if line.starts_with(b"#") {
            if line.starts_with(b"# DXT,") {
                self.heading(line)?;
            }
            return Ok(Parsed::Nothing);
        }
        let ([module, rank, op, _segment, offset, length, start, end], count) = words::<8>(line);
        if !module.starts_with(b"X_") || count < 8 || end.is_empty() {
            return Err(format!("{} is not an operation of DXT", shown(line)));
        }
        if module != self.module {
            return Ok(Parsed::Skip("another level of DXT than the chosen one"));
        }
        let (Some(volume), Some(node)) = (self.volume, self.node) else {
            return Err("an operation before the headings that name its file and its host".to_owned());
        };
        let op = match op {
            b"read" => Op::Read,
            b"write" => Op::Write,
            other => return Err(format!("the operation {} is neither read nor write", shown(other))),
        };
        let mut raw = Raw::new(op, integer("offset", offset)?, integer("length", length)?);
        raw.time_ns = time_ns(start, NS_PER_S)?;
        raw.volume = volume;
        raw.node = node;
        raw.process = self.names.process(node, rank)?;
        Ok(Parsed::Request(raw))
    }
}

/// What follows `key` in a heading.
fn value<'a>(line: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    let at = line.windows(key.len()).position(|window| window == key)?;
    Some(line[at + key.len()..].trim_ascii())
}
