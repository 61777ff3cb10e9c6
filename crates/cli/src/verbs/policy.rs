//! `cards policy`: the policies of cooperative caching, those with names and those of users.

mod list;
mod modules;
mod new;
mod show;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::complete;
use crate::context::Context;
use crate::daemon::Daemon;
use crate::error::Error;

/// The policies: where copies of blocks live
#[derive(Debug, Args)]
pub(crate) struct Policy {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List the policies and the replacements with their papers and parameters, and the modules of the cluster
    #[command(after_help = "\
A policy is chosen for each disk, with `policy = \"hscc depth=2\"` in node.toml, or with `cards policy set`
while the daemons run; without one it has auto. A replacement is chosen for each node, with `replacement = \"lru\"`. What nodes cannot run yet,
`cards sim` can. The modules, and the volumes that were given other policies, are those of the daemon, if
one answers.

Examples:
  cards policy list
  cards policy list --json")]
    List {
        /// One JSON object: {"policies":[..],"replacements":[..],"modules":[..],"volumes":[..]}
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        daemon: Daemon,
    },
    /// Load a module at all nodes, so that volumes can have it as their policy
    #[command(after_help = "\
The module is checked, kept in the state_dir of each node by its digest, and there again after a restart.
A node that is away gets it when it is back. The name of a built-in policy, and another name for a module that
is loaded, are refused.

Examples:
  cards policy load mine.wasm
  cards policy load mine.wasm --json | jq -r .digest
  cards policy set data mine")]
    Load {
        /// The file of a module
        #[arg(value_name = "FILE.wasm")]
        file: PathBuf,
        #[command(flatten)]
        daemon: Daemon,
        /// One JSON object
        #[arg(long)]
        json: bool,
    },
    /// Remove a module from all nodes
    #[command(after_help = "\
A module that is the policy of a volume stays: give the volume another policy first.

Examples:
  cards policy unload mine
  cards policy unload 3fa2b1c4d5e6")]
    Unload {
        /// Its name, its digest, or the beginning of that
        module: String,
        #[command(flatten)]
        daemon: Daemon,
        /// One JSON object
        #[arg(long)]
        json: bool,
    },
    /// Give a volume another policy, at all nodes, while it is used
    #[command(after_help = "\
What is cached stays cached, and what is under way is finished; the new policy begins without a memory of its own.
It lasts over restarts, until another one is set, or --reset. A volume that was created a moment ago is waited
for, and nodes that have not heard of the change are named. A module that fails is replaced by rd, and
`cards status` says so; setting it again tries it again. A volume with coherence = \"policy\" that can be
written keeps the policy that it was made with.

Examples:
  cards policy set data 'hscc depth=3'
  cards policy set data mine.wasm
  cards policy set data auto              # chosen by measurement, and changed when another one suits better
  cards policy set data --reset
  cards policy set data central --json | jq '.silent[]'")]
    Set {
        /// The volume
        #[arg(add = complete::volumes())]
        volume: String,
        /// A policy with its parameters, the file of a module (which is loaded first), or a loaded module
        #[arg(value_name = "SPEC|FILE.wasm|MODULE", required_unless_present = "reset", add = complete::policies())]
        policy: Option<String>,
        /// The policy that it was made with
        #[arg(long, conflicts_with = "policy")]
        reset: bool,
        #[command(flatten)]
        daemon: Daemon,
        /// One JSON object
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
            Verb::List { json, daemon } => list::run(json, &daemon),
            Verb::Load { file, daemon, json } => modules::load(&file, &daemon, json),
            Verb::Unload { module, daemon, json } => modules::unload(module, &daemon, json),
            Verb::Set { volume, policy, reset: _, daemon, json } => {
                modules::set(volume, policy, &daemon, json)
            }
            Verb::Show { file, json } => show::run(&file, json),
            Verb::New { name, dir } => new::run(&name, &dir),
        }
    }
}
