//! `cards why`: which way a read of a block takes, and what all nodes know of the block.

mod show;

use clap::Args;

use crate::complete;
use crate::context::Context;
use crate::daemon::Daemon;
use crate::error::Error;
use crate::output;

/// Show which way a read takes: who holds the block, who would be asked, and why
#[derive(Debug, Args)]
#[command(after_help = "\
The first line says what a read at this node would do. Nothing is read, and nothing changes by asking. The table
has what each node knows of the block: its copy, its card, and where its policy would look. The locks on copies
are kept by the disk node; a card that has given its lock up asks for it again before it reads.

Examples:
  cards why data 0
  cards why data 1536M --socket /run/cards/admin.sock
  cards why data 64K --json | jq -r '.nodes[] | select(.block.cached) | .node'")]
pub(crate) struct Why {
    /// Name of the volume
    #[arg(add = complete::volumes())]
    volume: String,

    /// An offset in the block, in bytes: 4096, 64K, 1G
    #[arg(value_parser = cards_config::size::parse)]
    offset: u64,

    #[command(flatten)]
    daemon: Daemon,

    /// One JSON object
    #[arg(long)]
    json: bool,
}

impl Why {
    pub(crate) fn run(self, _: &Context) -> Result<(), Error> {
        let why = self.daemon.connect()?.why(&self.volume, self.offset)?;
        output::print_either(self.json, &why, || show::render(&why))
    }
}
