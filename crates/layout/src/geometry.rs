//! Where a byte of a volume is: group, row, column and offset in the column; and the block numbers of a group.
//!
//! A *bundle* of bytes goes to a group, the next to the next group. In a group, row `r` has one *chunk* of every column: data
//! chunks `0..k` and parity chunks `0..m`; a chunk of row `r` is at offset `r * chunk` of its column. Parity is rotated
//! left-symmetrically: parity `i` of row `r` is in column `(w - 1 - r mod w + i) mod w`, and data chunk `j` in column `(first
//! parity + m + j) mod w`. In groups of copies, all columns have the one data chunk.
//!
//! *Block numbers are sparse.* With `s` the least number for which `2^s` blocks hold the data chunks of a row, block `b` of data
//! chunk `j` of row `r` is number `r << s | j * (chunk / block) + b`. A row is thus an aligned power of two of numbers, for three
//! data chunks as for four, and is never in two of the *runs* of blocks that go to one shard. Numbers that no block has cost
//! nothing: tables of blocks are hashed.
//!
//! Rules, checked when a volume is laid out: a chunk is whole blocks, so that no block is in two columns; a row is at most a run;
//! a bundle is whole rows, so that a sequential write fills rows.

use alloc::vec::Vec;
use core::fmt;

use crate::layout::Shape;
use crate::text::Bytes;

/// The smallest block, and the unit of checksums, in bytes.
pub const BLOCK_MIN: u32 = 4096;
/// The largest block, in bytes.
pub const BLOCK_MAX: u32 = 1 << 20;
/// A chunk, unless the block is larger, in bytes.
pub const CHUNK_DEFAULT: u32 = 64 << 10;
/// A bundle is as many whole rows as this has room for, and at least one, in bytes.
pub const BUNDLE_DEFAULT: u64 = 1 << 20;
/// The shortest run, in blocks.
pub const RUN_MIN: u32 = 16;
/// The longest run, in blocks.
pub const RUN_MAX: u32 = 256;

/// How the groups of a volume share its bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Spread {
    /// In turn, a bundle to each.
    Striped {
        /// Groups, at least one.
        groups: u32,
        /// Bytes of the volume.
        size: u64,
    },
    /// One after another.
    Concatenated {
        /// Bytes of each group, whole rows.
        groups: Vec<u64>,
    },
}

/// What a geometry is made of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Parameters {
    /// The columns of a group.
    pub shape: Shape,
    /// How the groups share the volume.
    pub spread: Spread,
    /// The unit of caching, in bytes: a power of two from [`BLOCK_MIN`] to [`BLOCK_MAX`].
    pub block: u32,
    /// Bytes of a chunk; none: [`CHUNK_DEFAULT`], or the block if that is larger.
    pub chunk: Option<u32>,
    /// Bytes of a bundle; none: see [`BUNDLE_DEFAULT`].
    pub bundle: Option<u64>,
}

/// Where a byte of a volume is, in its group.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Location {
    /// The group.
    pub group: u32,
    /// The row of the group.
    pub row: u64,
    /// Which data chunk of the row.
    pub chunk: u8,
    /// The byte in the chunk.
    pub within: u32,
}

/// Bytes of a volume that are in one chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// Where the first of them is.
    pub location: Location,
    /// How many, at least one.
    pub length: u32,
}

/// What a column has in a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// That data chunk.
    Data(u8),
    /// That parity chunk.
    Parity(u8),
}

/// The geometry of a volume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Geometry {
    shape: Shape,
    map: Map,
    size: u64,
    block: u32,
    chunk: u32,
    run: u32,
    /// `s` of the module's head.
    row_shift: u32,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Map {
    Striped {
        groups: u32,
        bundle: u64,
    },
    /// Where each group ends, in bytes of the volume.
    Concatenated {
        ends: Vec<u64>,
    },
}

/// Why there is no such geometry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum GeometryError {
    /// The block is no power of two in its bounds.
    Block {
        /// Bytes asked for.
        block: u32,
    },
    /// The chunk is not whole blocks.
    Chunk {
        /// Bytes asked for.
        chunk: u32,
        /// Bytes of a block.
        block: u32,
    },
    /// A row has more blocks than a run.
    Row {
        /// Data chunks of a row.
        data: u8,
        /// Bytes of a chunk.
        chunk: u32,
        /// Bytes of a block.
        block: u32,
    },
    /// The bundle is not whole rows.
    Bundle {
        /// Bytes asked for.
        bundle: u64,
        /// Bytes of the data of a row.
        row: u64,
    },
    /// No group.
    NoGroups,
    /// A group of a concatenation is not whole rows, or has none.
    Group {
        /// Which.
        group: usize,
        /// Its bytes.
        size: u64,
        /// Bytes of the data of a row.
        row: u64,
    },
    /// A group has more blocks than there are numbers.
    TooLarge {
        /// Bytes of a group.
        group: u64,
        /// Bytes of a block.
        block: u32,
        /// The most bytes that a group can have with that block.
        limit: u64,
    },
}

