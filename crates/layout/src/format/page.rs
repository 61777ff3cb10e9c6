//! What pages of tables have in common: a header of 32 bytes, a checksum, and the disk that they are of.

use core::fmt;

use super::{Slot, UNIT, field};

const CRC_AT: usize = 4;
const NUMBER_AT: usize = 8;
const KIND_AT: usize = 12;
const SEQUENCE_AT: usize = 16;
const DISK_AT: usize = 24;
/// Where the entries begin.
pub(super) const ENTRIES_AT: usize = 32;

/// Which page of which disk, as its header says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageId {
    /// The first 8 bytes of the disk's UUID: a page that an earlier format has left is none of this disk.
    pub disk: u64,
    /// Its position in its table.
    pub number: u32,
}

/// Why a page of a table is not valid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PageError {
    /// It begins in another way.
    Magic([u8; 4]),
    /// The page has changed since it was written.
    Checksum {
        /// The checksum in the page.
        stored: u32,
        /// That of the page.
        computed: u32,
    },
    /// It is another page of the table, or belongs in the other slot.
    Place {
        /// The number that it has.
        number: u64,
        /// The sequence number that it has.
        sequence: u64,
    },
    /// It is of another disk.
    Disk {
        /// The first 8 bytes of that disk's UUID.
        key: u64,
    },
    /// A value that cannot be there.
    Value {
        /// What it is of.
        what: &'static str,
        /// The entry of the page.
        entry: usize,
        /// The value.
        value: u64,
    },
    /// A byte that has to be zero is not.
    Reserved {
        /// Its offset in the page.
        at: usize,
    },
}

impl fmt::Display for PageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Magic(magic) => write!(f, "it begins with \"{}\"", magic.escape_ascii()),
            Self::Checksum { stored, computed } => {
                write!(
                    f,
                    "its checksum says {stored:08x} and its bytes have {computed:08x}: it has changed since it was written"
                )
            }
            Self::Place { number, sequence } => {
                write!(
                    f,
                    "page {number} with sequence number {sequence} does not belong here: it was written to a wrong place"
                )
            }
            Self::Disk { key } => {
                write!(f, "it is of another disk, whose UUID begins with ")?;
                key.to_le_bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
            Self::Value { what, entry, value } => {
                write!(f, "{what} of entry {entry} is {value:#x}, which this program does not know")
            }
            Self::Reserved { at } => write!(f, "byte {at} is not zero"),
        }
    }
}

impl core::error::Error for PageError {}

/// Writes the header, and the checksum last.
pub(super) fn seal(page: &mut [u8; UNIT], magic: [u8; 4], kind: u32, id: PageId, sequence: u64) {
    field::put(page, 0, &magic);
    field::put(page, NUMBER_AT, &id.number.to_le_bytes());
    field::put(page, KIND_AT, &kind.to_le_bytes());
    field::put(page, SEQUENCE_AT, &sequence.to_le_bytes());
    field::put(page, DISK_AT, &id.disk.to_le_bytes());
    seal_crc(page);
}

/// Writes the checksum.
pub(super) fn seal_crc(page: &mut [u8; UNIT]) {
    let crc = field::crc(page, CRC_AT);
    field::put(page, CRC_AT, &crc.to_le_bytes());
}

/// Checks how the page begins, and its checksum.
pub(super) fn check(page: &[u8; UNIT], expected: [u8; 4]) -> Result<(), PageError> {
    let magic = field::bytes(page, 0);
    if magic != expected {
        return Err(PageError::Magic(magic));
    }
    let (stored, computed) = (field::u32(page, CRC_AT), field::crc(page, CRC_AT));
    if stored != computed {
        return Err(PageError::Checksum { stored, computed });
    }
    Ok(())
}

/// Checks the header of a page that was read from `slot`; its sequence number.
pub(super) fn open(
    page: &[u8; UNIT],
    magic: [u8; 4],
    kind: u32,
    id: PageId,
    slot: Slot,
) -> Result<u64, PageError> {
    check(page, magic)?;
    let key = field::u64(page, DISK_AT);
    if key != id.disk {
        return Err(PageError::Disk { key });
    }
    let (number, sequence) = (field::u32(page, NUMBER_AT), field::u64(page, SEQUENCE_AT));
    if number != id.number || field::u32(page, KIND_AT) != kind || sequence == 0 || Slot::of(sequence) != slot
    {
        return Err(PageError::Place { number: number.into(), sequence });
    }
    Ok(sequence)
}
