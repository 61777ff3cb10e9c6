//! `cards mount`: a volume attached and mounted, so that nothing is corrupted.

mod error;
mod job;
mod options;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::complete;
use crate::context::Context;
use crate::daemon::Daemon;
use crate::error::Error;
use crate::output;
use crate::signals::Signals;
use crate::verbs::attach;

pub(crate) use error::MountError;
pub(super) use job::Job;
pub(super) use options::Options;

/// Mount a volume of the cluster on a directory of this machine
///
/// The file system on it decides how it is attached. One that knows of no other nodes (ext4, xfs, btrfs) is mounted
/// read-write at one node, or read-only at many; squashfs, erofs and iso9660 read-only at many; OCFS2 and GFS2
/// read-write at many.
#[derive(Debug, Args)]
#[command(after_help = "\
In /etc/fstab, with the helper as /sbin/mount.cards:
  data /mnt cards _netdev,ro 0 0

Examples:
  cards mount data /mnt
  cards mount data /mnt --read-only
  cards mount data /mnt -o noatime --takeover")]
pub(crate) struct Mount {
    /// Name of the volume
    #[arg(add = complete::volumes())]
    volume: String,

    /// Where to mount it
    dir: PathBuf,

    #[command(flatten)]
    daemon: Daemon,

    /// Mount options, as for mount; also ro, takeover, wait=TIME and socket=PATH
    #[arg(short, long, value_name = "LIST")]
    options: Vec<String>,

    /// Read only: as many nodes can as want to
    #[arg(short, long)]
    read_only: bool,

    /// Take the volume from the node that has it for itself, once that can write no more
    #[arg(long)]
    takeover: bool,

    /// Wait so long for the daemon, and for the volume to be known
    #[arg(long, value_name = "TIME", value_parser = attach::wait)]
    wait: Option<Duration>,

    /// One JSON object
    #[arg(long)]
    json: bool,
}

impl Mount {
    pub(crate) fn run(self, _: &Context) -> Result<(), Error> {
        let mut options = Options::default();
        for list in &self.options {
            options.add(list).map_err(MountError::from)?;
        }
        options.read_only |= self.read_only;
        options.takeover |= self.takeover;
        options.wait = self.wait.or(options.wait);
        let socket = options.socket.clone().unwrap_or_else(|| self.daemon.socket().into());
        let job =
            Job { volume: self.volume, dir: self.dir, socket, options, in_table: true, only_check: false };
        let mounted = job.run(&Signals::block())?;
        for note in &mounted.notes {
            eprintln!("cards: {note}");
        }
        if self.json { output::print_json(&mounted) } else { Ok(()) }
    }
}
