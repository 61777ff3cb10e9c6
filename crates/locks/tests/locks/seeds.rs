//! Random work under random faults, from many seeds.

use std::ops::RangeInclusive;
use std::panic::catch_unwind;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::faults::{self, Tally};

/// The seeds of the long run: `FIRST..LAST`, both included.
const VARIABLE: &str = "CARDS_LOCK_SEEDS";

#[test]
fn nobody_has_what_another_has_and_all_is_granted_after_healing() {
    run(0..=11).check();
}

#[test]
#[ignore = "takes minutes"]
fn many_seeds() {
    let text = std::env::var(VARIABLE).unwrap_or_else(|_| "1..2000".into());
    let number = |text: &str| text.parse::<u64>().ok();
    let seeds = text.split_once("..").and_then(|(first, last)| Some(number(first)?..=number(last)?));
    let seeds =
        seeds.unwrap_or_else(|| panic!("{VARIABLE}={text:?} is no range of seeds: write FIRST..LAST"));
    let enough = seeds.end() - seeds.start() >= 100;
    let tally = run(seeds);
    if enough {
        tally.check();
    }
}

/// Runs all seeds and says how to run the first one again that fails.
fn run(seeds: RangeInclusive<u64>) -> Tally {
    let next = AtomicU64::new(*seeds.start());
    let (tally, failed) = (Mutex::new(Tally::default()), Mutex::new(None));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if !seeds.contains(&seed) {
                return;
            }
            match catch_unwind(|| faults::run(seed)) {
                Ok(one) => tally.lock().unwrap().add(one),
                Err(_) => {
                    let mut failed = failed.lock().unwrap();
                    *failed = Some(failed.map_or(seed, |first: u64| first.min(seed)));
                    // The others end what they have begun.
                    next.store(seeds.end().saturating_add(1), Ordering::Relaxed);
                }
            }
        }
    };
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..jobs).for_each(|_| drop(scope.spawn(work))));
    if let Some(seed) = failed.into_inner().unwrap() {
        panic!(
            "seed {seed} fails, see above\nreplay: {VARIABLE}={seed}..{seed} \
             cargo test --profile sim -p cards-locks --test locks many_seeds -- --ignored"
        );
    }
    tally.into_inner().unwrap()
}
