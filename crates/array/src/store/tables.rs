//! What has two slots on the disk, superblock and tables, and the cycles in which changes become durable.
//!
//! A change is made in memory and its page marked. A cycle writes all pages that are marked, each to the slot that is not
//! the last valid one, and syncs; cycles do not overlap, so a page is never written again before it is durable. All that wait for a
//! cycle share its writes and its sync (group commit). A table's page that was changed is written once more some time later, to its other slot:
//! one that is damaged costs nothing then. (An older superblock does not say that the disk was closed, which is enough.) The first cycle is a sync alone: what a daemon wrote that was killed is found,
//! and not durable yet.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use cards_layout::format::{
    Column, ColumnPage, Owner, PageId, Piece, PiecePage, REGIONS, RegionMap, RegionPage, SUPERBLOCKS, Sizes,
    Slot, Superblock, UNIT,
};

use crate::group::Marks;

/// A page of superblock or tables.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Page {
    Superblock,
    Pieces(u32),
    Columns(u32),
    Regions(RegionMap, u32),
}

/// The pages as they are to be on the disk.
#[derive(Debug)]
pub(super) struct Tables {
    pub(super) superblock: Superblock,
    pub(super) pieces: Vec<PiecePage>,
    pub(super) columns: Vec<ColumnPage>,
    /// By [`RegionMap`].
    pub(super) regions: [Vec<RegionPage>; 2],
    marked: BTreeSet<Page>,
    /// Of these, pages that have not changed since they were written last.
    again: BTreeSet<Page>,
    /// Pages of tables that the running cycle changes, and those whose other slot is older.
    changing: BTreeSet<Page>,
    older: BTreeSet<Page>,
    /// The cycle that runs, or the last that did; 0 is the first.
    cycle: u64,
    runs: bool,
}

impl Tables {
    pub(super) fn new(
        superblock: Superblock,
        pieces: Vec<PiecePage>,
        columns: Vec<ColumnPage>,
        regions: [Vec<RegionPage>; 2],
        older: BTreeSet<Page>,
    ) -> Self {
        Self {
            superblock,
            pieces,
            columns,
            regions,
            marked: BTreeSet::new(),
            again: BTreeSet::new(),
            changing: BTreeSet::new(),
            older,
            cycle: 0,
            runs: true,
        }
    }

    pub(super) const fn sizes(&self) -> &Sizes {
        &self.superblock.sizes
    }

    /// A page has been changed. It is durable when the cycle of the number that is returned has ended.
    pub(super) fn mark(&mut self, page: Page) -> u64 {
        self.marked.insert(page);
        self.again.remove(&page);
        self.cycle + 1
    }

    /// Has pages written once more whose other slot is older.
    pub(super) fn renew(&mut self) {
        for page in core::mem::take(&mut self.older) {
            if self.marked.insert(page) {
                self.again.insert(page);
            }
        }
    }

    /// Both slots of each page of a table say the same, or will when the running cycle has ended.
    pub(super) fn are_renewed(&self) -> bool {
        self.older.is_empty() && self.changing.is_empty() && self.marked.is_empty()
    }

    /// The writes of the next cycle, if it can begin and has anything to do: offset and page.
    pub(super) fn begin(&mut self) -> Option<Vec<(u64, Box<[u8; UNIT]>)>> {
        if self.runs || self.marked.is_empty() {
            return None;
        }
        self.runs = true;
        self.cycle += 1;
        let marked = core::mem::take(&mut self.marked);
        let again = core::mem::take(&mut self.again);
        self.changing = &marked - &again;
        self.changing.remove(&Page::Superblock);
        self.older.retain(|page| !marked.contains(page));
        Some(marked.into_iter().map(|page| self.encode(page)).collect())
    }

    /// The cycle is durable; its number.
    pub(super) fn end(&mut self) -> u64 {
        self.runs = false;
        self.older.append(&mut self.changing);
        self.cycle
    }

    /// The first cycle has ended: what was found when the disk was opened is durable.
    pub(super) const fn are_durable(&self) -> bool {
        self.cycle > 0 || !self.runs
    }

