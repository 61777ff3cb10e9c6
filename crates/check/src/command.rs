//! The command line, for `cards check` and for `cards-check`.

mod batches;
mod parse;
mod report;
mod verdict;

use std::io::{BufWriter, IsTerminal as _, Write as _};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use cards_core::Stats;
use cards_world::Trace;

pub use verdict::Verdict;

use crate::options::{Mode, Options};
use crate::overrides::Overrides;
use crate::run::{self, Failure};
use crate::seeds::{Summary, run_caught};
use crate::shrink::shrink;
use report::{Failed, Ran, Report};

/// What to run, and what to print.
#[derive(clap::Args, Clone, Debug)]
pub struct Command {
    /// Seeds to run, both ends included; without the last, until stopped
    #[arg(long, value_name = "FIRST..LAST", default_value = "1..200", value_parser = parse::seeds)]
    seeds: RangeInclusive<u64>,
    /// Run this seed only
    #[arg(long, value_name = "N", conflicts_with = "seeds", value_parser = parse::seed)]
    seed: Option<u64>,
    /// With --seed: draw as at first, as seeds marked `first` in the regression files were
    #[arg(long, requires = "seed")]
    first: bool,
    /// With --seed: draw as seeds marked `second` were
    #[arg(long, requires = "seed", conflicts_with = "first")]
    second: bool,
    /// One node writes alone and in small pieces, and only the disk node's process fails: nobody is told of an error
    #[arg(long, conflicts_with_all = ["first", "second"])]
    lone: bool,
    /// Seeds run at the same time [default: the number of cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// Print a failing run as it is, without looking for a simpler one
    #[arg(long)]
    no_shrink: bool,
    /// One JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    overrides: Overrides,
}

/// Who runs a [`Command`].
#[derive(Clone, Copy, Debug)]
pub struct Caller<'a> {
    /// What stands before the flags in the command that replays a run.
    pub program: &'a str,
    /// Print the trace of the seed: every input and output of every node.
    pub verbose: bool,
    /// Becomes true when it shall end and say what it has done.
    pub stop: &'a AtomicBool,
}

impl Command {
    /// Runs the seeds and prints what they have come to.
    #[must_use]
    pub fn run(&self, caller: &Caller<'_>) -> Verdict {
        if caller.verbose && (self.seed.is_none() || self.json) {
            eprintln!("error: --verbose prints the trace of one seed: give --seed N, and no --json");
            return Verdict::Usage;
        }
        #[cfg(feature = "mistakes")]
        cards_core::mistakes::make(self.overrides.mistake);
        let report = match self.seed {
            Some(seed) => self.one(seed, caller),
            None => self.many(caller),
        };
        if self.json {
            report.print_json()
        } else {
            report.print()
        }
        report.verdict()
    }

    fn one(&self, seed: u64, caller: &Caller<'_>) -> Report {
        let begin = Instant::now();
        let trace = if caller.verbose {
            let mut out = BufWriter::new(std::io::stdout());
            // A reader that has seen enough (`| head`) is no error.
            Trace::to(move |line| drop(writeln!(out, "{line}")))
        } else {
            Trace::hashed()
        };
        let mut options = self.drawn(seed);
        self.overrides.apply(&mut options);
        let (summary, ran) = match run_caught(options, trace) {
            Ok(report) => {
                let ran = Ran::new(&report);
                let run::Report { faults, judged, stale_hints, stats, .. } = report;
                let Stats { handed_over, withdrawals, .. } = stats;
                let failed = None;
                let summary =
                    Summary { passed: 1, faults, judged, stale_hints, handed_over, withdrawals, failed };
                (summary, Some(ran))
            }
            Err(failure) => (Summary { failed: Some((seed, failure)), ..Summary::default() }, None),
        };
        self.report(seed..=seed, summary, ran, begin, caller)
    }

    fn many(&self, caller: &Caller<'_>) -> Report {
        let begin = Instant::now();
        let cores = || thread::available_parallelism().map_or(1, usize::from);
        let jobs = self.jobs.map_or_else(cores, usize::from);
        if !self.json {
            report::say(format_args!("seeds {}", parse::text(&self.seeds)));
        }
        let terminal = std::io::stderr().is_terminal();
        let progress = |passed: u64| {
            if terminal {
                eprint!("\r{} passed", parse::share(passed, &self.seeds));
            }
        };
        let adjust = |options: &mut Options| {
            if self.lone {
                *options = Options::lone(options.seed);
            }
            self.overrides.apply(options);
        };
        let summary = batches::run(&self.seeds, jobs, &adjust, &progress, caller.stop);
        if terminal {
            eprintln!();
        }
        self.report(self.seeds.clone(), summary, None, begin, caller)
    }

    fn report(
        &self,
        seeds: RangeInclusive<u64>,
        mut summary: Summary,
        ran: Option<Ran>,
        begin: Instant,
        caller: &Caller<'_>,
    ) -> Report {
        let elapsed = begin.elapsed();
        let failed = summary.failed.take().map(|(seed, failure)| self.failed(seed, failure, caller));
        let count = parse::count(&seeds);
        let done = summary.passed == count;
        // Few seeds, or overridden ones, need not have all.
        let (missing, idle) = if done && count >= 200 && self.overrides.flags().is_empty() && !self.lone {
            (summary.missing_faults(), summary.idle_observers())
        } else {
            (Vec::new(), Vec::new())
        };
        let stopped = caller.stop.load(Ordering::Relaxed) && !done && failed.is_none();
        Report { seeds, summary, elapsed, ran, failed, missing, idle, stopped }
    }

    fn failed(&self, seed: u64, failure: Failure, caller: &Caller<'_>) -> Failed {
        let drawn = self.drawn(seed);
        let replay = |overrides: &Overrides| {
            let drawn = match (self.first, self.second) {
                (true, _) => " --first",
                (_, true) => " --second",
                _ if self.lone => " --lone",
                _ => "",
            };
            format!("{} --seed {seed}{drawn}{}", caller.program, overrides.flags())
        };
        let (cold, again) = (drawn.mode == Mode::ColdRead, replay(&self.overrides));
        if self.no_shrink || caller.verbose {
            return Failed { seed, cold, failure, replay: again, tried: 0, simplest: None };
        }
        if std::io::stderr().is_terminal() {
            eprintln!("seed {seed} has failed; looking for a simpler run that fails");
        }
        let shrunk = shrink(&drawn, &self.overrides, &failure, caller.stop);
        let simpler = shrunk.overrides != self.overrides;
        let simplest = simpler.then(|| (replay(&shrunk.overrides), shrunk.failure));
        Failed { seed, cold, failure, replay: again, tried: shrunk.runs, simplest }
    }

    fn drawn(&self, seed: u64) -> Options {
        match (self.first, self.second) {
            (true, _) => Options::first(seed),
            (_, true) => Options::second(seed),
            _ if self.lone => Options::lone(seed),
            _ => Options::draw(seed),
        }
    }
}

#[cfg(test)]
mod tests;
