//! The piece table: which volume has which piece.

use alloc::vec::Vec;

use super::page::{self, ENTRIES_AT};
use super::{PageError, PageId, Sequenced, Slot, UNIT, field};

/// Entries of a page.
pub const PIECES: usize = (UNIT - ENTRIES_AT) / SIZE;
const SIZE: usize = 32;
const MAGIC: [u8; 4] = *b"CPTB";

const FREE: u8 = 0;
const IN_USE: u8 = 1;
const FILLING: u8 = 2;
const RETIRED: u8 = 3;

/// What a piece is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Piece {
    /// Free.
    #[default]
    Free,
    /// A part of a column.
    Owned(Owner),
    /// Bad: never given out again.
    Retired,
}

/// The part of a column that a piece has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Owner {
    /// First 8 bytes of the volume's UUID; not 0.
    pub volume: u64,
    /// The placement group of the volume.
    pub group: u16,
    /// The column of the group.
    pub column: u8,
    /// Which piece of the column.
    pub index: u32,
    /// The group's epoch when the piece was given to it.
    pub epoch: u64,
    /// It is being copied to: its data do not count yet.
    pub filling: bool,
}

/// A page of the piece table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PiecePage {
    /// Counts changes, from 1.
    pub sequence: u64,
    /// Up to [`PIECES`] entries; those that are missing are of no piece.
    pub entries: Vec<Piece>,
}

impl Sequenced for PiecePage {
    fn sequence(&self) -> u64 {
        self.sequence
    }
}

impl PiecePage {
    /// Entries of page `number` of the table of a disk with so many pieces.
    #[must_use]
    pub const fn entries(number: u32, pieces: u32) -> usize {
        let left = (pieces as usize).saturating_sub(number as usize * PIECES);
        if left < PIECES { left } else { PIECES }
    }

    /// As it is on disk.
    #[must_use]
    pub fn encode(&self, id: PageId) -> [u8; UNIT] {
        let mut page = [0; UNIT];
        let (slots, _) = page[ENTRIES_AT..].as_chunks_mut::<SIZE>();
        for (slot, entry) in slots.iter_mut().zip(&self.entries) {
            match entry {
                Piece::Free => {}
                Piece::Retired => slot[11] = RETIRED,
                Piece::Owned(owner) => {
                    field::put(slot, 0, &owner.volume.to_le_bytes());
                    field::put(slot, 8, &owner.group.to_le_bytes());
                    slot[10] = owner.column;
                    slot[11] = if owner.filling { FILLING } else { IN_USE };
                    field::put(slot, 12, &owner.index.to_le_bytes());
                    field::put(slot, 16, &owner.epoch.to_le_bytes());
                }
            }
        }
        page::seal(&mut page, MAGIC, 0, id, self.sequence);
        page
    }

    /// What a page says that was read from `slot` and has `entries` entries, at most [`PIECES`].
    ///
    /// # Errors
    /// It is not that page, or not as it was written, or says what cannot be.
    pub fn decode(page: &[u8; UNIT], id: PageId, slot: Slot, entries: usize) -> Result<Self, PageError> {
        let sequence = page::open(page, MAGIC, 0, id, slot)?;
        let entries = entries.min(PIECES);
        let (slots, _) = page[ENTRIES_AT..].as_chunks::<SIZE>();
        let piece = |(i, slot): (usize, &[u8; SIZE])| {
            let start = ENTRIES_AT + i * SIZE;
            let state = slot[11];
            match state {
                FREE | RETIRED => {
                    let others = (0..SIZE).find(|at| *at != 11 && slot[*at] != 0);
                    match others {
                        Some(at) => Err(PageError::Reserved { at: start + at }),
                        None => Ok(if state == FREE { Piece::Free } else { Piece::Retired }),
                    }
                }
                IN_USE | FILLING => {
                    let volume = field::u64(slot, 0);
                    if volume == 0 {
                        return Err(PageError::Value { what: "the volume", entry: i, value: 0 });
                    }
                    if let Some(at) = field::not_zero(slot, 24) {
                        return Err(PageError::Reserved { at: start + at });
                    }
                    Ok(Piece::Owned(Owner {
                        volume,
                        group: field::u16(slot, 8),
                        column: slot[10],
                        index: field::u32(slot, 12),
                        epoch: field::u64(slot, 16),
                        filling: state == FILLING,
                    }))
                }
                _ => Err(PageError::Value { what: "the state", entry: i, value: state.into() }),
            }
        };
        if let Some(at) = field::not_zero(page, ENTRIES_AT + entries * SIZE) {
            return Err(PageError::Reserved { at });
        }
        let entries = slots.iter().take(entries).enumerate().map(piece).collect::<Result<_, _>>()?;
        Ok(Self { sequence, entries })
    }
}
