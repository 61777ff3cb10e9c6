//! `cards disk format`: what is written, and in which order.

use std::io::Read as _;
use std::path::Path;

use cards_config::size;
use cards_layout::domain::Name;
use cards_layout::format::{
    COLUMNS, ColumnPage, PageId, Piece, PiecePage, RegionMap, RegionPage, SUPERBLOCKS, Sizes, Slot,
    Superblock, TABLES, UNIT, Uuid,
};

use super::device::Device;
use super::{DiskError, Format, content, signature};
use crate::error::Error;
use crate::{output, progress};

/// Bytes of one write of zeroes.
const CHUNK: u64 = 1 << 20;

impl Format {
    pub(super) fn run(self) -> Result<(), Error> {
        let device = Device::open_exclusive(&self.path)?;
        let sizes = Sizes::choose(device.size())
            .map_err(|source| DiskError::Size { path: self.path.clone(), source })?;
        if !self.force {
            refuse_data(&device)?;
        }
        let name = match self.name {
            Some(name) => name,
            None => name_of(&self.path)?,
        };
        let superblock = Superblock {
            sequence: 1,
            disk: Uuid::random(random()?),
            cluster: Uuid::default(),
            sizes,
            closed: true,
            journal_disk: None,
            boot: Uuid::default(),
            incarnation: 0,
            node: None,
            domain: self.domain,
            name,
        };
        write(&device, &superblock)?;
        output::print(&(content::describe(&superblock) + content::NOT_YET))
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
    write_tables(device, superblock)?;
    let journal = sizes.areas.journal..sizes.areas.journal + sizes.areas.journal_bytes;
    let bar = progress::bar(sizes.areas.journal_bytes);
    bar.set_message(format!("clearing the journal of {}", size::human(sizes.areas.journal_bytes)));
    for at in journal.clone().step_by(CHUNK as usize) {
        clear(device, at, CHUNK.min(journal.end - at))?;
        bar.inc(CHUNK);
    }
    bar.finish_and_clear();
    device.sync()?;
    for (slot, at) in Slot::BOTH.into_iter().zip(SUPERBLOCKS) {
        device.write(at, &Superblock { sequence: first(slot), ..superblock.clone() }.encode())?;
    }
    device.sync()
}

/// The sequence number of what a slot has first: both have the same, so that either serves when the other is damaged.
const fn first(slot: Slot) -> u64 {
    match slot {
        Slot::A => 1,
        Slot::B => 2,
    }
}

/// Writes tables in which all pieces are free and nothing is dirty.
fn write_tables(device: &Device, superblock: &Superblock) -> Result<(), DiskError> {
    let sizes = &superblock.sizes;
    let disk = superblock.disk.key();
    for slot in Slot::BOTH {
        let sequence = first(slot);
        let id = |page: u64| PageId { disk, number: page as u32 };
        for page in 0..sizes.piece_pages() {
            let entries = vec![Piece::Free; PiecePage::entries(page as u32, sizes.pieces)];
            let bytes = PiecePage { sequence, entries }.encode(id(page));
            device.write(sizes.piece_page_at(page, slot), &bytes)?;
        }
        for page in 0..sizes.column_pages() {
            let bytes = ColumnPage { sequence, entries: vec![None; COLUMNS] }.encode(id(page));
            device.write(sizes.column_page_at(page, slot), &bytes)?;
        }
        for map in RegionMap::BOTH {
            for page in 0..sizes.region_pages() {
                let bytes = RegionPage::clear(sequence).encode(map, id(page));
                device.write(sizes.region_page_at(map, page, slot), &bytes)?;
            }
        }
    }
    Ok(())
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
