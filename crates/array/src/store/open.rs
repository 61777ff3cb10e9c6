//! What a disk says when it is opened.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::fmt;

use cards_layout::domain::Name;
use cards_layout::format::{
    ColumnPage, PageError, PageId, Piece, PiecePage, REGIONS, RegionMap, RegionPage, Sequenced, Sizes, Slot,
    Superblock, UNIT, Uuid, newest,
};

use super::regions::{Bit, Region, Regions};
use super::sums::Sums;
use super::tables::{Page, Tables};
use super::{ColumnKey, Effect, Life, Purpose, Store};
use crate::group::Extent;

/// Where the header of a page of a table has its sequence number behind it, and all that comes before.
const SEQUENCE_END: usize = 24;

/// Who opens a disk.
#[derive(Clone, Debug)]
pub struct Opener {
    /// The boot of its machine.
    pub boot: Uuid,
    /// The time, in microseconds since 1970.
    pub now_us: u64,
    /// Its node.
    pub node: Option<Name>,
    /// Its cluster, which has the disk from now on; none leaves it to the one that has it.
    pub cluster: Option<Name>,
    /// How much it keeps in memory, and how long.
    pub tuning: Tuning,
}

/// What is kept in memory, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Tuning {
    /// Pages of checksums before those that are as on the disk leave. Each has those of 3.9 MiB of data, in 8 KiB.
    pub sum_pages: usize,
    /// So many regions, those that were written last, stay dirty for longer: loads that stay in them write no tables.
    pub hot: usize,
    /// For how long, in milliseconds since their last write. What rots in a dirty region passes for what was written, if the process is
    /// killed.
    pub hot_for: u64,
    /// A region is settled when it was not written for so long, in milliseconds.
    pub settle_after: u64,
}

impl Default for Tuning {
    /// Checksums of 8 GiB of data, in 16 MiB; 64 regions for 30 s, others for 5 s.
    fn default() -> Self {
        Self { sum_pages: 2048, hot: 64, hot_for: 30_000, settle_after: 5_000 }
    }
}

/// Why a disk cannot be opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OpenError {
    /// Both slots of a page of a table are damaged.
    Page {
        /// Which table.
        table: &'static str,
        /// Which of its pages.
        number: u32,
        /// What is wrong with slot A and slot B.
        damage: [PageError; 2],
    },
    /// A column lacks a piece, or has one twice.
    Pieces {
        /// The column.
        column: ColumnKey,
        /// The position in the column.
        index: u32,
    },
    /// The superblock says that the tables are longer than what was read.
    Short,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Page { table, number, damage: [a, b] } => write!(
                f,
                "page {number} of the {table} is damaged in both slots (A: {a}; B: {b}); restore the disk's first megabytes, or replace the disk"
            ),
            Self::Pieces { column: ColumnKey { volume, group, column }, index } => write!(
                f,
                "volume {volume:016x} (copy {column} of group {group}) has no piece {index}, or has it twice; replace the disk"
            ),
            Self::Short => f.write_str("the tables end before their end"),
        }
    }
}

impl core::error::Error for OpenError {}

/// Bytes from the disk's start that [`Store::open`] reads.
#[must_use]
pub const fn tables_length(sizes: &Sizes) -> u64 {
    sizes.areas.regions + 4 * sizes.region_pages() * UNIT as u64
}

