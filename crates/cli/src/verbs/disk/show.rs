//! `cards disk show`: what the superblock and the tables say, and what is damaged.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::process::ExitCode;

use cards_config::size;
use cards_disk::ManagedError;
use cards_layout::format::{
    Chosen, ColumnPage, PageError, PageId, Piece, PiecePage, RegionMap, RegionPage, SUPERBLOCKS, Sequenced,
    Slot, Superblock, UNIT, Uuid, newest,
};
use serde::Serialize;

use super::device::Device;
use super::{DiskError, content};
use crate::error::Error;
use crate::output;

/// What was found on a managed disk.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    path: String,
    /// Superblock and tables are complete, counting either slot.
    usable: bool,
    name: String,
    disk: String,
    cluster: Option<String>,
    node: Option<String>,
    domain: Option<String>,
    version: u32,
    sequence: u64,
    slot: String,
    /// Bytes of the device when it was formatted.
    size: u64,
    closed: bool,
    checksums: bool,
    piece_bytes: u64,
    pieces: Pieces,
    columns: u64,
    pub(super) volumes: Vec<Volume>,
    copies: Vec<Copied>,
    region_bytes: u64,
    regions: u64,
    dirty_regions: u64,
    missed_regions: u64,
    journal_bytes: u64,
    journal_disk: Option<String>,
    damage: Vec<Damage>,
}

/// Pieces by what they are.
#[derive(Debug, Default, Serialize)]
struct Pieces {
    all: u32,
    free: u64,
    in_use: u64,
    filling: u64,
    retired: u64,
}

/// A volume of which a column is here.
#[derive(Debug, Serialize)]
pub(super) struct Volume {
    pub(super) name: String,
    uuid: String,
    /// Bytes of the volume.
    size: u64,
    /// Pieces of the disk that it has.
    pieces: u64,
}

/// A column that is one of several copies of its volume.
#[derive(Debug, Serialize)]
struct Copied {
    volume: String,
    group: u16,
    column: u8,
    /// The map of its group, as the column knows it; 0: of none yet.
    generation: u32,
    /// It refuses what comes of an older epoch.
    sealed_epoch: u64,
    /// The last epoch of the generation in which it had everything.
    in_sync_epoch: u64,
    /// The machine lost power while it was in use; the other copies have not seen to it yet.
    lost_power: bool,
}

impl fmt::Display for Copied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { volume, group, column, generation, sealed_epoch, in_sync_epoch, lost_power } = self;
        write!(f, "{column} of group {group} of {volume}, ")?;
        match (sealed_epoch, in_sync_epoch) {
            (0, _) => f.write_str("not used yet"),
            (_, 0) => write!(f, "of epoch {generation}.{sealed_epoch}, never in sync"),
            (_, _) => {
                write!(f, "of epoch {generation}.{sealed_epoch}, in sync in {generation}.{in_sync_epoch}")
            }
        }?;
        f.write_str(if *lost_power { "; its machine lost power" } else { "" })
    }
}

/// A part that is not as it was written.
#[derive(Debug, Serialize)]
struct Damage {
    what: String,
    /// The slot that is damaged; none: both, or what has no slots.
    slot: Option<String>,
    /// Where it begins, in bytes from the start of the device.
    offset: u64,
    reason: String,
    /// The other slot has it: nothing is lost but a change that was interrupted.
    repairable: bool,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, slot, offset, reason, repairable } = self;
        let slot = slot.as_ref().map_or_else(String::new, |slot| format!(", slot {slot}"));
        let serves = if *repairable { "; the other slot serves" } else { "" };
        write!(f, "{what}{slot}, at byte {offset}: {reason}{serves}")
    }
}

