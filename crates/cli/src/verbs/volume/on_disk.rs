//! `cards volume create` and `remove`: volumes of a managed disk, while no daemon has it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cards_config::size;
use cards_disk::{DiskError, DiskOptions, Managed, ManagedError, ManagedOptions};
use cards_layout::domain::Name;
use cards_layout::layout::Layout;
use clap::Args;
use serde::Serialize;

use crate::error::{Error, Failure};
use crate::output;

/// Why a volume cannot be made or removed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum VolumeError {
    #[error("{0}")]
    Disk(#[from] DiskError),
    #[error("{}: {source}", path.display())]
    Managed { path: PathBuf, source: Box<ManagedError> },
    #[error(
        "--layout {0}: volumes over several disks cannot be made yet; a volume is `linear`, on one disk (`cards layout explain {0}` says \
         what that layout will be)"
    )]
    NotBuilt(Layout),
    #[error(
        "{}: volume {volume:?} and what is on it would be lost: to remove it, add --force={volume}",
        path.display()
    )]
    NotForced { path: PathBuf, volume: String },
}

impl Failure for VolumeError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::NotBuilt(_) => 2,
            _ => 1,
        }
    }
}

/// What `cards volume create` is told.
#[derive(Debug, Args)]
pub(super) struct Create {
    /// What the volume is called, in the whole cluster
    #[arg(value_name = "NAME")]
    name: Name,
    /// The managed disk: its file or block device, which no daemon has open
    #[arg(long, value_name = "PATH")]
    disk: PathBuf,
    /// Its size, a multiple of 4096 bytes, such as 10G
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    size: u64,
    /// How it is laid out over disks: `linear`, on one, is what can be made so far
    #[arg(long, value_name = "LAYOUT", default_value = "linear")]
    layout: Layout,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

/// What `cards volume remove` is told.
#[derive(Debug, Args)]
pub(super) struct Remove {
    /// The volume
    #[arg(value_name = "NAME")]
    name: String,
    /// The managed disk: its file or block device, which no daemon has open
    #[arg(long, value_name = "PATH")]
    disk: PathBuf,
    /// The name of the volume once more: what is on it is lost
    #[arg(long, value_name = "NAME", require_equals = true)]
    force: Option<String>,
}

/// What `--json` prints of a volume that was made.
#[derive(Serialize)]
struct Made {
    volume: String,
    uuid: String,
    size: u64,
    disk: String,
}

fn open(path: &Path) -> Result<Arc<Managed>, VolumeError> {
    Ok(Managed::open(&ManagedOptions::new(DiskOptions::path(path)))?)
}

impl Create {
    pub(super) fn run(self) -> Result<(), Error> {
        if self.layout != Layout::Linear {
            return Err(VolumeError::NotBuilt(self.layout).into());
        }
        let disk = open(&self.disk)?;
        let failed = |source| VolumeError::Managed { path: self.disk.clone(), source: Box::new(source) };
        let volume = disk.create_volume(&self.name, self.size).map_err(failed)?;
        let made = Made {
            volume: volume.name.to_string(),
            uuid: volume.uuid.to_string(),
            size: volume.bytes,
            disk: disk.superblock().name.to_string(),
        };
        disk.close();
        output::print_either(self.json, &made, || {
            let Made { volume, uuid, size, disk } = &made;
            format!(
                "volume       {volume} ({uuid})\n\
                 size         {} ({size} bytes)\n\
                 disk         {disk}\n\
                 served       by the daemon whose node.toml has [[disk]] name = \"{disk}\", managed = {:?}, when it is started\n",
                size::human(*size),
                self.disk.display().to_string()
            )
        })
    }
}

impl Remove {
    pub(super) fn run(self) -> Result<(), Error> {
        let disk = open(&self.disk)?;
        let failed = |source| VolumeError::Managed { path: self.disk.clone(), source: Box::new(source) };
        if !disk.volumes().iter().any(|volume| volume.name.as_str() == self.name) {
            let there = disk.volumes().iter().map(|volume| volume.name.to_string()).collect();
            return Err(failed(ManagedError::NoVolume { volume: self.name, there }).into());
        }
        if self.force.as_deref() != Some(self.name.as_str()) {
            return Err(VolumeError::NotForced { path: self.disk, volume: self.name }.into());
        }
        disk.remove_volume(&self.name).map_err(failed)?;
        disk.close();
        output::print(&format!("volume {} is removed\n", self.name))
    }
}