impl fmt::Display for GeometryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Block { block } => write!(
                f,
                "block {block}: a block is a power of two from {} to {}",
                Bytes(BLOCK_MIN.into()),
                Bytes(BLOCK_MAX.into())
            ),
            Self::Chunk { chunk, block } => write!(
                f,
                "chunk {}: a chunk is whole blocks, and a block has {}; use a multiple of that",
                Bytes(chunk.into()),
                Bytes(block.into())
            ),
            Self::Row { data, chunk, block } => write!(
                f,
                "{data} data chunks of {} are {} blocks of {}, and a row has at most {RUN_MAX}; use larger blocks, smaller \
                 chunks, or fewer data columns",
                Bytes(chunk.into()),
                u64::from(data) * u64::from(chunk / block),
                Bytes(block.into())
            ),
            Self::Bundle { bundle, row } => write!(
                f,
                "bundle {}: a bundle is whole rows, and a row has {} of data; use a multiple of that",
                Bytes(bundle),
                Bytes(row)
            ),
            Self::NoGroups => f.write_str("a volume without groups has no room; use at least one disk"),
            Self::Group { group, size, row } => write!(
                f,
                "group {group} has {}: a group is whole rows of {}, at least one",
                Bytes(size),
                Bytes(row)
            ),
            Self::TooLarge { group, block, limit } => write!(
                f,
                "a group of {} has more than 2^32 blocks of {}; use larger blocks, or more groups: with this block a group \
                 has at most {}",
                Bytes(group),
                Bytes(block.into()),
                Bytes(limit)
            ),
        }
    }
}

impl core::error::Error for GeometryError {}

impl Geometry {
    /// The geometry of a volume.
    ///
    /// # Errors
    /// One of the rules of the module's head is broken.
    pub fn new(parameters: Parameters) -> Result<Self, GeometryError> {
        let Parameters { shape, spread, block, chunk, bundle } = parameters;
        if !block.is_power_of_two() || !(BLOCK_MIN..=BLOCK_MAX).contains(&block) {
            return Err(GeometryError::Block { block });
        }
        let chunk = chunk.unwrap_or(CHUNK_DEFAULT.max(block));
        if chunk == 0 || !chunk.is_multiple_of(block) {
            return Err(GeometryError::Chunk { chunk, block });
        }
        let data = shape.data();
        let row_blocks = u64::from(data) * u64::from(chunk / block);
        if row_blocks > RUN_MAX.into() {
            return Err(GeometryError::Row { data, chunk, block });
        }
        let row = u64::from(data) * u64::from(chunk);
        let row_shift = row_blocks.next_power_of_two().trailing_zeros();
        let fits = |group: u64| {
            let rows_max = 1u64 << (u32::BITS - row_shift);
            if group.div_ceil(row) <= rows_max {
                return Ok(());
            }
            Err(GeometryError::TooLarge { group, block, limit: rows_max * row })
        };
        let (map, size) = match spread {
            Spread::Striped { groups: 0, .. } => return Err(GeometryError::NoGroups),
            Spread::Striped { groups, size } => {
                let bundle = bundle.unwrap_or_else(|| (BUNDLE_DEFAULT / row).max(1) * row);
                if bundle == 0 || !bundle.is_multiple_of(row) {
                    return Err(GeometryError::Bundle { bundle, row });
                }
                fits(size.div_ceil(bundle).div_ceil(groups.into()).saturating_mul(bundle))?;
                (Map::Striped { groups, bundle }, size)
            }
            Spread::Concatenated { groups } => {
                let mut end: u64 = 0;
                let mut ends = Vec::with_capacity(groups.len());
                for (group, size) in groups.into_iter().enumerate() {
                    if size == 0 || !size.is_multiple_of(row) {
                        return Err(GeometryError::Group { group, size, row });
                    }
                    fits(size)?;
                    end = end.saturating_add(size);
                    ends.push(end);
                }
                if ends.is_empty() {
                    return Err(GeometryError::NoGroups);
                }
                (Map::Concatenated { ends }, end)
            }
        };
        Ok(Self { shape, map, size, block, chunk, run: (1 << row_shift).max(RUN_MIN), row_shift })
    }

    /// The columns of a group.
    #[must_use]
    pub const fn shape(&self) -> Shape {
        self.shape
    }

    /// Bytes of the volume.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Bytes of a block.
    #[must_use]
    pub const fn block(&self) -> u32 {
        self.block
    }

    /// Bytes of a chunk.
    #[must_use]
    pub const fn chunk(&self) -> u32 {
        self.chunk
    }

    /// Blocks of a run: a power of two, and whole rows.
    #[must_use]
    pub const fn run(&self) -> u32 {
        self.run
    }

    /// Bytes of a bundle; none if groups follow one another.
    #[must_use]
    pub const fn bundle(&self) -> Option<u64> {
        match self.map {
            Map::Striped { bundle, .. } => Some(bundle),
            Map::Concatenated { .. } => None,
        }
    }

    /// The largest volume of this geometry whose columns have at most `column` bytes: each group has the same number of whole
    /// bundles. Of groups that follow one another it is the volume as it is.
    #[must_use]
    pub fn size_for(&self, column: u64) -> u64 {
        match self.map {
            Map::Striped { groups, bundle } => {
                let rows = column / u64::from(self.chunk);
                (rows.saturating_mul(self.row()) / bundle * bundle).saturating_mul(groups.into())
            }
            Map::Concatenated { .. } => self.size,
        }
    }

