//! The disk of a column: its contents, what is durable of them, and what its tables say.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use cards_array::group::{Disk, Extent, Extents, Marks, Record, Work, WorkError};
use cards_core::VolumeSpec;
use cards_layout::format::Uuid;

use crate::media::Media;
use crate::memory::Tags;

/// A column of a group. Extents count sectors.
pub(crate) struct Column {
    disk: Uuid,
    pub(crate) media: Media,
    pub(crate) record: Record,
    /// The last process has ended in order, and has made everything durable.
    closed: bool,
    /// Sectors of a region, which is dirty as a whole, and missed as a whole to the next process.
    region: u64,
    /// Writes to each region whose release has not come.
    held: Vec<u32>,
    dirty: BTreeSet<u64>,
    /// How often a region has become dirty.
    marks: u64,
    missed: Extents,
    /// Sectors of a unit, which has one checksum.
    unit: u64,
    /// Units that do not fit their checksums; or the write that has replaced them, while it is not durable.
    rot: BTreeMap<u64, Option<u64>>,
}

fn sectors(extent: Extent) -> Range<usize> {
    extent.offset as usize..extent.end() as usize
}

impl Column {
    pub(crate) fn new(disk: Uuid, spec: &VolumeSpec, per_block: u32, unit: u64) -> Self {
        let media = Media::new(spec, per_block);
        let region = u64::from(per_block);
        let regions = media.sectors().div_ceil(region) as usize;
        Self {
            disk,
            media,
            record: Record::default(),
            closed: false,
            region,
            held: vec![0; regions],
            dirty: BTreeSet::new(),
            marks: 0,
            missed: Extents::default(),
            unit,
            rot: BTreeMap::new(),
        }
    }

    fn regions(&self, extent: Extent) -> Range<u64> {
        extent.offset / self.region..extent.end().div_ceil(self.region)
    }

    fn extents(&self, regions: &BTreeSet<u64>) -> Extents {
        let extent = |&region: &u64| {
            let offset = region * self.region;
            Extent { offset, length: self.region.min(self.media.sectors() - offset) }
        };
        regions.iter().map(extent).collect()
    }

    pub(crate) const fn marks(&self) -> Marks {
        Marks(self.marks)
    }

    pub(crate) const fn disk(&self) -> Uuid {
        self.disk
    }

    /// A bit of a unit changes on the medium.
    pub(crate) fn rots(&mut self, unit: u64) {
        self.rot.insert(unit, None);
    }

    /// It was an error of the cable.
    pub(crate) fn recovers(&mut self, unit: u64) {
        self.rot.remove(&unit);
    }

    pub(crate) fn is_rotten(&self, unit: u64) -> bool {
        self.rot.get(&unit) == Some(&None)
    }

