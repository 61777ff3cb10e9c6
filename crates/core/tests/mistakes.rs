//! Shows that the random runs of commands in flight find what they are there for: each deliberate mistake of the window, within
//! their seeds. One at a time in a process of its own: a mistake is made by all cores of the process.

#[path = "shard/window.rs"]
mod window;

use cards_core::mistakes::{Mistake, make};

#[test]
fn every_mistake_in_flight_is_found() {
    let missed: Vec<Mistake> = Mistake::IN_FLIGHT.into_iter().filter(|&mistake| !is_found(mistake)).collect();
    assert_eq!(missed, [], "nobody noticed");
}

fn is_found(mistake: Mistake) -> bool {
    make(Some(mistake));
    let found = (0..window::SEEDS).find_map(|seed| Some((seed, window::run(seed).err()?)));
    make(None);
    let Some((seed, wrong)) = found else { return false };
    println!("{mistake:?}: seed {seed}, {wrong}");
    // A seed that fails by itself has found nothing.
    assert_eq!(window::run(seed), Ok(()), "seed {seed} fails without a mistake");
    true
}
