//! Columns that are copies of each other on several disks, as their group sees them: which writes other copies may not have, and which they
//! have missed.

use alloc::vec::Vec;

use cards_layout::format::{Column, RegionMap, Uuid};

use super::{Answer, ColumnKey, Effect, Life, Purpose, Store, StoreError, Ticket, Wait, answer, tables};
use crate::group::{Disk, Extent, Extents, Marks, Record};

/// Ranges of a column that are known to have been missed, beyond which neighbours are joined.
const RANGES_MAX: usize = 1 << 16;

impl Store {
    /// Whether what was found when the disk was opened is durable, and that it is open: that power was lost, too.
    #[must_use]
    pub const fn is_announced(&self) -> bool {
        self.is_announced
    }

    /// Whether it could not keep its tables, or sync: no request is taken.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.life == Life::Failed
    }

    /// A cycle has ended. That power was lost is durable before the superblock names this boot, or the next process would not see it.
    pub(super) fn announce(&mut self, cycle: u64) {
        if cycle + 1 == self.announced_by && !self.is_announced {
            self.tables.mark(tables::Page::Superblock);
        }
        self.is_announced |= cycle >= self.announced_by;
    }

    /// The disk has failed. What was not synced may be lost although the machine goes on: the next process is to find that copies have
    /// lost something. If this page does not reach the disk either, it is torn or was never there, and the other slot serves; that one
    /// is not being written: when the disk says that it is closed, all else is durable.
    pub(super) fn disown(&mut self, out: &mut Vec<Effect>) {
        if self.is_announced && self.columns().any(|column| column.mirrored) {
            self.tables.superblock.boot = Uuid::default();
            let (at, page) = self.tables.encode(tables::Page::Superblock);
            let io = self.io(Purpose::CycleWrite);
            out.push(Effect::WritePages { io, at, pages: alloc::vec![page] });
        }
    }

    /// How often this disk has noted which regions are dirty, in a way that outlives a loss of power.
    #[must_use]
    pub const fn marks(&self) -> Marks {
        self.marks
    }

    /// A column as a group finds it that begins here. Of each range that is dirty there is one release from now on; none is awaited of
    /// writes before. `is_copy`: another column of the group has what this one has.
    pub fn begin(&mut self, key: ColumnKey, is_copy: bool) -> Option<Disk> {
        let column = self.columns().find(|column| column.mirrored && ColumnKey::from(*column) == key)?;
        let (bytes, record) = (column.bytes, record_of(column));
        let held = self.regions_of(key, Extent { offset: 0, length: bytes });
        let held: Vec<_> =
            held.into_iter().filter(|(_, region)| self.regions.held.contains_key(region)).collect();
        for (_, region) in &held {
            self.regions.held.insert(*region, 1);
        }
        let within = |extent: Extent| {
            (extent.offset < bytes)
                .then(|| Extent { length: extent.length.min(bytes - extent.offset), ..extent })
        };
        let length = 1 << self.sizes().region_shift;
        let dirty = held.iter().filter_map(|(offset, _)| within(Extent { offset: *offset, length }));
        let missed = self.missed.get(&key).into_iter().flat_map(Extents::iter).filter_map(within);
        let disk: Uuid = self.superblock().disk;
        let (dirty, missed) = (dirty.collect(), missed.collect());
        let marks = if self.begun.insert(key, is_copy).is_none() { self.marks_found } else { self.marks };
        Some(Disk { disk, record, dirty, missed, marks })
    }

    /// Another column of the group has what this one has, or none has any more: as [`Self::begin`] was told.
    pub fn has_copy(&mut self, key: ColumnKey, is_copy: bool) {
        if let Some(before) = self.begun.get_mut(&key) {
            *before = is_copy;
        }
    }

    /// A write of a group begins, of which requests come. Its regions stay dirty until it is released. `missed`: some
    /// column does not get it; requests say the same.
    pub fn hold(&mut self, key: ColumnKey, extent: Extent, missed: bool) {
        for (_, region) in self.regions_of(key, extent) {
            *self.regions.held.entry(region).or_default() += 1;
        }
        if missed {
            self.note_missed(key, &[extent].into_iter().collect());
        }
    }

    /// All columns have a write, or what was dirty when the group began. The regions become clean after a sync.
    pub fn release(&mut self, key: ColumnKey, extent: Extent) {
        for (_, region) in self.regions_of(key, extent) {
            self.regions.release(region);
        }
    }

    /// Changes what the table says of a column for its group. The answer comes when that is durable.
    pub fn set_record(
        &mut self,
        ticket: Ticket,
        key: ColumnKey,
        record: Record,
        now: u64,
        out: &mut Vec<Effect>,
    ) {
        let Record { generation, sealed_epoch, in_sync_epoch, is_lossy, life } = record;
        let found = self.columns().find(|column| column.mirrored && ColumnKey::from(*column) == key);
        let Some(found) = found.cloned() else { return answer(ticket, Err(StoreError::NoColumn), out) };
        let column = Column { generation, sealed_epoch, in_sync_epoch, lossy: is_lossy, life, ..found };
        self.set_column(ticket, &column, now, out);
    }

    /// Notes that columns have missed ranges. The answer comes when that is durable.
    pub fn mark_missed(
        &mut self,
        ticket: Ticket,
        key: ColumnKey,
        extents: &Extents,
        now: u64,
        out: &mut Vec<Effect>,
    ) {
        let refusal = self.refusal();
        match refusal.or_else(|| (!self.columns.contains_key(&key)).then_some(StoreError::NoColumn)) {
            Some(error) => answer(ticket, Err(error), out),
            None => {
                self.note_missed(key, extents);
                let regions: Vec<_> =
                    extents.iter().flat_map(|extent| self.regions_of(key, extent)).collect();
                match regions.into_iter().filter_map(|(_, region)| self.make_missed(region)).max() {
                    None => answer(ticket, Ok(Answer::Done), out),
                    Some(cycle) => self.waiting.entry(cycle).or_default().push(Wait::Change(ticket)),
                }
            }
        }
        self.advance(now, out);
    }

    /// Columns that had missed these ranges have them. That need not be durable at once: to copy a range twice does no harm.
    pub fn caught_up(&mut self, key: ColumnKey, extents: &Extents, now: u64, out: &mut Vec<Effect>) {
        if let Some(missed) = self.missed.get_mut(&key) {
            extents.iter().for_each(|extent| missed.remove(extent));
        }
        let length = 1 << self.sizes().region_shift;
        for extent in extents.iter() {
            for (offset, region) in self.regions_of(key, extent) {
                let region_bytes = Extent { offset, length };
                let is_missed = self.missed.get(&key).is_some_and(|missed| missed.overlaps(region_bytes));
                if !is_missed && self.tables.region(RegionMap::Missed, region) {
                    self.tables.set_region(RegionMap::Missed, region, false);
                    self.regions.missing.remove(&region);
                }
            }
        }
        self.advance(now, out);
    }

    /// Ranges are known as exactly as they are told, if these are not too many; else neighbours are joined, as the regions on the disk join
    /// them: some bytes are copied that nobody has missed.
    fn note_missed(&mut self, key: ColumnKey, extents: &Extents) {
        let missed = self.missed.entry(key).or_default();
        missed.unite(extents);
        missed.bound(RANGES_MAX);
    }

    /// Has the missed bit of a region set. The cycle after which that is durable, if it is not.
    pub(super) fn make_missed(&mut self, region: u64) -> Option<u64> {
        if self.tables.region(RegionMap::Missed, region) {
            let found = (!self.tables.are_durable()).then_some(0);
            return self.regions.missing.get(&region).copied().or(found);
        }
        let cycle = self.tables.set_region(RegionMap::Missed, region, true);
        self.regions.missing.insert(region, cycle);
        Some(cycle)
    }

    /// The regions of a range of a column: where each begins in the column, and its number over all pieces.
    fn regions_of(&self, key: ColumnKey, extent: Extent) -> Vec<(u64, u64)> {
        let Some(pieces) = self.columns.get(&key) else { return Vec::new() };
        let sizes = self.sizes();
        let each = sizes.piece_shift - sizes.region_shift;
        let all = (pieces.len() as u64) << each;
        let end = extent.offset.saturating_add(extent.length).div_ceil(1 << sizes.region_shift).min(all);
        let number = |index: u64| {
            let piece = u64::from(pieces[(index >> each) as usize]);
            (index << sizes.region_shift, (piece << each) + index % (1 << each))
        };
        (extent.offset >> sizes.region_shift..end).map(number).collect()
    }
}

/// What the table says of a column, for its group.
const fn record_of(column: &Column) -> Record {
    Record {
        generation: column.generation,
        sealed_epoch: column.sealed_epoch,
        in_sync_epoch: column.in_sync_epoch,
        is_lossy: column.lossy,
        life: column.life,
    }
}
