//! Dirty and missed regions: a bit for each region of all pieces, in two maps.

use alloc::boxed::Box;

use super::page::{self, ENTRIES_AT};
use super::{PageError, PageId, Sequenced, Slot, UNIT, field};

/// Regions of a page.
pub const REGIONS: usize = BYTES * 8;
const BYTES: usize = UNIT - ENTRIES_AT;
const MAGIC: [u8; 4] = *b"CDRL";

/// What a set bit says of its region.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RegionMap {
    /// It may have been written since its checksums were.
    Dirty,
    /// It was written while a column of its group was not in sync.
    Missed,
}

impl RegionMap {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::Dirty, Self::Missed];
}

/// A page of a map.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RegionPage {
    /// Counts changes, from 1.
    pub sequence: u64,
    bits: Box<[u8; BYTES]>,
}

impl Sequenced for RegionPage {
    fn sequence(&self) -> u64 {
        self.sequence
    }
}

impl RegionPage {
    /// A page with no bit set.
    #[must_use]
    pub fn clear(sequence: u64) -> Self {
        Self { sequence, bits: Box::new([0; BYTES]) }
    }

    /// Whether the bit of region `at` of the page is set; `at` is below [`REGIONS`].
    #[must_use]
    pub fn get(&self, at: usize) -> bool {
        self.bits[at / 8] >> (at % 8) & 1 == 1
    }

    /// Sets or clears the bit of region `at` of the page; `at` is below [`REGIONS`].
    pub fn set(&mut self, at: usize, value: bool) {
        let bit = 1 << (at % 8);
        if value {
            self.bits[at / 8] |= bit;
        } else {
            self.bits[at / 8] &= !bit;
        }
    }

    /// How many bits are set.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.bits.iter().map(|byte| u64::from(byte.count_ones())).sum()
    }

    /// Regions of page `number` of the map of a disk with so many.
    #[must_use]
    pub const fn regions(number: u32, regions: u64) -> usize {
        let left = regions.saturating_sub(number as u64 * REGIONS as u64);
        if left < REGIONS as u64 { left as usize } else { REGIONS }
    }

    /// As it is on disk.
    #[must_use]
    pub fn encode(&self, map: RegionMap, id: PageId) -> [u8; UNIT] {
        let mut page = [0; UNIT];
        field::put(&mut page, ENTRIES_AT, &*self.bits);
        page::seal(&mut page, MAGIC, map as u32, id, self.sequence);
        page
    }

    /// What a page says that was read from `slot` and has so many regions, at most [`REGIONS`].
    ///
    /// # Errors
    /// It is not that page, or not as it was written, or has a bit of a region that there is not.
    pub fn decode(
        page: &[u8; UNIT],
        map: RegionMap,
        id: PageId,
        slot: Slot,
        regions: usize,
    ) -> Result<Self, PageError> {
        let sequence = page::open(page, MAGIC, map as u32, id, slot)?;
        let mut decoded = Self::clear(sequence);
        decoded.bits.copy_from_slice(&page[ENTRIES_AT..]);
        match (regions..REGIONS).find(|at| decoded.get(*at)) {
            Some(at) => Err(PageError::Reserved { at: ENTRIES_AT + at / 8 }),
            None => Ok(decoded),
        }
    }
}
