//! What a disk has on it when it has been formatted: tables in which all pieces are free and nothing is dirty.

use alloc::vec;
use alloc::vec::Vec;

use super::{
    COLUMNS, ColumnPage, PageId, Piece, PiecePage, RegionMap, RegionPage, SUPERBLOCKS, Sizes, Slot,
    Superblock, UNIT, Uuid,
};
use crate::domain::{Domain, Name};

/// The sequence number of what a slot has first: both slots say the same, so that either serves when the other is damaged.
const fn first(slot: Slot) -> u64 {
    match slot {
        Slot::A => 1,
        Slot::B => 2,
    }
}

impl Superblock {
    /// That of a disk that is formatted: no cluster or node has it yet.
    #[must_use]
    pub fn formatted(disk: Uuid, sizes: Sizes, domain: Option<Domain>, name: Name) -> Self {
        Self {
            sequence: 1,
            disk,
            cluster: Uuid::default(),
            cluster_name: None,
            sizes,
            closed: true,
            journal_disk: None,
            boot: Uuid::default(),
            opened_us: 0,
            node: None,
            domain,
            name,
        }
    }

    /// The superblocks of a disk that is formatted, with their offsets on it, in bytes. They are written after all tables are
    /// durable.
    #[must_use]
    pub fn fresh(&self) -> [(u64, [u8; UNIT]); 2] {
        Slot::BOTH.map(|slot| {
            let superblock = Self { sequence: first(slot), ..self.clone() };
            (SUPERBLOCKS[slot as usize], superblock.encode())
        })
    }

    /// The pages of the tables of a disk that is formatted, with their offsets on it, in bytes.
    pub fn fresh_tables(&self) -> impl Iterator<Item = (u64, [u8; UNIT])> {
        let (sizes, disk) = (self.sizes, self.disk.key());
        let id = move |page: u64| PageId { disk, number: page as u32 };
        Slot::BOTH.into_iter().flat_map(move |slot| {
            let sequence = first(slot);
            let pieces = (0..sizes.piece_pages()).map(move |page| {
                let entries = vec![Piece::Free; PiecePage::entries(page as u32, sizes.pieces)];
                (sizes.piece_page_at(page, slot), PiecePage { sequence, entries }.encode(id(page)))
            });
            let columns = (0..sizes.column_pages()).map(move |page| {
                let entries: Vec<_> = vec![None; COLUMNS];
                (sizes.column_page_at(page, slot), ColumnPage { sequence, entries }.encode(id(page)))
            });
            let regions = RegionMap::BOTH.into_iter().flat_map(move |map| {
                (0..sizes.region_pages()).map(move |page| {
                    (sizes.region_page_at(map, page, slot), RegionPage::clear(sequence).encode(map, id(page)))
                })
            });
            pieces.chain(columns).chain(regions)
        })
    }
}
