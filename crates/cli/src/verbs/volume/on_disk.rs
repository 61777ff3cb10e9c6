//! Volumes on one managed disk, made and removed while no daemon has it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cards_config::size;
use cards_disk::{DiskOptions, Managed, ManagedError, ManagedOptions};
use cards_layout::domain::Name;
use serde::Serialize;

use super::error::VolumeError;
use crate::error::Error;
use crate::output;

/// What `--json` prints of a volume that was made.
#[derive(Serialize)]
struct Made {
    volume: String,
    uuid: String,
    size: u64,
    disk: String,
}

/// What `--json` prints of a volume that was removed.
#[derive(Serialize)]
struct Removed {
    volume: String,
}

fn open(path: &Path) -> Result<Arc<Managed>, VolumeError> {
    Ok(Managed::open(&ManagedOptions::new(DiskOptions::path(path)))?)
}

pub(super) fn create(path: &Path, name: &Name, bytes: u64, json: bool) -> Result<(), Error> {
    let disk = open(path)?;
    let failed = |source| VolumeError::Managed { path: path.into(), source: Box::new(source) };
    let volume = disk.create_volume(name, bytes).map_err(failed)?;
    let made = Made {
        volume: volume.name.to_string(),
        uuid: volume.uuid.to_string(),
        size: volume.bytes,
        disk: disk.superblock().name.to_string(),
    };
    disk.close();
    output::print_either(json, &made, || {
        let Made { volume, uuid, size, disk } = &made;
        format!(
            "volume       {volume} ({uuid})\n\
             size         {} ({size} bytes)\n\
             disk         {disk}\n\
             served       by the daemon whose node.toml has [[disk]] name = \"{disk}\", managed = {:?}, when it is started\n",
            size::human(*size),
            std::path::absolute(path).unwrap_or(path.into()).display().to_string()
        )
    })
}

pub(super) fn remove(path: PathBuf, volume: String, force: Option<&str>, json: bool) -> Result<(), Error> {
    let disk = open(&path)?;
    let failed = |source| VolumeError::Managed { path: path.clone(), source: Box::new(source) };
    let is_volume = disk.volumes().iter().any(|known| known.name.as_str() == volume);
    let copy = disk.columns().into_iter().find(|copy| copy.name.as_str() == volume);
    if !is_volume && copy.is_none() {
        let there = disk.volumes().iter().map(|volume| volume.name.to_string()).collect();
        return Err(failed(ManagedError::NoVolume { volume, there }).into());
    }
    // Other nodes may count on a copy: its volume's UUID is not typed by mistake.
    let uuid = copy.as_ref().map(|copy| copy.volume.to_string());
    match uuid {
        Some(uuid) if force != Some(uuid.as_str()) => {
            return Err(VolumeError::CopyNotForced { path, volume, uuid }.into());
        }
        None if force != Some(volume.as_str()) => {
            return Err(VolumeError::NotForced { path, volume }.into());
        }
        _ => {}
    }
    match copy {
        // Of a volume over several groups the disk may have pieces of many.
        Some(copy) => {
            let runtime = tokio::runtime::Builder::new_current_thread().build().map_err(Error::EventLoop)?;
            let columns = disk.columns().into_iter().filter(|other| other.volume == copy.volume);
            for column in columns {
                runtime.block_on(disk.remove_column(column.key())).map_err(failed)?;
            }
        }
        None => disk.remove_volume(&volume).map_err(failed)?,
    }
    disk.close();
    let text = format!("volume {volume} is removed\n");
    output::print_either(json, &Removed { volume }, || text)
}
