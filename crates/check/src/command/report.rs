//! What seeds have come to, as text and as JSON.

use std::collections::BTreeMap;
use std::fmt::{Debug, Display};
use std::io::{ErrorKind, Write as _};
use std::ops::RangeInclusive;
use std::time::Duration;

use cards_core::Stats;
use serde_json::{Value, json};

use super::parse;
use super::verdict::Verdict;
use crate::checkers::Observer;
use crate::efficiency::{Cost, Costs, Kind, Rate};
use crate::faults::Fault;
use crate::run::{self, Failure};
use crate::seeds::Summary;

/// What seeds have come to.
pub(super) struct Report {
    pub(super) seeds: RangeInclusive<u64>,
    /// Of those that passed.
    pub(super) summary: Summary,
    pub(super) elapsed: Duration,
    /// What a single seed did.
    pub(super) ran: Option<Ran>,
    pub(super) failed: Option<Failed>,
    /// Faults that should have happened.
    pub(super) missing: Vec<Fault>,
    /// Observers that should have had something to judge.
    pub(super) idle: Vec<Observer>,
    /// Why the module that is the policy was given up in a run, if it was: `rd` went on there.
    pub(super) policy_failure: Option<String>,
    /// It was stopped before all seeds had run.
    pub(super) stopped: bool,
}

/// What a single seed did that passed.
pub(super) struct Ran {
    hash: u64,
    lines: u64,
    outcomes: BTreeMap<&'static str, u64>,
    stats: Stats,
}

/// A seed that failed.
pub(super) struct Failed {
    pub(super) seed: u64,
    /// It is a cold read.
    pub(super) cold: bool,
    pub(super) failure: Failure,
    /// What the seed has drawn: the name and the words of each line.
    pub(super) drawn: Vec<(&'static str, String)>,
    /// The command that runs it again.
    pub(super) replay: String,
    /// Simpler runs that were tried.
    pub(super) tried: u32,
    /// The command that runs the simplest of them that fails too, and how it fails.
    pub(super) simplest: Option<(String, Failure)>,
    /// How the simplest run went, unless that is told already.
    pub(super) story: Option<Told>,
}

/// A story, or the end of it.
pub(super) struct Told {
    /// Of what; none: of everything.
    pub(super) about: Option<String>,
    pub(super) lines: Vec<String>,
    /// Lines of the whole story.
    pub(super) of: u64,
    /// Lines of the trace.
    pub(super) trace: u64,
}

impl Ran {
    pub(super) fn new(report: &run::Report) -> Self {
        let run::Report { hash, lines, outcomes, stats, .. } = report;
        Self { hash: *hash, lines: *lines, outcomes: outcomes.clone(), stats: *stats }
    }
}

impl Report {
    pub(super) fn verdict(&self) -> Verdict {
        match &self.failed {
            Some(failed) => Verdict::from(&failed.failure),
            None if self.stopped => Verdict::Stopped,
            None if !self.missing.is_empty() || !self.idle.is_empty() => Verdict::Untested,
            None => Verdict::Passed,
        }
    }

    /// Findings on standard output, failures on standard error.
    pub(super) fn print(&self) {
        let Summary { passed, faults, judged, stale_hints, handed_over, withdrawals, mirrors, costs, .. } =
            &self.summary;
        let operations = judged.get(&Observer::Linearizability).copied().unwrap_or(0);
        if let Some(Ran { hash, lines, outcomes, stats }) = &self.ran {
            say(format_args!("seed {}: passed, {lines} trace lines, hash {hash:016x}", self.seeds.start()));
            say(format_args!("outcomes: {outcomes:?}"));
            say(format_args!("{stats:?}"));
        } else if self.failed.is_none() || parse::count(&self.seeds) > 1 {
            let (share, seconds) = (parse::share(*passed, &self.seeds), self.elapsed.as_secs_f64());
            let stopped = if self.stopped { ", stopped" } else { "" };
            say(format_args!("{share} passed in {seconds:.1} s{stopped}"));
        }
        if let Some(failed) = &self.failed {
            return failed.print();
        }
        say(format_args!("faults: {faults:?}"));
        say(format_args!("{operations} operations judged, {stale_hints} stale hints at the end"));
        say(format_args!("{handed_over} blocks handed over"));
        say(format_args!("{withdrawals} withdrawals of pages"));
        if mirrors.maps > 0 {
            say(format_args!("{mirrors:?}"));
        }
        say(format_args!("judged: {judged:?}"));
        if let Some(failure) = &self.policy_failure {
            say(format_args!("the module was given up in runs, where rd went on: {failure}"));
        }
        costs.iter().for_each(|(kind, costs)| say(costs.told(*kind)));
        if !self.missing.is_empty() {
            eprintln!("these faults never happened: {:?}", self.missing);
        }
        if !self.idle.is_empty() {
            eprintln!("these observers never had anything to judge: {:?}", self.idle);
        }
    }

