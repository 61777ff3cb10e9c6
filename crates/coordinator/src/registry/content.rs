//! The registry as the content of one value: all records, one on a line.
//!
//! A line is the key, a space, the JSON and a line feed. Lines are in the order of their keys, so that one registry has
//! one content. No key has a space, and no JSON a line feed.

use std::str;

use crate::record::{Damage, Record};

use super::Registry;

impl Registry {
    /// The registry without its leases, as bytes for [`records_in`].
    #[must_use]
    pub fn content(&self) -> Vec<u8> {
        let mut lines: Vec<_> = self.records().map(|record| (record.key(), record.value())).collect();
        lines.sort_unstable();
        let lines = lines.into_iter().map(|(key, value)| format!("{key} {value}\n"));
        lines.collect::<String>().into_bytes()
    }
}

/// The records in the content of a value. [`Registry::load`] says whether they are a registry.
///
/// # Errors
/// A line is no record, or not in its place.
pub fn records_in(content: &[u8]) -> Result<Vec<Record>, Damage> {
    let damage =
        |line: usize, problem: &str| Damage { key: format!("line {line}"), problem: problem.to_owned() };
    let mut records = Vec::new();
    let mut last: Option<&str> = None;
    for (number, line) in (1..).zip(content.split_inclusive(|byte| *byte == b'\n')) {
        let whole = line.strip_suffix(b"\n").ok_or_else(|| damage(number, "is cut short"))?;
        let text = str::from_utf8(whole).map_err(|_| damage(number, "is no text"))?;
        let (key, value) = text.split_once(' ').ok_or_else(|| damage(number, "has no value"))?;
        if last.is_some_and(|last| last >= key) {
            return Err(damage(number, "is not in its place"));
        }
        last = Some(key);
        let record = Record::parse(key, value.as_bytes())?;
        // What is read and written again has the same bytes.
        if record.value() != value {
            return Err(damage(number, "is not written as a record is"));
        }
        records.push(record);
    }
    Ok(records)
}
