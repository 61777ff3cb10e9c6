//! Seeds on the command line.

use std::ops::RangeInclusive;

use cards_world::DriverMistake;

/// More seeds than can be run; their count fits.
const SEED_MAX: u64 = u64::MAX / 2;

/// One seed.
pub(super) fn seed(text: &str) -> Result<u64, String> {
    let seed = text.parse::<u64>().map_err(|error| format!("`{text}`: {error}"))?;
    if seed > SEED_MAX { Err(format!("{seed} is greater than {SEED_MAX}")) } else { Ok(seed) }
}

/// `FIRST..LAST`, both ends included; `FIRST..=LAST` too, and `FIRST..`, which does not end.
pub(super) fn seeds(text: &str) -> Result<RangeInclusive<u64>, String> {
    let (first, last) = text.split_once("..").ok_or("want FIRST..LAST, for example 1..2000")?;
    let first = seed(first)?;
    let last = if last.is_empty() { SEED_MAX } else { seed(last.trim_start_matches('='))? };
    if first > last { Err(format!("{first} is greater than {last}")) } else { Ok(first..=last) }
}

/// By its name.
pub(super) fn driver_mistake(text: &str) -> Result<DriverMistake, String> {
    let named = DriverMistake::ALL.into_iter().find(|mistake| format!("{mistake:?}") == text);
    named.ok_or_else(|| format!("`{text}` is none of {:?}", DriverMistake::ALL))
}

/// They go on until they are stopped.
pub(super) fn is_endless(seeds: &RangeInclusive<u64>) -> bool {
    *seeds.end() == SEED_MAX
}

/// As they are written.
pub(super) fn text(seeds: &RangeInclusive<u64>) -> String {
    let (first, last) = (seeds.start(), seeds.end());
    if is_endless(seeds) { format!("{first}..") } else { format!("{first}..{last}") }
}

/// So many of them.
pub(super) fn share(some: u64, seeds: &RangeInclusive<u64>) -> String {
    match is_endless(seeds) {
        true => format!("{some} seeds"),
        false => format!("{some} of {} seeds", count(seeds)),
    }
}

/// How many they are.
pub(super) fn count(seeds: &RangeInclusive<u64>) -> u64 {
    seeds.end() - seeds.start() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_a_range_with_both_ends() {
        assert_eq!(seeds("1..200"), Ok(1..=200));
        assert_eq!(seeds("7..=7"), Ok(7..=7));
        assert_eq!(count(&(1..=200)), 200);
        assert!(seeds("5..").is_ok_and(|seeds| is_endless(&seeds)));
        for wrong in ["", "5", "5..=", "..5", "5..1", "a..b", "-1..5", "0..18446744073709551615"] {
            assert!(seeds(wrong).is_err(), "{wrong}");
        }
    }
}
