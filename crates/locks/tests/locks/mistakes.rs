//! Shows that the random runs find what they are there for: each deliberate mistake of homes and sessions, within
//! their seeds.

use cards_locks::mistakes::{Mistake, make};

#[expect(dead_code, reason = "the tests without mistakes use more of it")]
mod faults;
#[expect(dead_code, reason = "the tests without mistakes use more of it")]
mod world;

/// Without a mistake all of these pass, see `seeds.rs`.
const SEEDS: u64 = 1000;

#[test]
fn every_mistake_is_found() {
    let missed: Vec<Mistake> = Mistake::ALL.into_iter().filter(|mistake| !is_found(*mistake)).collect();
    assert_eq!(missed, [], "nobody noticed");
}

fn is_found(mistake: Mistake) -> bool {
    make(Some(mistake));
    let found = (1..=SEEDS).find(|&seed| std::panic::catch_unwind(|| faults::run(seed)).is_err());
    // A seed that fails by itself has found nothing.
    make(None);
    if let Some(seed) = found {
        println!("{mistake:?}: seed {seed}");
        faults::run(seed);
    }
    found.is_some()
}
