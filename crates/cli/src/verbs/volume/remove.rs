//! `cards volume remove`: of managed disks of several nodes, or of one that no daemon has.

use std::path::PathBuf;

use clap::Args;

use super::{mirrored, on_disk};
use crate::complete;
use crate::daemon::Daemon;
use crate::error::Error;

/// What `cards volume remove` is told.
#[derive(Debug, Args)]
pub(super) struct Remove {
    /// The volume
    #[arg(value_name = "NAME", add = complete::volumes())]
    name: String,
    /// The one managed disk that has it: a file or block device, which no daemon has open
    #[arg(long, value_name = "PATH")]
    disk: Option<PathBuf>,
    /// The name of the volume once more: what is on it is lost
    #[arg(long, value_name = "NAME", require_equals = true)]
    force: Option<String>,
    #[command(flatten)]
    daemon: Daemon,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

impl Remove {
    pub(super) fn run(self) -> Result<(), Error> {
        let Self { name, disk, force, daemon, json } = self;
        match disk {
            Some(disk) => on_disk::remove(disk, name, force.as_deref(), json),
            None => mirrored::remove(&daemon, &name, force.as_deref(), json),
        }
    }
}
