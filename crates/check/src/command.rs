//! The command line, for `cards check` and for `cards-check`.

mod batches;
mod parse;
mod report;
mod story;
mod verdict;

use std::cell::RefCell;
use std::io::{BufWriter, IsTerminal as _, Write as _};
use std::ops::RangeInclusive;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use cards_core::Stats;
use cards_world::{DriverMistake, Trace};

pub use verdict::Verdict;

use crate::options::{Mode, Options};
use crate::overrides::Overrides;
use crate::run::{self, Failure};
use crate::seeds::{Summary, run_caught};
use crate::shrink::shrink;
use report::{Failed, Ran, Report};
use story::{About, Story};

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
    /// With --seed: draw as seeds marked `third` were
    #[arg(long, requires = "seed", conflicts_with_all = ["first", "second"])]
    third: bool,
    /// One node writes alone and in small pieces, and only the disk node's process fails: nobody is told of an error
    #[arg(long, conflicts_with_all = ["first", "second", "third"])]
    lone: bool,
    /// The volume is a group of copies: its columns at some of the nodes, over disks that lose power
    #[arg(long, conflicts_with_all = ["first", "second", "third", "lone"])]
    mirrors: bool,
    /// Seeds run at the same time [default: the number of cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// Print a failing run as it is, without looking for a simpler one
    #[arg(long)]
    no_shrink: bool,
    /// One JSON object
    #[arg(long)]
    json: bool,
    /// With --seed: tell all of the story of a volume (v0.1) or a node (n2), whether the seed fails or not
    #[arg(long, value_name = "WHAT", requires = "seed", conflicts_with = "json", value_parser = story::parse)]
    about: Option<About>,
    /// With --seed: tell the story from this time of the run on, in seconds
    #[arg(long, value_name = "SECONDS", requires = "seed", conflicts_with = "json")]
    from: Option<f64>,
    /// With --mirrors: what the driver does wrong, to see that it is found
    #[arg(long, hide = true, requires = "mirrors", value_parser = parse::driver_mistake)]
    driver_mistake: Option<DriverMistake>,
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
        let options = self.options(seed, &self.overrides);
        if self.tells_all() && !caller.verbose {
            let story = self.story(options.clone(), None);
            story.lines.iter().for_each(report::say);
        }
        let (summary, ran) = match run_caught(options, trace) {
            Ok(report) => {
                let ran = Ran::new(&report);
                let run::Report { faults, judged, stale_hints, stats, mirrors, kind, figures, .. } = report;
                let costs = [(kind, figures.into())].into();
                let Stats { handed_over, withdrawals, .. } = stats;
                let failed = None;
                let summary = Summary {
                    passed: 1,
                    faults,
                    judged,
                    stale_hints,
                    handed_over,
                    withdrawals,
                    mirrors,
                    costs,
                    failed,
                };
                (summary, Some(ran))
            }
            Err(failure) => (Summary { failed: Some((seed, failure)), ..Summary::default() }, None),
        };
        self.report(seed..=seed, summary, ran, begin, caller)
    }

    fn mirrored(&self, seed: u64) -> Options {
        let mut options = Options::mirrored(seed);
        options.world.mirrors.iter_mut().for_each(|mirror| mirror.mistake = self.driver_mistake);
        options
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
            if self.mirrors {
                *options = self.mirrored(options.seed);
            }
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
        let (missing, idle) =
            if done && count >= 200 && self.overrides.flags().is_empty() && !self.lone && !self.mirrors {
                (summary.missing_faults(), summary.idle_observers())
            } else {
                (Vec::new(), Vec::new())
            };
        let stopped = caller.stop.load(Ordering::Relaxed) && !done && failed.is_none();
        let module = self.overrides.policy.as_ref().and_then(|policy| policy.module());
        let policy_failure = module.and_then(|module| module.first_failure()).map(ToString::to_string);
        Report { seeds, summary, elapsed, ran, failed, missing, idle, policy_failure, stopped }
    }

    fn failed(&self, seed: u64, failure: Failure, caller: &Caller<'_>) -> Failed {
        let (drawn, run) = (self.drawn(seed), self.options(seed, &self.overrides));
        let replay = |overrides: &Overrides| {
            let drawn = match (self.first, self.second) {
                (true, _) => " --first",
                (_, true) => " --second",
                _ if self.third => " --third",
                _ if self.lone => " --lone",
                _ if self.mirrors => " --mirrors",
                _ => "",
            };
            format!("{} --seed {seed}{drawn}{}", caller.program, overrides.flags())
        };
        let (cold, again, drawn_lines) = (run.mode == Mode::ColdRead, replay(&self.overrides), run.told());
        // Whoever wants to see all of this run has asked for it already.
        let told = self.json || caller.verbose || self.tells_all();
        let story = |failure: &Failure, overrides: &Overrides| {
            let about = About::named_in(&failure.to_string());
            (!told).then(|| self.story(self.options(seed, overrides), about))
        };
        if self.no_shrink || caller.verbose {
            let story = story(&failure, &self.overrides);
            let (drawn, simplest) = (drawn_lines, None);
            return Failed { seed, cold, failure, drawn, replay: again, tried: 0, simplest, story };
        }
        if std::io::stderr().is_terminal() {
            eprintln!("seed {seed} has failed; looking for a simpler run that fails");
        }
        let shrunk = shrink(&drawn, &self.overrides, &failure, caller.stop);
        let simpler = shrunk.overrides != self.overrides;
        let simplest = simpler.then(|| (replay(&shrunk.overrides), shrunk.failure));
        let story = match &simplest {
            Some((_, failure)) => story(failure, &shrunk.overrides),
            None => story(&failure, &self.overrides),
        };
        Failed { seed, cold, failure, drawn: drawn_lines, replay: again, tried: shrunk.runs, simplest, story }
    }

    /// All of a story has been asked for.
    fn tells_all(&self) -> bool {
        self.about.is_some() || self.from.is_some()
    }

    /// Runs `options` once more for the story of it: all of what was asked for, or the end of what is about `about`.
    fn story(&self, options: Options, about: Option<About>) -> report::Told {
        let last = if self.tells_all() { usize::MAX } else { story::LAST };
        let about = self.about.clone().or(about);
        let name = about.as_ref().map(|about| about.name().to_owned());
        let story = Story::new(about, self.from.unwrap_or(0.0), last, options.world.shards);
        let story = Rc::new(RefCell::new(story));
        let sink = Rc::clone(&story);
        // How it ends is known.
        drop(run_caught(options, Trace::to(move |line| sink.borrow_mut().line(line))));
        let mut story = story.borrow_mut();
        let lines = story.finish();
        report::Told { about: name, lines, of: story.told, trace: story.seen }
    }

    fn options(&self, seed: u64, overrides: &Overrides) -> Options {
        let mut options = self.drawn(seed);
        overrides.apply(&mut options);
        options
    }

    fn drawn(&self, seed: u64) -> Options {
        match (self.first, self.second) {
            (true, _) => Options::first(seed),
            (_, true) => Options::second(seed),
            _ if self.third => Options::third(seed),
            _ if self.lone => Options::lone(seed),
            _ if self.mirrors => self.mirrored(seed),
            _ => Options::draw(seed),
        }
    }
}

#[cfg(test)]
mod tests;
