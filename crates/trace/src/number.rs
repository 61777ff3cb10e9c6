//! Numbers in text.

/// A whole number, decimal.
pub(crate) fn integer(what: &str, field: &[u8]) -> Result<u64, String> {
    let digits = field.trim_ascii();
    if digits.is_empty() {
        return Err(format!("the {what} is missing"));
    }
    let mut value = 0u64;
    for &byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return Err(not_a_number(what, digits));
        }
        value = match value.checked_mul(10).and_then(|v| v.checked_add(u64::from(digit))) {
            Some(value) => value,
            None => return Err(format!("the {what} {} is larger than 64 bits hold", shown(digits))),
        };
    }
    Ok(value)
}

/// A time in a unit of `unit_ns` nanoseconds, with or without a decimal point, in nanoseconds (rounded down).
pub(crate) fn time_ns(field: &[u8], unit_ns: u64) -> Result<u64, String> {
    let field = field.trim_ascii();
    let too_late = || format!("the time {} is later than 64 bits of nanoseconds reach", shown(field));
    let Some(point) = field.iter().position(|&b| b == b'.') else {
        return integer("time", field)?.checked_mul(unit_ns).ok_or_else(too_late);
    };
    let whole = match &field[..point] {
        [] => 0,
        digits => integer("time", digits)?,
    };
    let fraction = &field[point + 1..];
    if !fraction.iter().all(u8::is_ascii_digit) {
        return Err(not_a_number("time", field));
    }
    let mut part = 0u64;
    let mut scale = 1u64;
    for &digit in fraction.iter().take(10) {
        part = part * 10 + u64::from(digit - b'0');
        scale *= 10;
    }
    // At most 10 digits times at most 10^9 ns: no overflow.
    whole.checked_mul(unit_ns).and_then(|ns| ns.checked_add(part * unit_ns / scale)).ok_or_else(too_late)
}

fn not_a_number(what: &str, field: &[u8]) -> String {
    let shown = shown(field);
    match field.first() {
        Some(b'-') if field.len() > 1 && field[1..].iter().all(|b| b.is_ascii_digit() || *b == b'.') => {
            format!("the {what} {shown} is negative")
        }
        _ => format!("the {what} {shown} is not a number"),
    }
}

/// A field as it can be printed: quoted, short, without control characters.
pub(crate) fn shown(field: &[u8]) -> String {
    let text = String::from_utf8_lossy(&field[..field.len().min(64)]);
    let more = if field.len() > 64 { "..." } else { "" };
    format!("{text:?}{more}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers() {
        assert_eq!(integer("offset", b" 42 "), Ok(42));
        assert_eq!(integer("offset", b"18446744073709551615"), Ok(u64::MAX));
        assert!(integer("offset", b"18446744073709551616").unwrap_err().contains("64 bits"));
        assert_eq!(integer("offset", b"-5").unwrap_err(), "the offset \"-5\" is negative");
        assert_eq!(integer("offset", b"4k").unwrap_err(), "the offset \"4k\" is not a number");
        assert_eq!(integer("offset", b"").unwrap_err(), "the offset is missing");
    }

    #[test]
    fn times_with_and_without_a_point() {
        assert_eq!(time_ns(b"12", 1_000), Ok(12_000));
        assert_eq!(time_ns(b"0.551706", 1_000_000_000), Ok(551_706_000));
        assert_eq!(time_ns(b".5", 1_000), Ok(500));
        assert_eq!(time_ns(b"3.", 1_000), Ok(3_000));
        assert_eq!(time_ns(b"1.99999999999999", 1_000_000_000), Ok(1_999_999_999));
        assert_eq!(time_ns(b"128166372003061629", 100), Ok(12_816_637_200_306_162_900));
        assert!(time_ns(b"99999999999", 1_000_000_000).is_err());
        assert!(time_ns(b"-1.5", 1).unwrap_err().contains("negative"));
        assert!(time_ns(b"1.x", 1).unwrap_err().contains("not a number"));
    }
}
