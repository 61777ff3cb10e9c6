//! `cards bench`: the measurements, which are a program of their own.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use clap::Args;

use crate::context::Context;
use crate::error::Error;

/// Measure this machine: the paper's Table 1, or side by side with other NBD servers
#[derive(Debug, Args)]
#[command(
    disable_help_flag = true,
    after_help = "\
Everything after `bench` is passed to `cards-bench`, which is next to this program.

Examples:
  cards bench table1
  cards bench --help"
)]
pub(crate) struct Bench {
    /// What to measure, and its options
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
    args: Vec<OsString>,
}

impl Bench {
    pub(crate) fn run(self, _: &Context) -> Result<ExitCode, Error> {
        let path =
            std::env::current_exe().map_or_else(|_| PathBuf::new(), |exe| exe.with_file_name("cards-bench"));
        let args = if self.args.is_empty() { vec!["--help".into()] } else { self.args };
        let source = Command::new(&path).args(args).exec();
        Err(Error::Bench { path, source })
    }
}
