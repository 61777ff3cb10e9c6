//! Ranges of bytes.

/// From the start to before the end.
pub(crate) type Range = std::ops::Range<u64>;

/// What is left of `range` without all of `holes`, which are in order of their starts.
pub(super) fn without(range: Range, holes: &[Range]) -> Vec<Range> {
    let mut rest = Vec::new();
    let mut start = range.start;
    for hole in holes {
        if hole.start > start && start < range.end {
            rest.push(start..hole.start.min(range.end));
        }
        start = start.max(hole.end);
    }
    if start < range.end {
        rest.push(start..range.end);
    }
    rest
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_left_is_the_range_without_the_holes(
            range in (0..20u64, 0..20u64),
            holes in prop::collection::vec((0..30u64, 0..10u64), 0..5),
        ) {
            let range = range.0..range.0 + range.1;
            let mut holes: Vec<Range> = holes.into_iter().map(|(start, length)| start..start + length).collect();
            holes.sort_unstable_by_key(|hole| hole.start);
            let rest = without(range.clone(), &holes);
            for at in 0..50 {
                let expected = range.contains(&at) && !holes.iter().any(|hole| hole.contains(&at));
                prop_assert_eq!(rest.iter().filter(|part| part.contains(&at)).count(), usize::from(expected));
            }
            prop_assert!(rest.iter().all(|part| !part.is_empty()));
        }
    }
}
