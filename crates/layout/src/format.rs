//! Managed disks, format version 2: what is written, to the byte. `docs/reference/disk-format.md` is the same for people.
//!
//! Little-endian throughout. Everything is in pages of [`UNIT`] bytes at multiples of it, each with a CRC-32C of itself with that
//! field zero. What changes in place has two slots: sequence numbers count changes, odd ones are in slot A and even ones in slot B,
//! so a change never overwrites what was last valid, and a page that was written to the wrong slot is refused.
//!
//! | file | noun |
//! |---|---|
//! | `sizes` | the areas of a disk and their sizes |
//! | `superblock` | what the disk is |
//! | `page` | what pages of tables have in common: header, checksum, slots |
//! | `pieces` | the piece table: which volume has which piece |
//! | `columns` | the column table: which columns are on the disk, and in which state |
//! | `regions` | dirty and missed regions |
//! | `sums` | checksums of the data of a piece |
//! | `fresh` | what a disk has on it when it has been formatted |
//!
//! Decoders take any bytes: the result is a value or an error with a reason. A value that was decoded is encoded to the same bytes.

mod columns;
mod crc;
mod field;
mod fresh;
mod page;
mod pieces;
mod regions;
mod sizes;
mod slot;
mod sums;
mod superblock;
mod uuid;

pub use columns::{COLUMNS, Column, ColumnPage};
pub use crc::crc32c;
pub use page::{PageError, PageId};
pub use pieces::{Owner, PIECES, Piece, PiecePage};
pub use regions::{REGIONS, RegionMap, RegionPage};
pub use sizes::{
    Areas, DEVICE_MAX, DEVICE_MIN, PIECES_MAX, REGIONS_MAX, SUPERBLOCKS, SizeError, Sizes, TABLES,
};
pub use slot::{Chosen, Sequenced, Slot, newest};
pub use sums::{SUMS, Sum, SumPage};
pub use superblock::{MAGIC, Superblock, SuperblockError, VERSION};
pub use uuid::Uuid;

/// Bytes of a page, and of the data under one checksum.
pub const UNIT: usize = 4096;
