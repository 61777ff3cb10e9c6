//! The contents of the disks. They outlive the processes of their nodes.

use cards_core::{BlockId, VolumeId, VolumeSpec};

use crate::memory::Tags;

/// The contents of one volume, a tag for each sector.
#[derive(Debug)]
pub struct Media {
    sectors: Vec<u64>,
    per_block: usize,
}

/// What sector number `sector` of `volume` holds before it is first written.
#[must_use]
pub fn initial_tag(volume: VolumeId, sector: u64) -> u64 {
    1 << 63 | u64::from(volume.0) << 40 | sector
}

impl Media {
    /// A volume in its initial state, each block modelled by `per_block` sectors.
    #[must_use]
    pub fn new(spec: &VolumeSpec, per_block: u32) -> Self {
        let sectors = spec.size_bytes / u64::from(spec.block_bytes / per_block);
        Self {
            sectors: (0..sectors).map(|sector| initial_tag(spec.id, sector)).collect(),
            per_block: per_block as usize,
        }
    }

    /// Sectors of the volume.
    #[must_use]
    pub fn sectors(&self) -> u64 {
        self.sectors.len() as u64
    }

    /// The tag of sector number `sector`.
    #[must_use]
    pub fn tag(&self, sector: u64) -> u64 {
        self.sectors[usize::try_from(sector).expect("a sector of a modelled disk")]
    }

    /// Sector `sector` of `block`, zero beyond the end of the volume.
    pub(crate) fn read(&self, block: BlockId, sector: usize) -> u64 {
        self.sectors.get(block.index as usize * self.per_block + sector).copied().unwrap_or(0)
    }

    /// Overwrites from `sector` on.
    pub(crate) fn write(&mut self, sector: usize, tags: &[u64]) {
        self.sectors[sector..sector + tags.len()].copy_from_slice(tags);
    }

    /// `count` sectors from `sector` on.
    #[must_use]
    pub fn range(&self, sector: usize, count: usize) -> Tags {
        self.sectors[sector..sector + count].to_vec()
    }
}
