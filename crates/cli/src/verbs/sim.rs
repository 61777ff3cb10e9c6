//! `cards sim`: what a cluster would do with a trace.

mod error;
mod machines;
mod options;
mod parse;
mod plan;
mod rows;
mod scenario;
mod view;

use std::path::PathBuf;
use std::process::ExitCode;

use cards_sim::{Combination, Library, Plot, Report, RunError, Watch, Workload, run_all, survey_all};
use cards_trace::TraceError;
use clap::{Args, Subcommand};

pub(crate) use error::SimError;
pub(crate) use options::Reading;
pub(crate) use parse::block as parse_block;

use crate::attend::attend;
use crate::context::Context;
use crate::error::Error;
use crate::output;
use crate::progress::Progress;
use crate::signals::Signals;
use options::Options;
use plan::{Plan, Surveyed};

/// Simulate clusters with traces: policies, cache sizes and machines side by side
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Every combination of the lists is a run: one row. All cores are used; the rows do not depend on how
many there are. Ctrl-C prints what is finished (exit status 130). Times are simulated.
With --json that is exactly one object, {\"runs\":[..]}; --csv has the same columns.
docs/reference/sim.md says what each means.

A scenario file has the long flags as keys, and may describe machines (see `cards sim machines -h`):
  trace = [\"gen:boot:nodes=8\"]
  policy = [\"rd\", \"hscc depth=3\"]
  cache = [\"1%\", \"10%\"]

Examples:
  cards sim gen:boot:nodes=8,hot=8MiB --machine lan25-object --cache 1M,2M,4M --policy rd,hdc,hscc
  cards sim gen:oltp:nodes=4,bytes=64MiB,requests=20k --nodes 4 --machine now --block 8K \\
      --policy rd,'hscc depth=3' --cache 5%,20% --warmup 30% --plot oltp.svg
  cards sim gen:scan:mb=30 --machine cards2003 --policy hscc --cache 8M+16M+16M --json"
)]
pub(crate) struct Sim {
    #[command(subcommand)]
    verb: Option<Verb>,

    #[command(flatten)]
    options: Options,

    /// A file with options; those of the command line win
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,

    /// Write the options to a scenario file, and run them
    #[arg(long, value_name = "FILE")]
    save_scenario: Option<PathBuf>,

    /// A file with further machines; see `cards sim machines -h`
    #[arg(long, value_name = "FILE")]
    machine_file: Vec<PathBuf>,

    /// Runs at the same time [default: the number of cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,

    /// Draw hit ratio and read time against the cache size (bars if there is one size), as SVG
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,

    /// One JSON object
    #[arg(long)]
    json: bool,

    /// Comma-separated values with a heading
    #[arg(long, conflicts_with = "json")]
    csv: bool,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Machines(machines::Machines),
}

/// What a study has come to.
#[derive(Default)]
struct Outcome {
    reports: Vec<Report>,
    errors: Vec<RunError>,
    /// The number of the signal that has stopped it.
    stopped: Option<i32>,
}

impl Sim {
    pub(crate) fn run(self, _: &Context) -> Result<ExitCode, Error> {
        if let Some(Verb::Machines(verb)) = self.verb {
            return verb.run().map(|()| ExitCode::SUCCESS);
        }
        let mut library = Library::default();
        for path in &self.machine_file {
            scenario::load_machines(path, &mut library)?;
        }
        let options = match &self.scenario {
            Some(path) => self.options.clone().over(scenario::load(path, &mut library)?),
            None => self.options.clone(),
        };
        let plan = Plan::new(&options, &library)?;
        if let Some(path) = &self.save_scenario {
            scenario::save(path, &options)?;
        }
        let outcome = self.study(&plan)?;
        self.show(&plan, &outcome)?;
        let Outcome { mut errors, stopped, .. } = outcome;
        if let Some(signal) = stopped {
            return Ok(ExitCode::from(u8::try_from(128 + signal).unwrap_or(u8::MAX)));
        }
        if errors.is_empty() {
            return Ok(ExitCode::SUCCESS);
        }
        let more = errors.len() - 1;
        Err(SimError::Runs { first: errors.swap_remove(0), more }.into())
    }

    fn study(&self, plan: &Plan) -> Result<Outcome, Error> {
        let signals = Signals::block();
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let jobs = self.jobs.map_or_else(cores, usize::from);
        let Surveys { found, unreadable } = match survey(plan, jobs, &signals)? {
            Ok(surveys) => surveys,
            Err(stopped) => return Ok(Outcome { stopped: Some(stopped), ..Outcome::default() }),
        };
        // Their rows are missing, all others are printed.
        let readable = |workload: &Workload| unreadable.iter().all(|(name, _)| *name != workload.name);
        let mut combinations = plan.combinations(&found)?;
        combinations.retain(|combination| readable(&combination.workload));
        let mut outcome = simulate(&combinations, jobs, &signals);
        outcome.errors.splice(0..0, unreadable.into_iter().map(|(_, error)| error.into()));
        Ok(outcome)
    }

    fn show(&self, plan: &Plan, outcome: &Outcome) -> Result<(), Error> {
        let reports = &outcome.reports;
        if let Some(path) = self.plot.as_ref().filter(|_| !reports.is_empty()) {
            let svg = Plot::new(reports).to_svg();
            std::fs::write(path, svg).map_err(|source| SimError::Write { path: path.clone(), source })?;
        }
        if self.json {
            return output::print_json(&rows::Runs { runs: reports });
        }
        if self.csv {
            return output::print(&rows::csv(reports));
        }
        output::print(&view::render(reports, &plan.remarks()))
    }
}

/// What is known of the traces before the simulation.
#[derive(Default)]
struct Surveys {
    found: Vec<Surveyed>,
    /// Names of traces that cannot be read, each once.
    unreadable: Vec<(String, TraceError)>,
}

/// Reads the traces of which something must be known before; or the signal that has stopped it.
fn survey(plan: &Plan, jobs: usize, signals: &Signals) -> Result<Result<Surveys, i32>, SimError> {
    let traces = plan.to_survey();
    let watch = Watch::new(traces.len());
    let progress = Progress::new("reading");
    let work = || survey_all(&traces, jobs, &watch);
    let (surveys, stopped) = attend(signals, &watch, &progress, traces.len(), work);
    if let Some(signal) = stopped {
        return Ok(Err(signal));
    }
    let mut all = Surveys::default();
    for (trace, survey) in traces.iter().zip(surveys.into_iter().flatten()) {
        match survey {
            Ok(survey) => all.found.push((trace.clone(), survey)),
            Err(error) if error::is_option(&error) => return Err(error.into()),
            Err(_) if all.unreadable.iter().any(|(name, _)| *name == trace.0.name) => {}
            Err(error) => all.unreadable.push((trace.0.name.clone(), error)),
        }
    }
    Ok(Ok(all))
}

fn simulate(combinations: &[Combination], jobs: usize, signals: &Signals) -> Outcome {
    let watch = Watch::new(combinations.len());
    let progress = Progress::new("simulating");
    let work = || run_all(combinations, jobs, &watch);
    let (results, stopped) = attend(signals, &watch, &progress, combinations.len(), work);
    let mut outcome = Outcome { stopped, ..Outcome::default() };
    for result in results.into_iter().flatten() {
        match result {
            Ok(report) => outcome.reports.push(report),
            Err(error) => outcome.errors.push(error),
        }
    }
    outcome
}
