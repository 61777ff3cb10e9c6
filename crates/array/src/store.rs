//! One managed disk.
//!
//! # What holds at every moment, whatever is lost when power is cut
//!
//! - **The data of a unit fit its checksum, or its region is dirty on the disk.** So: a region's bit is durable before data of it
//!   are written; a page of checksums is written only while all regions that it is of are dirty, since it may be torn; a bit is
//!   cleared only after a sync that began when all data and all pages of checksums of the region had been written.
//! - **What is in two slots is never both.** See `tables`.
//! - **Nobody sees what a piece had before it was his.** A column is entered, and has a new size, after its pieces are zero and
//!   durable; pieces without a column, or beyond its end, are free when the disk is opened.
//!
//! # What a caller sees to
//!
//! Two requests for the same unit are not open at the same time, unless both are reads. A request is of whole units
//! ([`UNIT`] bytes) of one piece of its column. Data that were read are compared with their checksums by the caller, who has
//! them. After the disk was not closed, the regions that were dirty have no checksums ([`Store::unsure`]): somebody reads them,
//! and says what they are ([`Store::resum`]). A page of checksums that is damaged although its regions are clean has not been torn. What it
//! covers is lost ([`Sum::Lost`]), until it is written again: data may have gone with it, and other copies have them. Such a write is answered when its
//! checksum is durable.
//!
//! | file | noun |
//! |---|---|
//! | `effect` | what the driver does for a store, and what it hears |
//! | `open` | what a disk says when it is opened |
//! | `place` | where the units of a column are |
//! | `tables` | what has two slots, and the cycles in which it becomes durable |
//! | `regions` | which regions are dirty |
//! | `sums` | checksums in memory |
//! | `settle` | checksums to the disk, and regions clean again |
//! | `copies` | columns that are copies: what a group has written, and what others have missed |
//! | `making` | columns that come, grow and go |

mod copies;
mod effect;
mod making;
mod open;
mod place;
mod regions;
mod settle;
mod sums;
mod tables;
#[cfg(test)]
mod tests;

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use cards_layout::format::{Column, PageError, Piece, RegionMap, Sizes, Sum, SumPage, Superblock, UNIT};

use making::Making;
use place::{Place, sum_page_at};
use regions::{Bit, Region, Regions};
use settle::Settle;
use sums::Sums;
use tables::Tables;

use crate::group::{Extents, Marks};

pub use effect::{Answer, Effect, Io, StoreError, Ticket};
pub use open::{OpenError, Opener, Tuning, tables_length};
pub use place::ColumnKey;

/// A managed disk that is open.
#[derive(Debug)]
pub struct Store {
    tables: Tables,
    /// The pieces of each column, by their position in it.
    columns: BTreeMap<ColumnKey, Vec<u32>>,
    /// What other columns have missed, as exactly as it is known.
    missed: BTreeMap<ColumnKey, Extents>,
    /// After this cycle the superblock says that the disk is open: nothing is written to columns before.
    announced_by: u64,
    is_announced: bool,
    regions: Regions,
    sums: Sums,
    requests: BTreeMap<Ticket, Request>,
    /// How often regions were noted as dirty when the disk was opened, and by the end of the last cycle.
    marks_found: Marks,
    marks: Marks,
    /// Columns that a group has begun on in this process, and whether other columns have what they have.
    begun: BTreeMap<ColumnKey, bool>,
    /// Who waits for the end of a cycle of the tables.
    waiting: BTreeMap<u64, Vec<Wait>>,
    ios: BTreeMap<u64, Purpose>,
    next_io: u64,
    /// Writes of the running cycle that have not ended.
    cycle_writes: usize,
    settle: Option<Settle>,
    /// Writes of what was lost, which are answered when their checksums are durable, and the pages of these.
    healed: Vec<Ticket>,
    healed_pages: BTreeSet<u64>,
    makings: VecDeque<Making>,
    life: Life,
    tuning: Tuning,
}

