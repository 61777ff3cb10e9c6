//! `cards paper`: published figures, reproduced with the simulator.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use cards_paper::{Findings, Paper, Scale, Study};
use cards_sim::{Report, RunError, Watch, run_all};
use clap::{Args, ValueEnum};

use crate::attend::attend;
use crate::context::Context;
use crate::error::{Error, Failure};
use crate::output;
use crate::progress::Progress;
use crate::signals::Signals;

/// Reproduce the figures of published papers, and judge what they say
#[derive(Debug, Args)]
#[command(after_help = "\
Prints each statement of the paper and whether it holds. With --out, the page with all numbers and the
pictures are written to DIR/NAME.md and DIR/plots. Times are simulated; results do not depend on --jobs.
Exit status: 0 when all is simulated, whatever holds; 130 after Ctrl-C, and nothing is written.
Without --fast, pafs takes more than half an hour of processor time.

Examples:
  cards paper cards --fast
  cards paper cards --out docs/papers
  cards paper pafs --json
  cards paper rdd
  cards paper sios")]
pub(crate) struct PaperVerb {
    /// Which paper
    #[arg(value_name = "PAPER")]
    paper: Name,

    /// Smaller loads, caches and traces: a quick look
    #[arg(long)]
    fast: bool,

    /// Write the page and its pictures to this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// One JSON object
    #[arg(long)]
    json: bool,

    /// Runs at the same time [default: the number of cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Name {
    /// Olaru and Tichy, CARDs: Cluster-Aware Remote Disks (2003)
    Cards,
    /// Cortes, Girona and Labarta, Design Issues of a Cooperative Cache with no Coherence Problems (1997)
    Pafs,
    /// Olaru and Tichy, On the Design and Performance of Remote Disk Drivers for Clusters of PCs
    Rdd,
    /// Ho, Hwang and Jin, Design and Analysis of Clusters with Single I/O Space
    Sios,
}

/// A study of a paper failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PaperError {
    /// A page or a picture cannot be written.
    #[error("{}: {source}; name a directory that can be written with --out", path.display())]
    Write { path: PathBuf, source: io::Error },
    /// A simulation failed.
    #[error(transparent)]
    Run(#[from] RunError),
}

impl Failure for PaperError {}

impl PaperVerb {
    pub(crate) fn run(self, _: &Context) -> Result<ExitCode, Error> {
        let paper = match self.paper {
            Name::Cards => Paper::Cards,
            Name::Pafs => Paper::Pafs,
            Name::Rdd => Paper::Rdd,
            Name::Sios => Paper::Sios,
        };
        let signals = Signals::block();
        if let Some(directory) = &self.out {
            // Before hours of work, not after.
            fs::create_dir_all(directory.join("plots")).map_err(cannot_write(directory))?;
        }
        let study = Study::new(paper, if self.fast { Scale::Fast } else { Scale::Full });
        let reports = match self.simulate(&study, &signals)? {
            Ok(reports) => reports,
            Err(signal) => return Ok(ExitCode::from(u8::try_from(128 + signal).unwrap_or(u8::MAX))),
        };
        let Some(findings) = study.conclude(&reports) else { unreachable!("every run has a report") };
        if let Some(directory) = &self.out {
            write(directory, &findings)?;
        }
        output::print_either(self.json, &findings, || verdicts(&findings))?;
        Ok(ExitCode::SUCCESS)
    }

    /// The reports of all runs, or the signal that has stopped them.
    fn simulate(&self, study: &Study, signals: &Signals) -> Result<Result<Vec<Report>, i32>, PaperError> {
        let combinations = study.combinations();
        let jobs = self.jobs.map(usize::from);
        let jobs = jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
        let watch = Watch::new(combinations.len());
        let progress = Progress::new("simulating");
        let work = || run_all(combinations, jobs, &watch);
        let (results, stopped) = attend(signals, &watch, &progress, combinations.len(), work);
        if let Some(signal) = stopped {
            return Ok(Err(signal));
        }
        Ok(Ok(results.into_iter().flatten().collect::<Result<_, _>>()?))
    }
}

fn cannot_write(path: &Path) -> impl FnOnce(io::Error) -> PaperError {
    let path = path.to_owned();
    |source| PaperError::Write { path, source }
}

fn write(directory: &Path, findings: &Findings) -> Result<(), PaperError> {
    let put = |path: PathBuf, text: &str| fs::write(&path, text).map_err(cannot_write(&path));
    for plot in findings.figures.iter().flat_map(|figure| &figure.plots) {
        put(directory.join("plots").join(&plot.file), &plot.svg)?;
    }
    put(directory.join(findings.paper).with_extension("md"), &findings.to_markdown())
}

fn verdicts(findings: &Findings) -> String {
    let mut text = format!("{}\n", findings.title);
    for figure in &findings.figures {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "\n{}: {}", figure.name, figure.title);
        for statement in &figure.statements {
            let verdict = if statement.holds { "holds  " } else { "DIFFERS" };
            let _ = writeln!(text, "  {verdict} {:<10} {}", statement.id, statement.text);
            let _ = writeln!(text, "                     here: {}", statement.found);
        }
    }
    let (holding, all) = findings.score();
    let _ = writeln!(text, "\n{holding} of {all} statements hold");
    text
}
