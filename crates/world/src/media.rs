//! The contents of the disks. They outlive the processes of their nodes, and what was synced outlives their power.

use std::collections::BTreeMap;

use cards_core::{BlockId, PgId, VolumeSpec};

use crate::memory::Tags;

/// The contents of one volume, a tag for each sector.
///
/// What is written is in the page cache of the machine: the next read sees it. It is durable after a sync that began
/// later; until then each write of each sector may vanish with the power, for itself.
#[derive(Debug)]
pub struct Media {
    volume: PgId,
    count: u64,
    /// What was written, and what of it is durable. All else is as it was at first.
    sectors: BTreeMap<usize, u64>,
    durable: BTreeMap<usize, u64>,
    /// What was written to a sector after its durable contents, in order.
    unsynced: BTreeMap<usize, Vec<Unsynced>>,
    /// Counts the writes.
    written: u64,
    per_block: usize,
}

#[derive(Debug)]
struct Unsynced {
    number: u64,
    tag: u64,
    /// A sync of it has failed: no later one makes it durable.
    doomed: bool,
}

/// What sector number `sector` of `volume` holds before it is first written.
#[must_use]
pub fn initial_tag(volume: PgId, sector: u64) -> u64 {
    1 << 63 | u64::from(volume.0) << 40 | sector
}

impl Media {
    /// A volume in its initial state, each block modelled by `per_block` sectors.
    #[must_use]
    pub fn new(spec: &VolumeSpec, per_block: u32) -> Self {
        Self {
            volume: spec.id,
            count: spec.size_bytes / u64::from(spec.block_bytes / per_block),
            sectors: BTreeMap::new(),
            durable: BTreeMap::new(),
            unsynced: BTreeMap::new(),
            written: 0,
            per_block: per_block as usize,
        }
    }

    /// Sectors of the volume.
    #[must_use]
    pub fn sectors(&self) -> u64 {
        self.count
    }

    /// The sectors that were ever written.
    pub fn written_sectors(&self) -> impl Iterator<Item = u64> {
        self.sectors.keys().map(|&sector| sector as u64)
    }

    /// The tag of sector number `sector`.
    #[must_use]
    pub fn tag(&self, sector: u64) -> u64 {
        self.of(&self.sectors, sector as usize)
    }

    /// What sector number `sector` certainly has after a loss of power.
    #[must_use]
    pub fn durable(&self, sector: u64) -> u64 {
        self.of(&self.durable, sector as usize)
    }

    fn of(&self, written: &BTreeMap<usize, u64>, sector: usize) -> u64 {
        written.get(&sector).copied().unwrap_or_else(|| initial_tag(self.volume, sector as u64))
    }

    /// What sector `sector` of `block` was at first, zero beyond the end of the volume.
    pub(crate) fn initial(&self, block: BlockId, sector: usize) -> u64 {
        let sector = block.index as usize * self.per_block + sector;
        if (sector as u64) < self.count { initial_tag(self.volume, sector as u64) } else { 0 }
    }

    /// Sector `sector` of `block`, zero beyond the end of the volume.
    pub(crate) fn read(&self, block: BlockId, sector: usize) -> u64 {
        let sector = block.index as usize * self.per_block + sector;
        if (sector as u64) < self.count { self.of(&self.sectors, sector) } else { 0 }
    }

    /// Overwrites from `sector` on. What is beyond the end is left out.
    pub(crate) fn write(&mut self, sector: usize, tags: &[u64]) {
        self.written += 1;
        for (sector, &tag) in (sector..self.count as usize).zip(tags) {
            self.sectors.insert(sector, tag);
            let write = Unsynced { number: self.written, tag, doomed: false };
            self.unsynced.entry(sector).or_default().push(write);
        }
    }

    /// The number of the last write: what a sync that begins now covers.
    pub(crate) const fn written(&self) -> u64 {
        self.written
    }

    /// Some write to these sectors is not durable yet.
    pub(crate) fn has_unsynced(&self, sectors: std::ops::Range<usize>) -> bool {
        self.unsynced.range(sectors).next().is_some()
    }

    /// A sync of these sectors, all if none are named, has succeeded that covers the writes up to this one.
    pub(crate) fn synced(&mut self, sectors: Option<std::ops::Range<usize>>, covered: u64) {
        let sectors = sectors.unwrap_or(0..usize::MAX);
        for (&sector, writes) in self.unsynced.range_mut(sectors) {
            if let Some(last) = writes.iter().rposition(|write| write.number <= covered && !write.doomed) {
                self.durable.insert(sector, writes[last].tag);
                writes.drain(..=last);
            }
        }
        self.unsynced.retain(|_, writes| !writes.is_empty());
    }

    /// A sync has failed that would have covered the writes up to this one.
    pub(crate) fn sync_failed(&mut self, covered: u64) {
        let writes = self.unsynced.values_mut().flatten();
        writes.filter(|write| write.number <= covered).for_each(|write| write.doomed = true);
    }

    /// The machine loses its power. Returns the sectors that have other contents than before.
    pub(crate) fn lose_power(&mut self, mut survives: impl FnMut() -> bool) -> Vec<(u64, u64)> {
        let mut changed = Vec::new();
        for (sector, writes) in std::mem::take(&mut self.unsynced) {
            let survivor = writes.iter().rev().find(|write| !write.doomed && survives());
            let tag = survivor.map_or_else(|| self.of(&self.durable, sector), |write| write.tag);
            self.durable.insert(sector, tag);
            if self.sectors.insert(sector, tag) != Some(tag) {
                changed.push((sector as u64, tag));
            }
        }
        changed
    }

    /// `count` sectors from `sector` on.
    #[must_use]
    pub fn range(&self, sector: usize, count: usize) -> Tags {
        (sector..sector + count).map(|sector| self.tag(sector as u64)).collect()
    }
}

#[cfg(test)]
mod tests {
    use cards_core::{Coherence, Handover, NodeId};

    use super::*;

    fn media() -> Media {
        let spec = VolumeSpec {
            id: PgId::plain(NodeId(0), 0),
            primary: NodeId(0),
            epoch: 1,
            name: "disk".into(),
            size_bytes: 4096,
            block_bytes: 4096,
            policy: "rd".into(),
            read_only: false,
            content: 0,
            network_attached: false,
            coherence: Coherence::Confirmed,
            handover: Handover::Disk,
        };
        Media::new(&spec, 8)
    }

    #[test]
    fn what_was_synced_survives_and_of_the_rest_any_part() {
        let mut media = media();
        media.write(0, &[1, 2]);
        let covered = media.written();
        media.write(1, &[3, 4]);
        media.synced(None, covered);
        assert_eq!((media.durable(0), media.durable(1), media.tag(1)), (1, 2, 3));
        let mut turn = false;
        let changed = media.lose_power(|| std::mem::replace(&mut turn, true));
        assert_eq!(changed, [(1, 2)], "one sector of the write is gone, the other is not");
        assert_eq!((media.tag(1), media.tag(2), media.durable(2)), (2, 4, 4));
    }

    #[test]
    fn a_sync_after_a_failed_one_saves_only_what_was_written_since() {
        let mut media = media();
        media.write(0, &[1, 2]);
        media.sync_failed(media.written());
        media.write(1, &[3]);
        media.synced(None, media.written());
        assert_eq!((media.durable(1), media.tag(0)), (3, 1));
        assert_eq!(media.lose_power(|| true).len(), 1);
        assert_eq!(media.tag(0), media.durable(0));
        assert_ne!(media.tag(0), 1);
    }
}
