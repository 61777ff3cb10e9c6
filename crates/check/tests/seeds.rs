//! A bounded number of seeds.

use cards_check::Options;
use cards_check::efficiency::Kind;
use cards_check::overrides::{LeftOut, Overrides};
use cards_check::seeds::run_seeds;
use cards_core::Duration;

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

/// Nothing goes wrong, so nothing is done twice: these runs have the limits that are least.
#[test]
fn a_run_without_faults_costs_little() {
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let quiet = Overrides { left_out: LeftOut::all(), ..Overrides::default() };
    let adjust = |options: &mut Options| {
        quiet.apply(options);
        options.storm = Duration::from_millis(300);
    };
    let summary = run_seeds(1..=SEEDS / 5, jobs, &adjust, &|_| {});
    if let Some((seed, failure)) = summary.failed {
        panic!(
            "seed {seed}: {failure}\nreplay: cargo run --profile sim -p cards-check -- --seed {seed} --no-faults --storm-ms 300"
        );
    }
    assert_eq!(summary.costs.keys().collect::<Vec<_>>(), [&Kind::Cold, &Kind::Quiet, &Kind::Log]);
}

/// The first seed of [`seeds_pass`].
const FIRST: u64 = 1;

#[test]
fn seeds_pass() {
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    // Among them is one in which a takeover fences a card with commands on their way, and some in which a write lands late:
    // most runs have none.
    let last = FIRST + SEEDS - 1;
    let summary = run_seeds(FIRST..=last, jobs, &|_| {}, &|_| {});
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
