//! "Did you mean": the nearest of the known names.

#![no_std]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

extern crate alloc;

use alloc::vec;
use alloc::vec::Vec;

/// The candidate that `word` is most likely a slip of, if any is near enough.
#[must_use]
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A third of the letters may be wrong, and one always.
    let word = &word.to_ascii_lowercase();
    let limit = (word.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= limit || extends(word, candidate))
        .min_by_key(|(distance, candidate)| (*distance, !candidate.starts_with(word.as_str())))
        .map(|(_, candidate)| candidate)
}

/// One is the beginning of the other, as in `members` for `member`.
fn extends(word: &str, candidate: &str) -> bool {
    word.len().min(candidate.len()) >= 3 && (candidate.starts_with(word) || word.starts_with(candidate))
}

/// Levenshtein distance, with a swap of two neighbours counted as one.
fn distance(a: &str, b: &str) -> usize {
    /// Longer words are no slips of any key.
    const CHARS_MAX: usize = 64;
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    if a.len() > CHARS_MAX || b.len() > CHARS_MAX {
        return usize::MAX;
    }
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut next = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let same = a[i - 1] == b[j - 1];
            let mut best = (row[j - 1] + usize::from(!same)).min(row[j] + 1).min(next[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(before[j - 2] + 1);
            }
            next[j] = best;
        }
        before = core::mem::replace(&mut row, next);
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_recognised_and_other_words_are_not() {
        let keys = ["cache", "cluster", "member", "read_ahead", "block"];
        assert_eq!(nearest("cahce", keys), Some("cache"));
        assert_eq!(nearest("members", keys), Some("member"));
        assert_eq!(nearest("readahead", keys), Some("read_ahead"));
        assert_eq!(nearest("blok", keys), Some("block"));
        assert_eq!(nearest("hsc", ["hdc", "hscc"]), Some("hscc"));
        assert_eq!(nearest("S3FIFO", ["lru", "s3-fifo"]), Some("s3-fifo"));
        assert_eq!(nearest("", keys), None);
        assert_eq!(nearest("colour", keys), None);
        assert_eq!(nearest(&"x".repeat(1000), keys), None);
    }
}