/// A page of checksums that is damaged, and whose regions were clean.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DamagedSums {
    /// The column.
    pub key: ColumnKey,
    /// Where in the column what it covers begins, in bytes.
    pub offset: u64,
    /// Bytes that it covers.
    pub length: u64,
    /// These are not used until they are written again; else they are taken as they are.
    pub is_lost: bool,
}

/// Whether a store takes requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Life {
    Open,
    /// It is being closed, for this ticket, which the superblock says already or not.
    Closing {
        ticket: Ticket,
        said: bool,
    },
    Failed,
}

/// A request that is open.
#[derive(Debug)]
struct Request {
    key: ColumnKey,
    place: Place,
    kind: Kind,
    /// What it still waits for: its data and pages of checksums.
    parts: usize,
    failed: bool,
}

#[derive(Debug)]
enum Kind {
    Read,
    Write(Vec<Sum>),
    Resum(Vec<Sum>),
}

/// What goes on after a cycle.
#[derive(Clone, Copy, Debug)]
enum Wait {
    /// The data of a write.
    Data(Ticket),
    /// A change of the tables is durable.
    Change(Ticket),
    /// The making that is first.
    Making,
    Settle,
}

/// What an I/O is for.
#[derive(Clone, Copy, Debug)]
enum Purpose {
    Data(Ticket),
    SumPage(u64),
    CycleWrite,
    CycleSync,
    Sync(Ticket),
    SettleWrite { page: u64, sequence: u64 },
    SettleSync,
    Making,
}

impl Store {
    /// What the disk is.
    #[must_use]
    pub const fn superblock(&self) -> &Superblock {
        &self.tables.superblock
    }

    /// Its sizes.
    #[must_use]
    pub const fn sizes(&self) -> &Sizes {
        self.tables.sizes()
    }

    /// Its columns.
    pub fn columns(&self) -> impl Iterator<Item = &Column> {
        self.tables.entered()
    }

    /// Bytes that a column has, if it is there.
    #[must_use]
    pub fn length(&self, key: ColumnKey) -> Option<u64> {
        self.columns.get(&key).map(|pieces| (pieces.len() as u64) << self.sizes().piece_shift)
    }

    /// Where a byte of a column is on the disk, and how many bytes from there on are next to each other.
    ///
    /// # Errors
    /// The disk takes no requests, or has no such column, or the column ends before.
    pub fn locate(&self, key: ColumnKey, offset: u64) -> Result<(u64, u64), StoreError> {
        let unit = UNIT as u64;
        let within = offset % unit;
        let place = self.place(key, offset - within, unit)?;
        let left = self.sizes().piece() - offset % self.sizes().piece();
        Ok((place.data_at(self.sizes()) + within, left))
    }

    /// Pieces that belong to nobody.
    #[must_use]
    pub fn free(&self) -> u32 {
        let taken = self.tables.owned().count() as u32;
        let retired = (0..self.sizes().pieces)
            .filter(|piece| matches!(self.tables.piece(*piece), Piece::Retired))
            .count() as u32;
        self.sizes().pieces - taken - retired
    }

    /// Reads `length` bytes at `offset` of a column. The answer is [`Answer::Sums`].
    pub fn read(&mut self, ticket: Ticket, key: ColumnKey, offset: u64, length: u64, out: &mut Vec<Effect>) {
        match self.place(key, offset, length) {
            Err(error) => answer(ticket, Err(error), out),
            Ok(place) => {
                self.insert(ticket, key, place, Kind::Read, out);
                self.data(ticket, out);
            }
        }
    }

    /// The checksums of `length` bytes at `offset` of a column, without the data. The answer is [`Answer::Sums`].
    pub fn sums(
        &mut self,
        ticket: Ticket,
        key: ColumnKey,
        offset: u64,
        length: u64,
        now: u64,
        out: &mut Vec<Effect>,
    ) {
        match self.place(key, offset, length) {
            Err(error) => answer(ticket, Err(error), out),
            Ok(place) => {
                self.insert(ticket, key, place, Kind::Read, out);
                self.part_done(ticket, true, now, out);
            }
        }
    }

