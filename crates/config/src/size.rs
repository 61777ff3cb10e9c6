//! Sizes in bytes: `4096`, `64K`, `4G`. Suffixes are powers of 1024, as in qemu and nbdkit.

use std::fmt;

use serde::{Deserializer, Serializer, de};

/// Not a size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    /// No whole number, or a suffix that is none of K, M, G, T.
    #[error("{0:?} is not a size; write a whole number of bytes, or one with K, M, G or T (64K is 65536)")]
    Malformed(String),
    /// More than a signed 64-bit offset can address.
    #[error("{0:?} is too large; the largest size is 8388607T")]
    TooLarge(String),
}

/// Parses a size; `K`, `KB`, `KiB` (and so on, in any case) all mean 1024.
///
/// # Errors
/// `text` is no size, or beyond 2^63 - 1.
pub fn parse(text: &str) -> Result<u64, SizeError> {
    let malformed = || SizeError::Malformed(text.into());
    let trimmed = text.trim();
    let digits = trimmed.bytes().take_while(u8::is_ascii_digit).count();
    let (number, suffix) = trimmed.split_at(digits);
    if number.is_empty() {
        return Err(malformed());
    }
    let shift = match suffix.trim_start().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return Err(malformed()),
    };
    number
        .parse::<u64>()
        .ok()
        .and_then(|n| n.checked_mul(1 << shift))
        .filter(|&n| i64::try_from(n).is_ok())
        .ok_or_else(|| SizeError::TooLarge(text.into()))
}

/// The shortest form that [`parse`] reads back to the same number: `64K`, `4097`.
#[must_use]
pub fn exact(bytes: u64) -> String {
    for (shift, suffix) in [(40, "T"), (30, "G"), (20, "M"), (10, "K")] {
        if bytes > 0 && bytes.is_multiple_of(1 << shift) {
            return format!("{}{suffix}", bytes >> shift);
        }
    }
    bytes.to_string()
}

/// A size for people, to about three digits: `3.8 MiB`.
#[must_use]
pub fn human(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    // 1023.95 KiB would print as 1024.0 KiB.
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let tenths = (value * 10.0).round();
    let digits = usize::from(tenths < 1000.0 && tenths % 10.0 != 0.0);
    format!("{value:.digits$} {}", UNITS[unit])
}

/// For `#[serde(with)]`: written as [`exact`], read as a number or a string.
///
/// # Errors
/// Those of the serializer.
pub fn serialize<S: Serializer>(bytes: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&exact(*bytes))
}

/// For `#[serde(with)]`: a number of bytes, or a string as [`parse`] takes it.
///
/// # Errors
/// The value is no size.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    deserializer.deserialize_any(SizeVisitor)
}

/// The same for a size that need not be there.
pub mod optional {
    use serde::{Deserializer, Serializer};

    /// For `#[serde(with)]`.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(bytes: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
        match bytes {
            Some(bytes) => super::serialize(bytes, serializer),
            None => serializer.serialize_none(),
        }
    }

    /// For `#[serde(with)]`.
    ///
    /// # Errors
    /// The value is no size.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
        super::deserialize(deserializer).map(Some)
    }
}

struct SizeVisitor;

impl de::Visitor<'_> for SizeVisitor {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a size such as 65536 or \"64K\"")
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<u64, E> {
        parse(&value.to_string()).map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<u64, E> {
        parse(&value.to_string()).map_err(E::custom)
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<u64, E> {
        parse(value).map_err(E::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_are_powers_of_1024_in_any_case() {
        for (text, bytes) in
            [("0", 0), ("4096", 4096), ("64K", 65536), ("64KiB", 65536), ("1 gb", 1 << 30), ("2t", 2 << 40)]
        {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_named() {
        for text in ["", "K", "-1", "1.5G", "4Q", "4 K x", "0x10"] {
            assert_eq!(parse(text), Err(SizeError::Malformed(text.into())));
        }
        for text in ["8388608T", "9223372036854775808", "99999999999999999999"] {
            assert_eq!(parse(text), Err(SizeError::TooLarge(text.into())));
        }
    }

    #[test]
    fn exact_reads_back() {
        for bytes in [0, 1, 1023, 1024, 1025, 65536, 3 << 20, (3 << 20) + 1024, 5 << 40, i64::MAX as u64] {
            assert_eq!(parse(&exact(bytes)), Ok(bytes));
        }
    }

    #[test]
    fn human_keeps_three_digits() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (1536, "1.5 KiB"),
            (1_048_575, "1 MiB"),
            (150 << 20, "150 MiB"),
            (u64::MAX, "16 EiB"),
        ] {
            assert_eq!(human(bytes), text);
        }
    }
}
