//! `cards`: cluster-aware remote disks. One file per verb; `cli.rs` has the list.

mod advise;
mod attach;
mod bench;
mod check;
mod cli;
mod cluster;
mod completions;
mod demo;
mod detach;
mod dev;
mod device;
mod disk;
mod doctor;
mod error;
mod join;
mod layout;
mod leave;
mod local;
mod lock;
mod log_writer;
mod man;
mod mount;
mod output;
mod paper;
mod policy;
mod profile;
mod progress;
mod range;
mod replay;
mod serve;
mod signals;
mod sim;
mod spans;
mod status;
mod table;
mod this_machine;
mod top;
mod trace;
mod umount;
mod volume;
mod warm;
mod why;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    if let Some(code) = mount::called_as_helper() {
        return code;
    }
    let cli = cli::Cli::parse();
    match cli.run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("cards: {error}");
            // What follows `--` is another program's.
            if std::env::args_os().take_while(|word| word != "--").any(|word| word == "--json") {
                output::print_failure(&error);
            }
            ExitCode::from(error.exit_code())
        }
    }
}
