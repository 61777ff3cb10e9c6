//! `cards trace`: what is in traces, and in which formats and generators they come.

mod convert;
mod info;
mod lists;
mod record;
mod watched;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::context::Context;
use crate::error::Error;

/// Look into I/O traces, convert them, list formats and generators
#[derive(Debug, Args)]
pub(crate) struct Trace {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Info(info::Info),
    Convert(convert::Convert),
    Record(record::Record),
    Formats(lists::Formats),
    Generators(lists::Generators),
}

impl Trace {
    pub(crate) fn run(self, _: &Context) -> Result<ExitCode, Error> {
        match self.verb {
            Verb::Info(verb) => verb.run(),
            Verb::Convert(verb) => verb.run(),
            Verb::Record(verb) => verb.run(),
            Verb::Formats(verb) => verb.run().map(|()| ExitCode::SUCCESS),
            Verb::Generators(verb) => verb.run().map(|()| ExitCode::SUCCESS),
        }
    }
}
