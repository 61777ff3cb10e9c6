//! `cards disk`: managed disks of this machine.

mod content;
mod device;
mod drain;
mod error;
mod format;
mod list;
mod scrub;
mod show;
mod signature;

use std::path::PathBuf;
use std::process::ExitCode;

use cards_config::size;
use cards_layout::domain::{Domain, Name};
use clap::{Args, Subcommand};

use crate::context::Context;
use crate::error::Error;
pub(crate) use error::DiskError;

/// Format, list, drain, show and scrub managed disks
#[derive(Debug, Args)]
#[command(after_help = "\
A managed disk is one that CARDs has formatted. It holds volumes (`cards volume create`), with a checksum of each
4 KiB, and a daemon serves them that has it in its node.toml ([[disk]] managed). A plain disk ([[disk]] path) is
used as it is.
docs/operating/managed-disks.md tells how to use them, docs/reference/disk-format.md describes the format.")]
pub(crate) struct Disk {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Make a file or block device a managed disk; what is on it is lost
    #[command(after_help = "\
A device with a known signature (partition table, file system, md, LVM, LUKS, a managed disk ...), or with any other
data in its first or last MiB, is refused without --force; a managed disk with volumes on it without --force=NAME,
its name. A device that is mounted or in use is refused always.
If it is interrupted, the device is left without a superblock, and can be formatted again.

Examples:
  truncate -s 1G disk.img && cards disk format disk.img
  cards disk format /dev/sdb --name fast1 --domain rack3/n1")]
    Format(Format),
    /// List the managed disks of the cluster
    #[command(after_help = "\
The disks of nodes that are away are listed, too. Volumes that are on one disk alone are not: `cards volume list`.

Examples:
  cards disk list
  cards disk list --json | jq -r '.[] | select(.free > 1e9) | .name'")]
    List(list::List),
    /// Have all copies of volumes leave a managed disk, or all disks of a node, while they serve
    #[command(after_help = "\
Each copy is replaced by a new one on the disk with the most free space in another failure domain, as by `cards volume
replace`: there are never fewer copies in sync than before. It goes on if this command is interrupted. Volumes that
are on the disk alone stay, and new volumes may be put there meanwhile.
Exit status: 0 all copies leave or have left, 1 some cannot: it says which, and why.

Examples:
  cards disk drain n2:fast
  cards disk drain n2 --wait && cards leave --socket /run/cards/admin.sock
  cards disk drain n2 --json | jq -r '.refused[].reason'")]
    Drain(drain::Drain),
    /// Read all volumes of a managed disk and compare them with their checksums
    #[command(after_help = "\
The disk must not be open in a daemon. Nothing is repaired: what is damaged is listed, to be written anew from a backup.
Exit status: 0 nothing is damaged, 1 something is.

Examples:
  cards disk scrub /dev/sdb
  cards disk scrub /dev/sdb --rate 100M
  cards disk scrub disk.img --json | jq '.places[]'")]
    Scrub {
        /// The file or block device
        #[arg(value_name = "PATH")]
        path: PathBuf,
        /// Most bytes a second, such as 100M [default: as fast as it goes]
        #[arg(long, value_name = "SIZE", value_parser = size::parse, default_value_t = 0, hide_default_value = true)]
        rate: u64,
        /// One JSON object
        #[arg(long)]
        json: bool,
    },
    /// Show what the superblock and the tables of a managed disk say, and which parts are damaged
    #[command(after_help = "\
It only reads. Exit status: 0 the disk can be used, 1 it cannot, or it is no managed disk.

Examples:
  cards disk show /dev/sdb
  cards disk show disk.img --json | jq -r '.damage[].reason'")]
    Show {
        /// The file or block device
        #[arg(value_name = "PATH")]
        path: PathBuf,
        /// One JSON object
        #[arg(long)]
        json: bool,
    },
}

/// What `cards disk format` is told.
#[derive(Debug, Args)]
struct Format {
    /// The file or block device; a file keeps its size
    #[arg(value_name = "PATH")]
    path: PathBuf,
    /// What people call the disk [default: the file name of PATH]
    #[arg(long, value_name = "NAME")]
    name: Option<Name>,
    /// The failure domain of the disk, from the outside in, the host last [default: that of its node]
    #[arg(long, value_name = "RACK/HOST")]
    domain: Option<Domain>,
    /// Format the device although there are data on it; they are lost. With the name of the disk, if it is a managed disk with
    /// volumes
    #[arg(long, value_name = "NAME", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    force: Option<String>,
}

impl Disk {
    pub(crate) fn run(self, _: &Context) -> Result<ExitCode, Error> {
        match self.verb {
            Verb::Format(verb) => verb.run().map(|()| ExitCode::SUCCESS),
            Verb::List(verb) => verb.run().map(|()| ExitCode::SUCCESS),
            Verb::Drain(verb) => verb.run(),
            Verb::Scrub { path, rate, json } => scrub::run(&path, rate, json),
            Verb::Show { path, json } => show::run(&path, json),
        }
    }
}
