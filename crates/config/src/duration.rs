//! Durations: `250us`, `10ms`, `1.5s`, `2m`, `1h`, `14d`.

use std::fmt;
use std::time::Duration;

use serde::{Deserializer, Serializer, de};

/// Longest duration that is accepted: 100 years of 365 days.
const MAX_NS: u128 = 100 * 365 * 86_400 * 1_000_000_000;

/// Not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// No number, no unit, or an unknown unit.
    #[error("{0:?} is not a duration; write a number with ns, us, ms, s, m, h or d (10ms)")]
    Malformed(String),
    /// Longer than a century.
    #[error("{0:?} is too long; the longest duration is 876000h")]
    TooLong(String),
}

/// Parses a duration. The unit is required, except after `0`; up to nine decimals are allowed.
///
/// # Errors
/// `text` is no duration, or longer than a century.
pub fn parse(text: &str) -> Result<Duration, DurationError> {
    let malformed = || DurationError::Malformed(text.into());
    let trimmed = text.trim();
    let number = trimmed.bytes().take_while(|b| b.is_ascii_digit() || *b == b'.').count();
    let (number, unit) = trimmed.split_at(number);
    let unit_ns: u128 = match unit.trim_start() {
        "" if number == "0" => 1,
        "ns" => 1,
        "us" | "µs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" | "min" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "d" => 86_400_000_000_000,
        _ => return Err(malformed()),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || fraction.len() > 9 {
        return Err(malformed());
    }
    let too_long = || DurationError::TooLong(text.into());
    let whole: u64 = whole.parse().map_err(|_| too_long())?;
    let scale = 10_u128.pow(fraction.len() as u32);
    let fraction: u128 = fraction.parse().map_err(|_| malformed())?;
    let ns = u128::from(whole) * unit_ns + fraction * unit_ns / scale;
    if ns > MAX_NS {
        return Err(too_long());
    }
    // MAX_NS is below 2^62.
    Ok(Duration::from_nanos(ns as u64))
}

/// The shortest form that [`parse`] reads back to the same duration: `1500ms`, `2h`.
#[must_use]
pub fn exact(duration: Duration) -> String {
    let ns = duration.as_nanos();
    for (unit_ns, unit) in [
        (3_600_000_000_000, "h"),
        (60_000_000_000, "m"),
        (1_000_000_000, "s"),
        (1_000_000, "ms"),
        (1_000, "us"),
    ] {
        if ns > 0 && ns.is_multiple_of(unit_ns) {
            return format!("{}{unit}", ns / unit_ns);
        }
    }
    format!("{ns}ns")
}

/// For `#[serde(with)]`: written as [`exact`].
///
/// # Errors
/// Those of the serializer.
pub fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&exact(*duration))
}

/// For `#[serde(with)]`: a string as [`parse`] takes it, or the number 0.
///
/// # Errors
/// The value is no duration.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    deserializer.deserialize_any(DurationVisitor)
}

struct DurationVisitor;

impl de::Visitor<'_> for DurationVisitor {
    type Value = Duration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration such as \"10ms\"")
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Duration, E> {
        parse(&value.to_string()).map_err(E::custom)
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Duration, E> {
        parse(&value.to_string()).map_err(E::custom)
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Duration, E> {
        parse(value).map_err(E::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_and_decimals() {
        for (text, ns) in [
            ("0", 0),
            ("0us", 0),
            ("250us", 250_000),
            ("10ms", 10_000_000),
            ("1.5s", 1_500_000_000),
            ("2m", 120_000_000_000),
            ("1h", 3_600_000_000_000),
            ("1.5d", 129_600_000_000_000),
            ("0.000000001s", 1),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_nanos(ns)), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_named() {
        for text in ["", "10", "ms", "-1s", "1..5s", "1.s", ".5s", "1 day", "0.0000000001s"] {
            assert_eq!(parse(text), Err(DurationError::Malformed(text.into())), "{text}");
        }
        for text in ["876001h", "99999999999999999999s", "18446744073709551615h"] {
            assert_eq!(parse(text), Err(DurationError::TooLong(text.into())));
        }
    }

    #[test]
    fn exact_reads_back() {
        for ns in [0, 1, 999, 1_000, 1_500_000, 3_000_000_000, 90_000_000_000, 7_200_000_000_000] {
            let duration = Duration::from_nanos(ns);
            assert_eq!(parse(&exact(duration)), Ok(duration));
        }
    }
}
