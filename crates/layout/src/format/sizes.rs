//! The areas of a managed disk, and the sizes that are chosen when it is formatted.

use core::fmt;
use core::ops::RangeInclusive;

use super::{COLUMNS, PIECES, REGIONS, RegionMap, SUMS, Slot, UNIT};
use crate::text::Bytes;

/// Where the superblocks are, slots A and B.
pub const SUPERBLOCKS: [u64; 2] = [0, 64 << 10];
/// Where tables may begin: what is before it belongs to the superblocks.
pub const TABLES: u64 = 1 << 20;
/// The smallest device that can be formatted, in bytes.
pub const DEVICE_MIN: u64 = 32 << 20;
/// The largest one, in bytes.
pub const DEVICE_MAX: u64 = 128 << 40;
/// Pieces that a disk can have.
pub const PIECES_MAX: u32 = 1 << 14;
/// Dirty regions that a disk can have.
pub const REGIONS_MAX: u64 = 1 << 19;
const PIECE_SHIFTS: RangeInclusive<u8> = 20..=33;
const REGION_SHIFTS: RangeInclusive<u8> = 20..=28;
const JOURNAL_MIN: u64 = 16 << 20;
const JOURNAL_MAX: u64 = 1 << 30;
/// Areas begin at multiples of it where they are chosen.
const ALIGNMENT: u64 = 1 << 20;
const PAGE: u64 = UNIT as u64;

/// Where the areas of a disk begin, in bytes from its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Areas {
    /// The piece table: slot A of all pages, then slot B.
    pub piece_table: u64,
    /// The column table: slot A of all pages, then slot B.
    pub column_table: u64,
    /// Dirty and missed regions: slot A of all pages of both maps, then slot B.
    pub regions: u64,
    /// The journal.
    pub journal: u64,
    /// Bytes of the journal; 0 if it is on another disk.
    pub journal_bytes: u64,
    /// The first piece; the others follow.
    pub first_piece: u64,
}

/// The sizes of a managed disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sizes {
    /// Bytes of the device when it was formatted.
    pub device: u64,
    /// A piece has `1 << piece_shift` bytes of data.
    pub piece_shift: u8,
    /// A dirty region has `1 << region_shift` bytes; at most a piece.
    pub region_shift: u8,
    /// Pieces of the disk.
    pub pieces: u32,
    /// Pieces begin with the checksums of their data.
    pub has_sums: bool,
    /// Where the areas are.
    pub areas: Areas,
}

/// Why a disk cannot have these sizes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SizeError {
    /// The device is too small or too large to be formatted.
    Device {
        /// Its bytes.
        device: u64,
    },
    /// A number is out of its bounds.
    Number {
        /// Which.
        what: &'static str,
        /// Its value.
        value: u64,
        /// The least that it can be.
        least: u64,
        /// The most that it can be.
        most: u64,
    },
    /// An area begins where no page does, or before the one in front of it ends.
    Area {
        /// Which.
        what: &'static str,
        /// Where it begins.
        at: u64,
        /// Where the one in front of it ends.
        after: u64,
    },
    /// The last piece ends behind the device.
    Beyond {
        /// Bytes of the device.
        device: u64,
    },
}

impl fmt::Display for SizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Device { device } => write!(
                f,
                "{} are {} for a managed disk; it has {} to {}",
                Bytes(device),
                if device < DEVICE_MIN { "too little" } else { "too much" },
                Bytes(DEVICE_MIN),
                Bytes(DEVICE_MAX)
            ),
            Self::Number { what, value, least, most } => {
                write!(f, "{what} is {value}, and can be {least} to {most}")
            }
            Self::Area { what, at, after } => {
                write!(f, "{what} begins at {at}, which is no multiple of {UNIT}, or before {after}")
            }
            Self::Beyond { device } => write!(f, "its pieces end behind the device of {}", Bytes(device)),
        }
    }
}

impl core::error::Error for SizeError {}

impl Sizes {
    /// The sizes for a device of so many bytes: at most [`PIECES_MAX`] pieces, each of 1 MiB or more, at most [`REGIONS_MAX`]
    /// regions, a journal of a hundredth of the device.
    ///
    /// # Errors
    /// The device is too small or too large.
    pub fn choose(device: u64) -> Result<Self, SizeError> {
        if !(DEVICE_MIN..=DEVICE_MAX).contains(&device) {
            return Err(SizeError::Device { device });
        }
        let fits = |shift: &u8| device >> shift <= PIECES_MAX.into();
        let piece_shift = PIECE_SHIFTS.into_iter().find(fits).expect("the largest device fits");
        let most = (device >> piece_shift) as u32;
        let regions = |shift: &u8| u64::from(most) << (piece_shift - shift) <= REGIONS_MAX;
        let region_shift = (20..=piece_shift).find(regions).expect("there are fewer pieces than regions");
        let journal_bytes = (device / 100).clamp(JOURNAL_MIN, JOURNAL_MAX) / ALIGNMENT * ALIGNMENT;
        let mut sizes = Self {
            device,
            piece_shift,
            region_shift,
            // The tables are placed for a few more than there will be.
            pieces: most,
            has_sums: true,
            areas: Areas {
                piece_table: TABLES,
                column_table: 0,
                regions: 0,
                journal: 0,
                journal_bytes,
                first_piece: 0,
            },
        };
        sizes.areas.column_table = TABLES + 2 * sizes.piece_pages() * PAGE;
        sizes.areas.regions = sizes.areas.column_table + 2 * sizes.column_pages() * PAGE;
        let tables = sizes.areas.regions + 4 * sizes.region_pages() * PAGE;
        sizes.areas.journal = tables.next_multiple_of(ALIGNMENT);
        sizes.areas.first_piece = sizes.areas.journal + journal_bytes;
        sizes.pieces = (device.saturating_sub(sizes.areas.first_piece) / sizes.stride()) as u32;
        sizes.check()?;
        Ok(sizes)
    }

