//! Shows that the checker finds what it is there for: each deliberate mistake, within its seeds.

use cards_check::seeds::run_seeds;
use cards_core::mistakes::{Mistake, make};

/// Without a mistake all of these pass, see `seeds.rs`.
const SEEDS: u64 = 3000;

#[test]
fn every_mistake_is_found() {
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let mut missed = Vec::new();
    for mistake in Mistake::ALL {
        make(Some(mistake));
        match run_seeds(1..=SEEDS, jobs, &|_| {}, &|_| {}).failed {
            Some((seed, failure)) => {
                let first = failure.to_string();
                println!("{mistake:?}: seed {seed}, {}", first.lines().next().unwrap_or_default());
            }
            None => missed.push(mistake),
        }
    }
    make(None);
    assert_eq!(missed, [], "nobody noticed");
}
