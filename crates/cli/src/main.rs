//! `cards`: cluster-aware remote disks. One file per verb; `cli.rs` has the list.

mod bench;
mod check;
mod cli;
mod completions;
mod demo;
mod dev;
mod error;
mod man;
mod output;
mod paper;
mod policy;
mod progress;
mod replay;
mod serve;
mod signals;
mod sim;
mod status;
mod table;
mod trace;
mod volume;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    match cli.run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("cards: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}