    /// Whether the sizes are possible: numbers in their bounds, areas one after another, all of it on the device.
    ///
    /// # Errors
    /// The first that is wrong.
    pub fn check(&self) -> Result<(), SizeError> {
        let number = |what, value: u64, least: u64, most: u64| {
            if (least..=most).contains(&value) {
                return Ok(());
            }
            Err(SizeError::Number { what, value, least, most })
        };
        let bounds = |range: RangeInclusive<u8>| (u64::from(*range.start()), u64::from(*range.end()));
        number("the size of the device", self.device, DEVICE_MIN, DEVICE_MAX)?;
        let (least, most) = bounds(PIECE_SHIFTS);
        number("the piece shift", self.piece_shift.into(), least, most)?;
        let (least, most) = bounds(REGION_SHIFTS);
        number("the region shift", self.region_shift.into(), least, most.min(self.piece_shift.into()))?;
        number("the number of pieces", self.pieces.into(), 1, PIECES_MAX.into())?;
        number("the number of regions", self.regions(), 1, REGIONS_MAX)?;
        if self.areas.journal_bytes > 0 {
            number("the size of the journal", self.areas.journal_bytes, JOURNAL_MIN, JOURNAL_MAX)?;
        }
        let areas = [
            ("the piece table", self.areas.piece_table, 2 * self.piece_pages() * PAGE),
            ("the column table", self.areas.column_table, 2 * self.column_pages() * PAGE),
            ("the table of regions", self.areas.regions, 4 * self.region_pages() * PAGE),
            ("the journal", self.areas.journal, self.areas.journal_bytes),
            ("the first piece", self.areas.first_piece, u64::from(self.pieces) * self.stride()),
        ];
        let mut after = TABLES;
        for (what, at, bytes) in areas {
            if at < after || !at.is_multiple_of(PAGE) {
                return Err(SizeError::Area { what, at, after });
            }
            // Lengths are bounded by the numbers above; the place may be anything.
            after = at.checked_add(bytes).ok_or(SizeError::Beyond { device: self.device })?;
        }
        if after > self.device {
            return Err(SizeError::Beyond { device: self.device });
        }
        Ok(())
    }

    /// Bytes of the data of a piece.
    #[must_use]
    pub const fn piece(&self) -> u64 {
        1 << self.piece_shift
    }

    /// Bytes of the data of all pieces.
    #[must_use]
    pub const fn space(&self) -> u64 {
        (self.pieces as u64) << self.piece_shift
    }

    /// Dirty regions of all pieces; those of piece `p` are together, at `p` times the regions of a piece.
    #[must_use]
    pub const fn regions(&self) -> u64 {
        (self.pieces as u64) << (self.piece_shift - self.region_shift)
    }

    /// Pages of the piece table, in each slot.
    #[must_use]
    pub const fn piece_pages(&self) -> u64 {
        (self.pieces as u64).div_ceil(PIECES as u64)
    }

    /// Pages of the column table, in each slot: room for as many columns as there are pieces.
    #[must_use]
    pub const fn column_pages(&self) -> u64 {
        (self.pieces as u64).div_ceil(COLUMNS as u64)
    }

    /// Pages of one map of regions, in each slot.
    #[must_use]
    pub const fn region_pages(&self) -> u64 {
        self.regions().div_ceil(REGIONS as u64)
    }

    /// Pages of checksums in front of the data of a piece.
    #[must_use]
    pub const fn sum_pages(&self) -> u64 {
        if self.has_sums { (self.piece() / PAGE).div_ceil(SUMS as u64) } else { 0 }
    }

    /// Bytes from one piece to the next.
    const fn stride(&self) -> u64 {
        self.piece() + self.sum_pages() * PAGE
    }

    /// Where a page of the piece table is.
    #[must_use]
    pub const fn piece_page_at(&self, page: u64, slot: Slot) -> u64 {
        self.areas.piece_table + (slot as u64 * self.piece_pages() + page) * PAGE
    }

    /// Where a page of the column table is.
    #[must_use]
    pub const fn column_page_at(&self, page: u64, slot: Slot) -> u64 {
        self.areas.column_table + (slot as u64 * self.column_pages() + page) * PAGE
    }

    /// Where a page of a map of regions is.
    #[must_use]
    pub const fn region_page_at(&self, map: RegionMap, page: u64, slot: Slot) -> u64 {
        let slots = slot as u64 * 2 * self.region_pages();
        self.areas.regions + (slots + map as u64 * self.region_pages() + page) * PAGE
    }

    /// Where the checksums of a piece begin.
    #[must_use]
    pub const fn sums_at(&self, piece: u32) -> u64 {
        self.areas.first_piece + piece as u64 * self.stride()
    }

    /// Where the data of a piece begin.
    #[must_use]
    pub const fn data_at(&self, piece: u32) -> u64 {
        self.sums_at(piece) + self.sum_pages() * PAGE
    }
}
