//! What blkparse prints by default: `maj,min cpu seq time pid action rwbs sector + sectors [process]`.

use super::lines::{Parse, words};
use super::{NS_PER_S, Parsed, Raw, SECTOR};
use crate::Op;
use crate::format::BlkAction;
use crate::names::Names;
use crate::number::{integer, shown, time_ns};

pub(crate) struct Blkparse {
    action: &'static [u8],
    names: Names,
}

impl Blkparse {
    pub(crate) fn new(action: BlkAction) -> Self {
        Self { action: action.letter().as_bytes(), names: Names::default() }
    }
}

impl Parse for Blkparse {
    fn parse(&mut self, line: &[u8]) -> Result<Parsed, String> {
        let ([device, _cpu, _sequence, time, pid, action, rwbs, sector, plus, sectors], count) =
            words::<10>(line);
        if !is_device(device) {
            // The summary at the end has lines of all kinds.
            return Ok(Parsed::Skip("not an event of blkparse"));
        }
        if count < 7 {
            return Err(format!("{count} fields; an event of blkparse has at least 7"));
        }
        if action != self.action {
            return Ok(Parsed::Skip("another action than the chosen one"));
        }
        let mut raw = Raw::new(Op::Read, 0, 0);
        if plus == b"+" {
            raw.offset = integer("sector", sector)?.saturating_mul(SECTOR);
            raw.bytes = integer("number of sectors", sectors)?.saturating_mul(SECTOR);
        }
        raw.op = match op(rwbs, raw.bytes > 0) {
            Ok(Some(op)) => op,
            Ok(None) => return Ok(Parsed::Skip("neither data nor flush")),
            Err(()) => {
                return Err(format!("{} does not say what the event is: R, W, D, F or N", shown(rwbs)));
            }
        };
        if raw.op.is_data() && plus != b"+" {
            return Ok(Parsed::Skip("neither data nor flush"));
        }
        raw.time_ns = time_ns(time, NS_PER_S)?;
        raw.volume = self.names.volume(device)?;
        raw.process = self.names.process(0, pid)?;
        Ok(Parsed::Request(raw))
    }
}

/// `F` before the letter asks for a flush first; without data that is all there is to do. Later letters are
/// hints (sync, meta, ahead, FUA).
fn op(rwbs: &[u8], has_data: bool) -> Result<Option<Op>, ()> {
    match rwbs {
        [b'F', ..] if !has_data => Ok(Some(Op::Flush)),
        [b'F', kind, ..] | [kind, ..] => match kind {
            b'R' => Ok(Some(Op::Read)),
            b'W' => Ok(Some(Op::Write)),
            b'D' => Ok(Some(Op::Trim)),
            b'N' => Ok(None),
            _ => Err(()),
        },
        [] => Err(()),
    }
}

/// `8,0`
fn is_device(field: &[u8]) -> bool {
    let mut parts = field.split(|&b| b == b',');
    let mut number =
        || parts.next().is_some_and(|part| !part.is_empty() && part.iter().all(u8::is_ascii_digit));
    number() && number() && parts.next().is_none()
}
