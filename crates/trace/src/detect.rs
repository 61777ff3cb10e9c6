//! The format of a file, by its content; where that leaves a choice, by its name.

use std::path::Path;

use crate::readers::{oracle_plausible, vscsi_version_of};
use crate::{Format, TraceError, recording};

/// Lines that are looked at.
const LINES: usize = 16;

/// The format of a file that starts with `head`.
pub(crate) fn detect(path: &Path, head: &[u8]) -> Result<Format, TraceError> {
    if head.is_empty() {
        return Err(TraceError::Empty { path: path.to_owned(), skipped: String::new() });
    }
    let candidates = if is_text(head) { text(head) } else { binary(head) };
    // Bare numbers look like nothing, so a name has to say it.
    if let (Some(format @ (Format::U32 | Format::U64)), false) = (by_name(path), is_text(head)) {
        return Ok(format);
    }
    match candidates[..] {
        // These have nothing of their own: other files may look the same.
        [Format::Alibaba | Format::Tencent] => {}
        [format] => return Ok(format),
        // A name may be wrong: it decides only between what the content allows.
        [..] => {
            if let Some(format) = by_name(path).filter(|format| candidates.contains(format)) {
                return Ok(format);
            }
        }
    }
    let names: Vec<&str> = candidates.iter().map(|format| format.name()).collect();
    let problem = match names[..] {
        [] => "the content is like no known format".to_owned(),
        [..] => format!("the content may be {}", names.join(" or ")),
    };
    Err(TraceError::Unrecognized { path: path.to_owned(), problem, formats: Format::names() })
}

fn is_text(head: &[u8]) -> bool {
    let control = |byte: &u8| *byte < b' ' && !matches!(byte, b'\n' | b'\r' | b'\t');
    !head.iter().any(control)
}

fn binary(head: &[u8]) -> Vec<Format> {
    if head.starts_with(&recording::MAGIC) {
        return vec![Format::Cards];
    }
    let mut found = Vec::new();
    if vscsi_version_of(head).is_some() {
        found.push(Format::Vscsi);
    }
    if oracle_plausible(head) {
        found.push(Format::OracleGeneral);
    }
    found
}

fn text(head: &[u8]) -> Vec<Format> {
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    let mut lines: Vec<&[u8]> = head
        .split(|&b| b == b'\n')
        .map(<[u8]>::trim_ascii)
        .filter(|line| !line.is_empty())
        .take(LINES + 1)
        .collect();
    // The last one may be cut.
    if lines.len() > 1 {
        lines.pop();
    }
    let Some(&first) = lines.first() else { return Vec::new() };
    if first.starts_with(b"fio version ") {
        return vec![Format::Fio];
    }
    if lines.iter().any(|line| line.starts_with(b"# DXT") || line.starts_with(b"# darshan")) {
        return vec![Format::Dxt];
    }
    if is_header(first) {
        return vec![Format::Csv];
    }
    if is_blkparse(first) {
        return vec![Format::Blkparse];
    }
    let shapes = [
        (Format::Msr, is_msr as fn(&[u8]) -> bool),
        (Format::Spc, is_spc),
        (Format::Alibaba, is_alibaba),
        (Format::Tencent, is_tencent),
        (Format::DiskSim, |line| numbers(line) == Some(5)),
        (Format::Arc, |line| numbers(line) == Some(4)),
        (Format::Lirs, |line| line == b"*" || numbers(line) == Some(1)),
    ];
    let fitting = |lines: &[&[u8]]| -> Vec<Format> {
        shapes
            .iter()
            .filter(|(_, fits)| lines.iter().all(|line| fits(line)))
            .map(|(format, _)| *format)
            .collect()
    };
    match fitting(&lines) {
        // A bad line among good ones: its reader says which.
        none if none.is_empty() => fitting(&lines[..1]),
        some => some,
    }
}

/// Names of columns, not numbers; at least two.
fn is_header(line: &[u8]) -> bool {
    let names = || line.split(|&b| b == b',').map(<[u8]>::trim_ascii);
    let is_name =
        |field: &[u8]| field.first().is_some_and(|b| b.is_ascii_alphabetic() || matches!(b, b'_' | b'"'));
    names().count() > 1 && names().all(is_name)
}

/// `8,0 3 1 0.000000000 697 Q W 223490 + 8 [kjournald]`
fn is_blkparse(line: &[u8]) -> bool {
    let mut words = line.split(|b| b.is_ascii_whitespace()).filter(|word| !word.is_empty());
    let device = words.next().unwrap_or_default();
    let is_device = device.contains(&b',') && device.iter().all(|b| b.is_ascii_digit() || *b == b',');
    is_device
        && words.next().is_some_and(is_number)
        && words.next().is_some_and(is_number)
        && words.count() >= 4
}

