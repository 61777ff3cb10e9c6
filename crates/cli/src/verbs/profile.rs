//! `cards profile`: which parts of a volume a boot, or a job's start, reads.

mod record;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::context::Context;
use crate::error::Error;
use crate::warm;

/// Record which parts of a volume are read, and fetch them before they are read again
#[derive(Debug, Args)]
pub(crate) struct Profile {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Record(record::Record),
    Play(warm::Play),
}

impl Profile {
    pub(crate) fn run(self, cx: &Context) -> Result<ExitCode, Error> {
        match self.verb {
            Verb::Record(verb) => verb.run().map(|()| ExitCode::SUCCESS),
            Verb::Play(verb) => verb.run(cx),
        }
    }
}