    /// One object on standard output.
    pub(super) fn print_json(&self) {
        let judged = &self.summary.judged;
        say(json!({
            "first": self.seeds.start(),
            "last": self.seeds.end(),
            "passed": self.summary.passed,
            "seconds": self.elapsed.as_secs_f64(),
            "stopped": self.stopped,
            "faults": counts(&self.summary.faults),
            "missing_faults": names(&self.missing),
            "observers": counts(judged),
            "idle_observers": names(&self.idle),
            "judged": judged.get(&Observer::Linearizability).copied().unwrap_or(0),
            "stale_hints": self.summary.stale_hints,
            "handed_over": self.summary.handed_over,
            "withdrawals": self.summary.withdrawals,
            "costs": costs_of(&self.summary.costs),
            "policy_failure": self.policy_failure,
            "run": self.ran.as_ref().map(Ran::to_json),
            "failed": self.failed.as_ref().map(Failed::to_json),
        }));
    }
}

impl Ran {
    fn to_json(&self) -> Value {
        let counters: BTreeMap<&str, u64> = self.stats.iter().collect();
        let hash = format!("{:016x}", self.hash);
        json!({"hash": hash, "trace_lines": self.lines, "outcomes": self.outcomes, "counters": counters})
    }
}

impl Failed {
    fn print(&self) {
        eprint!("{}", self.page());
    }

    /// What a person reads first: no more than a page.
    pub(super) fn page(&self) -> String {
        let cold = if self.cold { " (cold read, no faults)" } else { "" };
        let mut lines = vec![format!("seed {}{cold}: {}", self.seed, self.failure)];
        let mut head = "drawn";
        for (name, words) in &self.drawn {
            lines.push(format!("{head:10}{name:13}{words}"));
            head = "";
        }
        lines.push(format!("replay    {}", self.replay));
        match &self.simplest {
            Some((replay, failure)) => {
                lines.push(format!("simplest  {replay}"));
                let how = match *failure == self.failure {
                    true => ", which fails in the same way".to_owned(),
                    false => format!(": {failure}"),
                };
                lines.push(format!("          of {} that were tried{how}", self.tried));
            }
            None if self.tried > 0 => {
                lines.push(format!("          of {} simpler runs none fails in the same way", self.tried));
            }
            None => {}
        }
        if let Some(story) = &self.story {
            let replay = self.simplest.as_ref().map_or(&self.replay, |(replay, _)| replay);
            lines.extend(story.page(replay));
        }
        lines.push(String::new());
        lines.join("\n")
    }

    fn to_json(&self) -> Value {
        let failure = |failure: &Failure| {
            let (Failure::Wrong(what) | Failure::Stuck(what) | Failure::Crashed(what)) = failure;
            json!({"kind": Verdict::name(failure), "what": what})
        };
        let simplest = self.simplest.as_ref();
        let simplest = simplest.map(|(replay, how)| json!({"replay": replay, "failure": failure(how)}));
        json!({
            "seed": self.seed,
            "failure": failure(&self.failure),
            "replay": self.replay,
            "tried": self.tried,
            "simplest": simplest,
        })
    }
}

impl Told {
    /// The end of the story, and how to see more of the run that `replay` replays.
    fn page(&self, replay: &str) -> Vec<String> {
        let Self { about, lines, of, trace } = self;
        let (of_what, flag) = match about {
            Some(name) => (format!("story of {name}"), format!("--about {name}")),
            None => ("story".to_owned(), "--from 0".to_owned()),
        };
        let mut page = vec![format!("{of_what}, the last {} of {of} lines", lines.len())];
        page.extend(lines.iter().cloned());
        page.push(format!(
            "more: {replay} {flag} (--from SECONDS: later ones; --verbose: all {trace} lines of the trace)"
        ));
        page
    }
}

fn counts<K: Debug>(counts: &BTreeMap<K, u64>) -> serde_json::Map<String, Value> {
    counts.iter().map(|(what, count)| (format!("{what:?}"), json!(count))).collect()
}

fn costs_of(costs: &BTreeMap<Kind, Costs>) -> serde_json::Map<String, Value> {
    costs.iter().map(|(kind, costs)| (format!("{kind:?}"), worst(costs))).collect()
}

/// Of each cost: of all runs together, and of the worst, in thousandths.
fn worst(costs: &Costs) -> Value {
    let both = |(cost, worst): (&Cost, &Rate)| {
        let all = cost.of(&costs.sum).map(|Rate(all)| all);
        (format!("{cost:?}"), json!({"all": all, "worst": worst.0}))
    };
    Value::Object(costs.worst.iter().map(both).collect())
}

fn names(what: &[impl Debug]) -> Vec<String> {
    what.iter().map(|what| format!("{what:?}")).collect()
}

/// Prints a line. A reader that has seen enough is no error.
pub(super) fn say(line: impl Display) {
    if let Err(error) = writeln!(std::io::stdout(), "{line}")
        && error.kind() != ErrorKind::BrokenPipe
    {
        eprintln!("standard output: {error}");
    }
}
