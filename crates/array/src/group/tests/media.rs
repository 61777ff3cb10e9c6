//! The disk of a node: what is in place, what is durable, and what its tables say.

use alloc::vec::Vec;

use cards_layout::format::Uuid;

use super::random::Random;
use crate::group::{Disk, Extent, Extents, Marks, Record, Work, WorkError};

/// Units of a group: one value each.
pub(super) const UNITS: usize = 6;

/// Those that a group has which has not grown yet.
pub(super) const UNITS_BEFORE: usize = 4;

/// Units that have one checksum.
pub(super) const SUMMED: usize = 2;

#[derive(Clone)]
pub(super) struct Media {
    pub(super) disk: Uuid,
    /// Units of the column. What is behind its end is zero, and is not written.
    pub(super) size: usize,
    /// Writes that went beyond the end, with where that was.
    cut: Vec<(Extent, usize)>,
    /// What was not zero was to be written there.
    pub(super) is_short: bool,
    pub(super) current: [u32; UNITS],
    pub(super) durable: [u32; UNITS],
    /// Written since the last sync.
    unsynced: [Vec<u32>; UNITS],
    pub(super) record: Record,
    /// The last process has ended in order.
    closed: bool,
    /// How often a unit has become dirty.
    marks: u64,
    /// Writes whose release has not come.
    held: [u32; UNITS],
    pub(super) dirty: [bool; UNITS],
    pub(super) missed: [bool; UNITS],
    /// Does not fit its checksum: units with one checksum are rotten together.
    pub(super) rotten: [bool; UNITS],
    /// The same of what is durable.
    pub(super) rots: [bool; UNITS],
}

pub(super) fn units(extent: Extent) -> core::ops::Range<usize> {
    extent.offset as usize..extent.end() as usize
}

fn extents(set: &[bool; UNITS]) -> Extents {
    let units = set.iter().enumerate().filter(|(_, is_in)| **is_in);
    units.map(|(unit, _)| Extent { offset: unit as u64, length: 1 }).collect()
}

impl Media {
    /// A disk with nothing on it.
    pub(super) fn new(disk: Uuid) -> Self {
        Self::of(disk, UNITS)
    }

    /// The same, with a column of so many units.
    pub(super) fn of(disk: Uuid, size: usize) -> Self {
        Self {
            disk,
            size,
            cut: Vec::new(),
            is_short: false,
            current: [0; UNITS],
            durable: [0; UNITS],
            unsynced: Default::default(),
            record: Record::default(),
            closed: false,
            marks: 0,
            held: [0; UNITS],
            dirty: [false; UNITS],
            missed: [false; UNITS],
            rotten: [false; UNITS],
            rots: [false; UNITS],
        }
    }

    /// A bit of what is on the medium changes.
    pub(super) fn rot(&mut self, unit: usize) {
        if unit >= self.size {
            return;
        }
        for unit in units(Extent { offset: unit as u64, length: 1 }.whole(SUMMED as u64)) {
            (self.rotten[unit], self.rots[unit]) = (true, true);
        }
    }

    fn damaged(&self, extent: Extent) -> Result<(), WorkError> {
        let first = units(extent).find(|unit| self.rotten[*unit]);
        let whole = |unit: usize| Extent { offset: unit as u64, length: 1 }.whole(SUMMED as u64);
        first.map_or(Ok(()), |unit| Err(WorkError::Damaged(whole(unit))))
    }

    /// What the next process finds.
    pub(super) fn open(&mut self) -> Disk {
        if !core::mem::take(&mut self.closed) {
            self.record.life = 0;
        }
        let dirty = extents(&self.dirty);
        self.held = [0; UNITS];
        self.cut.clear();
        for extent in dirty.iter() {
            units(extent).for_each(|unit| self.held[unit] = 1);
        }
        let (disk, record, missed) = (self.disk, self.record, extents(&self.missed));
        Disk { disk, record, dirty, missed, marks: self.marks() }
    }