pub(super) fn run(path: &Path, json: bool) -> Result<ExitCode, Error> {
    let device = Device::open(path)?;
    let (superblock, report) = examine(&device)?;
    if json {
        output::print_json(&report)?;
    } else {
        output::print(&text(&superblock, &report))?;
    }
    Ok(if report.usable { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

pub(super) fn examine(device: &Device) -> Result<(Superblock, Report), DiskError> {
    let path = device.path();
    let [a, b] = SUPERBLOCKS;
    let in_a = Superblock::decode(&device.page(a)?, Slot::A);
    let in_b = Superblock::decode(&device.page(b)?, Slot::B);
    let chosen = newest(in_a, in_b);
    let chosen = chosen.map_err(|[a, b]| DiskError::Managed {
        path: path.into(),
        source: Box::new(ManagedError::NoSuperblock { a, b }),
    })?;
    let (superblock, slot) = (chosen.value, chosen.slot);
    let sizes = &superblock.sizes;
    let mut damage = Vec::new();
    if let Some(error) = chosen.damage {
        let other = slot.other();
        damage.push(Damage {
            what: "superblock".into(),
            slot: Some(other.to_string()),
            offset: SUPERBLOCKS[other as usize],
            reason: error.to_string(),
            repairable: true,
        });
    }
    if device.size() < sizes.device {
        damage.push(Damage {
            what: "device".into(),
            slot: None,
            offset: device.size(),
            reason: format!("it ends there, and had {} bytes when it was formatted", sizes.device),
            repairable: false,
        });
    }
    let mut tables = Tables { device, superblock: &superblock, damage };
    let (pieces, of_volume) = tables.pieces()?;
    let (columns, volumes, copies) = tables.volumes(&of_volume)?;
    let dirty_regions = tables.regions(RegionMap::Dirty)?;
    let missed_regions = tables.regions(RegionMap::Missed)?;
    let damage = tables.damage;
    let text = |uuid: Uuid| (!uuid.is_nil()).then(|| uuid.to_string());
    let report = Report {
        path: path.display().to_string(),
        usable: damage.iter().all(|damage| damage.repairable),
        name: superblock.name.to_string(),
        disk: superblock.disk.to_string(),
        cluster: superblock.cluster_name.as_ref().map(ToString::to_string),
        node: superblock.node.as_ref().map(ToString::to_string),
        domain: superblock.domain.as_ref().map(ToString::to_string),
        version: cards_layout::format::VERSION,
        sequence: superblock.sequence,
        slot: slot.to_string(),
        size: sizes.device,
        closed: superblock.closed,
        checksums: sizes.has_sums,
        piece_bytes: sizes.piece(),
        pieces,
        columns,
        volumes,
        copies,
        region_bytes: 1 << sizes.region_shift,
        regions: sizes.regions(),
        dirty_regions,
        missed_regions,
        journal_bytes: sizes.areas.journal_bytes,
        journal_disk: superblock.journal_disk.and_then(text),
        damage,
    };
    Ok((superblock, report))
}

/// The tables of a disk, and what of them is damaged as far as they have been read.
struct Tables<'a> {
    device: &'a Device,
    superblock: &'a Superblock,
    damage: Vec<Damage>,
}

impl Tables<'_> {
    /// Reads a page of a table from both slots and chooses; none if neither can be used.
    fn page<T: Sequenced>(
        &mut self,
        what: impl Fn() -> String,
        offsets: [u64; 2],
        decode: impl Fn(&[u8; UNIT], Slot) -> Result<T, PageError>,
    ) -> Result<Option<T>, DiskError> {
        let [a, b] = offsets;
        let in_a = decode(&self.device.page(a)?, Slot::A);
        let in_b = decode(&self.device.page(b)?, Slot::B);
        let mut add = |slot: Slot, error: &dyn fmt::Display, repairable| {
            let (slot, offset) = (Some(slot.to_string()), offsets[slot as usize]);
            self.damage.push(Damage { what: what(), slot, offset, reason: error.to_string(), repairable });
        };
        match newest(in_a, in_b) {
            Ok(Chosen { value, slot, damage }) => {
                if let Some(error) = damage {
                    add(slot.other(), &error, true);
                }
                Ok(Some(value))
            }
            Err(errors) => {
                for (slot, error) in Slot::BOTH.into_iter().zip(errors) {
                    add(slot, &error, false);
                }
                Ok(None)
            }
        }
    }

    fn id(&self, page: u64) -> PageId {
        PageId { disk: self.superblock.disk.key(), number: page as u32 }
    }

    /// Pieces by what they are, and how many each volume has.
    fn pieces(&mut self) -> Result<(Pieces, BTreeMap<u64, u64>), DiskError> {
        let superblock = self.superblock;
        let sizes = &superblock.sizes;
        let mut of_volume = BTreeMap::new();
        let mut pieces = Pieces { all: sizes.pieces, ..Pieces::default() };
        for page in 0..sizes.piece_pages() {
            let id = self.id(page);
            let entries = PiecePage::entries(page as u32, sizes.pieces);
            let offsets = Slot::BOTH.map(|slot| sizes.piece_page_at(page, slot));
            let what = || format!("page {page} of the piece table");
            let found = self.page(what, offsets, |page, slot| PiecePage::decode(page, id, slot, entries))?;
            for piece in found.iter().flat_map(|page| &page.entries) {
                if let Piece::Owned(owner) = piece {
                    *of_volume.entry(owner.volume).or_insert(0) += 1;
                }
                *match piece {
                    Piece::Free => &mut pieces.free,
                    Piece::Retired => &mut pieces.retired,
                    Piece::Owned(owner) if owner.filling => &mut pieces.filling,
                    Piece::Owned(_) => &mut pieces.in_use,
                } += 1;
            }
        }
        Ok((pieces, of_volume))
    }

    /// How many entries the column table has, the volumes that they are of, and those that are copies.
    fn volumes(
        &mut self,
        of_volume: &BTreeMap<u64, u64>,
    ) -> Result<(u64, Vec<Volume>, Vec<Copied>), DiskError> {
        let superblock = self.superblock;
        let sizes = &superblock.sizes;
        let (mut columns, mut volumes, mut copies) = (0, BTreeMap::new(), Vec::new());
        for page in 0..sizes.column_pages() {
            let id = self.id(page);
            let offsets = Slot::BOTH.map(|slot| sizes.column_page_at(page, slot));
            let what = || format!("page {page} of the column table");
            let found = self.page(what, offsets, |page, slot| ColumnPage::decode(page, id, slot))?;
            for column in found.iter().flat_map(|page| &page.entries).flatten() {
                columns += 1;
                if column.mirrored {
                    copies.push(Copied {
                        volume: column.name.to_string(),
                        group: column.group,
                        column: column.column,
                        generation: column.generation,
                        sealed_epoch: column.sealed_epoch,
                        in_sync_epoch: column.in_sync_epoch,
                        lost_power: column.lossy,
                    });
                }
                let volume = Volume {
                    name: column.name.to_string(),
                    uuid: column.volume.to_string(),
                    size: column.bytes,
                    pieces: of_volume.get(&column.volume.key()).copied().unwrap_or(0),
                };
                volumes.insert((volume.name.clone(), column.volume), volume);
            }
        }
        Ok((columns, volumes.into_values().collect(), copies))
    }

    /// How many regions a map says are so.
    fn regions(&mut self, map: RegionMap) -> Result<u64, DiskError> {
        let superblock = self.superblock;
        let sizes = &superblock.sizes;
        let kind = if map == RegionMap::Dirty { "dirty" } else { "missed" };
        let mut set = 0;
        for page in 0..sizes.region_pages() {
            let id = self.id(page);
            let regions = RegionPage::regions(page as u32, sizes.regions());
            let offsets = Slot::BOTH.map(|slot| sizes.region_page_at(map, page, slot));
            let what = || format!("page {page} of the {kind} regions");
            let found =
                self.page(what, offsets, |page, slot| RegionPage::decode(page, map, id, slot, regions))?;
            set += found.map_or(0, |page| page.count());
        }
        Ok(set)
    }
}

fn text(superblock: &Superblock, report: &Report) -> String {
    let mut text = content::describe(superblock);
    let mut line = |name: &str, value: String| text += &format!("{name:<12} {value}\n");
    let Pieces { free, in_use, filling, retired, .. } = report.pieces;
    line("in use", format!("{in_use} pieces, {filling} being filled, {retired} retired, {free} free"));
    for Volume { name, uuid, size, pieces } in &report.volumes {
        line(
            "volume",
            format!("{name} ({uuid}), {} in {}", size::human(*size), output::count(*pieces, "piece")),
        );
    }
    for copied in &report.copies {
        line("copy", copied.to_string());
    }
    line(
        "regions",
        format!("{} dirty, {} missed, of {}", report.dirty_regions, report.missed_regions, report.regions),
    );
    let closed = if report.closed { "closed cleanly" } else { "not closed: in use, or its daemon was ended" };
    line("superblock", format!("number {} in slot {}, {closed}", report.sequence, report.slot));
    let state = match (report.usable, report.damage.is_empty()) {
        (true, true) => "ok",
        (true, false) => "can be used; what is damaged is there a second time",
        (false, _) => "cannot be used",
    };
    line("state", state.into());
    for damage in &report.damage {
        line("damaged", damage.to_string());
    }
    text
}
