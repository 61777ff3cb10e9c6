//! The columns of a CSV trace, by the names in its header.

use cards_nearest::nearest;

use super::{NS_PER_MS, NS_PER_S, NS_PER_US};
use crate::number::shown;

/// What a column means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Column {
    /// Time of issue, in units of so many nanoseconds.
    Time(u64),
    Node,
    Process,
    Volume,
    Op,
    /// Bytes, or sectors of 512 bytes.
    Offset(u64),
    Size(u64),
    Ignored,
}

use Column::{Ignored, Node, Offset, Op, Process, Size, Time, Volume};

/// All names; in files, case and surrounding quotes do not matter.
const NAMES: &[(&str, Column)] = &[
    ("time", Time(NS_PER_S)),
    ("time_s", Time(NS_PER_S)),
    ("time_ms", Time(NS_PER_MS)),
    ("time_us", Time(NS_PER_US)),
    ("time_ns", Time(1)),
    ("timestamp", Time(NS_PER_S)),
    ("timestamp_s", Time(NS_PER_S)),
    ("timestamp_ms", Time(NS_PER_MS)),
    ("timestamp_us", Time(NS_PER_US)),
    ("timestamp_ns", Time(1)),
    ("start", Time(NS_PER_S)),
    ("start_s", Time(NS_PER_S)),
    ("start_ms", Time(NS_PER_MS)),
    ("start_us", Time(NS_PER_US)),
    ("start_ns", Time(1)),
    ("node", Node),
    ("host", Node),
    ("hostname", Node),
    ("client", Node),
    ("process", Process),
    ("rank", Process),
    ("pid", Process),
    ("volume", Volume),
    ("file", Volume),
    ("disk", Volume),
    ("device", Volume),
    ("op", Op),
    ("operation", Op),
    ("type", Op),
    ("opcode", Op),
    ("offset", Offset(1)),
    ("lbn", Offset(512)),
    ("lba", Offset(512)),
    ("sector", Offset(512)),
    ("size", Size(1)),
    ("length", Size(1)),
    ("bytes", Size(1)),
    ("sectors", Size(512)),
    ("blocks", Size(512)),
    ("end", Ignored),
    ("end_s", Ignored),
    ("end_ms", Ignored),
    ("end_us", Ignored),
    ("end_ns", Ignored),
    ("response", Ignored),
    ("response_us", Ignored),
    ("latency", Ignored),
    ("latency_us", Ignored),
    ("duration", Ignored),
    ("duration_us", Ignored),
    ("version", Ignored),
    ("id", Ignored),
    ("sequence", Ignored),
    ("cpu", Ignored),
    ("thread", Ignored),
    ("comm", Ignored),
    ("status", Ignored),
    ("segment", Ignored),
    ("ost", Ignored),
];

/// The meaning of each column of a header.
pub(crate) fn heading(line: &[u8]) -> Result<Vec<Column>, String> {
    let mut columns = Vec::new();
    let mut names: Vec<String> = Vec::new();
    for field in line.split(|&b| b == b',') {
        let name = plain(field).to_ascii_lowercase();
        let known = NAMES.iter().find(|(known, _)| known.as_bytes() == name);
        let Some(&(name, column)) = known else {
            let known = NAMES.iter().map(|(known, _)| *known);
            let hint = match nearest(&String::from_utf8_lossy(&name), known.clone()) {
                Some(near) => format!("the nearest known is {near:?}"),
                None => format!("known are {}", known.collect::<Vec<_>>().join(", ")),
            };
            return Err(format!("the column {} is not known; {hint}", shown(&name)));
        };
        let same = |other: &&Column| std::mem::discriminant(*other) == std::mem::discriminant(&column);
        if column != Ignored
            && let Some(at) = columns.iter().position(|other| same(&other))
        {
            return Err(format!("the columns {:?} and {name:?} mean the same", names[at]));
        }
        columns.push(column);
        names.push(name.to_owned());
    }
    let has = |wanted: fn(&Column) -> bool| columns.iter().any(wanted);
    if !has(|column| matches!(column, Offset(_))) {
        return Err("no column says where: name one offset (bytes), or lbn, lba, sector (512 B)".to_owned());
    }
    if !has(|column| matches!(column, Size(_))) {
        return Err(
            "no column says how much: name one size, length, bytes, or sectors, blocks (512 B)".to_owned()
        );
    }
    Ok(columns)
}

/// A field without blanks and quotes around it.
pub(crate) fn plain(field: &[u8]) -> &[u8] {
    let field = field.trim_ascii();
    field.strip_prefix(b"\"").and_then(|field| field.strip_suffix(b"\"")).unwrap_or(field)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_told_by_name_in_any_order() {
        let columns = heading(b"LBA, \"Time_us\",end_us,sectors,rank").unwrap();
        assert_eq!(columns, [Offset(512), Time(1_000), Ignored, Size(512), Process]);
    }

    #[test]
    fn an_unknown_column_is_named_with_the_nearest() {
        let problem = heading(b"time,ofset,size").unwrap_err();
        assert_eq!(problem, "the column \"ofset\" is not known; the nearest known is \"offset\"");
    }

    #[test]
    fn two_columns_of_one_meaning_are_refused() {
        assert_eq!(
            heading(b"lba,offset,size").unwrap_err(),
            "the columns \"lba\" and \"offset\" mean the same"
        );
    }

    #[test]
    fn place_and_size_are_needed() {
        assert!(heading(b"time,op,size").unwrap_err().contains("where"));
        assert!(heading(b"time,op,lbn").unwrap_err().contains("how much"));
    }
}
