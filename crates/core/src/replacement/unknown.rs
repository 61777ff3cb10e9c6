//! The error for a replacement's name that nothing has.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use super::Replacement;

/// There is no replacement of this name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownReplacement {
    /// The name given.
    pub name: String,
}

impl UnknownReplacement {
    /// The name that was probably meant.
    #[must_use]
    pub fn nearest(&self) -> Option<&'static str> {
        // Longer words would cost time, and are no slips of the finger.
        if self.name.len() > 32 {
            return None;
        }
        let given = self.name.to_ascii_lowercase();
        let with_distance = |r: Replacement| (distance(&given, r.name()), r.name());
        let (distance, name) = Replacement::ALL.into_iter().map(with_distance).min_by_key(|&(d, _)| d)?;
        // Half of a name's letters may be wrong at most.
        (2 * distance <= name.len()).then_some(name)
    }
}

impl fmt::Display for UnknownReplacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown replacement `{}`: ", self.name)?;
        if let Some(nearest) = self.nearest() {
            write!(f, "did you mean {nearest}? ")?;
        }
        f.write_str("There are ")?;
        for (at, replacement) in Replacement::ALL.into_iter().enumerate() {
            write!(f, "{}{replacement}", if at == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

impl core::error::Error for UnknownReplacement {}

/// Letters to add, drop or change to make `b` of `a` (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let changed = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use super::*;

    #[test]
    fn an_unknown_name_is_answered_with_the_nearest_and_all() {
        let error = |name: &str| name.parse::<Replacement>().unwrap_err().to_string();
        let there_are = "There are lru, sieve, s3-fifo, 2q, arc, w-tinylfu, w-tinylfu-10";
        assert_eq!(
            error("S3FIFO"),
            std::format!("unknown replacement `S3FIFO`: did you mean s3-fifo? {there_are}")
        );
        assert_eq!(
            error("tinylfu"),
            std::format!("unknown replacement `tinylfu`: did you mean w-tinylfu? {there_are}")
        );
        assert_eq!(error("random"), std::format!("unknown replacement `random`: {there_are}"));
        assert!(error("").starts_with("unknown replacement ``: There"));
    }

    #[test]
    fn a_distance_counts_changes() {
        let given =
            [("arc", "arc", 0), ("", "lru", 3), ("lruk", "lru", 1), ("seive", "sieve", 2), ("2q", "arc", 3)];
        for (a, b, changes) in given {
            assert_eq!(distance(a, b), changes, "{a} {b}");
        }
    }
}
