//! `cards policy`: the policies of cooperative caching, those with names and those of users.

mod list;
mod new;
mod show;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::context::Context;
use crate::error::Error;

/// The policies: where copies of blocks live
#[derive(Debug, Args)]
pub(crate) struct Policy {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List the policies and the replacements with their papers and parameters
    #[command(after_help = "\
A policy is chosen for each disk, with `policy = \"hscc depth=2\"` in node.toml; a replacement for each
node, with `replacement = \"lru\"`. What nodes cannot run yet, `cards sim` can.

Examples:
  cards policy list
  cards policy list --json")]
    List {
        /// One JSON object: {"policies":[..],"replacements":[..]}
        #[arg(long)]
        json: bool,
    },
    /// Show what the file of a module is: its digest, what it exports, what it looks at
    #[command(after_help = "\
A file that is no module for a policy is refused, with what is missing.

Examples:
  cards policy show mine.wasm
  cards policy show mine.wasm --json")]
    Show {
        /// The file of a module
        #[arg(value_name = "FILE.wasm")]
        file: PathBuf,
        /// One JSON object
        #[arg(long)]
        json: bool,
    },
    /// Write the project of a policy of your own, in Rust: it compiles to a WebAssembly module
    #[command(after_help = "\
The project has an example (greedy forwarding), its tests, and the SDK as files: `cargo wasm` builds it without
a network, if the target is there: `rustup target add wasm32-unknown-unknown`.
docs/operating/policies.md says what a policy is asked and what it may do.

Examples:
  cards policy new mine && cd mine && cargo test && cargo wasm
  cards sim gen:oltp --policy rd,target/wasm32-unknown-unknown/release/mine.wasm
  cards check --seeds 1..100 --policy target/wasm32-unknown-unknown/release/mine.wasm")]
    New {
        /// Name of the policy: a new directory, here unless --dir names another place
        #[arg(value_name = "NAME")]
        name: String,
        /// The directory to make it in
        #[arg(long, value_name = "DIR", default_value = ".")]
        dir: PathBuf,
    },
}

impl Policy {
    pub(crate) fn run(self, _: &Context) -> Result<(), Error> {
        match self.verb {
            Verb::List { json } => list::run(json),
            Verb::Show { file, json } => show::run(&file, json),
            Verb::New { name, dir } => new::run(&name, &dir),
        }
    }
}
