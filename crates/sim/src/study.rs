//! Many combinations, on all cores.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use cards_trace::{Progress, Request, Skipped, Source, TraceError};

use crate::report::Report;
use crate::run::{Interrupt, Pace, RunError, run, run_from};
use crate::setup::{Setup, SetupError};
use crate::workload::{Survey, Workload};

/// One run of a study.
#[derive(Clone, Debug)]
pub struct Combination {
    /// Everything but the trace.
    pub setup: Setup,
    /// The trace.
    pub workload: Arc<Workload>,
}

impl Combination {
    /// Finds what can be found without reading the trace: values that make no sense, or not together.
    ///
    /// # Errors
    /// The first thing that makes no sense.
    pub fn check(&self) -> Result<(), SetupError> {
        self.setup.check()?;
        // The system refuses what it cannot run when it is built: build a small one, and let it do nothing.
        let mut small = self.setup.clone();
        small.cache_blocks.iter_mut().for_each(|blocks| *blocks = (*blocks).min(SMALL));
        match run(&small, "", &mut Nothing::default(), &mut ()) {
            Err(RunError::Setup(error)) => Err(error),
            _ => Ok(()),
        }
    }
}

/// Blocks of a node that only shows that it can be built.
const SMALL: u32 = 256;

/// A study as others see it while it runs, and stop it.
#[derive(Debug)]
pub struct Watch {
    stop: AtomicBool,
    parts: Vec<Part>,
}

/// How far one task is.
#[derive(Debug, Default)]
struct Part {
    /// Millionths of the source.
    read: AtomicU32,
    requests: AtomicU64,
    blocks: AtomicU64,
}

/// How far a study is.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Done {
    /// Tasks that are at their end.
    pub tasks: usize,
    /// Requests, in all tasks.
    pub requests: u64,
    /// Blocks read and written, in all tasks.
    pub blocks: u64,
    /// The part of all the work, 0 to 1.
    pub share: f64,
}

const MILLION: u32 = 1_000_000;

impl Watch {
    /// For so many tasks.
    #[must_use]
    pub fn new(tasks: usize) -> Self {
        Self { stop: AtomicBool::new(false), parts: (0..tasks).map(|_| Part::default()).collect() }
    }

    /// Has all tasks end soon, without a result.
    pub fn stop(&self) {
        self.stop.store(true, Relaxed);
    }

    /// How far it is.
    #[must_use]
    pub fn done(&self) -> Done {
        let mut done = Done::default();
        for part in &self.parts {
            let read = part.read.load(Relaxed);
            done.tasks += usize::from(read == MILLION);
            done.requests += part.requests.load(Relaxed);
            done.blocks += part.blocks.load(Relaxed);
            done.share += f64::from(read) / f64::from(MILLION) / self.parts.len() as f64;
        }
        done
    }

    fn tell(&self, task: usize, requests: u64, blocks: u64, source: Progress) -> Interrupt {
        if let Some(part) = self.parts.get(task) {
            part.requests.store(requests, Relaxed);
            part.blocks.store(blocks, Relaxed);
            if let Some(total) = source.total.filter(|&total| total > 0) {
                // Only the end of the task is a whole million.
                let read = (source.done as f64 / total as f64 * f64::from(MILLION)) as u32;
                part.read.store(read.min(MILLION - 1), Relaxed);
            }
        }
        if self.stop.load(Relaxed) { Interrupt::Stop } else { Interrupt::Continue }
    }

    fn ended(&self, task: usize) {
        if let Some(part) = self.parts.get(task) {
            part.read.store(MILLION, Relaxed);
        }
    }
}

/// Tells a [`Watch`] of one task.
struct Teller<'a> {
    watch: &'a Watch,
    task: usize,
}

impl Pace for Teller<'_> {
    fn tick(&mut self, requests: u64, blocks: u64, source: Progress) -> Interrupt {
        self.watch.tell(self.task, requests, blocks, source)
    }
}

/// Simulates all combinations, `jobs` at a time. The results are in the order of the combinations, and the same whatever
/// `jobs` is; none where the study was stopped before.
pub fn run_all(
    combinations: &[Combination],
    jobs: usize,
    watch: &Watch,
) -> Vec<Option<Result<Report, RunError>>> {
    let one = |task: usize| {
        let Combination { setup, workload } = &combinations[task];
        let mut open = || workload.open(setup.nodes);
        let result = run_from(setup, &workload.name, &mut open, &mut Teller { watch, task });
        if matches!(result, Err(RunError::Stopped)) { None } else { Some(result) }
    };
    parallel(combinations.len(), jobs, watch, one)
}

