//! `cards-check`: runs seeds until one fails.

use std::io::{IsTerminal, Write};
use std::ops::RangeInclusive;
use std::process::ExitCode;
use std::thread;
use std::time::Instant;

use cards_check::options::Mode;
use cards_check::seeds::{run_caught, run_seeds};
use cards_check::{Failure, Options};
use cards_core::Duration;
use cards_world::Trace;
use clap::Parser;

/// Attacks a simulated cluster with random faults and checks what its clients see.
///
/// Exit status: 0 nothing found, 1 a promise was broken, 2 bad usage, 3 something never completed,
/// 4 a node panicked, 5 some kind of fault never happened (only with 200 seeds or more).
#[derive(Parser, Debug)]
#[command(name = "cards-check", version)]
struct Arguments {
    /// Seeds to run, both ends included.
    #[arg(long, value_name = "FIRST..LAST", default_value = "1..200", value_parser = parse_seeds)]
    seeds: RangeInclusive<u64>,
    /// Run this seed only.
    #[arg(long, value_name = "N", conflicts_with = "seeds")]
    seed: Option<u64>,
    /// With --seed: draw as at first, as seeds marked `first` in the regression files were.
    #[arg(long, requires = "seed")]
    first: bool,
    /// With --seed: print the trace, every input and output of every node.
    #[arg(long, requires = "seed")]
    verbose: bool,
    /// Threads; all processors by default.
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    #[command(flatten)]
    overrides: Overrides,
}

/// Override what the seed draws.
#[derive(clap::Args, Clone, Debug)]
struct Overrides {
    /// Policy of all volumes.
    #[arg(long, value_name = "POLICY")]
    policy: Option<String>,
    /// Messages lost, in per mille.
    #[arg(long, value_name = "PER_MILLE", value_parser = clap::value_parser!(u32).range(0..=500))]
    loss: Option<u32>,
    /// How long the storm lasts, in milliseconds.
    #[arg(long, value_name = "MS")]
    storm_ms: Option<u64>,
    /// No node dies.
    #[arg(long)]
    no_crashes: bool,
    /// No node stands still.
    #[arg(long)]
    no_pauses: bool,
    /// No connection breaks.
    #[arg(long)]
    no_cuts: bool,
    /// No faults at all.
    #[arg(long)]
    no_faults: bool,
    /// Make this mistake in the protocol, on purpose; a name that there is none of lists them
    #[cfg(feature = "mistakes")]
    #[arg(long, value_parser = mistake)]
    mistake: Option<cards_core::mistakes::Mistake>,
}

#[cfg(feature = "mistakes")]
fn mistake(name: &str) -> Result<cards_core::mistakes::Mistake, String> {
    let all = cards_core::mistakes::Mistake::ALL;
    let named = all.into_iter().find(|mistake| format!("{mistake:?}") == name);
    named.ok_or_else(|| format!("there are {all:?}"))
}

impl Overrides {
    fn apply(&self, options: &mut Options) {
        if let Some(policy) = &self.policy {
            options.world.volumes.iter_mut().for_each(|spec| spec.policy.clone_from(policy));
        }
        if let Some(storm_ms) = self.storm_ms {
            options.storm = Duration::from_millis(storm_ms);
        }
        if self.no_crashes || self.no_faults {
            options.nodes.crash_every = Duration::ZERO;
        }
        if self.no_pauses || self.no_faults {
            options.nodes.pause_every = Duration::ZERO;
        }
        if self.no_cuts || self.no_faults {
            options.nodes.cut_every = Duration::ZERO;
        }
        if self.no_faults {
            let network = &mut options.network;
            (network.rare, network.reorder, network.loss) = (0, false, 0);
            (network.duplicate, network.broken) = (0, 0);
            (options.disk.read_errors, options.disk.write_errors) = (0, 0);
        }
        if let Some(loss) = self.loss {
            options.network.loss = loss;
        }
    }

