//! A range of a volume as users write it: `OFFSET+LENGTH` or `OFFSET..END`, the same for every verb.

use cards_config::size;

/// The name of a range in `--help`.
pub(crate) const SYNTAX: &str = "OFFSET+LENGTH|OFFSET..END";

/// The offset and the length of a range, in bytes. The end of `OFFSET..END` is the first byte behind the range.
pub(crate) fn parse(text: &str) -> Result<(u64, u64), String> {
    let size = |text: &str| size::parse(text).map_err(|error| error.to_string());
    let (offset, length) = if let Some((offset, length)) = text.split_once('+') {
        (size(offset)?, size(length)?)
    } else if let Some((offset, end)) = text.split_once("..") {
        let (offset, end) = (size(offset)?, size(end)?);
        let length = end.checked_sub(offset);
        (offset, length.ok_or_else(|| format!("{text:?} ends before it begins; exchange the two"))?)
    } else {
        let problem = "is no range; write OFFSET+LENGTH or OFFSET..END, such as 1G+64M or 1G..1088M";
        return Err(format!("{text:?} {problem}"));
    };
    if length == 0 {
        return Err(format!("{text:?} is empty; a range has at least one byte"));
    }
    match offset.checked_add(length).is_some_and(|end| i64::try_from(end).is_ok()) {
        true => Ok((offset, length)),
        false => Err(format!("{text:?} ends beyond 8388607T, which no volume reaches")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_notations_mean_the_same_range() {
        assert_eq!(parse("1M+64K"), Ok((1 << 20, 64 << 10)));
        assert_eq!(parse("1M..1088K"), Ok((1 << 20, 64 << 10)));
        assert_eq!(parse("0..1"), Ok((0, 1)));
    }

    #[test]
    fn what_is_no_range_is_refused_with_what_to_write() {
        for (text, words) in [
            ("", "OFFSET+LENGTH or OFFSET..END"),
            ("5", "OFFSET+LENGTH or OFFSET..END"),
            ("0 1M", "OFFSET+LENGTH or OFFSET..END"),
            ("+", "is not a size"),
            ("1+x", "is not a size"),
            ("-1+5", "is not a size"),
            ("1..", "is not a size"),
            ("0+0", "at least one byte"),
            ("4K..4K", "at least one byte"),
            ("8K..4K", "ends before it begins"),
            ("8388607T+1T", "no volume reaches"),
        ] {
            let refused = parse(text).unwrap_err();
            assert!(refused.contains(words), "{text:?}: {refused}");
        }
    }
}
