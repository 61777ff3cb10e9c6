//! Words and codes for what a request does.

use crate::Op;
use crate::number::shown;

/// What an operation column holds.
pub(crate) enum Word {
    Op(Op),
    /// A SCSI command that moves no data: inquiry, sense and the like.
    OtherCommand,
}

/// Letters, words, or SCSI operation codes in hexadecimal (with or without `0x`).
pub(crate) fn op(field: &[u8]) -> Result<Word, String> {
    let field = field.trim_ascii();
    let is = |words: &[&str]| words.iter().any(|word| field.eq_ignore_ascii_case(word.as_bytes()));
    if is(&["r", "read"]) {
        return Ok(Word::Op(Op::Read));
    }
    if is(&["w", "write"]) {
        return Ok(Word::Op(Op::Write));
    }
    if is(&["d", "t", "trim", "discard", "unmap"]) {
        return Ok(Word::Op(Op::Trim));
    }
    if is(&["f", "flush", "sync", "fsync", "fdatasync"]) {
        return Ok(Word::Op(Op::Flush));
    }
    if is(&["open"]) {
        return Ok(Word::Op(Op::Open));
    }
    if is(&["close"]) {
        return Ok(Word::Op(Op::Close));
    }
    match hexadecimal(field) {
        Some(code) => Ok(scsi(code).map_or(Word::OtherCommand, Word::Op)),
        None => Err(format!(
            "the operation {} is not known; use R, W, read, write, trim, flush, open, close, or a SCSI code like 0x28",
            shown(field)
        )),
    }
}

/// What a SCSI operation code does to data; none if nothing.
pub(crate) fn scsi(code: u8) -> Option<Op> {
    Some(match code {
        0x08 | 0x28 | 0xa8 | 0x88 => Op::Read,
        0x0a | 0x2a | 0xaa | 0x8a | 0x2e | 0xae | 0x8e => Op::Write,
        0x42 => Op::Trim,
        0x35 | 0x91 => Op::Flush,
        _ => return None,
    })
}

/// Two digits: single ones (`0`, `1`) mean read in some formats and write in others.
fn hexadecimal(field: &[u8]) -> Option<u8> {
    let digits = field.strip_prefix(b"0x").or_else(|| field.strip_prefix(b"0X")).unwrap_or(field);
    match digits {
        [a, b] => {
            let value = (a.is_ascii_hexdigit() && b.is_ascii_hexdigit())
                .then(|| std::str::from_utf8(digits).ok())
                .flatten()?;
            u8::from_str_radix(value, 16).ok()
        }
        _ => None,
    }
}