    /// Writes as many units as there are `sums` at `offset` of a column. `missed`: some other column of the group does not get
    /// this write; that is durable before this one is. The time `now` is in milliseconds from any beginning.
    #[expect(clippy::too_many_arguments, reason = "a request, the time, and where what is to be done goes")]
    pub fn write(
        &mut self,
        ticket: Ticket,
        key: ColumnKey,
        offset: u64,
        sums: Vec<Sum>,
        missed: bool,
        now: u64,
        out: &mut Vec<Effect>,
    ) {
        match self.place(key, offset, sums.len() as u64 * UNIT as u64) {
            Err(error) => answer(ticket, Err(error), out),
            Ok(place) => {
                self.insert(ticket, key, place, Kind::Write(sums), out);
                let durable =
                    place.regions(self.sizes()).filter_map(|region| self.soil(region, missed, now)).max();
                match durable {
                    None => self.data(ticket, out),
                    Some(cycle) => self.waiting.entry(cycle).or_default().push(Wait::Data(ticket)),
                }
            }
        }
        self.advance(now, out);
    }

    /// Makes durable all writes that were answered before. If it fails, so does the disk.
    pub fn sync(&mut self, ticket: Ticket, out: &mut Vec<Effect>) {
        match self.refusal() {
            Some(error) => answer(ticket, Err(error), out),
            None => {
                let io = self.io(Purpose::Sync(ticket));
                out.push(Effect::Sync { io });
            }
        }
    }

    /// Changes what the table says of a column. The answer comes when that is durable.
    pub fn set_column(&mut self, ticket: Ticket, column: &Column, now: u64, out: &mut Vec<Effect>) {
        let found = self.refusal().map_or_else(|| self.entry(column.into()).ok_or(StoreError::NoColumn), Err);
        match found {
            Err(error) => answer(ticket, Err(error), out),
            Ok((page, entry)) => {
                self.tables.columns[page].entries[entry] = Some(column.clone());
                let cycle = self.tables.mark(tables::Page::Columns(page as u32));
                self.waiting.entry(cycle).or_default().push(Wait::Change(ticket));
                self.advance(now, out);
            }
        }
    }

    /// What is left of regions of columns whose checksums are not known: column, offset in it, length.
    pub fn unsure(&self) -> impl Iterator<Item = (ColumnKey, u64, u64)> {
        let sizes = *self.sizes();
        self.regions.unsure.iter().filter_map(move |(region, known)| {
            let Place { piece, first, units } = Place::of_region(&sizes, *region);
            let place = Place { piece, first: first + known, units: units - known };
            let Piece::Owned(owner) = self.tables.piece(place.piece) else {
                return None;
            };
            let offset = (u64::from(owner.index) << sizes.piece_shift) + place.first * UNIT as u64;
            Some(((&owner).into(), offset, place.units * UNIT as u64))
        })
    }

    /// What of that can be looked at: of a copy nothing before its group begins, which knows whether there are others. What is lost of a page of
    /// checksums would be decided without that.
    pub fn unsure_known(&self) -> impl Iterator<Item = (ColumnKey, u64, u64)> {
        let mirrored = self.columns().filter(|column| column.mirrored).map(ColumnKey::from);
        let waiting: BTreeSet<_> = mirrored.filter(|key| !self.begun.contains_key(key)).collect();
        self.unsure().filter(move |(key, ..)| !waiting.contains(key))
    }

    /// Says which checksums the data of an unsure region have, from its start on without gaps. Between the reading of the
    /// data and the answer no write of these units may be open. After its last unit the region is sure. If a write of the region
    /// fails meanwhile, it begins anew: [`Store::unsure`] says so.
    pub fn resum(
        &mut self,
        ticket: Ticket,
        key: ColumnKey,
        offset: u64,
        sums: Vec<Sum>,
        out: &mut Vec<Effect>,
    ) {
        let place = self.place(key, offset, sums.len() as u64 * UNIT as u64).and_then(|place| {
            let region = *place.regions(self.sizes()).start();
            let begins = place.first - Place::of_region(self.sizes(), region).first;
            let is_next = self.regions.unsure.get(&region) == Some(&begins);
            let is_one = place.regions(self.sizes()).count() == 1;
            if is_next && is_one { Ok(place) } else { Err(StoreError::Range) }
        });
        match place {
            Err(error) => answer(ticket, Err(error), out),
            Ok(place) => {
                self.insert(ticket, key, place, Kind::Resum(sums), out);
                self.part_done(ticket, true, 0, out);
            }
        }
    }

