//! The parameters of a generator: their kinds, ranges and defaults.

use std::fmt;

use super::spec::SpecError;

/// A parameter of a generator.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Its key.
    pub name: &'static str,
    /// What values it takes.
    pub kind: Kind,
    /// The value if none is given, as people write it.
    pub default: &'static str,
    /// What it sets.
    pub meaning: &'static str,
}

/// What values a parameter takes.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A whole number; `k`, `M` and `G` mean 1,000, and so on. `all` is no limit, where the range allows it.
    Count(u64, u64),
    /// A size; `K`, `KB`, `KiB` (and so on) all mean 1024.
    Bytes(u64, u64),
    /// A time up to this many seconds, with its unit: `ns`, `us`, `ms`, `s`, `min`, `h`.
    Time(u64),
    /// A number with a fraction.
    Real(f64, f64),
    /// One of these words.
    Word(&'static [&'static str]),
    /// Nodes, `1+2+1`; `none` is an empty list.
    Nodes,
}

/// A value as a generator uses it.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Value {
    /// A count, a size in bytes, or a time in ns.
    Number(u64),
    /// A number with a fraction.
    Real(f64),
    /// A word.
    Word(&'static str),
    /// A list of nodes.
    Nodes(Vec<u32>),
}

/// How many nodes a list may name: what people type, not what a machine writes.
const LIST_MAX: usize = 1024;

const MAX_NODES: u64 = 65_535;

impl Parameter {
    /// The seed, which all generators have.
    pub const SEED: Self = Self {
        name: "seed",
        kind: Kind::Count(0, u64::MAX),
        default: "1",
        meaning: "what the random numbers start from",
    };

    /// The factor on times, which all generators have.
    pub const TIME: Self = Self {
        name: "time",
        kind: Kind::Real(0.0, 1e6),
        default: "1",
        meaning: "factor on all times and compute demands",
    };

    /// The limit, which all generators have.
    pub const fn requests(default: &'static str) -> Self {
        Self {
            name: "requests",
            kind: Kind::Count(0, u64::MAX),
            default,
            meaning: "how many requests at most",
        }
    }

    /// The number of nodes, which all generators have.
    pub const fn nodes(default: &'static str) -> Self {
        Self { name: "nodes", kind: Kind::Count(1, MAX_NODES), default, meaning: "nodes" }
    }

    /// Reads a value.
    ///
    /// # Errors
    /// The value is of another kind or out of range.
    pub(crate) fn parse(&self, text: &str) -> Result<Value, SpecError> {
        let value = match self.kind {
            Kind::Count(..) if text == "all" => Some(Value::Number(u64::MAX)),
            Kind::Count(..) => number(text, count_unit),
            Kind::Bytes(..) => number(text, byte_unit),
            Kind::Time(_) => number(text, time_unit),
            Kind::Real(..) => text.parse().ok().filter(|real: &f64| real.is_finite()).map(Value::Real),
            Kind::Word(words) => words.iter().find(|&&word| word == text).map(|word| Value::Word(word)),
            Kind::Nodes => nodes(text).map(Value::Nodes),
        };
        value.filter(|value| self.kind.allows(value)).ok_or_else(|| SpecError::BadValue {
            parameter: self.name,
            value: text.to_owned(),
            problem: format!("should be {}", self.kind),
        })
    }
}

impl Kind {
    fn allows(&self, value: &Value) -> bool {
        match (self, value) {
            (Self::Count(least, most) | Self::Bytes(least, most), Value::Number(number)) => {
                (least..=most).contains(&number)
            }
            (Self::Time(seconds), Value::Number(nanos)) => *nanos <= seconds.saturating_mul(1_000_000_000),
            (Self::Real(least, most), Value::Real(real)) => (least..=most).contains(&real),
            (_, Value::Word(_) | Value::Nodes(_)) => true,
            _ => false,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(least, u64::MAX) => write!(f, "a count from {least}, or all"),
            Self::Count(least, most) => write!(f, "a count from {least} to {most}"),
            Self::Bytes(least, most) => write!(f, "a size from {} to {}", Size(*least), Size(*most)),
            Self::Time(seconds) => write!(f, "a time such as 20ms, up to {seconds}s"),
            Self::Real(least, most) => write!(f, "a number from {least} to {most}"),
            Self::Word(words) => f.write_str(&words.join(" or ")),
            Self::Nodes => write!(f, "nodes such as 1+2, at most {LIST_MAX}, or none"),
        }
    }
}

