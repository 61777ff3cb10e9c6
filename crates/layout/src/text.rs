//! Sizes and lists in messages.

use alloc::string::String;
use core::fmt;

/// Bytes, in the largest binary unit that leaves a whole number.
pub(crate) struct Bytes(pub(crate) u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
        match units.into_iter().find(|(shift, _)| self.0 > 0 && self.0.is_multiple_of(1 << shift)) {
            Some((shift, unit)) => write!(f, "{} {unit}", self.0 >> shift),
            None => write!(f, "{} bytes", self.0),
        }
    }
}

/// The names with a space between them; of a long list its beginning.
pub(crate) fn list<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    const SHOWN: usize = 12;
    let more = names.len().saturating_sub(SHOWN);
    let mut text = String::new();
    for name in names.take(SHOWN) {
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(name);
    }
    if more > 0 {
        text += &alloc::format!(" and {more} more");
    }
    text
}
