//! `cards leave` and `cards forget`: the end of a node's membership.

use std::time::Duration;

use clap::Args;
use serde::Serialize;

use crate::complete;
use crate::context::Context;
use crate::daemon::Daemon;
use crate::error::Error;
use crate::output;

/// How long the coordinator may take.
const PATIENCE: Duration = Duration::from_secs(90);

/// Leave the cluster: detach everything, give the disks up, end the daemon
///
/// It is refused while clients use the node, or other nodes have its disks attached. What is on the disks stays.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cards leave
  cards leave --force --socket /run/cards/admin.sock")]
pub(crate) struct Leave {
    #[command(flatten)]
    daemon: Daemon,

    /// Leave although clients or other nodes need this node: they get errors
    #[arg(long)]
    force: bool,

    /// One JSON object
    #[arg(long)]
    json: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Left {
    left: bool,
}

impl Leave {
    pub(crate) fn run(self, _: &Context) -> Result<(), Error> {
        self.daemon.connect_within(PATIENCE)?.leave(self.force)?;
        match self.json {
            true => output::print_json(&Left { left: true }),
            false => output::print("this node has left the cluster; its daemon ends\n"),
        }
    }
}

/// Forget a node that is dead or has left, and free its number
///
/// Its machine must be off, or at least its daemon: the number can be given to another node. A node that has disks is
/// forgotten only with them: their volumes are unknown until a node that has the disks joins again. What is
/// on the disks stays.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cards forget n7
  cards forget n7 --with-disks")]
pub(crate) struct Forget {
    #[command(flatten)]
    daemon: Daemon,

    /// Name of the node
    #[arg(add = complete::nodes())]
    node: String,

    /// Forget its disks and the volumes on them as well
    #[arg(long)]
    with_disks: bool,

    /// One JSON object
    #[arg(long)]
    json: bool,
}

impl Forget {
    pub(crate) fn run(self, _: &Context) -> Result<(), Error> {
        let forgotten = self.daemon.connect_within(PATIENCE)?.forget(&self.node, self.with_disks)?;
        output::print_either(self.json, &forgotten, || format!("{forgotten}\n"))
    }
}
