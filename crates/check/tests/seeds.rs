//! A bounded number of seeds.

use cards_check::Options;
use cards_check::seeds::run_seeds;

/// Enough for every fault to happen; fewer without optimization.
const SEEDS: u64 = if cfg!(cards_optimized) { 200 } else { 40 };

#[test]
fn a_node_that_writes_alone_is_told_of_no_error() {
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let lone = |options: &mut Options| *options = Options::lone(options.seed);
    let summary = run_seeds(1..=SEEDS / 2, jobs, &lone, &|_| {});
    if let Some((seed, failure)) = summary.failed {
        panic!(
            "seed {seed}: {failure}\nreplay: cargo run --profile sim -p cards-check -- --seed {seed} --lone --verbose"
        );
    }
}

#[test]
fn seeds_pass() {
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let summary = run_seeds(1..=SEEDS, jobs, &|_| {}, &|_| {});
    if let Some((seed, failure)) = summary.failed {
        panic!(
            "seed {seed}: {failure}\nreplay: cargo run --profile sim -p cards-check -- --seed {seed} --verbose"
        );
    }
    assert_eq!(summary.passed, SEEDS);
    if SEEDS >= 200 {
        assert_eq!(summary.missing_faults(), [], "every kind of fault happens");
        assert_eq!(summary.idle_observers(), [], "every observer has something to judge");
    }
}