    /// Regions of a column that another column of its group has missed: offset and length.
    pub fn missed(&self, key: ColumnKey) -> impl Iterator<Item = (u64, u64)> {
        let sizes = *self.sizes();
        self.tables.regions_set(RegionMap::Missed).filter_map(move |region| {
            let place = Place::of_region(&sizes, region);
            let Piece::Owned(owner) = self.tables.piece(place.piece) else {
                return None;
            };
            let offset = (u64::from(owner.index) << sizes.piece_shift) + place.first * UNIT as u64;
            (ColumnKey::from(&owner) == key).then_some((offset, place.units * UNIT as u64))
        })
    }

    /// Has all that is dirty settled and the disk closed; requests that come later are refused. Regions that are unsure stay so.
    pub fn close(&mut self, ticket: Ticket, now: u64, out: &mut Vec<Effect>) {
        match self.refusal() {
            Some(error) => answer(ticket, Err(error), out),
            None => {
                self.life = Life::Closing { ticket, said: false };
                self.advance(now, out);
            }
        }
    }

    /// Time passes. Wanted about once a second.
    pub fn tick(&mut self, now: u64, out: &mut Vec<Effect>) {
        self.begin_settling(now, out);
        self.tables.renew();
        self.advance(now, out);
    }

    /// A page that was asked for is here, or cannot be read. What is damaged, if it is one of checksums that should be there.
    pub fn page_read(
        &mut self,
        io: Io,
        page: Option<&[u8; UNIT]>,
        now: u64,
        out: &mut Vec<Effect>,
    ) -> Option<DamagedSums> {
        let Some(Purpose::SumPage(number)) = self.ios.remove(&io.0) else { return None };
        if self.life == Life::Failed {
            return None;
        }
        let disk = self.superblock().disk.key();
        let found = page.map(|page| SumPage::decode(page, disk, number));
        let (sums, damaged) = match found {
            Some(Ok(sums)) => (sums, None),
            found => self.damaged_sums(number, found.and_then(Result::err)),
        };
        let tickets = self.sums.loaded(number, sums);
        for ticket in tickets {
            self.part_done(ticket, true, now, out);
        }
        self.sums.shrink();
        self.advance(now, out);
        damaged
    }

    /// An I/O has ended.
    pub fn done(&mut self, io: Io, succeeded: bool, now: u64, out: &mut Vec<Effect>) {
        let Some(purpose) = self.ios.remove(&io.0) else { return };
        if self.life == Life::Failed {
            return;
        }
        match purpose {
            Purpose::Data(ticket) => self.part_done(ticket, succeeded, now, out),
            // A page that cannot be read is said by `page_read`.
            Purpose::SumPage(_) => {}
            Purpose::Making if !succeeded && self.is_clearing() => self.give_up_making(out),
            _ if !succeeded => {
                if let Purpose::Sync(ticket) = purpose {
                    answer(ticket, Err(StoreError::Failed), out);
                }
                return self.fail(out);
            }
            Purpose::Sync(ticket) => answer(ticket, Ok(Answer::Done), out),
            Purpose::CycleWrite => {
                self.cycle_writes -= 1;
                if self.cycle_writes == 0 {
                    let io = self.io(Purpose::CycleSync);
                    out.push(Effect::Sync { io });
                }
            }
            Purpose::CycleSync => self.cycle_ended(now, out),
            Purpose::SettleWrite { page, sequence } => self.settle_written(page, sequence, out),
            Purpose::SettleSync => self.settled(out),
            Purpose::Making => self.make(now, out),
        }
        self.advance(now, out);
    }

