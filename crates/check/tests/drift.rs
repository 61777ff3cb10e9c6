//! Clocks that differ by more than is promised break the promise, and that is noticed.

use cards_check::overrides::{Drift, Overrides};
use cards_check::seeds::run_caught;
use cards_check::{Failure, Options};
use cards_world::Trace;

/// Enough for a card to be read under a lease that is over: of a thousand, a handful do.
const SEEDS: u64 = 600;

/// Whether a client has read what nobody promises any more.
fn is_stale_read(failure: &Failure) -> bool {
    let Failure::Wrong(story) = failure else { return false };
    story.contains("may have given its card") || story.contains("not linearizable")
}

#[test]
fn drift_far_beyond_the_bound_is_noticed() {
    is_noticed(Drift::Beyond);
}

/// A virtual machine that is stopped, and with it its clock.
#[test]
fn clocks_that_stop_with_their_nodes_are_noticed() {
    is_noticed(Drift::Stop);
}

fn is_noticed(drift: Drift) {
    let overrides = Overrides { drift: Some(drift), ..Overrides::default() };
    let found = (1..=SEEDS).find_map(|seed| {
        let mut options = Options::draw(seed);
        overrides.apply(&mut options);
        run_caught(options, Trace::hashed()).err().filter(is_stale_read)
    });
    assert!(found.is_some(), "{SEEDS} seeds with {drift:?}, and nobody notices");
}
