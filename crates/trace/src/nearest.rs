//! The known word that was probably meant.

/// The candidate with the fewest edits from `word` (the first of several).
pub(crate) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_ascii_lowercase();
    candidates.into_iter().min_by_key(|candidate| edits(word.as_bytes(), candidate.as_bytes()))
}

/// Levenshtein's distance.
fn edits(a: &[u8], b: &[u8]) -> usize {
    // Words from a file may be long, names are not: what is longer cannot be near.
    let a = &a[..a.len().min(64)];
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_counted() {
        assert_eq!(edits(b"", b"abc"), 3);
        assert_eq!(edits(b"kitten", b"sitting"), 3);
        assert_eq!(edits(b"lba", b"lba"), 0);
    }

    #[test]
    fn the_nearest_word_is_found() {
        assert_eq!(nearest("Ofset", ["time", "offset", "op"]), Some("offset"));
        assert_eq!(nearest("x", []), None);
    }
}
