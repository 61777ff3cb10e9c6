//! Where the units of a column are on its disk.

use core::ops::RangeInclusive;

use cards_layout::format::{Column, Owner, SUMS, Sizes, UNIT};

use super::StoreError;

/// A column, as requests name it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ColumnKey {
    /// First 8 bytes of the volume's UUID.
    pub volume: u64,
    /// The placement group of the volume.
    pub group: u16,
    /// The column of the group.
    pub column: u8,
}

impl From<&Column> for ColumnKey {
    fn from(column: &Column) -> Self {
        Self { volume: column.volume.key(), group: column.group, column: column.column }
    }
}

impl From<&Owner> for ColumnKey {
    fn from(owner: &Owner) -> Self {
        Self { volume: owner.volume, group: owner.group, column: owner.column }
    }
}

/// Units of one piece.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub(super) piece: u32,
    /// The first unit, counted from the start of the piece.
    pub(super) first: u64,
    pub(super) units: u64,
}

impl Place {
    /// The units of `length` bytes at `offset` of a column that has these pieces.
    pub(super) fn of(sizes: &Sizes, pieces: &[u32], offset: u64, length: u64) -> Result<Self, StoreError> {
        let unit = UNIT as u64;
        let (index, within) = (offset >> sizes.piece_shift, offset % sizes.piece());
        let is_whole = offset.is_multiple_of(unit) && length.is_multiple_of(unit) && length > 0;
        let piece = usize::try_from(index).ok().and_then(|index| pieces.get(index));
        match piece {
            Some(piece) if is_whole && length <= sizes.piece() - within => {
                Ok(Self { piece: *piece, first: within / unit, units: length / unit })
            }
            _ => Err(StoreError::Range),
        }
    }

    /// Offset of the data on the disk, in bytes.
    pub(super) const fn data_at(&self, sizes: &Sizes) -> u64 {
        sizes.data_at(self.piece) + self.first * UNIT as u64
    }

    /// The regions that have the units, counted over all pieces.
    pub(super) const fn regions(&self, sizes: &Sizes) -> RangeInclusive<u64> {
        let shift = sizes.region_shift;
        let base = (self.piece as u64) << (sizes.piece_shift - shift);
        let last = self.first + self.units - 1;
        base + ((self.first * UNIT as u64) >> shift)..=base + ((last * UNIT as u64) >> shift)
    }

    /// The pages of checksums of the units, counted over all pieces; none if the disk keeps none.
    pub(super) fn sum_pages(&self, sizes: &Sizes) -> impl Iterator<Item = u64> + use<> {
        let base = u64::from(self.piece) * sizes.sum_pages();
        let last = self.first + self.units - 1;
        let end = if sizes.has_sums { base + last / SUMS as u64 + 1 } else { base };
        base + self.first / SUMS as u64..end
    }

    /// Page and entry of the checksum of the `i`-th unit.
    pub(super) const fn sum(&self, sizes: &Sizes, i: u64) -> (u64, usize) {
        let unit = self.first + i;
        (self.piece as u64 * sizes.sum_pages() + unit / SUMS as u64, (unit % SUMS as u64) as usize)
    }

    /// Region `region`, counted over all pieces.
    pub(super) const fn of_region(sizes: &Sizes, region: u64) -> Self {
        let each = sizes.piece_shift - sizes.region_shift;
        let units = (1 << sizes.region_shift) / UNIT as u64;
        Self { piece: (region >> each) as u32, first: region % (1 << each) * units, units }
    }

    /// The units whose checksums are in page `page`, counted over all pieces.
    pub(super) fn of_sum_page(sizes: &Sizes, page: u64) -> Self {
        let first = page % sizes.sum_pages() * SUMS as u64;
        let units = (sizes.piece() / UNIT as u64 - first).min(SUMS as u64);
        Self { piece: (page / sizes.sum_pages()) as u32, first, units }
    }
}

/// Where a page of checksums is on the disk.
pub(super) const fn sum_page_at(sizes: &Sizes, page: u64) -> u64 {
    let (piece, page) = (page / sizes.sum_pages(), page % sizes.sum_pages());
    sizes.sums_at(piece as u32) + page * UNIT as u64
}
