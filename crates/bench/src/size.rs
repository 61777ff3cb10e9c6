//! Sizes and durations as people type them, numbers as people read them.

use std::time::Duration;

/// Reads `4096`, `64K`, `1M`, `2G` (powers of 1024, an optional `iB` or `B` allowed).
pub fn parse_size(text: &str) -> Result<u64, String> {
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(split);
    let shift = match unit.to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" | "KIB" => 10,
        "M" | "MIB" => 20,
        "G" | "GIB" => 30,
        "T" | "TIB" => 40,
        _ => return Err(format!("unknown unit '{unit}'; use K, M, G or T")),
    };
    let number: u64 = digits.parse().map_err(|_| format!("'{text}' is not a size; try 64K, 1M or 2G"))?;
    number.checked_mul(1 << shift).ok_or_else(|| format!("'{text}' is too large"))
}

/// Reads `250ms`, `1.5s`, `10m`, or plain seconds.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (digits, unit) = text.split_at(split);
    let scale = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("unknown unit '{unit}'; use us, ms, s, m or h")),
    };
    let number: f64 = digits.parse().map_err(|_| format!("'{text}' is not a duration; try 250ms or 2s"))?;
    Duration::try_from_secs_f64(number * scale).map_err(|_| format!("'{text}' is too long"))
}

/// A size the way [`parse_size`] reads it, exact.
pub fn format_size(bytes: u64) -> String {
    for (shift, unit) in [(30, "G"), (20, "M"), (10, "K")] {
        if bytes != 0 && bytes.is_multiple_of(1 << shift) {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    bytes.to_string()
}

/// A count with a thousands unit: `812`, `19.4 k`, `1.25 M`.
pub fn format_count(count: f64) -> String {
    match count {
        c if c >= 1e6 => format!("{:.2} M", c / 1e6),
        c if c >= 1e5 => format!("{:.0} k", c / 1e3),
        c if c >= 1e3 => format!("{:.1} k", c / 1e3),
        c => format!("{c:.0}"),
    }
}

/// Bytes per second in decimal units, as drive and network makers count: `812 MB/s`, `2.58 GB/s`.
pub fn format_rate(bytes_per_s: f64) -> String {
    if bytes_per_s >= 1e9 {
        format!("{:.2} GB/s", bytes_per_s / 1e9)
    } else if bytes_per_s >= 1e8 {
        format!("{:.0} MB/s", bytes_per_s / 1e6)
    } else {
        format!("{:.2} MB/s", bytes_per_s / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_round_trip() {
        for (text, bytes) in [("0", 0), ("4096", 4096), ("4K", 4096), ("1MiB", 1 << 20), ("3g", 3 << 30)] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        assert_eq!(format_size(64 << 10), "64K");
        assert_eq!(format_size(1536), "1536");
        assert_eq!(format_size(0), "0");
        for text in ["", "K", "4X", "-1", "99999999999999999999", "99999999999T"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations_take_units() {
        assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse_duration("1.5"), Ok(Duration::from_millis(1500)));
        assert_eq!(parse_duration("10m"), Ok(Duration::from_secs(600)));
        for text in ["", "s", "1y", "-1s", "1.2.3"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn numbers_read_well() {
        assert_eq!(format_count(19_412.0), "19.4 k");
        assert_eq!(format_count(812.0), "812");
        assert_eq!(format_rate(2.58e9), "2.58 GB/s");
    }
}
