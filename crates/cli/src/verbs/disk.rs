//! `cards disk`: managed disks of this machine.

mod content;
mod device;
mod error;
mod format;
mod show;
mod signature;

use std::path::PathBuf;
use std::process::ExitCode;

use cards_layout::domain::{Domain, Name};
use clap::{Args, Subcommand};

use crate::context::Context;
use crate::error::Error;
pub(crate) use error::DiskError;

/// Format and show managed disks
#[derive(Debug, Args)]
#[command(after_help = "\
A managed disk is one that CARDs has formatted. It will hold pieces of many volumes, with a checksum for each
4 KiB. So far it can be formatted and shown, and nothing more: no daemon uses it, and no volume can be made on it.
What daemons serve today are plain disks: files and devices as they are ([[disk]] path in node.toml).
docs/reference/disk-format.md describes the format.")]
pub(crate) struct Disk {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Make a file or block device a managed disk; what is on it is lost
    #[command(after_help = "\
A device with a known signature (partition table, file system, md, LVM, LUKS, a managed disk ...), or with any other
data in its first or last MiB, is refused without --force. A device that is mounted or in use is refused always.
If it is interrupted, the device is left without a superblock, and can be formatted again.

No volume can be made on a managed disk yet: this is for trying the format out.

Examples:
  truncate -s 1G disk.img && cards disk format disk.img
  cards disk format /dev/sdb --name fast1 --domain rack3/n1")]
    Format(Format),
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
    /// Format the device although there are data on it; they are lost
    #[arg(long)]
    force: bool,
}

impl Disk {
    pub(crate) fn run(self, _: &Context) -> Result<ExitCode, Error> {
        match self.verb {
            Verb::Format(verb) => verb.run().map(|()| ExitCode::SUCCESS),
            Verb::Show { path, json } => show::run(&path, json),
        }
    }
}
