//! `cards serve`: the daemon.

use std::path::{Path, PathBuf};

use cards_config::Config;
use clap::Args;
use serde::Serialize;

use crate::context::Context;
use crate::error::Error;
use crate::{log, output};

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

    /// Only check the configuration, and say who is refused by it
    #[arg(long)]
    check: bool,

    /// With --check: one JSON object
    #[arg(long, requires = "check")]
    json: bool,
}

/// What `--check --json` prints.
#[derive(Serialize)]
struct Checked<'a> {
    config: &'a Path,
    node: &'a str,
    cluster: &'a str,
    /// Clients and nodes that the configuration refuses, and why.
    refused: &'a [String],
}

impl Serve {
    pub(crate) fn run(self, cx: &Context) -> Result<(), Error> {
        let config = Config::load(&self.config)?;
        if self.check {
            let refused = cards_node::refuses(&config)
                .map_err(|source| Error::Start { path: self.config.clone(), source: Box::new(source) })?;
            let refused: Vec<String> = refused.iter().map(ToString::to_string).collect();
            let Config { node, cluster, .. } = &config;
            let checked = Checked { config: &self.config, node, cluster, refused: &refused };
            return output::print_either(self.json, &checked, || {
                let lines = refused.iter().map(|refused| format!("refused: {refused}\n"));
                format!("{}: ok\n", self.config.display()) + &lines.collect::<String>()
            });
        }
        run(config, cx.verbose)
    }
}

/// Runs the daemon with its log on standard error.
pub(crate) fn run(config: Config, verbose: u8) -> Result<(), Error> {
    // Before the first thread of those that serve. Without the right to it, `cards doctor` says what that means.
    let _ = cards_device::set_io_flusher();
    let _log = log::start(verbose)?;
    Ok(cards_node::serve(config)?)
}