impl Store {
    /// Opens a disk: `superblock` is the newer of the valid ones, `tables` are the first [`tables_length`] bytes.
    ///
    /// # Errors
    /// The tables are damaged in a way that cannot be repaired.
    pub fn open(
        superblock: Superblock,
        tables: &[u8],
        opener: Opener,
        out: &mut Vec<Effect>,
    ) -> Result<Self, OpenError> {
        let sizes = superblock.sizes;
        let disk = superblock.disk.key();
        let page = |at: u64| -> Result<&[u8; UNIT], OpenError> {
            let at = usize::try_from(at).map_err(|_| OpenError::Short)?;
            tables.get(at..).and_then(<[u8]>::first_chunk).ok_or(OpenError::Short)
        };
        let (mut older, mut pieces) = (BTreeSet::new(), Vec::new());
        for number in 0..sizes.piece_pages() as u32 {
            let entries = PiecePage::entries(number, sizes.pieces);
            let at = |slot| sizes.piece_page_at(number.into(), slot);
            let decode =
                |slot| Ok(PiecePage::decode(page(at(slot))?, PageId { disk, number }, slot, entries));
            let is_same = same(page(at(Slot::A))?, page(at(Slot::B))?);
            let (chosen, is_whole) = chosen("piece table", number, decode)?;
            older.extend((!is_same || !is_whole).then_some(Page::Pieces(number)));
            pieces.push(chosen);
        }
        let mut columns = Vec::new();
        for number in 0..sizes.column_pages() as u32 {
            let at = |slot| sizes.column_page_at(number.into(), slot);
            let decode = |slot| Ok(ColumnPage::decode(page(at(slot))?, PageId { disk, number }, slot));
            let is_same = same(page(at(Slot::A))?, page(at(Slot::B))?);
            let (chosen, is_whole) = chosen("column table", number, decode)?;
            older.extend((!is_same || !is_whole).then_some(Page::Columns(number)));
            columns.push(chosen);
        }
        let mut regions = [Vec::new(), Vec::new()];
        for map in RegionMap::BOTH {
            for number in 0..sizes.region_pages() as u32 {
                let count = RegionPage::regions(number, sizes.regions());
                let at = |slot| sizes.region_page_at(map, number.into(), slot);
                let decode =
                    |slot| Ok(RegionPage::decode(page(at(slot))?, map, PageId { disk, number }, slot, count));
                // Without the bits, each region may be one of them.
                let is_same = same(page(at(Slot::A))?, page(at(Slot::B))?);
                let (found, is_whole) = match chosen("regions", number, decode) {
                    Err(OpenError::Page { .. }) => {
                        let mut all = RegionPage::clear(2);
                        (0..count.min(REGIONS)).for_each(|at| all.set(at, true));
                        (all, false)
                    }
                    found => found?,
                };
                older.extend((!is_same || !is_whole).then_some(Page::Regions(map, number)));
                regions[map as usize].push(found);
            }
        }
        let was_closed = superblock.closed;
        // What a killed process has written is there as long as its machine has not been started again.
        let is_same_boot = superblock.boot == opener.boot && !opener.boot.is_nil();
        let mut tables = Tables::new(superblock, pieces, columns, regions, older);
        let columns = of_columns(&mut tables)?;
        tables.superblock.closed = false;
        tables.superblock.boot = opener.boot;
        tables.superblock.opened_us = opener.now_us;
        tables.superblock.node = opener.node;
        if opener.cluster.is_some() {
            tables.superblock.cluster_name = opener.cluster;
        }
        if !was_closed {
            tables.forget_lives();
        }
        let loses = !was_closed && !is_same_boot && tables.lose_power();
        let announced_by = if loses { 2 } else { tables.mark(Page::Superblock) };
        let mirrored: BTreeSet<ColumnKey> =
            tables.entered().filter(|column| column.mirrored).map(ColumnKey::from).collect();
        let mut dirty = Regions::default();
        for region in tables.regions_set(RegionMap::Dirty) {
            let piece = (region >> (sizes.piece_shift - sizes.region_shift)) as u32;
            let mut settled = false;
            if let Piece::Owned(owner) = tables.piece(piece) {
                let is_mirrored = mirrored.contains(&ColumnKey::from(&owner));
                if is_mirrored {
                    dirty.held.insert(region, 1);
                }
                // A disk is closed with such regions, whose writes were not released.
                settled = was_closed && is_mirrored;
                if !settled {
                    dirty.unsure.insert(region, 0);
                }
            }
            let found = Region { bit: Bit::Setting(0), writers: 0, at: 0, turn: 0, settled };
            dirty.map.insert(region, found);
        }
        let marks = tables.marks();
        let mut store = Self {
            tables,
            columns,
            missed: BTreeMap::new(),
            announced_by,
            is_announced: false,
            marks_found: marks,
            marks,
            begun: BTreeMap::new(),
            regions: dirty,
            sums: Sums::new(opener.tuning.sum_pages),
            requests: BTreeMap::new(),
            waiting: BTreeMap::new(),
            ios: BTreeMap::new(),
            next_io: 0,
            cycle_writes: 0,
            settle: None,
            healed: Vec::new(),
            healed_pages: BTreeSet::new(),
            makings: VecDeque::new(),
            life: Life::Open,
            tuning: opener.tuning,
        };
        for key in mirrored {
            let missed = store.missed(key).map(|(offset, length)| Extent { offset, length }).collect();
            store.missed.insert(key, missed);
        }
        let io = store.io(Purpose::CycleSync);
        out.push(Effect::Sync { io });
        Ok(store)
    }
}

/// The newer of the valid slots of a page, and whether the other one is valid, too.
fn chosen<T: Sequenced>(
    table: &'static str,
    number: u32,
    decode: impl Fn(Slot) -> Result<Result<T, PageError>, OpenError>,
) -> Result<(T, bool), OpenError> {
    match newest(decode(Slot::A)?, decode(Slot::B)?) {
        Ok(chosen) => Ok((chosen.value, chosen.damage.is_none())),
        Err(damage) => Err(OpenError::Page { table, number, damage }),
    }
}

/// Whether two slots of a page have the same entries. If they have not, one is damaged, or the process ended before it was written: the older one
/// is written anew.
fn same(one: &[u8; UNIT], other: &[u8; UNIT]) -> bool {
    one[SEQUENCE_END..] == other[SEQUENCE_END..]
}

/// The pieces of each column. Those of columns that are not in the table become free, and those beyond the end of one: they were on their
/// way in or out.
fn of_columns(tables: &mut Tables) -> Result<BTreeMap<ColumnKey, Vec<u32>>, OpenError> {
    let piece_bytes = tables.sizes().piece();
    let entered =
        tables.entered().map(|column| (column.into(), (column.bytes.div_ceil(piece_bytes), BTreeMap::new())));
    let mut found: BTreeMap<ColumnKey, (u64, BTreeMap<u32, u32>)> = entered.collect();
    let owned: Vec<_> = tables.owned().collect();
    for (piece, owner) in owned {
        let column = ColumnKey::from(&owner);
        match found.get_mut(&column).filter(|(count, _)| u64::from(owner.index) < *count) {
            None => {
                tables.set_piece(piece, Piece::Free);
            }
            Some((_, pieces)) => {
                if pieces.insert(owner.index, piece).is_some() {
                    return Err(OpenError::Pieces { column, index: owner.index });
                }
            }
        }
    }
    let in_order = |(column, (_, pieces)): (ColumnKey, (u64, BTreeMap<u32, u32>))| match pieces
        .keys()
        .enumerate()
        .find(|(i, index)| **index != *i as u32)
    {
        Some((i, _)) => Err(OpenError::Pieces { column, index: i as u32 }),
        None => Ok((column, pieces.into_values().collect())),
    };
    found.into_iter().map(in_order).collect()
}