    pub(super) const fn marks(&self) -> Marks {
        Marks(self.marks)
    }

    /// What is done before a write is on its way.
    pub(super) fn begin(&mut self, work: &Work<Vec<u32>>) {
        if let Work::Write { extent, missed, .. } = work {
            if extent.end() as usize > self.size {
                self.cut.push((*extent, self.size));
            }
            for unit in units(*extent).filter(|unit| *unit < self.size) {
                self.held[unit] += 1;
                self.marks += u64::from(!self.dirty[unit]);
                self.dirty[unit] = true;
                self.missed[unit] |= missed;
            }
        }
    }

    /// The work is done.
    pub(super) fn apply(&mut self, work: &Work<Vec<u32>>) -> Result<Option<Vec<u32>>, WorkError> {
        match work {
            Work::Read { extent } => {
                self.damaged(*extent)?;
                return Ok(Some(self.current[units(*extent)].to_vec()));
            }
            Work::Verify { extent } => self.damaged(*extent)?,
            Work::Write { extent, payload, .. } => {
                let inner = extent.inner(SUMMED as u64);
                // What is left of units that are written in part is read.
                let edges = inner.map_or(alloc::vec![*extent], |inner| extent.around(inner).collect());
                edges.into_iter().try_for_each(|edge| self.damaged(edge))?;
                inner.into_iter().flat_map(units).for_each(|unit| self.rotten[unit] = false);
                self.is_short |=
                    units(*extent).zip(payload).any(|(unit, value)| unit >= self.size && *value != 0);
                for (unit, value) in units(*extent).zip(payload).filter(|(unit, _)| *unit < self.size) {
                    self.current[unit] = *value;
                    self.unsynced[unit].push(*value);
                }
            }
            Work::Sync => self.sync(),
            Work::SetRecord(record) => self.record = *record,
            Work::MarkMissed(extents) => {
                extents.iter().flat_map(units).for_each(|unit| self.missed[unit] = true);
            }
        }
        Ok(None)
    }

    /// The process ends in order, with what was under way.
    pub(super) fn close(&mut self, works: impl Iterator<Item = Work<Vec<u32>>>) {
        for work in works {
            // One that finds damage is not done.
            let _ = self.apply(&work);
        }
        self.sync();
        self.closed = true;
    }

    pub(super) const fn is_dirty(&self, unit: usize) -> bool {
        self.dirty[unit]
    }

    pub(super) fn sync(&mut self) {
        (self.durable, self.rots) = (self.current, self.rotten);
        self.unsynced = Default::default();
        self.clean();
    }

    /// Regions become clean that may.
    fn clean(&mut self) {
        for unit in 0..UNITS {
            self.dirty[unit] &= self.held[unit] > 0 || !self.unsynced[unit].is_empty();
        }
    }

    pub(super) fn release(&mut self, extent: Extent) {
        let cut = self.cut.iter().position(|(of, _)| *of == extent);
        let size = cut.map_or(UNITS, |at| self.cut.swap_remove(at).1);
        for unit in units(extent).filter(|unit| *unit < size) {
            self.held[unit] = self.held[unit].checked_sub(1).expect("a release for each write");
        }
        self.clean();
    }

    pub(super) fn caught_up(&mut self, extents: &Extents) {
        extents.iter().flat_map(units).for_each(|unit| self.missed[unit] = false);
    }

    /// Power is cut: any of the writes since the last sync are left.
    pub(super) fn cut(&mut self, random: &mut Random) {
        for unit in 0..UNITS {
            let written = core::mem::take(&mut self.unsynced[unit]);
            let choice = random.below(written.len() as u64 + 1) as usize;
            let value = written.get(choice).copied().unwrap_or(self.durable[unit]);
            if choice == written.len() && self.rots[unit] {
                self.rot(unit);
            }
            (self.current[unit], self.durable[unit]) = (value, value);
        }
        self.record.is_lossy = true;
    }
}
