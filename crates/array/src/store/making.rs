//! Columns that come, grow and go, one at a time.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;

use cards_layout::format::{COLUMNS, Column, Owner, Piece, RegionMap, Sizes, SumPage, UNIT};

use super::place::sum_page_at;
use super::{Answer, ColumnKey, Effect, Purpose, Store, StoreError, Ticket, Wait, answer, tables};

/// Pages of checksums in one write.
const BATCH: u64 = 64;

/// A column that comes, grows or goes.
#[derive(Debug)]
pub(super) struct Making {
    pub(super) ticket: Ticket,
    work: Work,
    /// Of a column that grows, those that it gets.
    pieces: Vec<u32>,
    step: Step,
    /// It waits for an I/O or a cycle.
    waits: bool,
}

#[derive(Clone, Debug)]
enum Work {
    Create(Column),
    /// The entry in the table, with the new size; the pieces that the column has had before.
    Grow(ColumnKey, u64, u32),
    Remove(ColumnKey),
}

impl Work {
    /// The position in the column of the first of the pieces.
    const fn first(&self) -> u32 {
        match self {
            Self::Grow(_, _, first) => *first,
            Self::Create(_) | Self::Remove(_) => 0,
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Data of a piece, by its position in the column.
    Clear(usize),
    /// Checksums of a piece, from a page on.
    Sums(usize, u64),
    /// The pieces belong to the column, or to nobody.
    Pieces,
    /// The column is in the table, or is not.
    Column,
    Answer,
}

impl Store {
    /// Makes a column of so many pieces, all zero. The answer comes when it is durable.
    pub fn create_column(
        &mut self,
        ticket: Ticket,
        column: Column,
        pieces: u32,
        now: u64,
        out: &mut Vec<Effect>,
    ) {
        match self.choose(&column, pieces) {
            Err(error) => answer(ticket, Err(error), out),
            Ok(chosen) => {
                // Taken at once; if that is all that reaches the disk, they are free when it is opened next.
                self.give(&chosen, 0, &column, true);
                let work = Work::Create(column);
                self.makings.push_back(Making {
                    ticket,
                    work,
                    pieces: chosen,
                    step: Step::Clear(0),
                    waits: false,
                });
            }
        }
        self.advance(now, out);
    }

    /// Gives a column so many bytes, which are no more than its pieces have with `pieces` new ones. What is new is zero, and requests for
    /// what is old go on. The answer comes when it is durable; if power is lost before, the column has its old size.
    pub fn grow_column(
        &mut self,
        ticket: Ticket,
        key: ColumnKey,
        bytes: u64,
        now: u64,
        out: &mut Vec<Effect>,
    ) {
        match self.choose_more(key, bytes) {
            Err(error) => answer(ticket, Err(error), out),
            Ok((column, first, chosen)) => {
                self.give(&chosen, first, &column, true);
                let work = Work::Grow(key, bytes, first);
                self.makings.push_back(Making {
                    ticket,
                    work,
                    pieces: chosen,
                    step: Step::Clear(0),
                    waits: false,
                });
            }
        }
        self.advance(now, out);
    }

    /// Removes a column for which no request is open. The answer comes when its pieces are free.
    pub fn remove_column(&mut self, ticket: Ticket, key: ColumnKey, now: u64, out: &mut Vec<Effect>) {
        let is_busy = self.requests.values().any(|request| request.key == key) || self.is_growing(key);
        let found = match self.refusal() {
            Some(error) => Err(error),
            None if is_busy => Err(StoreError::Busy),
            None => self.columns.remove(&key).ok_or(StoreError::NoColumn),
        };
        match found {
            Err(error) => answer(ticket, Err(error), out),
            Ok(pieces) => {
                let work = Work::Remove(key);
                self.makings.push_back(Making { ticket, work, pieces, step: Step::Column, waits: false });
            }
        }
        self.advance(now, out);
    }

    /// Free pieces for a new column.
    fn choose(&self, column: &Column, pieces: u32) -> Result<Vec<u32>, StoreError> {
        if let Some(error) = self.refusal() {
            return Err(error);
        }
        let key = ColumnKey::from(column);
        let is_coming =
            |making: &Making| matches!(&making.work, Work::Create(other) if ColumnKey::from(other) == key);
        if self.entry(key).is_some() || self.makings.iter().any(is_coming) {
            return Err(StoreError::Exists);
        }
        let coming = self.makings.iter().filter(|making| matches!(making.work, Work::Create(_))).count();
        if self.columns().count() + coming >= self.tables.columns.len() * COLUMNS {
            return Err(StoreError::NoColumns);
        }
        self.choose_free(pieces)
    }

    /// For a column that is to have so many bytes: its entry, how many pieces it has, and those that it is to get.
    fn choose_more(&self, key: ColumnKey, bytes: u64) -> Result<(Column, u32, Vec<u32>), StoreError> {
        if let Some(error) = self.refusal() {
            return Err(error);
        }
        let (Some(column), Some(pieces)) = (self.column(key), self.columns.get(&key)) else {
            return Err(StoreError::NoColumn);
        };
        if self.is_growing(key) {
            return Err(StoreError::Busy);
        }
        let needed = u32::try_from(bytes.div_ceil(self.sizes().piece())).unwrap_or(u32::MAX);
        if bytes < column.bytes || !bytes.is_multiple_of(UNIT as u64) {
            return Err(StoreError::Range);
        }
        let first = pieces.len() as u32;
        Ok((column.clone(), first, self.choose_free(needed.saturating_sub(first))?))
    }

    fn is_growing(&self, key: ColumnKey) -> bool {
        self.makings.iter().any(|making| matches!(making.work, Work::Grow(other, ..) if other == key))
    }

    fn choose_free(&self, pieces: u32) -> Result<Vec<u32>, StoreError> {
        let free = (0..self.sizes().pieces).filter(|piece| self.tables.piece(*piece) == Piece::Free);
        let chosen: Vec<u32> = free.take(pieces as usize).collect();
        if chosen.len() < pieces as usize {
            return Err(StoreError::NoSpace { free: chosen.len() as u32, needed: pieces });
        }
        Ok(chosen)
    }

    /// Gives pieces to a column, the first of them as its piece `first`. The cycle after which that is durable.
    fn give(&mut self, pieces: &[u32], first: u32, column: &Column, filling: bool) -> Option<u64> {
        let owner = |index: usize| Owner {
            volume: column.volume.key(),
            group: column.group,
            column: column.column,
            index: first + index as u32,
            epoch: column.sealed_epoch,
            filling,
        };
        let set = |(index, piece): (usize, &u32)| self.tables.set_piece(*piece, Piece::Owned(owner(index)));
        pieces.iter().enumerate().map(set).max()
    }

    /// Goes on with the first making, unless it waits. Pieces that were found free may belong to a column again if power is lost
    /// before that is durable.
    pub(super) fn begin_making(&mut self, now: u64, out: &mut Vec<Effect>) {
        if self.tables.are_durable() && self.makings.front().is_some_and(|making| !making.waits) {
            self.make(now, out);
        }
    }

    /// The next step of the first making.
    pub(super) fn make(&mut self, now: u64, out: &mut Vec<Effect>) {
        let Some(mut making) = self.makings.pop_front() else { return };
        let sizes = *self.sizes();
        making.waits = true;
        match (making.step, making.work.clone()) {
            (Step::Clear(i), _) => match making.pieces.get(i) {
                None => {
                    making.step = Step::Pieces;
                    let io = self.io(Purpose::Making);
                    out.push(Effect::Sync { io });
                }
                Some(piece) => {
                    making.step = Step::Sums(i, 0);
                    let io = self.io(Purpose::Making);
                    out.push(Effect::Clear { io, at: sizes.data_at(*piece), length: sizes.piece() });
                }
            },
            (Step::Sums(i, page), _) if page >= sizes.sum_pages() => {
                making.step = Step::Clear(i + 1);
                making.waits = false;
            }
            (Step::Sums(i, page), _) => {
                let end = sizes.sum_pages().min(page + BATCH);
                let base = u64::from(making.pieces[i]) * sizes.sum_pages();
                let disk = self.superblock().disk.key();
                let encode = |page| Box::new(SumPage::never_written().encode(disk, base + page));
                let pages: Vec<Box<[u8; UNIT]>> = (page..end).map(encode).collect();
                making.step = Step::Sums(i, end);
                let io = self.io(Purpose::Making);
                out.push(Effect::WritePages { io, at: sum_page_at(&sizes, base + page), pages });
            }
            (Step::Pieces, work @ (Work::Create(_) | Work::Grow(..))) => {
                let column = match &work {
                    Work::Create(column) => Some(column.clone()),
                    Work::Grow(key, ..) | Work::Remove(key) => self.column(*key).cloned(),
                };
                let cycle = column.and_then(|column| self.give(&making.pieces, work.first(), &column, false));
                // What the column that had the pieces has, and others missed, is none of this one's.
                for piece in &making.pieces {
                    for region in regions_of(&sizes, *piece) {
                        if self.tables.region(RegionMap::Missed, region) {
                            self.tables.set_region(RegionMap::Missed, region, false);
                        }
                    }
                }
                making.step = Step::Column;
                making.waits = self.wait_for(cycle);
            }
            // What is being settled may be of these pieces; they are free only afterwards.
            (Step::Pieces, Work::Remove(_)) if self.settle.is_some() => making.waits = false,
            (Step::Pieces, Work::Remove(key)) => {
                let free = |piece: &u32| self.tables.set_piece(*piece, Piece::Free);
                let cycle = making.pieces.iter().map(free).max();
                self.missed.remove(&key);
                for piece in &making.pieces {
                    let first = u64::from(*piece) * sizes.sum_pages();
                    (first..first + sizes.sum_pages()).for_each(|page| self.sums.forget(page));
                    let regions = regions_of(&sizes, *piece);
                    self.regions.unsure.retain(|region, _| !regions.contains(region));
                    self.regions.held.retain(|region, _| !regions.contains(region));
                }
                making.step = Step::Answer;
                making.waits = self.wait_for(cycle);
            }
            (Step::Column, Work::Create(column)) => {
                let is_free = |entry: &Option<Column>| entry.is_none();
                let mut pages = self.tables.columns.iter_mut().enumerate();
                let free = pages.find_map(|(page, columns)| {
                    let entry = columns.entries.iter_mut().find(|entry| is_free(entry))?;
                    *entry = Some(column.clone());
                    Some(page as u32)
                });
                let cycle = free.map(|page| self.tables.mark(tables::Page::Columns(page)));
                making.step = Step::Answer;
                making.waits = self.wait_for(cycle);
            }
            (Step::Column, Work::Grow(key, bytes, _)) => {
                let cycle = self.entry(key).map(|(page, entry)| {
                    if let Some(column) = &mut self.tables.columns[page].entries[entry] {
                        column.bytes = bytes;
                    }
                    self.tables.mark(tables::Page::Columns(page as u32))
                });
                making.step = Step::Answer;
                making.waits = self.wait_for(cycle);
            }
            (Step::Column, Work::Remove(key)) => {
                let cycle = self.entry(key).map(|(page, entry)| {
                    self.tables.columns[page].entries[entry] = None;
                    self.tables.mark(tables::Page::Columns(page as u32))
                });
                making.step = Step::Pieces;
                making.waits = self.wait_for(cycle);
            }
            (Step::Answer, work) => {
                match work {
                    Work::Create(column) => drop(self.columns.insert((&column).into(), making.pieces)),
                    Work::Grow(key, ..) => self.columns.entry(key).or_default().extend(making.pieces),
                    Work::Remove(_) => {}
                }
                answer(making.ticket, Ok(Answer::Done), out);
                return self.begin_making(now, out);
            }
        }
        let waits = making.waits
            || matches!((making.step, &making.work), (Step::Pieces, Work::Remove(_)) if self.settle.is_some());
        self.makings.push_front(making);
        if !waits {
            self.make(now, out);
        }
    }

    /// The space of the first making is being made zero: nothing says yet whose it is.
    pub(super) fn is_clearing(&self) -> bool {
        self.makings.front().is_some_and(|making| making.waits && matches!(making.step, Step::Sums(..)))
    }

    /// The space of the first making cannot be had, as that of an image on a full file system.
    pub(super) fn give_up_making(&mut self, out: &mut Vec<Effect>) {
        let Some(making) = self.makings.pop_front() else { return };
        for piece in &making.pieces {
            self.tables.set_piece(*piece, Piece::Free);
        }
        answer(making.ticket, Err(StoreError::NotCleared), out);
    }

    /// Whether there is a cycle to wait for; then the first making is told of its end.
    fn wait_for(&mut self, cycle: Option<u64>) -> bool {
        if let Some(cycle) = cycle {
            self.waiting.entry(cycle).or_default().push(Wait::Making);
        }
        cycle.is_some()
    }
}

/// The regions of a piece, counted over all pieces.
const fn regions_of(sizes: &Sizes, piece: u32) -> Range<u64> {
    let each = sizes.piece_shift - sizes.region_shift;
    let first = (piece as u64) << each;
    first..first + (1 << each)
}
