//! `cards volume create`: over managed disks of several nodes, or on one that no daemon has.

use std::path::PathBuf;
use std::time::Duration;

use cards_config::{PolicySpec, size};
use cards_layout::domain::Name;
use cards_layout::layout::Layout;
use clap::Args;

use super::error::VolumeError;
use super::{mirrored, on_disk};
use crate::complete;
use crate::daemon::Daemon;
use crate::error::Error;

/// What `cards volume create` is told.
#[derive(Debug, Args)]
pub(super) struct Create {
    /// What the volume is called, in the whole cluster
    #[arg(value_name = "NAME")]
    pub(super) name: Name,
    /// Its size, a multiple of 4096 bytes, such as 10G
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub(super) size: u64,
    /// Where its bytes are, on managed disks of several nodes: `raid1:N` is N copies (default 2), each at another node; `raid10:N` the same
    /// for each of many parts, spread over all disks; `raid0` and `linear` use all disks and survive the loss of none. With --disk: on that one
    /// [default: linear with --disk]
    #[arg(long, value_name = "LAYOUT", required_unless_present = "disk")]
    layout: Option<Layout>,
    /// The one managed disk that has it: a file or block device, which no daemon has open
    #[arg(long, value_name = "PATH", conflicts_with_all = ["on", "block", "policy"])]
    disk: Option<PathBuf>,
    /// The disks of the copies, each as its node's configuration names it; of other layouts than raid1 those that it is spread over
    /// [default: raid1: one in each failure domain, with the most free space; else all that have room]
    #[arg(long, value_name = "NODE:DISK", value_delimiter = ',')]
    pub(super) on: Vec<String>,
    /// The unit of caching, which has to be `block` of the nodes [default: that of the node that is asked]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub(super) block: Option<u64>,
    /// Its policy [default: auto, chosen by measurement]
    #[arg(long, value_name = "POLICY", add = complete::policies())]
    pub(super) policy: Option<PolicySpec>,
    #[command(flatten)]
    pub(super) daemon: Daemon,
    /// One JSON object
    #[arg(long)]
    pub(super) json: bool,
}

/// How long a daemon may take that is only asked which names are taken.
const ASK: Duration = Duration::from_secs(2);

impl Create {
    /// No volume of the cluster has the name, as far as a daemon of this machine knows; without one that answers, the daemon that gets the disk finds
    /// out.
    fn check_name(&self) -> Result<(), Error> {
        let Ok(mut client) = self.daemon.connect_within(ASK) else { return Ok(()) };
        let Ok(status) = client.status() else { return Ok(()) };
        let taken = status.volumes.into_iter().find(|volume| volume.name == self.name.as_str());
        match taken.and_then(|volume| volume.disk_node) {
            Some(node) => {
                let (volume, cluster) = (self.name.to_string(), status.cluster);
                Err(VolumeError::NameTaken { volume, node, cluster }.into())
            }
            None => Ok(()),
        }
    }

    pub(super) fn run(self) -> Result<(), Error> {
        match (self.layout.unwrap_or(Layout::Linear), &self.disk) {
            (Layout::Linear, Some(disk)) => {
                self.check_name()?;
                on_disk::create(disk, &self.name, self.size, self.json)
            }
            (layout @ (Layout::Raid5 { .. } | Layout::Raid6 { .. }), _) => {
                Err(VolumeError::NotBuilt(layout).into())
            }
            (layout, Some(_)) => Err(VolumeError::OneDisk(layout).into()),
            (layout, None) => mirrored::create(self, layout),
        }
    }
}
