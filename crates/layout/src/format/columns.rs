//! The column table: which columns are on the disk, and in which state.

use alloc::vec::Vec;

use super::page::{self, ENTRIES_AT};
use super::{PageError, PageId, Sequenced, Slot, UNIT, field};

/// Entries of a page.
pub const COLUMNS: usize = (UNIT - ENTRIES_AT) / SIZE;
const SIZE: usize = 64;
const MAGIC: [u8; 4] = *b"CCTB";

const USED: u8 = 1;
const FORCED: u8 = 2;

/// A column of a placement group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Column {
    /// First 8 bytes of the volume's UUID; not 0.
    pub volume: u64,
    /// The placement group of the volume.
    pub group: u16,
    /// The column of the group.
    pub column: u8,
    /// Its history was chosen by a person who gave up another one.
    pub forced: bool,
    /// Generation of the group's map.
    pub generation: u32,
    /// Messages of older epochs are refused.
    pub sealed_epoch: u64,
    /// The last epoch in which it had every acknowledged write.
    pub in_sync_epoch: u64,
    /// Staged records up to this stamp are in place, durably.
    pub applied_through: u64,
    /// Rows below are copied.
    pub filled_rows: u64,
    /// Where the next local scrub begins: a row.
    pub scrub_row: u64,
}

/// A page of the column table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ColumnPage {
    /// Counts changes, from 1.
    pub sequence: u64,
    /// Up to [`COLUMNS`] entries; `None`, and what is missing, is free.
    pub entries: Vec<Option<Column>>,
}

impl Sequenced for ColumnPage {
    fn sequence(&self) -> u64 {
        self.sequence
    }
}

impl ColumnPage {
    /// As it is on disk.
    #[must_use]
    pub fn encode(&self, id: PageId) -> [u8; UNIT] {
        let mut page = [0; UNIT];
        let (slots, _) = page[ENTRIES_AT..].as_chunks_mut::<SIZE>();
        for (slot, column) in slots.iter_mut().zip(&self.entries) {
            let Some(column) = column else { continue };
            field::put(slot, 0, &column.volume.to_le_bytes());
            field::put(slot, 8, &column.group.to_le_bytes());
            slot[10] = column.column;
            slot[11] = USED | if column.forced { FORCED } else { 0 };
            field::put(slot, 12, &column.generation.to_le_bytes());
            let numbers = [
                column.sealed_epoch,
                column.in_sync_epoch,
                column.applied_through,
                column.filled_rows,
                column.scrub_row,
            ];
            for (i, number) in numbers.into_iter().enumerate() {
                field::put(slot, 16 + 8 * i, &number.to_le_bytes());
            }
        }
        page::seal(&mut page, MAGIC, 0, id, self.sequence);
        page
    }

    /// What a page says that was read from `slot`; it has all [`COLUMNS`] entries.
    ///
    /// # Errors
    /// It is not that page, or not as it was written, or says what cannot be.
    pub fn decode(page: &[u8; UNIT], id: PageId, slot: Slot) -> Result<Self, PageError> {
        let sequence = page::open(page, MAGIC, 0, id, slot)?;
        let (slots, _) = page[ENTRIES_AT..].as_chunks::<SIZE>();
        let column = |(i, slot): (usize, &[u8; SIZE])| {
            let start = ENTRIES_AT + i * SIZE;
            let flags = slot[11];
            if flags == 0 {
                return field::not_zero(slot, 0)
                    .map_or(Ok(None), |at| Err(PageError::Reserved { at: start + at }));
            }
            if flags & USED == 0 || flags & !(USED | FORCED) != 0 {
                return Err(PageError::Value { what: "the flags", entry: i, value: flags.into() });
            }
            let volume = field::u64(slot, 0);
            if volume == 0 {
                return Err(PageError::Value { what: "the volume", entry: i, value: 0 });
            }
            if let Some(at) = field::not_zero(slot, 56) {
                return Err(PageError::Reserved { at: start + at });
            }
            let number = |i: usize| field::u64(slot, 16 + 8 * i);
            Ok(Some(Column {
                volume,
                group: field::u16(slot, 8),
                column: slot[10],
                forced: flags & FORCED != 0,
                generation: field::u32(slot, 12),
                sealed_epoch: number(0),
                in_sync_epoch: number(1),
                applied_through: number(2),
                filled_rows: number(3),
                scrub_row: number(4),
            }))
        };
        if let Some(at) = field::not_zero(page, ENTRIES_AT + COLUMNS * SIZE) {
            return Err(PageError::Reserved { at });
        }
        let entries = slots.iter().enumerate().map(column).collect::<Result<_, _>>()?;
        Ok(Self { sequence, entries })
    }
}
