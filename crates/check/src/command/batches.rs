//! Many seeds, batch by batch, so that they can be stopped.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::options::Options;
use crate::seeds::{Summary, run_seeds};

/// Seeds of a batch for each thread: few enough to end soon, enough for the threads not to wait for each other.
const SEEDS_PER_JOB: u64 = 8;

/// As [`run_seeds`]; no batch begins after `stop`.
pub(super) fn run(
    seeds: &RangeInclusive<u64>,
    jobs: usize,
    adjust: &(dyn Fn(&mut Options) + Sync),
    progress: &(dyn Fn(u64) + Sync),
    stop: &AtomicBool,
) -> Summary {
    let mut total = Summary::default();
    let mut first = *seeds.start();
    while first <= *seeds.end() && total.failed.is_none() && !stop.load(Ordering::Relaxed) {
        let last = (first + SEEDS_PER_JOB * jobs as u64 - 1).min(*seeds.end());
        let before = total.passed;
        add(&mut total, run_seeds(first..=last, jobs, adjust, &|passed| progress(before + passed)));
        first = last + 1;
    }
    total
}

fn add(total: &mut Summary, batch: Summary) {
    total.passed += batch.passed;
    for (observer, judged) in batch.judged {
        *total.judged.entry(observer).or_default() += judged;
    }
    total.stale_hints += batch.stale_hints;
    total.handed_over += batch.handed_over;
    total.withdrawals += batch.withdrawals;
    total.mirrors.add(&batch.mirrors);
    for (fault, count) in batch.faults {
        *total.faults.entry(fault).or_default() += count;
    }
    for (kind, costs) in &batch.costs {
        total.costs.entry(*kind).or_default().add(costs);
    }
    total.failed = batch.failed;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_find_what_one_run_of_all_seeds_finds() {
        let adjust = |options: &mut Options| options.storm = std::time::Duration::from_millis(20);
        let whole = run_seeds(1..=20, 2, &adjust, &|_| {});
        let parts = run(&(1..=20), 1, &adjust, &|_| {}, &AtomicBool::new(false));
        assert_eq!(parts.passed, 20);
        assert_eq!((parts.judged, parts.faults, parts.costs), (whole.judged, whole.faults, whole.costs));
    }

    #[test]
    fn none_begins_when_it_is_stopped() {
        let parts = run(&(1..=20), 1, &|_| {}, &|_| {}, &AtomicBool::new(true));
        assert_eq!((parts.passed, parts.failed), (0, None));
    }
}
