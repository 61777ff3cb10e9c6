//! `cards disk format`: what is written, and in which order.

use std::io::Read as _;
use std::path::Path;

use cards_config::size;
use cards_layout::domain::Name;
use cards_layout::format::{Sizes, Superblock, TABLES, UNIT, Uuid};

use super::device::Device;
use super::{DiskError, Format, content, show, signature};
use crate::error::Error;
use crate::{output, progress};

/// Bytes of one write of zeroes.
const CHUNK: u64 = 1 << 20;

impl Format {
    pub(super) fn run(self) -> Result<(), Error> {
        let device = Device::open_exclusive(&self.path)?;
        let sizes = Sizes::choose(device.size())
            .map_err(|source| DiskError::Size { path: self.path.clone(), source })?;
        match self.force.as_deref() {
            None => refuse_volumes(&device, "").and_then(|()| refuse_data(&device))?,
            Some(name) => refuse_volumes(&device, name)?,
        }
        let name = match self.name {
            Some(name) => name,
            None => name_of(&self.path)?,
        };
        let superblock = Superblock::formatted(Uuid::random(random()?), sizes, self.domain, name);
        write(&device, &superblock)?;
        output::print(&content::describe(&superblock))
    }
}

/// Refuses a device with data at its start or end.
fn refuse_data(device: &Device) -> Result<(), DiskError> {
    let head = device.read(0, signature::LOOKED_AT)?;
    let end = device.read(device.size().saturating_sub(signature::LOOKED_AT as u64), signature::LOOKED_AT)?;
    match signature::find(&head, &end, device.size()) {
        None => Ok(()),
        Some(what) => Err(DiskError::Occupied { path: device.path().into(), what }),
    }
}

/// Refuses a managed disk that has volumes and another name.
fn refuse_volumes(device: &Device, name: &str) -> Result<(), DiskError> {
    // What cannot be read is none that anybody could use.
    let Ok((superblock, report)) = show::examine(device) else { return Ok(()) };
    if report.volumes.is_empty() || superblock.name.as_str() == name {
        return Ok(());
    }
    let volumes = report.volumes.iter().map(|volume| format!("volume {}", volume.name)).collect();
    Err(DiskError::Volumes { path: device.path().into(), disk: superblock.name.to_string(), volumes })
}

/// The file name of the path.
fn name_of(path: &Path) -> Result<Name, DiskError> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.parse().map_err(|_| DiskError::Name { path: path.into() })
}

fn random() -> Result<[u8; 16], DiskError> {
    let mut bytes = [0; 16];
    let read = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.map(|()| bytes).map_err(DiskError::Random)
}

/// Writes all that is not data. Superblocks are cleared first and written last, so that a format that was interrupted leaves no
/// managed disk, neither the old one nor half of the new one.
fn write(device: &Device, superblock: &Superblock) -> Result<(), DiskError> {
    let sizes = &superblock.sizes;
    clear(device, 0, TABLES)?;
    let end = device.size().saturating_sub(signature::LOOKED_AT as u64);
    clear(device, end, device.size() - end)?;
    device.sync()?;
    for (at, page) in superblock.fresh_tables() {
        device.write(at, &page)?;
    }
    let journal = sizes.areas.journal..sizes.areas.journal + sizes.areas.journal_bytes;
    let bar = progress::bar(sizes.areas.journal_bytes);
    bar.set_message(format!("clearing the journal of {}", size::human(sizes.areas.journal_bytes)));
    for at in journal.clone().step_by(CHUNK as usize) {
        clear(device, at, CHUNK.min(journal.end - at))?;
        bar.inc(CHUNK);
    }
    bar.finish_and_clear();
    device.sync()?;
    for (at, page) in superblock.fresh() {
        device.write(at, &page)?;
    }
    device.sync()
}

/// Makes `length` bytes zero. Those that are zero are only read, so that a sparse file stays sparse.
fn clear(device: &Device, offset: u64, length: u64) -> Result<(), DiskError> {
    let length = usize::try_from(length).expect("areas are cleared in parts");
    let bytes = device.read(offset, length)?;
    for (i, unit) in bytes.chunks(UNIT).enumerate() {
        if unit.iter().any(|byte| *byte != 0) {
            device.write(offset + (i * UNIT) as u64, &vec![0; unit.len()])?;
        }
    }
    Ok(())
}