    pub(super) fn encode(&mut self, page: Page) -> (u64, Box<[u8; UNIT]>) {
        let sizes = self.superblock.sizes;
        let disk = self.superblock.disk.key();
        let (at, bytes) = match page {
            Page::Superblock => {
                self.superblock.sequence += 1;
                let slot = Slot::of(self.superblock.sequence);
                (SUPERBLOCKS[slot as usize], self.superblock.encode())
            }
            Page::Pieces(number) => {
                let page = &mut self.pieces[number as usize];
                page.sequence += 1;
                let at = sizes.piece_page_at(number.into(), Slot::of(page.sequence));
                (at, page.encode(PageId { disk, number }))
            }
            Page::Columns(number) => {
                let page = &mut self.columns[number as usize];
                page.sequence += 1;
                let at = sizes.column_page_at(number.into(), Slot::of(page.sequence));
                (at, page.encode(PageId { disk, number }))
            }
            Page::Regions(map, number) => {
                let page = &mut self.regions[map as usize][number as usize];
                page.sequence += 1;
                let at = sizes.region_page_at(map, number.into(), Slot::of(page.sequence));
                (at, page.encode(map, PageId { disk, number }))
            }
        };
        (at, Box::new(bytes))
    }

    pub(super) fn region(&self, map: RegionMap, region: u64) -> bool {
        let regions = REGIONS as u64;
        self.regions[map as usize][(region / regions) as usize].get((region % regions) as usize)
    }

    /// Sets or clears a bit; the cycle after which that is durable.
    pub(super) fn set_region(&mut self, map: RegionMap, region: u64, value: bool) -> u64 {
        let (page, at) = ((region / REGIONS as u64) as usize, (region % REGIONS as u64) as usize);
        self.regions[map as usize][page].set(at, value);
        self.mark(Page::Regions(map, page as u32))
    }

    /// Columns in the table.
    pub(super) fn entered(&self) -> impl Iterator<Item = &Column> {
        self.columns.iter().flat_map(|page| page.entries.iter().flatten())
    }

    /// The machine has lost power: copies say so from now on. Whether there is one that did not say it yet.
    pub(super) fn lose_power(&mut self) -> bool {
        let mut loses = false;
        for number in 0..self.columns.len() {
            let entries = self.columns[number].entries.iter_mut().flatten();
            let copies: Vec<_> = entries.filter(|column| column.mirrored && !column.lossy).collect();
            if !copies.is_empty() {
                copies.into_iter().for_each(|column| column.lossy = true);
                self.mark(Page::Columns(number as u32));
                loses = true;
            }
        }
        loses
    }

    /// The disk was not closed: what was not flushed may be lost by an error of it that this process does not know.
    pub(super) fn forget_lives(&mut self) {
        for number in 0..self.columns.len() {
            let entries = self.columns[number].entries.iter_mut().flatten();
            let known: Vec<_> = entries.filter(|column| column.life != 0).collect();
            if !known.is_empty() {
                known.into_iter().for_each(|column| column.life = 0);
                self.mark(Page::Columns(number as u32));
            }
        }
    }

    /// How often pages that say which regions are dirty were written, as the pages count it.
    pub(super) fn marks(&self) -> Marks {
        let pages = self.regions[RegionMap::Dirty as usize].iter();
        Marks(pages.map(|page| page.sequence).fold(0, u64::saturating_add))
    }

    /// Regions whose bit is set.
    pub(super) fn regions_set(&self, map: RegionMap) -> impl Iterator<Item = u64> {
        (0..self.sizes().regions()).filter(move |region| self.region(map, *region))
    }

    pub(super) fn piece(&self, piece: u32) -> Piece {
        let each = cards_layout::format::PIECES;
        self.pieces[piece as usize / each].entries[piece as usize % each]
    }

    pub(super) fn set_piece(&mut self, piece: u32, value: Piece) -> u64 {
        let each = cards_layout::format::PIECES;
        self.pieces[piece as usize / each].entries[piece as usize % each] = value;
        self.mark(Page::Pieces((piece as usize / each) as u32))
    }

    /// Pieces that belong to a column.
    pub(super) fn owned(&self) -> impl Iterator<Item = (u32, Owner)> {
        (0..self.sizes().pieces).filter_map(|piece| match self.piece(piece) {
            Piece::Owned(owner) => Some((piece, owner)),
            Piece::Free | Piece::Retired => None,
        })
    }
}