    /// Why no request is taken, if none is.
    const fn refusal(&self) -> Option<StoreError> {
        match self.life {
            Life::Open => None,
            Life::Closing { .. } => Some(StoreError::Closed),
            Life::Failed => Some(StoreError::Failed),
        }
    }

    fn place(&self, key: ColumnKey, offset: u64, length: u64) -> Result<Place, StoreError> {
        if let Some(error) = self.refusal() {
            return Err(error);
        }
        let pieces = self.columns.get(&key).ok_or(StoreError::NoColumn)?;
        Place::of(self.sizes(), pieces, offset, length)
    }

    /// What the table says of a column.
    fn column(&self, key: ColumnKey) -> Option<&Column> {
        self.columns().find(|column| ColumnKey::from(*column) == key)
    }

    /// Page and entry of the column table that a column has.
    fn entry(&self, key: ColumnKey) -> Option<(usize, usize)> {
        let is_it =
            |entry: &Option<Column>| entry.as_ref().is_some_and(|column| ColumnKey::from(column) == key);
        let mut pages = self.tables.columns.iter().enumerate();
        pages.find_map(|(page, columns)| Some((page, columns.entries.iter().position(is_it)?)))
    }

    fn io(&mut self, purpose: Purpose) -> Io {
        self.next_io += 1;
        self.ios.insert(self.next_io, purpose);
        Io(self.next_io)
    }

    /// Takes a request, and asks for the pages of checksums that it needs.
    fn insert(&mut self, ticket: Ticket, key: ColumnKey, place: Place, kind: Kind, out: &mut Vec<Effect>) {
        let mut parts = 1;
        for number in place.sum_pages(self.sizes()) {
            if self.sums.hold(number) {
                continue;
            }
            parts += 1;
            if self.sums.wait(number, ticket) {
                let at = sum_page_at(self.sizes(), number);
                let io = self.io(Purpose::SumPage(number));
                out.push(Effect::ReadPage { io, at });
            }
        }
        self.requests.insert(ticket, Request { key, place, kind, parts, failed: false });
    }

    fn data(&mut self, ticket: Ticket, out: &mut Vec<Effect>) {
        let Some(request) = self.requests.get(&ticket) else { return };
        let at = request.place.data_at(self.sizes());
        let io = self.io(Purpose::Data(ticket));
        out.push(Effect::Data { io, ticket, at });
    }

    /// A write of the region begins. The cycle after which its bits are durable, if they are not.
    fn soil(&mut self, region: u64, missed: bool, now: u64) -> Option<u64> {
        let mut cycle = self.make_dirty(region);
        if missed {
            cycle = cycle.max(self.make_missed(region));
        }
        if !self.is_announced {
            cycle = cycle.max(Some(self.announced_by));
        }
        self.regions.touch(region, now);
        if let Some(found) = self.regions.map.get_mut(&region) {
            found.writers += 1;
        }
        cycle
    }

    /// Has the dirty bit of a region set. The cycle after which it is durable, if it is not.
    fn make_dirty(&mut self, region: u64) -> Option<u64> {
        match self.regions.map.get(&region).map(|found| found.bit) {
            Some(Bit::Set) => None,
            Some(Bit::Setting(cycle)) => Some(cycle),
            Some(Bit::Clearing(_)) | None => {
                let cycle = self.tables.set_region(RegionMap::Dirty, region, true);
                let bit = Bit::Setting(cycle);
                let new = Region { bit, writers: 0, at: 0, turn: 0, settled: false };
                self.regions.map.entry(region).or_insert(new).bit = bit;
                Some(cycle)
            }
        }
    }

