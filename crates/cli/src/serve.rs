//! `cards serve`: the daemon.

use std::io::IsTerminal as _;
use std::path::PathBuf;

use cards_node::config::Config;
use clap::Args;
use tracing_subscriber::EnvFilter;

use crate::error::Error;
use crate::log_writer::{Drain, LogWriter};

/// Run the daemon of this machine in the foreground
#[derive(Debug, Args)]
#[command(after_help = "\
It logs to standard error; CARDS_LOG sets what (error, warn, info, debug, trace, or target=level
pairs). SIGTERM and SIGINT drain and end it with status 0.

Examples:
  cards serve --config /etc/cards/node.toml
  cards serve --config node.toml --check
  CARDS_LOG=debug cards serve --config node.toml")]
pub(crate) struct Serve {
    /// The configuration of this node
    #[arg(long, value_name = "FILE")]
    config: PathBuf,

    /// Only check the configuration
    #[arg(long)]
    check: bool,
}

impl Serve {
    pub(crate) fn run(self, verbose: u8) -> Result<(), Error> {
        let config = Config::load(&self.config)?;
        if self.check {
            return crate::output::print(&format!("{}: ok\n", self.config.display()));
        }
        run(config, verbose)
    }
}

/// Runs the daemon with its log on standard error.
pub(crate) fn run(config: Config, verbose: u8) -> Result<(), Error> {
    let _log = start_log(verbose)?;
    Ok(cards_node::serve(config)?)
}

/// Sends the log to standard error, without waiting for what reads it.
pub(crate) fn start_log(verbose: u8) -> Result<Drain, Error> {
    let level = match verbose {
        0 => "info",
        1 => "debug",
        _ => "trace",
    };
    let value = std::env::var("CARDS_LOG").ok().filter(|value| !value.is_empty());
    let value = value.unwrap_or_else(|| level.into());
    let filter = EnvFilter::try_new(&value).map_err(|e| Error::LogFilter { value, reason: e.to_string() })?;
    let (writer, drain) = LogWriter::start(std::io::stderr()).map_err(Error::LogThread)?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(move || writer.clone())
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    Ok(drain)
}
