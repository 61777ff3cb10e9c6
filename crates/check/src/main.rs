//! `cards-check`: `cards check` as a program of its own, which can also make deliberate mistakes.

use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use cards_check::command::{Caller, Command};
use clap::Parser;

/// What stands before the flags in the command that replays a run.
const PROGRAM: &str = if cfg!(feature = "mistakes") {
    "cargo run --profile sim -p cards-check --features mistakes --"
} else {
    "cargo run --profile sim -p cards-check --"
};

/// Attacks a simulated cluster with random faults and checks what its clients see.
///
/// Exit status: 0 nothing found, 1 a promise was broken, 2 bad usage, 3 something never completed,
/// 4 a node panicked, 5 some kind of fault never happened or some observer never had anything to judge (only with
/// 200 seeds or more).
#[derive(Parser, Debug)]
#[command(name = "cards-check", version)]
struct Arguments {
    /// With --seed: print the trace, every input and output of every node
    #[arg(long, requires = "seed")]
    verbose: bool,
    #[command(flatten)]
    command: Command,
}

fn main() -> ExitCode {
    let Arguments { verbose, command } = Arguments::parse();
    // Nobody stops it: a signal ends the program.
    let stop = AtomicBool::new(false);
    ExitCode::from(command.run(&Caller { program: PROGRAM, verbose, stop: &stop }).exit_code())
}