/// Bytes in the largest unit that divides them.
struct Size(u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
        match units.into_iter().find(|(shift, _)| self.0 != 0 && self.0.is_multiple_of(1 << shift)) {
            Some((shift, unit)) => write!(f, "{}{unit}", self.0 >> shift),
            None => write!(f, "{}B", self.0),
        }
    }
}

/// A number with a unit. Whole numbers are exact; fractions are rounded to the unit's ones.
fn number(text: &str, unit: fn(&str) -> Option<u64>) -> Option<Value> {
    let digits = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    let (digits, suffix) = text.split_at_checked(digits)?;
    let factor = unit(suffix)?;
    if let Ok(whole) = digits.parse::<u64>() {
        return whole.checked_mul(factor).map(Value::Number);
    }
    let scaled = digits.parse::<f64>().ok()? * factor as f64;
    // Beyond 2^63 a float is not exact enough to be meant.
    (scaled.is_finite() && scaled < 9.2e18).then(|| Value::Number(scaled.round() as u64))
}

fn count_unit(suffix: &str) -> Option<u64> {
    Some(match suffix {
        "" => 1,
        "k" | "K" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        _ => return None,
    })
}

fn byte_unit(suffix: &str) -> Option<u64> {
    let suffix = suffix.to_ascii_uppercase();
    let letter = suffix.trim_end_matches('B').trim_end_matches('I');
    Some(match letter {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        "T" => 1 << 40,
        _ => return None,
    })
}

fn time_unit(suffix: &str) -> Option<u64> {
    Some(match suffix {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "min" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

fn nodes(text: &str) -> Option<Vec<u32>> {
    if text == "none" {
        return Some(Vec::new());
    }
    if text.split('+').count() > LIST_MAX {
        return None;
    }
    text.split('+').map(|node| node.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(kind: Kind, text: &str) -> Option<Value> {
        Parameter { name: "x", kind, default: "", meaning: "" }.parse(text).ok()
    }

    #[test]
    fn values_are_read_with_their_units() {
        let count = Kind::Count(0, u64::MAX);
        assert_eq!(parse(count, "2.8M"), Some(Value::Number(2_800_000)));
        assert_eq!(parse(count, "281k"), Some(Value::Number(281_000)));
        assert_eq!(parse(count, "18446744073709551615"), Some(Value::Number(u64::MAX)));
        assert_eq!(parse(count, "all"), Some(Value::Number(u64::MAX)));
        assert_eq!(parse(Kind::Bytes(0, 1 << 40), "64MiB"), Some(Value::Number(64 << 20)));
        assert_eq!(parse(Kind::Bytes(0, 1 << 40), "8k"), Some(Value::Number(8192)));
        assert_eq!(parse(Kind::Time(3600), "960us"), Some(Value::Number(960_000)));
        assert_eq!(parse(Kind::Time(3600), "0.5min"), Some(Value::Number(30_000_000_000)));
        assert_eq!(parse(Kind::Nodes, "2+0+2"), Some(Value::Nodes(vec![2, 0, 2])));
        assert_eq!(parse(Kind::Nodes, "none"), Some(Value::Nodes(vec![])));
    }

    #[test]
    fn nonsense_is_refused() {
        for (kind, text) in [
            (Kind::Count(0, 10), "11"),
            (Kind::Count(0, 10), "all"),
            (Kind::Count(0, 10), "-1"),
            (Kind::Count(0, u64::MAX), "99999999999G"),
            (Kind::Count(0, u64::MAX), "1.2.3"),
            (Kind::Count(0, u64::MAX), ""),
            (Kind::Bytes(0, 10), "1Q"),
            (Kind::Time(10), "5"),
            (Kind::Time(10), "11s"),
            (Kind::Real(0.0, 1.0), "NaN"),
            (Kind::Real(0.0, 1.0), "inf"),
            (Kind::Nodes, "1+x"),
            (Kind::Nodes, ""),
        ] {
            assert_eq!(parse(kind, text), None, "{kind:?} {text}");
        }
    }
}