    /// Units that do not fit their checksums.
    pub(crate) fn rotten(&self) -> impl Iterator<Item = u64> + '_ {
        self.rot.iter().filter(|(_, by)| by.is_none()).map(|(&unit, _)| unit)
    }

    /// How many units it has.
    pub(crate) fn units(&self) -> u64 {
        self.media.sectors().div_ceil(self.unit)
    }

    fn check(&self, extent: Extent) -> Result<(), WorkError> {
        let mut units = extent.offset / self.unit..extent.end().div_ceil(self.unit);
        let first = units.find(|&unit| self.is_rotten(unit));
        let whole = |unit: u64| Extent { offset: unit * self.unit, length: self.unit };
        first.map_or(Ok(()), |unit| Err(WorkError::Damaged(whole(unit))))
    }

    /// The write of a range: the rest of units that it has not as a whole is read.
    fn write(&mut self, extent: Extent, tags: &[u64]) -> Result<(), WorkError> {
        let inner = extent.inner(self.unit);
        let edges = inner.map_or(vec![extent], |inner| extent.around(inner).collect());
        edges.into_iter().try_for_each(|edge| self.check(edge))?;
        self.media.write(extent.offset as usize, tags);
        let written = self.media.written();
        let units = inner.map_or(0..0, |inner| inner.offset / self.unit..inner.end() / self.unit);
        self.rot.range_mut(units).for_each(|(_, by)| *by = Some(written));
        Ok(())
    }

    /// What the next process finds.
    pub(crate) fn open(&mut self) -> Disk {
        if !std::mem::take(&mut self.closed) {
            self.record.life = 0;
        }
        let dirty = self.extents(&self.dirty);
        self.held.fill(0);
        // The group has one release for each range that was dirty.
        for extent in dirty.iter() {
            for region in self.regions(extent) {
                self.held[region as usize] = 1;
            }
        }
        let missed: BTreeSet<u64> = self.missed.iter().flat_map(|extent| self.regions(extent)).collect();
        self.missed = self.extents(&missed);
        let (disk, record, missed) = (self.disk, self.record, self.missed.clone());
        Disk { disk, record, dirty, missed, marks: self.marks() }
    }

    /// What is done before the work is on its way. Returns the writes that a sync covers.
    pub(crate) fn begin(&mut self, work: &Work<Tags>) -> u64 {
        if let Work::Write { extent, missed, .. } = work {
            for region in self.regions(*extent) {
                self.held[region as usize] += 1;
                self.marks += u64::from(self.dirty.insert(region));
            }
            if *missed {
                self.missed.insert(*extent);
            }
        }
        self.media.written()
    }

    /// The work is done.
    pub(crate) fn apply(&mut self, work: &Work<Tags>, covered: u64) -> Result<Option<Tags>, WorkError> {
        match work {
            Work::Read { extent } => {
                self.check(*extent)?;
                let sectors = sectors(*extent);
                return Ok(Some(self.media.range(sectors.start, sectors.len())));
            }
            Work::Write { extent, payload, .. } => self.write(*extent, payload)?,
            Work::Verify { extent } => self.check(*extent)?,
            Work::Sync => {
                self.media.synced(None, covered);
                self.rot.retain(|_, by| by.is_none_or(|by| by > covered));
                self.clean();
            }
            Work::SetRecord(record) => self.record = *record,
            Work::MarkMissed(extents) => {
                self.missed.unite(extents);
            }
        }
        Ok(None)
    }

    /// The process ends in order, with what was under way.
    pub(crate) fn close(&mut self, works: impl Iterator<Item = Work<Tags>>) {
        for work in works {
            // One that finds damage is not done.
            let _ = self.apply(&work, 0);
        }
        let all = self.media.written();
        let _ = self.apply(&Work::Sync, all);
        self.closed = true;
    }

    /// The process ends while the work is under way: a part of it is done.
    pub(crate) fn tear(&mut self, work: &Work<Tags>, mut is_done: impl FnMut() -> bool) {
        match work {
            Work::Write { extent, payload, .. } => {
                for (sector, &tag) in sectors(*extent).zip(payload) {
                    if is_done() {
                        self.media.write(sector, &[tag]);
                    }
                }
            }
            Work::Read { .. } | Work::Verify { .. } | Work::Sync => {}
            work if is_done() => _ = self.apply(work, 0),
            _ => {}
        }
    }

    /// Regions become clean whose writes are released and durable.
    fn clean(&mut self) {
        let (media, held, size) = (&self.media, &self.held, self.region as usize);
        self.dirty.retain(|&region| {
            let first = region as usize * size;
            held[region as usize] > 0 || media.has_unsynced(first..first + size)
        });
    }

    pub(crate) fn release(&mut self, extent: Extent) {
        for region in self.regions(extent) {
            let held = &mut self.held[region as usize];
            *held = held.checked_sub(1).expect("a release for each write");
        }
        self.clean();
    }

    pub(crate) fn caught_up(&mut self, extents: &Extents) {
        extents.iter().for_each(|extent| self.missed.remove(extent));
    }

    /// The machine loses its power.
    pub(crate) fn lose_power(&mut self, survives: impl FnMut() -> bool) {
        self.media.lose_power(survives);
        self.rot.values_mut().for_each(|by| *by = None);
        self.record.is_lossy = true;
    }
}
