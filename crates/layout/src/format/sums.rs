//! Checksums of the data of a piece, in front of the data. These pages have one slot: one that was torn is of dirty regions, and
//! is computed anew. What else is damaged is lost.

use alloc::boxed::Box;

use super::{PageError, UNIT, field, page};

/// Checksums of a page, each of [`UNIT`] bytes of data.
pub const SUMS: usize = (UNIT - SUMS_AT) / 4;
const SUMS_AT: usize = 64;
const MAGIC: [u8; 4] = *b"CSUM";

const DISK_AT: usize = 8;
const NUMBER_AT: usize = 16;
const STAMP_AT: usize = 24;
const SEQUENCE_AT: usize = 32;
const ZERO: core::ops::Range<usize> = 40..SUMS_AT;

const NEVER_WRITTEN: u32 = u32::MAX;
const LOST: u32 = u32::MAX - 1;
/// The largest value of a checksum; those above mean something else, now or later.
const SUM_MAX: u32 = u32::MAX - 3;

/// What is known of [`UNIT`] bytes of data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sum {
    /// They were never written, and are zero.
    NeverWritten,
    /// Their checksum is lost, and with it perhaps the data: they are not used until they are written again.
    Lost,
    /// Their checksum, as it is stored.
    Of(u32),
}

impl Sum {
    /// That of data with this CRC-32C. The three largest values share one with the fourth: they are kept for other purposes.
    #[must_use]
    pub const fn of_crc(crc: u32) -> Self {
        Self::Of(if crc < SUM_MAX { crc } else { SUM_MAX })
    }

    const fn to_stored(self) -> u32 {
        match self {
            Self::NeverWritten => NEVER_WRITTEN,
            Self::Lost => LOST,
            Self::Of(sum) => sum,
        }
    }
}

/// A page of checksums.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SumPage {
    /// Stamp of the last write that it knows of.
    pub stamp: u64,
    /// Counts changes.
    pub sequence: u64,
    /// The checksums.
    pub sums: Box<[Sum; SUMS]>,
}

impl SumPage {
    /// A page of data that were never written.
    #[must_use]
    pub fn never_written() -> Self {
        Self { stamp: 0, sequence: 0, sums: Box::new([Sum::NeverWritten; SUMS]) }
    }

    /// As it is on disk: page `number`, counted over all pieces, of the disk whose UUID begins with `disk`.
    #[must_use]
    pub fn encode(&self, disk: u64, number: u64) -> [u8; UNIT] {
        let mut page = [0; UNIT];
        field::put(&mut page, 0, &MAGIC);
        field::put(&mut page, DISK_AT, &disk.to_le_bytes());
        field::put(&mut page, NUMBER_AT, &number.to_le_bytes());
        field::put(&mut page, STAMP_AT, &self.stamp.to_le_bytes());
        field::put(&mut page, SEQUENCE_AT, &self.sequence.to_le_bytes());
        let (slots, _) = page[SUMS_AT..].as_chunks_mut::<4>();
        for (slot, sum) in slots.iter_mut().zip(self.sums.iter()) {
            *slot = sum.to_stored().to_le_bytes();
        }
        page::seal_crc(&mut page);
        page
    }

    /// What a page says.
    ///
    /// # Errors
    /// It is not that page, or not as it was written, or has a value that is kept for later.
    pub fn decode(page: &[u8; UNIT], disk: u64, number: u64) -> Result<Self, PageError> {
        page::check(page, MAGIC)?;
        let key = field::u64(page, DISK_AT);
        if key != disk {
            return Err(PageError::Disk { key });
        }
        let sequence = field::u64(page, SEQUENCE_AT);
        let found = field::u64(page, NUMBER_AT);
        if found != number {
            return Err(PageError::Place { number: found, sequence });
        }
        if let Some(at) = field::not_zero(&page[..ZERO.end], ZERO.start) {
            return Err(PageError::Reserved { at });
        }
        let mut decoded = Self { stamp: field::u64(page, STAMP_AT), sequence, ..Self::never_written() };
        let (slots, _) = page[SUMS_AT..].as_chunks::<4>();
        for (entry, (slot, sum)) in slots.iter().zip(decoded.sums.iter_mut()).enumerate() {
            *sum = match u32::from_le_bytes(*slot) {
                NEVER_WRITTEN => Sum::NeverWritten,
                LOST => Sum::Lost,
                stored @ ..=SUM_MAX => Sum::Of(stored),
                value => return Err(PageError::Value { what: "the checksum", entry, value: value.into() }),
            };
        }
        Ok(decoded)
    }
}