    /// Bytes of the data of a row.
    const fn row(&self) -> u64 {
        self.shape.data() as u64 * self.chunk as u64
    }

    /// Where the byte at `offset` of the volume is; none beyond its end.
    #[must_use]
    pub fn locate(&self, offset: u64) -> Option<Location> {
        if offset >= self.size {
            return None;
        }
        let (group, inside) = match &self.map {
            Map::Striped { groups, bundle } => {
                let (index, rest) = (offset / bundle, offset % bundle);
                let groups = u64::from(*groups);
                ((index % groups) as u32, index / groups * bundle + rest)
            }
            Map::Concatenated { ends } => {
                let group = ends.partition_point(|end| *end <= offset);
                (group as u32, offset - group.checked_sub(1).map_or(0, |before| ends[before]))
            }
        };
        let (row, rest) = (inside / self.row(), inside % self.row());
        let chunk = u64::from(self.chunk);
        Some(Location { group, row, chunk: (rest / chunk) as u8, within: (rest % chunk) as u32 })
    }

    /// The offset in the volume of a byte: the inverse of [`Self::locate`]; none if the volume has no such byte.
    #[must_use]
    pub fn offset(&self, location: Location) -> Option<u64> {
        let Location { group, row, chunk, within } = location;
        if chunk >= self.shape.data() || within >= self.chunk {
            return None;
        }
        let rest = u64::from(chunk) * u64::from(self.chunk) + u64::from(within);
        let inside = row.checked_mul(self.row())?.checked_add(rest)?;
        let offset = match &self.map {
            Map::Striped { groups, .. } if group >= *groups => return None,
            Map::Striped { groups, bundle } => (inside / bundle)
                .checked_mul((*groups).into())?
                .checked_add(group.into())?
                .checked_mul(*bundle)?
                .checked_add(inside % bundle)?,
            Map::Concatenated { ends } => {
                let end = *ends.get(group as usize)?;
                let start = group.checked_sub(1).map_or(0, |before| ends[before as usize]);
                start.checked_add(inside).filter(|offset| *offset < end)?
            }
        };
        Some(offset).filter(|offset| *offset < self.size)
    }

    /// The chunks of `length` bytes from `offset` on, in ascending order; what is beyond the end of the volume is left out.
    pub fn extents(&self, offset: u64, length: u64) -> impl Iterator<Item = Extent> + '_ {
        let end = offset.saturating_add(length).min(self.size);
        let mut at = offset;
        core::iter::from_fn(move || {
            let location = self.locate(at).filter(|_| at < end)?;
            let length = u64::from(self.chunk - location.within).min(end - at) as u32;
            at += u64::from(length);
            Some(Extent { location, length })
        })
    }

    /// The number in its group of the block that has the byte.
    #[must_use]
    pub const fn block_number(&self, location: Location) -> u32 {
        let in_row = location.chunk as u32 * (self.chunk / self.block) + location.within / self.block;
        (location.row as u32) << self.row_shift | in_row
    }

    /// Where the first byte of a block is: the inverse of [`Self::block_number`]. None for numbers that no block has.
    #[must_use]
    pub fn block_location(&self, group: u32, number: u32) -> Option<Location> {
        let in_row = number & ((1 << self.row_shift) - 1);
        let blocks = self.chunk / self.block;
        let location = Location {
            group,
            row: (number >> self.row_shift).into(),
            chunk: u8::try_from(in_row / blocks).ok()?,
            within: in_row % blocks * self.block,
        };
        self.offset(location).map(|_| location)
    }

    /// The offset of a byte in its column, in all columns that have it.
    #[must_use]
    pub const fn column_offset(&self, location: Location) -> u64 {
        location.row * self.chunk as u64 + location.within as u64
    }

    /// The first parity column of a row.
    const fn parity_column(&self, row: u64) -> u64 {
        let width = self.shape.width() as u64;
        width - 1 - row % width
    }

    /// The column that has data chunk `chunk` of a row; for copies the first of all columns, which are equal.
    #[must_use]
    pub const fn data_column(&self, row: u64, chunk: u8) -> u8 {
        match self.shape {
            Shape::Copies(_) => 0,
            Shape::Parity { data, parity } => {
                let width = data as u64 + parity as u64;
                ((self.parity_column(row) + parity as u64 + chunk as u64) % width) as u8
            }
        }
    }

    /// What `column` has in a row; none if there is no such column.
    #[must_use]
    pub const fn unit(&self, row: u64, column: u8) -> Option<Unit> {
        if column >= self.shape.width() {
            return None;
        }
        Some(match self.shape {
            Shape::Copies(_) => Unit::Data(0),
            Shape::Parity { parity, .. } => {
                let width = self.shape.width() as u64;
                let behind = ((column as u64 + width - self.parity_column(row)) % width) as u8;
                if behind < parity { Unit::Parity(behind) } else { Unit::Data(behind - parity) }
            }
        })
    }
}