fn is_msr(line: &[u8]) -> bool {
    matches!(fields(line)[..], [time, _, _, op, offset, size, _]
        if is_number(time) && is_word(op, b"read", b"write") && is_number(offset) && is_number(size))
}

fn is_spc(line: &[u8]) -> bool {
    matches!(fields(line)[..], [_, lba, size, op, time, ..]
        if is_number(lba) && is_number(size) && is_word(op, b"r", b"w") && is_number(time))
}

fn is_alibaba(line: &[u8]) -> bool {
    matches!(fields(line)[..], [_, op, offset, size, time]
        if is_word(op, b"r", b"w") && is_number(offset) && is_number(size) && is_number(time))
}

fn is_tencent(line: &[u8]) -> bool {
    matches!(fields(line)[..], [time, offset, size, op, _]
        if is_number(time) && is_number(offset) && is_number(size) && matches!(op, b"0" | b"1"))
}

/// How many numbers the line consists of; none if of other things too.
fn numbers(line: &[u8]) -> Option<usize> {
    let mut words = line.split(|b| b.is_ascii_whitespace()).filter(|word| !word.is_empty());
    words.try_fold(0, |count, word| is_number(word).then_some(count + 1))
}

fn fields(line: &[u8]) -> Vec<&[u8]> {
    line.split(|&b| b == b',').map(<[u8]>::trim_ascii).take(16).collect()
}

fn is_number(field: &[u8]) -> bool {
    field.first().is_some_and(u8::is_ascii_digit) && field.iter().all(|b| b.is_ascii_digit() || *b == b'.')
}

fn is_word(field: &[u8], a: &[u8], b: &[u8]) -> bool {
    field.eq_ignore_ascii_case(a) || field.eq_ignore_ascii_case(b)
}

/// What the last part of the name says, apart from `.gz` and `.zst`.
fn by_name(path: &Path) -> Option<Format> {
    let name = path.file_name()?.to_str()?.to_ascii_lowercase();
    let name = name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zst")).unwrap_or(&name);
    Some(match name.rsplit_once('.')?.1 {
        "vscsi" => Format::Vscsi,
        "bin" | "oraclegeneral" => Format::OracleGeneral,
        "spc" => Format::Spc,
        "u32" => Format::U32,
        "u64" => Format::U64,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detected(head: &str) -> Result<Format, String> {
        detect(Path::new("a.txt"), head.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn text_formats_are_told_by_their_lines() {
        assert_eq!(detected("fio version 3 iolog\n"), Ok(Format::Fio));
        assert_eq!(detected("time,op,lbn,size\n1,R,2,3\n"), Ok(Format::Csv));
        assert_eq!(detected("128166372003061629,hm,1,Read,383496192,32768,413\n"), Ok(Format::Msr));
        assert_eq!(detected("0,20941264,8192,W,0.551706\n"), Ok(Format::Spc));
        assert_eq!(detected("  8,0 3 1 0.000000000 697 Q W 223490 + 8 [kjournald]\n"), Ok(Format::Blkparse));
        assert_eq!(detected("1000 4 264719034 16 0\n"), Ok(Format::DiskSim));
        assert_eq!(detected("230027 8 0 0\n"), Ok(Format::Arc));
        assert_eq!(detected("*\n12\n"), Ok(Format::Lirs));
        assert_eq!(detected("1 8 0 0\nx\n2 8 0 1\n"), Ok(Format::Arc));
        assert_eq!(detected("# darshan log version: 3.41\n"), Ok(Format::Dxt));
    }

    #[test]
    fn the_clouds_are_not_told_by_content_alone() {
        let error = detected("1,W,2,3,4\n").unwrap_err();
        assert!(error.contains("may be alibaba") && error.contains("--format"), "{error}");
        assert!(detected("1538323199,144711984,16,0,1283\n").unwrap_err().contains("may be tencent"));
    }

    #[test]
    fn what_is_like_nothing_is_refused_with_the_names() {
        let error = detected("hello world\n").unwrap_err();
        assert!(error.contains("like no known format") && error.contains("lirs"), "{error}");
        assert!(detect(Path::new("a"), b"").unwrap_err().to_string().contains("holds no requests"));
        assert!(detect(Path::new("a"), &[0; 7]).is_err());
    }
}