    /// As flags again, for the command that replays a run.
    fn flags(&self) -> String {
        let mut flags = String::new();
        if let Some(policy) = &self.policy {
            flags += &format!(" --policy '{policy}'");
        }
        if let Some(loss) = self.loss {
            flags += &format!(" --loss {loss}");
        }
        if let Some(storm_ms) = self.storm_ms {
            flags += &format!(" --storm-ms {storm_ms}");
        }
        let switches = [
            (self.no_crashes, " --no-crashes"),
            (self.no_pauses, " --no-pauses"),
            (self.no_cuts, " --no-cuts"),
            (self.no_faults, " --no-faults"),
        ];
        flags.extend(switches.into_iter().filter(|(on, _)| *on).map(|(_, flag)| flag));
        flags
    }
}

fn parse_seeds(text: &str) -> Result<RangeInclusive<u64>, String> {
    let (first, last) = text.split_once("..").ok_or("want FIRST..LAST, for example 1..2000")?;
    let number = |text: &str| text.parse::<u64>().map_err(|error| format!("`{text}`: {error}"));
    let (first, last) = (number(first)?, number(last.trim_start_matches('='))?);
    if first > last { Err(format!("{first} is greater than {last}")) } else { Ok(first..=last) }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    #[cfg(feature = "mistakes")]
    cards_core::mistakes::make(arguments.overrides.mistake);
    match arguments.seed {
        Some(seed) => one(seed, &arguments),
        None => many(&arguments),
    }
}

fn one(seed: u64, arguments: &Arguments) -> ExitCode {
    let mut options = if arguments.first { Options::first(seed) } else { Options::draw(seed) };
    arguments.overrides.apply(&mut options);
    let trace = if arguments.verbose {
        let mut out = std::io::BufWriter::new(std::io::stdout());
        // A reader that has seen enough (`| head`) is no error.
        Trace::to(move |line| drop(writeln!(out, "{line}")))
    } else {
        Trace::hashed()
    };
    match run_caught(options, trace) {
        Ok(report) => {
            println!("seed {seed}: passed, {} trace lines, hash {:016x}", report.lines, report.hash);
            println!("faults: {:?}", report.faults);
            println!("outcomes: {:?}", report.outcomes);
            println!("{} operations judged, {} stale hints at the end", report.judged, report.stale_hints);
            println!("{:?}", report.stats);
            ExitCode::SUCCESS
        }
        Err(failure) => failed(seed, &failure, arguments),
    }
}

fn many(arguments: &Arguments) -> ExitCode {
    let seeds = arguments.seeds.clone();
    let count = seeds.end() - seeds.start() + 1;
    let jobs = arguments.jobs.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from));
    println!("seeds {}..{}", seeds.start(), seeds.end());
    let terminal = std::io::stderr().is_terminal();
    let begin = Instant::now();
    let summary = run_seeds(seeds, jobs, &|options| arguments.overrides.apply(options), &|passed| {
        if terminal {
            eprint!("\r{passed} of {count} seeds passed");
        }
    });
    if terminal {
        eprintln!();
    }
    println!("{} of {count} seeds passed in {:.1} s", summary.passed, begin.elapsed().as_secs_f64());
    if let Some((seed, failure)) = &summary.failed {
        return failed(*seed, failure, arguments);
    }
    println!("faults: {:?}", summary.faults);
    println!("{} operations judged, {} stale hints at the ends", summary.judged, summary.stale_hints);
    let missing = summary.missing_faults();
    if count >= 200 && arguments.overrides.flags().is_empty() && !missing.is_empty() {
        eprintln!("these faults never happened: {missing:?}");
        return ExitCode::from(5);
    }
    ExitCode::SUCCESS
}

fn failed(seed: u64, failure: &Failure, arguments: &Arguments) -> ExitCode {
    let mode = if Options::draw(seed).mode == Mode::ColdRead { " (cold read, no faults)" } else { "" };
    eprintln!("seed {seed}{mode}: {failure}");
    eprintln!(
        "replay: cargo run --profile sim -p cards-check -- --seed {seed}{} --verbose",
        arguments.overrides.flags()
    );
    ExitCode::from(match failure {
        Failure::Wrong(_) => 1,
        Failure::Stuck(_) => 3,
        Failure::Crashed(_) => 4,
    })
}
