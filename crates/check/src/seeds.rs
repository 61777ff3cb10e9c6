//! Runs of many seeds.

use std::any::Any;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use cards_core::Limit;
use cards_world::{MirrorCounts, Trace};

use crate::checkers::{Judged, Observer};
use crate::efficiency::{Costs, Kind};
use crate::faults::{Counts, Fault};
use crate::options::Options;
use crate::run::{Failure, Report, run};

thread_local! {
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs `options`; a panic becomes a [`Failure::Crashed`] with its message and place.
///
/// # Errors
/// Returns the first failure found.
pub fn run_caught(options: Options, trace: Trace) -> Result<Report, Failure> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let default = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let caught = PANIC.with(|message| {
                let mut message = message.borrow_mut();
                let watched = message.is_some();
                if watched {
                    *message = Some(info.to_string());
                }
                watched
            });
            if !caught {
                default(info);
            }
        }));
    });
    PANIC.with(|message| *message.borrow_mut() = Some(String::new()));
    let result = panic::catch_unwind(AssertUnwindSafe(|| run(options, trace)));
    let message = PANIC.with(|message| message.borrow_mut().take()).unwrap_or_default();
    result.unwrap_or_else(|panic: Box<dyn Any + Send>| {
        drop(panic);
        Err(Failure::Crashed(message))
    })
}

/// What many seeds found.
#[derive(Debug, Default)]
pub struct Summary {
    /// Seeds that ran to their end.
    pub passed: u64,
    /// Faults injected.
    pub faults: Counts,
    /// How often each observer had something to judge.
    pub judged: Judged,
    /// Stale hints at the ends.
    pub stale_hints: u64,
    /// Blocks that readers got out of the memory of the node that wrote them.
    pub handed_over: u64,
    /// Withdrawals of pages, of shards that lived to the end.
    pub withdrawals: u64,
    /// What has happened to groups of copies.
    pub mirrors: MirrorCounts,
    /// What the runs of each kind have cost.
    pub costs: BTreeMap<Kind, Costs>,
    /// The lowest seed that failed.
    pub failed: Option<(u64, Failure)>,
}

impl Summary {
    /// Observers that never had anything to judge.
    #[must_use]
    pub fn idle_observers(&self) -> Vec<Observer> {
        Observer::ALL.into_iter().filter(|observer| !self.judged.contains_key(observer)).collect()
    }

    /// Faults that never happened.
    #[must_use]
    pub fn missing_faults(&self) -> Vec<Fault> {
        Fault::all().filter(|fault| !self.faults.contains_key(fault)).collect()
    }
}

/// Runs all `seeds` on `jobs` threads, until one fails. `adjust` overrides drawn options.
pub fn run_seeds(
    seeds: RangeInclusive<u64>,
    jobs: usize,
    adjust: &(dyn Fn(&mut Options) + Sync),
    progress: &(dyn Fn(u64) + Sync),
) -> Summary {
    let next = AtomicU64::new(*seeds.start());
    let stop = AtomicBool::new(false);
    let summary = Mutex::new(Summary::default());
    thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed > *seeds.end() {
                        break;
                    }
                    let mut options = Options::draw(seed);
                    adjust(&mut options);
                    let result = run_caught(options, Trace::hashed());
                    let mut summary = summary.lock().unwrap_or_else(PoisonError::into_inner);
                    summary.add(seed, result);
                    if summary.failed.is_some() {
                        stop.store(true, Ordering::Relaxed);
                    }
                    progress(summary.passed);
                }
            });
        }
    });
    summary.into_inner().unwrap_or_else(PoisonError::into_inner)
}

impl Summary {
    fn add(&mut self, seed: u64, result: Result<Report, Failure>) {
        match result {
            Ok(report) => {
                self.passed += 1;
                self.costs.entry(report.kind).or_default().add(&report.figures.into());
                for (observer, judged) in report.judged {
                    *self.judged.entry(observer).or_default() += judged;
                }
                self.stale_hints += report.stale_hints;
                self.handed_over += report.stats.handed_over;
                self.withdrawals += report.stats.withdrawals;
                self.mirrors.add(&report.mirrors);
                let reached = Limit::ALL.map(|limit| (Fault::Reached(limit), report.reached.of(limit)));
                let hedged = (Fault::Hedged, report.stats.hedged);
                let reached = reached.into_iter().chain([hedged]).filter(|&(_, count)| count > 0);
                for (fault, count) in reached.chain(report.faults) {
                    *self.faults.entry(fault).or_default() += count;
                }
            }
            Err(failure) => {
                if self.failed.as_ref().is_none_or(|(first, _)| seed < *first) {
                    self.failed = Some((seed, failure));
                }
            }
        }
    }
}
