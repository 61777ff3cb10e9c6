//! The column table: which columns are on the disk, and in which state.

use alloc::vec::Vec;

use super::page::{self, ENTRIES_AT};
use super::{PageError, PageId, Sequenced, Slot, UNIT, Uuid, field};
use crate::domain::Name;

/// Entries of a page.
pub const COLUMNS: usize = (UNIT - ENTRIES_AT) / SIZE;
const SIZE: usize = 256;
const UUID_AT: usize = 64;
const BYTES_AT: usize = 80;
const NAME_AT: usize = 88;
const ZERO_FROM: usize = 152;
const MAGIC: [u8; 4] = *b"CCTB";

const USED: u8 = 1;
const FORCED: u8 = 2;
const MIRRORED: u8 = 4;
const LOSSY: u8 = 8;

/// A column of a placement group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Column {
    /// The volume; its key ([`Uuid::key`]) is not 0.
    pub volume: Uuid,
    /// What people call the volume.
    pub name: Name,
    /// Bytes of the volume.
    pub bytes: u64,
    /// The placement group of the volume.
    pub group: u16,
    /// The column of the group.
    pub column: u8,
    /// Its history was chosen by a person who gave up another one.
    pub forced: bool,
    /// One of several copies: which of them count says the group's map. The column of a volume that has no other is not.
    pub mirrored: bool,
    /// The machine lost power while the disk was open, and the other copies have not replaced what that may have lost; only
    /// of mirrored columns.
    pub lossy: bool,
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
    /// The persistence life of the group when it was opened last with this column in sync; 0 if that is not known, or if the disk was
    /// not closed since. Only of mirrored columns.
    pub life: u64,
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
            field::put(slot, 0, &column.volume.key().to_le_bytes());
            field::put(slot, 8, &column.group.to_le_bytes());
            slot[10] = column.column;
            let flag = |set: bool, flag: u8| if set { flag } else { 0 };
            slot[11] = USED
                | flag(column.forced, FORCED)
                | flag(column.mirrored, MIRRORED)
                | flag(column.lossy, LOSSY);
            field::put(slot, 12, &column.generation.to_le_bytes());
            let numbers = [
                column.sealed_epoch,
                column.in_sync_epoch,
                column.applied_through,
                column.filled_rows,
                column.scrub_row,
                column.life,
            ];
            for (i, number) in numbers.into_iter().enumerate() {
                field::put(slot, 16 + 8 * i, &number.to_le_bytes());
            }
            field::put(slot, UUID_AT, &column.volume.0);
            field::put(slot, BYTES_AT, &column.bytes.to_le_bytes());
            field::put(slot, NAME_AT, column.name.as_str().as_bytes());
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
            let is_known = flags & !(USED | FORCED | MIRRORED | LOSSY) == 0;
            let is_possible = flags & USED != 0 && (flags & LOSSY == 0 || flags & MIRRORED != 0);
            if !is_known || !is_possible {
                return Err(PageError::Value { what: "the flags", entry: i, value: flags.into() });
            }
            let (key, volume) = (field::u64(slot, 0), Uuid(field::bytes(slot, UUID_AT)));
            if key == 0 || key != volume.key() {
                return Err(PageError::Value { what: "the volume", entry: i, value: key });
            }
            if let Some(at) = field::not_zero(slot, ZERO_FROM) {
                return Err(PageError::Reserved { at: start + at });
            }
            let length =
                slot[NAME_AT..ZERO_FROM].iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            // A zero inside of the name is none of its letters.
            let name = core::str::from_utf8(&slot[NAME_AT..NAME_AT + length])
                .ok()
                .and_then(|text| text.parse::<Name>().ok());
            let Some(name) = name else {
                let value = field::u64(slot, NAME_AT);
                return Err(PageError::Value { what: "the name of the volume", entry: i, value });
            };
            let number = |i: usize| field::u64(slot, 16 + 8 * i);
            Ok(Some(Column {
                volume,
                name,
                bytes: field::u64(slot, BYTES_AT),
                group: field::u16(slot, 8),
                column: slot[10],
                forced: flags & FORCED != 0,
                mirrored: flags & MIRRORED != 0,
                lossy: flags & LOSSY != 0,
                generation: field::u32(slot, 12),
                sealed_epoch: number(0),
                in_sync_epoch: number(1),
                applied_through: number(2),
                filled_rows: number(3),
                scrub_row: number(4),
                life: number(5),
            }))
        };
        if let Some(at) = field::not_zero(page, ENTRIES_AT + COLUMNS * SIZE) {
            return Err(PageError::Reserved { at });
        }
        let entries = slots.iter().enumerate().map(column).collect::<Result<_, _>>()?;
        Ok(Self { sequence, entries })
    }
}