/// Reads all traces once, `jobs` at a time: see [`Workload::survey`]. The results are in the order of the traces; none
/// where it was stopped before.
pub fn survey_all(
    workloads: &[(Arc<Workload>, Option<u32>)],
    jobs: usize,
    watch: &Watch,
) -> Vec<Option<Result<Survey, TraceError>>> {
    let one = |task: usize| {
        let (workload, block_bytes) = &workloads[task];
        workload
            .survey(*block_bytes, &mut |requests, source| watch.tell(task, requests, 0, source))
            .transpose()
    };
    parallel(workloads.len(), jobs, watch, one)
}

fn parallel<T: Send>(
    tasks: usize,
    jobs: usize,
    watch: &Watch,
    work: impl Fn(usize) -> Option<T> + Sync,
) -> Vec<Option<T>> {
    let results: Mutex<Vec<Option<T>>> = Mutex::new((0..tasks).map(|_| None).collect());
    let next = AtomicUsize::new(0);
    let worker = || {
        loop {
            let task = next.fetch_add(1, Relaxed);
            if task >= tasks || watch.stop.load(Relaxed) {
                return;
            }
            let result = work(task);
            watch.ended(task);
            results.lock().unwrap_or_else(PoisonError::into_inner)[task] = result;
        }
    };
    thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, tasks.max(1)) {
            scope.spawn(worker);
        }
    });
    results.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// A trace without requests.
#[derive(Default)]
struct Nothing(Skipped);

impl Source for Nothing {
    fn next(&mut self) -> Result<Option<Request>, TraceError> {
        Ok(None)
    }

    fn progress(&self) -> Progress {
        Progress::default()
    }

    fn skipped(&self) -> &Skipped {
        &self.0
    }

    fn has_times(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use cards_trace::{Beyond, Options, Spread};

    use super::*;
    use crate::machine::Library;

    fn combination(policy: &str, name: &str) -> Combination {
        let machine = Library::default().find("lan25").unwrap().clone();
        let mut setup = Setup::new(machine, policy);
        setup.nodes = 3;
        setup.cache_blocks = vec![16];
        let workload = Workload {
            name: name.into(),
            options: Options::default(),
            spread: Spread::AsIs,
            beyond: Beyond::Refuse,
        };
        Combination { setup, workload: Arc::new(workload) }
    }

    fn without_wall(report: &Report) -> Report {
        Report { wall_s: 0.0, requests_per_s: 0.0, ..report.clone() }
    }

    #[test]
    fn results_are_in_order_and_do_not_depend_on_the_jobs() {
        let trace = "gen:oltp:nodes=3,bytes=4MiB,requests=3000";
        let all: Vec<Combination> =
            ["rd", "hscc", "opt", "hscc depth=3"].map(|policy| combination(policy, trace)).into();
        let reports = |jobs| -> Vec<Report> {
            let watch = Watch::new(all.len());
            let results = run_all(&all, jobs, &watch);
            assert_eq!(watch.done().tasks, all.len());
            results.into_iter().map(|result| without_wall(&result.unwrap().unwrap())).collect()
        };
        let alone = reports(1);
        assert_eq!(alone, reports(4));
        let policies: Vec<&str> = alone.iter().map(|report| report.policy.as_str()).collect();
        assert_eq!(policies, ["rd", "hscc", "opt", "hscc depth=3"]);
    }

    #[test]
    fn a_stopped_study_has_no_results() {
        let all = [combination("rd", "gen:oltp:nodes=3,requests=all")];
        let watch = Watch::new(1);
        watch.stop();
        assert!(run_all(&all, 1, &watch)[0].is_none());
        assert_eq!(watch.done().tasks, 0);
    }

    #[test]
    fn an_error_is_the_result_of_its_run_only() {
        let all = [combination("rd", "gen:olpt"), combination("rd", "gen:oltp:nodes=3,requests=100")];
        let results = run_all(&all, 2, &Watch::new(2));
        assert!(matches!(results[0], Some(Err(RunError::Trace(_)))));
        assert!(matches!(results[1], Some(Ok(_))));
    }

    #[test]
    fn what_cannot_be_run_is_found_before_the_trace_is_read() {
        combination("hscc depth=2", "/no/such/file").check().unwrap();
        for policy in ["hsc", "hscc depth=99", "hscc deep=1"] {
            assert!(combination(policy, "/no/such/file").check().is_err(), "{policy}");
        }
    }
}