    /// A page of checksums that is damaged, or cannot be read if there is no error: what stands for it, and what is damaged. One that is
    /// none any more, or another one, was never torn, as a page begins with what it is. One that only has other bits than it should may
    /// be, if its regions are dirty. Of a column that is alone its data are taken as they are then, and of all if it cannot be read.
    fn damaged_sums(&mut self, number: u64, error: Option<PageError>) -> (SumPage, Option<DamagedSums>) {
        let place = Place::of_sum_page(self.sizes(), number);
        let mut sums = SumPage::never_written();
        let Piece::Owned(owner) = self.tables.piece(place.piece) else { return (sums, None) };
        let key = ColumnKey::from(&owner);
        let offset = (u64::from(owner.index) << self.sizes().piece_shift) + place.first * UNIT as u64;
        // What is behind the end of a column is zero.
        let bytes = self.column(key).map_or(0, |column| column.bytes.saturating_sub(offset));
        let used = place.units.min(bytes / UNIT as u64);
        let is_gone = !matches!(error, None | Some(PageError::Checksum { .. }));
        let is_lost = is_gone || error.is_some() && self.begun.get(&key) == Some(&true);
        let mut is_damaged = is_gone;
        for region in place.regions(self.sizes()) {
            let covered = Place::of_region(self.sizes(), region);
            let first = covered.first.max(place.first) - place.first;
            let end = (covered.first + covered.units - place.first).min(used);
            let is_unsure = self.regions.unsure.contains_key(&region);
            is_damaged |= !is_unsure;
            if is_lost && (is_gone || !is_unsure) && first < end {
                sums.sums[first as usize..end as usize].fill(Sum::Lost);
            } else if !is_lost {
                self.make_dirty(region);
                self.regions.unsure.entry(region).or_insert(0);
            }
        }
        let damaged = DamagedSums { key, offset, length: used * UNIT as u64, is_lost };
        (sums, is_damaged.then_some(damaged))
    }

    /// A part of a request is done: its data, or a page of checksums.
    fn part_done(&mut self, ticket: Ticket, succeeded: bool, now: u64, out: &mut Vec<Effect>) {
        let Some(request) = self.requests.get_mut(&ticket) else { return };
        request.parts -= 1;
        request.failed |= !succeeded;
        if request.parts > 0 {
            return;
        }
        let Some(Request { place, kind, failed, .. }) = self.requests.remove(&ticket) else { return };
        let sizes = *self.sizes();
        let result = match &kind {
            _ if failed => Err(StoreError::Data),
            Kind::Read => Ok(Answer::Sums((0..place.units).map(|i| self.sum(&place, i)).collect())),
            Kind::Write(sums) | Kind::Resum(sums) => {
                for (i, sum) in sums.iter().enumerate().take_while(|_| sizes.has_sums) {
                    let at = place.sum(&sizes, i as u64);
                    let is_lost = self.sums.get(at) == Some(Sum::Lost);
                    if is_lost && matches!(kind, Kind::Resum(_)) {
                        continue;
                    }
                    self.sums.set(at, *sum);
                    if is_lost {
                        self.healed_pages.insert(at.0);
                    }
                }
                Ok(Answer::Done)
            }
        };
        match kind {
            Kind::Read => {}
            Kind::Write(_) => {
                for region in place.regions(&sizes) {
                    self.regions.touch(region, now);
                    if let Some(found) = self.regions.map.get_mut(&region) {
                        found.writers -= 1;
                    }
                    // Any of its data may be there.
                    if failed && sizes.has_sums {
                        self.regions.unsure.insert(region, 0);
                    }
                }
            }
            Kind::Resum(_) => {
                let region = *place.regions(&sizes).start();
                let first = Place::of_region(&sizes, region).first;
                let (begin, end) = (place.first - first, place.first + place.units - first);
                if self.regions.unsure.get(&region) != Some(&begin) {
                    // A write of the region has failed meanwhile: it begins anew.
                } else if end == Place::of_region(&sizes, region).units {
                    self.regions.unsure.remove(&region);
                } else {
                    self.regions.unsure.insert(region, end);
                }
            }
        }
        let heals = place.sum_pages(&sizes).any(|page| self.healed_pages.contains(&page));
        place.sum_pages(&sizes).for_each(|page| self.sums.let_go(page));
        self.sums.shrink();
        // What is answered is not lost once more after a kill.
        if heals && result == Ok(Answer::Done) {
            self.healed.push(ticket);
        } else {
            answer(ticket, result, out);
        }
    }

    /// The checksum of the `i`-th unit of a place, if it is known.
    fn sum(&self, place: &Place, i: u64) -> Option<Sum> {
        let sizes = self.sizes();
        let unit = Place { piece: place.piece, first: place.first + i, units: 1 };
        let region = *unit.regions(sizes).start();
        let is_unsure = self.regions.unsure.contains_key(&region);
        self.sums.get(place.sum(sizes, i)).filter(|sum| !is_unsure || *sum == Sum::Lost)
    }

    fn cycle_ended(&mut self, now: u64, out: &mut Vec<Effect>) {
        let cycle = self.tables.end();
        self.marks = self.tables.marks();
        self.announce(cycle);
        self.regions.cycle_ended(cycle);
        let later = self.waiting.split_off(&(cycle + 1));
        let ended = core::mem::replace(&mut self.waiting, later);
        for wait in ended.into_values().flatten() {
            match wait {
                Wait::Data(ticket) => self.data(ticket, out),
                Wait::Change(ticket) => answer(ticket, Ok(Answer::Done), out),
                Wait::Making => self.make(now, out),
                Wait::Settle => self.write_sums(out),
            }
        }
    }

    /// Begins what can begin.
    fn advance(&mut self, now: u64, out: &mut Vec<Effect>) {
        if self.life == Life::Failed {
            return;
        }
        if self.sums.is_full() || !self.healed.is_empty() || matches!(self.life, Life::Closing { .. }) {
            self.begin_settling(now, out);
        }
        self.begin_making(now, out);
        let is_quiet = matches!(self.life, Life::Closing { said: false, .. }) && self.is_quiet();
        if is_quiet {
            self.tables.renew();
        }
        if let Life::Closing { ticket, said: false } = self.life
            && is_quiet
            && self.tables.are_renewed()
        {
            self.life = Life::Closing { ticket, said: true };
            self.tables.superblock.closed = self.regions.unsure.is_empty();
            let cycle = self.tables.mark(tables::Page::Superblock);
            self.waiting.entry(cycle).or_default().push(Wait::Change(ticket));
        }
        if let Some(writes) = self.tables.begin() {
            self.cycle_writes = writes.len();
            for (at, page) in writes {
                let io = self.io(Purpose::CycleWrite);
                out.push(Effect::WritePages { io, at, pages: alloc::vec![page] });
            }
        }
    }

    /// Nothing is open, and all regions that can be clean are.
    fn is_quiet(&self) -> bool {
        let is_left =
            |region: &u64| !self.regions.unsure.contains_key(region) && !self.regions.rests(*region);
        self.is_announced
            && self.requests.is_empty()
            && self.healed.is_empty()
            && self.makings.is_empty()
            && self.settle.is_none()
            && !self.regions.map.keys().any(is_left)
    }

    /// The disk has failed: whatever is open ends.
    fn fail(&mut self, out: &mut Vec<Effect>) {
        let mut tickets: BTreeSet<Ticket> = core::mem::take(&mut self.requests).into_keys().collect();
        for purpose in core::mem::take(&mut self.ios).into_values() {
            if let Purpose::Sync(ticket) = purpose {
                tickets.insert(ticket);
            }
        }
        for wait in core::mem::take(&mut self.waiting).into_values().flatten() {
            if let Wait::Change(ticket) = wait {
                tickets.insert(ticket);
            }
        }
        tickets.extend(self.makings.drain(..).map(|making| making.ticket));
        tickets.extend(self.healed.drain(..));
        tickets.extend(self.settle.take().into_iter().flat_map(|settle| settle.healed));
        if let Life::Closing { ticket, .. } = self.life {
            tickets.insert(ticket);
        }
        if !matches!(self.life, Life::Closing { said: true, .. }) {
            self.disown(out);
        }
        self.life = Life::Failed;
        for ticket in tickets {
            answer(ticket, Err(StoreError::Failed), out);
        }
    }
}

fn answer(ticket: Ticket, result: Result<Answer, StoreError>, out: &mut Vec<Effect>) {
    out.push(Effect::Answer { ticket, result });
}
