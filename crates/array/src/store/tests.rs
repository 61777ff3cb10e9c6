//! A store on a disk that forgets what was not synced, and is cut off at any moment.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;
use std::println;

use cards_layout::format::{
    COLUMNS, Column, RegionMap, SUMS, SUPERBLOCKS, Sizes, Slot, Sum, Superblock, UNIT, Uuid, crc32c, newest,
};

mod copies;

use super::*;
use crate::group::Extent;

const SECTOR: usize = 512;
const KEY: ColumnKey = ColumnKey { volume: 7, group: 1, column: 0 };
/// Pieces of the column.
const LONG: u32 = 2;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) ^ self.0 >> 13 & 0xffff
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

type Bytes = Box<[u8; UNIT]>;

/// A disk with a cache that loses power.
#[derive(Clone, Default)]
struct Disk {
    /// By page; those that are missing are zero.
    durable: BTreeMap<u64, Bytes>,
    /// What was written since, in order, with the moment.
    cache: Vec<(u64, u64, Bytes)>,
    moment: u64,
}

impl Disk {
    fn read(&self, page: u64) -> Bytes {
        let cached =
            self.cache.iter().rev().find(|(_, number, _)| *number == page).map(|(_, _, bytes)| bytes);
        cached.or_else(|| self.durable.get(&page)).cloned().unwrap_or_else(|| Box::new([0; UNIT]))
    }

    fn write(&mut self, page: u64, bytes: Bytes) {
        self.moment += 1;
        self.cache.push((self.moment, page, bytes));
    }

    /// All that was written by this moment is durable.
    fn sync(&mut self, moment: u64) {
        let (old, new) = core::mem::take(&mut self.cache).into_iter().partition(|(at, ..)| *at <= moment);
        self.cache = new;
        let old: Vec<(u64, u64, Bytes)> = old;
        self.durable.extend(old.into_iter().map(|(_, page, bytes)| (page, bytes)));
    }

    /// Power is lost: of what was not durable, any sectors are there.
    fn cut(&mut self, random: &mut Random) {
        for (_, page, bytes) in core::mem::take(&mut self.cache) {
            let mut there = self.durable.get(&page).cloned().unwrap_or_else(|| Box::new([0; UNIT]));
            let how = random.below(3);
            for sector in 0..UNIT / SECTOR {
                if how == 1 || how == 2 && random.below(2) == 0 {
                    let range = sector * SECTOR..(sector + 1) * SECTOR;
                    there[range.clone()].copy_from_slice(&bytes[range]);
                }
            }
            self.durable.insert(page, there);
        }
    }
}

/// Sizes with several regions to a page of checksums, and several pages to a piece.
fn sizes() -> Sizes {
    let mut sizes = Sizes::choose(33 << 20).unwrap();
    sizes.piece_shift = 22;
    sizes.region_shift = 20;
    sizes.pieces = 3;
    sizes.check().unwrap();
    sizes
}

/// What `cards disk format` writes.
fn formatted() -> Disk {
    let superblock = Superblock::formatted(Uuid::random([3; 16]), sizes(), None, "d".parse().unwrap());
    let mut at = Disk::default();
    for (offset, bytes) in superblock.fresh_tables().chain(superblock.fresh()) {
        at.durable.insert(offset / UNIT as u64, Box::new(bytes));
    }
    at
}

/// Opens the disk after the machine was started for the `boot`-th time.
fn open(disk: &Disk, boot: u8, out: &mut Vec<Effect>) -> Result<Store, OpenError> {
    let decode = |slot: Slot| Superblock::decode(&disk.read(SUPERBLOCKS[slot as usize] / UNIT as u64), slot);
    let superblock = newest(decode(Slot::A), decode(Slot::B)).expect("a superblock").value;
    let pages = tables_length(&superblock.sizes) / UNIT as u64;
    let tables: Vec<u8> = (0..pages).flat_map(|page| *disk.read(page)).collect();
    // Little room, so that all of it is used.
    let tuning = Tuning { sum_pages: 2, hot: 0, hot_for: 0, settle_after: 1_000 };
    let opener = Opener { boot: Uuid::random([boot; 16]), now_us: 1, node: None, cluster: None, tuning };
    Store::open(superblock, &tables, opener, out)
}

#[test]
fn the_tables_of_a_disk_of_any_size_are_read_whole() {
    for device in [33 << 20, 1 << 40, 1 << 44] {
        let sizes = Sizes::choose(device).unwrap();
        let last = sizes.region_pages() - 1;
        let end = sizes.region_page_at(RegionMap::Missed, last, Slot::B) + UNIT as u64;
        assert_eq!(tables_length(&sizes), end, "{device}");
    }
}

/// What a unit may be: each of its sectors one of these values.
#[derive(Clone, Debug)]
struct Unit {
    /// Written last of what was answered.
    latest: u64,
    may_be: BTreeSet<u64>,
}

/// The bytes of a value: the same in each sector, and none like those of another.
fn bytes_of(unit: u64, value: u64) -> Bytes {
    let mut bytes = Box::new([0; UNIT]);
    if value > 0 {
        for (i, word) in bytes.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let at = i as u64 % (SECTOR / 8) as u64;
            *word = (value << 32 | unit << 8 | at).to_le_bytes();
        }
    }
    bytes
}

fn sum_of(bytes: &[u8; UNIT]) -> u32 {
    crc32c(&[bytes])
}

/// Whether data fit a checksum.
fn fits(bytes: &[u8; UNIT], sum: Sum) -> bool {
    match sum {
        Sum::NeverWritten => bytes.iter().all(|byte| *byte == 0),
        Sum::Lost => false,
        sum @ Sum::Of(_) => Sum::of_crc(sum_of(bytes)) == sum,
    }
}

#[derive(Clone, Debug)]
enum Asked {
    Read {
        first: u64,
        units: u64,
    },
    Write {
        first: u64,
        values: Vec<u64>,
    },
    Sync {
        before: BTreeMap<u64, u64>,
    },
    /// Of a group: a write, a sync of what was done before, a note of what was missed, a record.
    Put {
        number: u64,
    },
    Harden {
        numbers: BTreeSet<u64>,
    },
    Mark {
        unit: u64,
    },
    Record {
        at: usize,
    },
    Other,
}

/// A store, its disk, what is under way between them, and what the data should be.
struct World {
    random: Random,
    disk: Disk,
    store: Store,
    /// I/Os that were asked for, with the moment when.
    todo: Vec<(u64, Effect)>,
    asked: BTreeMap<Ticket, Asked>,
    ticket: u64,
    value: u64,
    units: Vec<Unit>,
    now: u64,
    /// Places that are written, and how many of twenty acts are that time passes.
    places: u64,
    ticks: u64,
    /// Read data, until their checksums are there.
    read: BTreeMap<Ticket, Vec<Bytes>>,
    boot: u8,
    copies: copies::Copies,
    /// What the group found and has not released.
    found_dirty: Option<crate::group::Disk>,
}

impl World {
    fn new(seed: u64) -> Self {
        let disk = formatted();
        let mut out = Vec::new();
        let store = open(&disk, 0, &mut out).unwrap();
        let count = u64::from(LONG) << (store.sizes().piece_shift - 12);
        let unit = Unit { latest: 0, may_be: BTreeSet::from([0]) };
        let mut world = Self {
            random: Random(seed * 7919 + 1),
            disk,
            store,
            todo: Vec::new(),
            asked: BTreeMap::new(),
            ticket: 0,
            value: 0,
            units: vec![unit; count as usize],
            now: 0,
            places: [1, 3, 24][seed as usize % 3],
            ticks: [1, 6][seed as usize % 2],
            read: BTreeMap::new(),
            boot: 0,
            copies: copies::Copies::default(),
            found_dirty: None,
        };
        world.take(out);
        let column = column(KEY.column, LONG);
        let ticket = world.ask(Asked::Other);
        world.with(|store, now, out| store.create_column(ticket, column, LONG, now, out));
        world.run();
        world
    }

    fn ask(&mut self, asked: Asked) -> Ticket {
        self.ticket += 1;
        self.asked.insert(Ticket(self.ticket), asked);
        Ticket(self.ticket)
    }

    fn with(&mut self, act: impl FnOnce(&mut Store, u64, &mut Vec<Effect>)) {
        let mut out = Vec::new();
        act(&mut self.store, self.now, &mut out);
        self.take(out);
    }

    fn take(&mut self, out: Vec<Effect>) {
        for effect in out {
            match effect {
                Effect::Answer { ticket, result } => self.answered(ticket, result),
                other => self.todo.push((self.disk.moment, other)),
            }
        }
    }

    fn answered(&mut self, ticket: Ticket, result: Result<Answer, StoreError>) {
        let asked = self.asked.remove(&ticket).expect("each request is answered once");
        let data = self.read.remove(&ticket).unwrap_or_default();
        match (&asked, &result) {
            (Asked::Read { first, .. }, Ok(Answer::Sums(sums))) => {
                assert_eq!(data.len(), sums.len());
                for (i, (bytes, sum)) in data.iter().zip(sums).enumerate() {
                    let unit = first + i as u64;
                    assert!(
                        fits(bytes, sum.expect("no region is unsure")),
                        "unit {unit} does not fit its checksum"
                    );
                    let latest = self.units[unit as usize].latest;
                    assert!(**bytes == *bytes_of(unit, latest), "unit {unit} is not what was written last");
                }
            }
            (Asked::Write { first, values }, Ok(Answer::Done)) => {
                for (i, value) in values.iter().enumerate() {
                    self.units[*first as usize + i].latest = *value;
                }
            }
            (Asked::Sync { before }, Ok(Answer::Done)) => {
                for (unit, value) in before {
                    // What was written later may be there, too.
                    self.units[*unit as usize].may_be.retain(|other| other >= value);
                }
            }
            (Asked::Other, Ok(Answer::Done)) => {}
            (
                Asked::Put { .. } | Asked::Harden { .. } | Asked::Mark { .. } | Asked::Record { .. },
                Ok(Answer::Done),
            ) => self.copy_answered(&asked),
            _ => panic!("{asked:?}: {result:?}"),
        }
    }

    /// Carries out one of the I/Os that are to be done.
    fn step(&mut self) {
        let at = self.random.below(self.todo.len() as u64) as usize;
        let (moment, effect) = self.todo.swap_remove(at);
        let page = |at: u64| at / UNIT as u64;
        match effect {
            Effect::ReadPage { io, at } => {
                let bytes = self.disk.read(page(at));
                let mut damaged = None;
                self.with(|store, now, out| damaged = store.page_read(io, Some(&bytes), now, out));
                assert_eq!(damaged, None, "what is torn is of dirty regions");
            }
            Effect::WritePages { io, at, pages } => {
                for (i, bytes) in pages.into_iter().enumerate() {
                    self.disk.write(page(at) + i as u64, bytes);
                }
                self.with(|store, now, out| store.done(io, true, now, out));
            }
            Effect::Sync { io } => {
                self.disk.sync(moment);
                self.with(|store, now, out| store.done(io, true, now, out));
            }
            Effect::Clear { io, at, length } => {
                let there: Vec<u64> = self.disk.durable.keys().copied().collect();
                for number in
                    there.into_iter().filter(|number| (page(at)..page(at + length)).contains(number))
                {
                    self.disk.write(number, Box::new([0; UNIT]));
                }
                self.with(|store, now, out| store.done(io, true, now, out));
            }
            Effect::Data { io, ticket, at } => {
                match self.asked[&ticket].clone() {
                    Asked::Read { units, .. } => {
                        let data = (0..units).map(|i| self.disk.read(page(at) + i)).collect();
                        self.read.insert(ticket, data);
                    }
                    Asked::Write { first, values } => {
                        for (i, value) in values.into_iter().enumerate() {
                            let bytes = bytes_of(first + i as u64, value);
                            self.disk.write(page(at) + i as u64, bytes);
                        }
                    }
                    Asked::Put { number } => {
                        let (unit, value) = self.copy_is_there(number);
                        self.disk.write(page(at), bytes_of(unit, value));
                    }
                    other => panic!("data of {other:?}"),
                }
                self.with(|store, now, out| store.done(io, true, now, out));
            }
            Effect::Answer { .. } => unreachable!("taken at once"),
        }
    }

    fn run(&mut self) {
        while !self.todo.is_empty() {
            self.step();
        }
        assert!(self.asked.is_empty(), "without an answer: {:?}", self.asked);
    }

    /// A range for which no request is open.
    fn range(&mut self) -> Option<(u64, u64)> {
        // Few places, so that they meet again.
        let first = self.random.below(self.places) * 64 + self.random.below(4);
        let units = 1 + self.random.below(3);
        let is_open = |asked: &Asked| match asked {
            Asked::Read { first: other, units: others } => *other < first + units && first < other + others,
            Asked::Write { first: other, values } => {
                *other < first + units && first < other + values.len() as u64
            }
            _ => false,
        };
        (!self.asked.values().any(is_open)).then_some((first, units))
    }

    fn write_somewhere(&mut self) {
        let Some((first, units)) = self.range() else { return };
        let values: Vec<u64> = (0..units).map(|i| self.value + 1 + i).collect();
        self.value += units;
        let sum = |(i, value): (usize, &u64)| Sum::of_crc(sum_of(&bytes_of(first + i as u64, *value)));
        let sums = values.iter().enumerate().map(sum).collect();
        for (i, value) in values.iter().enumerate() {
            self.units[first as usize + i].may_be.insert(*value);
        }
        let ticket = self.ask(Asked::Write { first, values });
        let offset = first * UNIT as u64;
        self.with(|store, now, out| store.write(ticket, KEY, offset, sums, false, now, out));
    }

    fn act(&mut self) {
        match self.random.below(20) {
            0..=6 => self.write_somewhere(),
            7..=9 => {
                let Some((first, units)) = self.range() else { return };
                let ticket = self.ask(Asked::Read { first, units });
                let (offset, length) = (first * UNIT as u64, units * UNIT as u64);
                self.with(|store, _, out| store.read(ticket, KEY, offset, length, out));
            }
            10 => {
                let latest =
                    self.units.iter().enumerate().map(|(unit, of)| (unit as u64, of.latest)).collect();
                let ticket = self.ask(Asked::Sync { before: latest });
                self.with(|store, _, out| store.sync(ticket, out));
            }
            at if (11..11 + self.ticks).contains(&at) => {
                self.now += self.random.below(4000);
                self.with(|store, now, out| store.tick(now, out));
            }
            _ if self.todo.is_empty() => {}
            _ => self.step(),
        }
    }

    /// Power is lost and comes back; the regions that were dirty are read. At times the daemon was killed shortly before.
    fn cut(&mut self) {
        if self.random.below(2) == 0 {
            self.leave_under_way();
            self.kill();
            for _ in 0..self.random.below(40) {
                match self.random.below(4) {
                    0 => self.write_somewhere(),
                    _ if self.todo.is_empty() => {}
                    _ => self.step(),
                }
            }
        }
        self.leave_under_way();
        self.asked.clear();
        self.read.clear();
        self.disk.cut(&mut self.random);
        let mut out = Vec::new();
        self.store = open(&self.disk, self.boot, &mut out).unwrap();
        self.take(out);
        self.resum();
        self.check();
    }

    /// What was asked for is done without an answer, or not done.
    fn leave_under_way(&mut self) {
        for (_, effect) in core::mem::take(&mut self.todo) {
            if self.random.below(4) == 0 {
                continue;
            }
            match effect {
                Effect::WritePages { at, pages, .. } => {
                    for (i, bytes) in pages.into_iter().enumerate() {
                        self.disk.write(at / UNIT as u64 + i as u64, bytes);
                    }
                }
                Effect::Data { ticket, at, .. } => {
                    if let Some(Asked::Write { first, values }) = self.asked.get(&ticket).cloned() {
                        for (i, value) in values.into_iter().enumerate() {
                            self.disk.write(at / UNIT as u64 + i as u64, bytes_of(first + i as u64, value));
                        }
                    } else if let Some(Asked::Put { number }) = self.asked.get(&ticket) {
                        let (unit, value) = self.copy_is_there(*number);
                        self.disk.write(at / UNIT as u64, bytes_of(unit, value));
                    }
                }
                _ => {}
            }
        }
    }

    fn resum(&mut self) {
        let unsure: Vec<_> = self.store.unsure().collect();
        for (key, offset, length) in unsure {
            for at in (offset..offset + length).step_by(64 * UNIT) {
                let place = self.store.place(key, at, 64 * UNIT as u64).unwrap();
                let first = place.data_at(self.store.sizes()) / UNIT as u64;
                let sums = (0..64).map(|i| Sum::of_crc(sum_of(&self.disk.read(first + i)))).collect();
                let ticket = self.ask(Asked::Other);
                self.with(|store, _, out| store.resum(ticket, key, at, sums, out));
                self.run();
            }
        }
        assert_eq!(self.store.unsure().count(), 0);
    }

    /// Each unit is what it may be, fits its checksum, and is that from now on.
    fn check(&mut self) {
        for unit in 0..self.units.len() as u64 {
            if self.units[unit as usize].may_be.len() == 1 && unit % 64 > 8 {
                continue;
            }
            let place = self.store.place(KEY, unit * UNIT as u64, UNIT as u64).unwrap();
            let bytes = self.disk.read(place.data_at(self.store.sizes()) / UNIT as u64);
            let may_be = &self.units[unit as usize].may_be;
            for (sector, there) in bytes.chunks(SECTOR).enumerate() {
                let range = sector * SECTOR..(sector + 1) * SECTOR;
                let is = |value: &u64| bytes_of(unit, *value)[range.clone()] == *there;
                assert!(may_be.iter().any(is), "unit {unit} sector {sector} is none of {may_be:?}");
            }
            // A mixture of two writes has no value; it is overwritten.
            let value = may_be.iter().copied().find(|value| *bytes_of(unit, *value) == *bytes);
            self.units[unit as usize] = match value {
                Some(value) => Unit { latest: value, may_be: BTreeSet::from([value]) },
                None => {
                    self.rewrite(unit);
                    continue;
                }
            };
            let ticket = self.ask(Asked::Read { first: unit, units: 1 });
            self.with(|store, _, out| store.read(ticket, KEY, unit * UNIT as u64, UNIT as u64, out));
            self.run();
        }
    }

    fn rewrite(&mut self, unit: u64) {
        self.value += 1;
        let value = self.value;
        self.units[unit as usize] = Unit { latest: 0, may_be: BTreeSet::from([value]) };
        let sums = vec![Sum::of_crc(sum_of(&bytes_of(unit, value)))];
        let ticket = self.ask(Asked::Write { first: unit, values: vec![value] });
        self.with(|store, now, out| store.write(ticket, KEY, unit * UNIT as u64, sums, false, now, out));
        let sync = self.ask(Asked::Other);
        self.run_but(sync);
    }

    fn run_but(&mut self, sync: Ticket) {
        while !self.todo.is_empty() {
            self.step();
        }
        self.with(|store, _, out| store.sync(sync, out));
        self.run();
    }

    fn close(&mut self) {
        self.run();
        let ticket = self.ask(Asked::Other);
        self.with(|store, now, out| store.close(ticket, now, out));
        self.run();
    }
}

fn runs(seeds: core::ops::Range<u64>) {
    for seed in seeds {
        println!("seed {seed}");
        let mut world = World::new(seed);
        for _ in 0..3 {
            for _ in 0..150 + world.random.below(150) {
                world.act();
            }
            world.cut();
        }
        world.close();
        let mut out = Vec::new();
        let store = open(&world.disk, world.boot, &mut out).unwrap();
        assert_eq!(store.unsure().count(), 0, "closed disks have no unsure regions");
    }
}

#[test]
fn no_cut_loses_what_was_synced_or_leaves_a_wrong_checksum() {
    runs(0..60);
}

#[test]
#[ignore = "long"]
fn no_cut_of_many_loses_what_was_synced_or_leaves_a_wrong_checksum() {
    runs(1_000..11_000);
}

impl World {
    /// Asks for a write of one unit; what is to be done waits.
    fn begin_write(&mut self, unit: u64) {
        self.value += 1;
        let values = vec![self.value];
        let sums = vec![Sum::of_crc(sum_of(&bytes_of(unit, self.value)))];
        self.units[unit as usize].may_be.insert(self.value);
        let ticket = self.ask(Asked::Write { first: unit, values });
        self.with(|store, now, out| store.write(ticket, KEY, unit * UNIT as u64, sums, false, now, out));
    }

    /// Does all I/Os but those that are held, and what follows from them.
    fn run_all_but(&mut self, is_held: impl Fn(&Effect) -> bool) {
        let mut held = Vec::new();
        loop {
            let (hold, go) =
                core::mem::take(&mut self.todo).into_iter().partition(|(_, effect)| is_held(effect));
            held.extend::<Vec<_>>(hold);
            self.todo = go;
            if self.todo.is_empty() {
                break;
            }
            self.step();
        }
        self.todo = held;
    }

    fn wait(&mut self, ms: u64) {
        self.now += ms;
        self.with(|store, now, out| store.tick(now, out));
    }

    /// Regions that a disk would not be sure of if power were cut now and all that was done were there.
    fn dirty(&self) -> usize {
        open(&self.disk, self.boot, &mut Vec::new()).unwrap().unsure().count()
    }
}

fn is_data(effect: &Effect) -> bool {
    matches!(effect, Effect::Data { .. })
}

#[test]
fn a_region_is_dirty_as_long_as_a_write_is_open() {
    let mut world = World::new(1);
    world.begin_write(5);
    world.run_all_but(is_data);
    assert_eq!(world.dirty(), 1);
    for _ in 0..5 {
        world.wait(10_000);
        world.run_all_but(is_data);
        assert_eq!(world.dirty(), 1, "its data are on their way");
    }
    world.run();
    world.wait(10_000);
    world.run();
    assert_eq!(world.dirty(), 0);
}

#[test]
fn a_region_that_is_written_while_it_is_settled_stays_dirty() {
    let mut world = World::new(2);
    world.begin_write(5);
    world.run();
    world.wait(10_000);
    // The checksums as they were before the second write.
    let sums_at = sum_page_at(world.store.sizes(), 0);
    let is_settling = |effect: &Effect| matches!(effect, Effect::WritePages { at, .. } if *at == sums_at);
    world.run_all_but(is_settling);
    assert_eq!(world.todo.len(), 1, "{:?}", world.todo);
    world.begin_write(6);
    world.run_all_but(is_settling);
    world.run();
    assert_eq!(world.dirty(), 4);
    world.cut();
}

#[test]
fn a_write_waits_until_its_region_is_dirty_on_the_disk() {
    let mut world = World::new(3);
    world.begin_write(5);
    let is_sync = |effect: &Effect| matches!(effect, Effect::Sync { .. });
    world.run_all_but(is_sync);
    assert!(!world.todo.iter().any(|(_, effect)| is_data(effect)));
    world.run();
    assert!(world.asked.is_empty());
}

#[test]
fn a_missed_write_is_remembered_until_it_is_caught_up() {
    let mut world = World::new(4);
    let ticket = world.ask(Asked::Write { first: 300, values: vec![1] });
    let sums = vec![Sum::of_crc(sum_of(&bytes_of(300, 1)))];
    world.with(|store, now, out| store.write(ticket, KEY, 300 * UNIT as u64, sums, true, now, out));
    world.run();
    let region = [(1 << 20, 1 << 20)];
    let disk = |world: &World| {
        open(&world.disk, world.boot, &mut Vec::new()).unwrap().missed(KEY).collect::<Vec<_>>()
    };
    assert_eq!(disk(&world), region);
    world.wait(10_000);
    world.run();
    assert_eq!((world.dirty(), disk(&world)), (0, region.to_vec()), "settled, and missed all the same");
    world.with(|store, now, out| {
        store.caught_up(KEY, &extents(300 * UNIT as u64, 301 * UNIT as u64), now, out)
    });
    world.run();
    assert_eq!(disk(&world), []);
}

fn extents(start: u64, end: u64) -> Extents {
    [Extent { offset: start, length: end - start }].into_iter().collect()
}

/// All columns with as many bytes as they have, and the pieces that are free.
fn content(store: &Store) -> (Vec<(u8, u64)>, u32) {
    let length = |column: &Column| (column.column, store.length(column.into()).unwrap());
    (store.columns().map(length).collect(), store.free())
}

fn column(column: u8, pieces: u32) -> Column {
    let mut volume = Uuid([9; 16]);
    volume.0[..8].copy_from_slice(&KEY.volume.to_le_bytes());
    Column {
        volume,
        name: "v".parse().unwrap(),
        bytes: u64::from(pieces) << 22,
        group: KEY.group,
        column,
        forced: false,
        mirrored: false,
        lossy: false,
        generation: 1,
        sealed_epoch: 1,
        in_sync_epoch: 1,
        applied_through: 0,
        filled_rows: 0,
        scrub_row: 0,
        life: 0,
    }
}

#[test]
fn a_new_column_shows_nothing_of_the_one_that_had_its_pieces() {
    let mut world = World::new(5);
    world.begin_write(5);
    world.begin_write(1500);
    world.run();
    let remove = world.ask(Asked::Other);
    world.with(|store, now, out| store.remove_column(remove, KEY, now, out));
    world.run();
    assert_eq!(content(&world.store), (vec![], 3));
    let create = world.ask(Asked::Other);
    world.with(|store, now, out| store.create_column(create, column(0, LONG), LONG, now, out));
    world.run();
    world.units.fill(Unit { latest: 0, may_be: BTreeSet::from([0]) });
    for unit in [5, 1500] {
        let ticket = world.ask(Asked::Read { first: unit, units: 1 });
        world.with(|store, _, out| store.read(ticket, KEY, unit * UNIT as u64, UNIT as u64, out));
        world.run();
    }
}

#[test]
fn a_column_that_was_cut_off_on_its_way_is_there_whole_or_not_at_all() {
    for steps in 0..40 {
        let mut world = World::new(6);
        let ticket = world.ask(Asked::Other);
        world.with(|store, now, out| store.create_column(ticket, column(1, 1), 1, now, out));
        for _ in 0..steps {
            if !world.todo.is_empty() {
                world.step();
            }
        }
        let is_answered = world.asked.is_empty();
        world.asked.clear();
        world.todo.clear();
        world.disk.cut(&mut world.random);
        let both = (vec![(0, 8 << 20), (1, 4 << 20)], 0);
        let one = (vec![(0, 8 << 20)], 1);
        let found = content(&open(&world.disk, world.boot, &mut Vec::new()).unwrap());
        assert!(found == both || !is_answered && found == one, "after {steps}: {found:?}");
    }
}

#[test]
fn a_column_that_was_cut_off_as_it_grew_has_its_old_size_or_its_new_one() {
    let mut seen = BTreeSet::new();
    for (steps, seed) in (0..40).flat_map(|steps| (0..3).map(move |seed| (steps, seed))) {
        let mut world = World::new(seed);
        let ticket = world.ask(Asked::Other);
        world.with(|store, now, out| store.grow_column(ticket, KEY, 12 << 20, now, out));
        for _ in 0..steps {
            if !world.todo.is_empty() {
                world.step();
            }
        }
        let is_answered = world.asked.is_empty();
        world.asked.clear();
        world.todo.clear();
        match seed {
            0 => world.kill(),
            _ => world.disk.cut(&mut world.random),
        }
        let store = open(&world.disk, world.boot, &mut Vec::new()).unwrap();
        let bytes = store.columns().next().unwrap().bytes;
        let found = (bytes, store.length(KEY).unwrap(), store.free());
        let (old, new) = ((8 << 20, 8 << 20, 1), (12 << 20, 12 << 20, 0));
        assert!(found == new || !is_answered && found == old, "after {steps}: {found:?}");
        seen.insert(found);
    }
    assert_eq!(seen.len(), 2);
}

#[test]
fn what_a_column_grows_by_is_zero_and_the_rest_is_as_it_was() {
    for seed in 0..30 {
        let mut world = World::new(seed);
        // The piece that it gets had another column's data.
        let other = world.ask(Asked::Other);
        world.with(|store, now, out| store.create_column(other, column(1, 1), 1, now, out));
        world.run();
        let (value, units) = (1 << 30, 3);
        let dirt = ColumnKey { column: 1, ..KEY };
        let ticket = world.ask(Asked::Write { first: 0, values: vec![value; units] });
        let sums = (0..units).map(|i| Sum::of_crc(sum_of(&bytes_of(i as u64, value)))).collect();
        world.with(|store, now, out| store.write(ticket, dirt, 0, sums, true, now, out));
        world.run();
        world.units[..units].fill(Unit { latest: 0, may_be: BTreeSet::from([0]) });
        let ticket = world.ask(Asked::Other);
        world.with(|store, now, out| store.remove_column(ticket, dirt, now, out));
        world.run();
        for _ in 0..20 {
            world.act();
        }
        let grow = world.ask(Asked::Other);
        world.with(|store, now, out| store.grow_column(grow, KEY, 12 << 20, now, out));
        while world.asked.contains_key(&grow) {
            // Reads and writes of what it has go on meanwhile.
            world.act();
            if !world.todo.is_empty() {
                world.step();
            }
        }
        world.units.resize(3 << 10, Unit { latest: 0, may_be: BTreeSet::from([0]) });
        world.run();
        assert_eq!(world.store.missed(KEY).count(), 0);
        let check = |world: &mut World| {
            for first in [0, 64, 2047, 2048, 2049, 3071] {
                let ticket = world.ask(Asked::Read { first, units: 1 });
                let offset = first * UNIT as u64;
                world.with(|store, _, out| store.read(ticket, KEY, offset, UNIT as u64, out));
                world.run();
            }
        };
        check(&mut world);
        world.begin_write(2050);
        world.run();
        world.kill();
        world.run();
        world.resum();
        check(&mut world);
    }
}

#[test]
fn a_column_grows_within_its_last_piece_and_not_beyond_the_disk() {
    let mut world = World::new(8);
    let bytes = |store: &Store| store.columns().next().unwrap().bytes;
    let small = world.ask(Asked::Other);
    let half = Column { bytes: 6 << 20, ..column(1, 1) };
    world.with(|store, now, out| store.remove_column(small, KEY, now, out));
    world.run();
    let create = world.ask(Asked::Other);
    world.with(|store, now, out| store.create_column(create, half, 2, now, out));
    world.run();
    let key = ColumnKey { column: 1, ..KEY };
    let grow = world.ask(Asked::Other);
    world.with(|store, now, out| store.grow_column(grow, key, 7 << 20, now, out));
    world.run();
    assert_eq!((bytes(&world.store), world.store.free()), (7 << 20, 1));
    let mut refused = |key, to| {
        let mut out = Vec::new();
        world.store.grow_column(Ticket(u64::MAX), key, to, 0, &mut out);
        out.into_iter().find_map(|effect| match effect {
            Effect::Answer { result: Err(error), .. } => Some(error),
            _ => None,
        })
    };
    assert_eq!(refused(key, 16 << 20), Some(StoreError::NoSpace { free: 1, needed: 2 }));
    assert_eq!(refused(key, 6 << 20), Some(StoreError::Range));
    assert_eq!(refused(KEY, 16 << 20), Some(StoreError::NoColumn));
    assert_eq!(refused(key, 12 << 20), None);
    assert_eq!(refused(key, 12 << 20), Some(StoreError::Busy));
    let mut out = Vec::new();
    world.store.remove_column(Ticket(u64::MAX), key, 0, &mut out);
    let busy = Err(StoreError::Busy);
    assert!(out.iter().any(|effect| matches!(effect, Effect::Answer { result, .. } if *result == busy)));
}

/// One that is on its way has its place, too.
#[test]
fn a_table_of_columns_that_is_full_takes_no_other_one() {
    let mut world = World::new(15);
    let create = |world: &mut World, number| {
        let ticket = world.ask(Asked::Other);
        world.with(|store, now, out| store.create_column(ticket, column(number, 0), 0, now, out));
    };
    let last = COLUMNS as u8 - 1;
    for number in 1..last {
        create(&mut world, number);
        world.run();
    }
    create(&mut world, last);
    let mut out = Vec::new();
    world.store.create_column(Ticket(u64::MAX), column(last + 1, 0), 0, 0, &mut out);
    let refused = Effect::Answer { ticket: Ticket(u64::MAX), result: Err(StoreError::NoColumns) };
    assert_eq!(out, [refused]);
    world.run();
    assert_eq!(world.store.columns().count(), COLUMNS);
}

#[test]
fn refusals_name_what_is_missing() {
    let mut world = World::new(7);
    let mut refused = |act: &dyn Fn(&mut Store, Ticket, &mut Vec<Effect>)| {
        let (ticket, mut out) = (Ticket(u64::MAX), Vec::new());
        act(&mut world.store, ticket, &mut out);
        let refusal = out.into_iter().find_map(|effect| match effect {
            Effect::Answer { result: Err(error), .. } => Some(error),
            _ => None,
        });
        refusal.expect("a refusal")
    };
    let none = ColumnKey { column: 9, ..KEY };
    assert_eq!(refused(&|store, t, out| store.read(t, none, 0, 4096, out)), StoreError::NoColumn);
    for (offset, length) in
        [(1, 4096), (0, 1), (0, 0), (8 << 20, 4096), (4090 << 10, 12 << 10), (u64::MAX - 4095, 4096)]
    {
        let read = |store: &mut Store, t, out: &mut Vec<Effect>| store.read(t, KEY, offset, length, out);
        assert_eq!(refused(&read), StoreError::Range, "{length} at {offset}");
    }
    assert_eq!(refused(&|store, t, out| store.create_column(t, column(0, 1), 1, 0, out)), StoreError::Exists);
    let needed = StoreError::NoSpace { free: 1, needed: 2 };
    assert_eq!(refused(&|store, t, out| store.create_column(t, column(3, 2), 2, 0, out)), needed);
    assert_eq!(refused(&|store, t, out| store.remove_column(t, none, 0, out)), StoreError::NoColumn);
}

/// Answers of all that is open, when an I/O that matches fails.
fn failing(mut world: World, fails: impl Fn(&Effect) -> bool) -> Vec<Result<Answer, StoreError>> {
    let mut answers = Vec::new();
    while let Some((_, effect)) = world.todo.pop() {
        let succeeds = !fails(&effect);
        let mut out = Vec::new();
        match effect {
            Effect::ReadPage { io, at } => {
                let page = world.disk.read(at / UNIT as u64);
                world.store.page_read(io, succeeds.then_some(&page), world.now, &mut out);
            }
            Effect::Answer { result, .. } => answers.push(result),
            Effect::WritePages { io, .. }
            | Effect::Sync { io }
            | Effect::Clear { io, .. }
            | Effect::Data { io, .. } => {
                world.store.done(io, succeeds, world.now, &mut out);
            }
        }
        world.todo.extend(out.into_iter().map(|effect| (0, effect)));
    }
    answers
}

#[test]
fn a_disk_that_cannot_keep_its_tables_has_failed_and_one_that_cannot_move_data_has_not() {
    let mut world = World::new(8);
    world.begin_write(5);
    let is_table = |effect: &Effect| matches!(effect, Effect::WritePages { .. });
    assert_eq!(failing(world, is_table), [Err(StoreError::Failed)]);
    let mut world = World::new(8);
    world.begin_write(5);
    let is_sync = |effect: &Effect| matches!(effect, Effect::Sync { .. });
    assert_eq!(failing(world, is_sync), [Err(StoreError::Failed)]);
    let mut world = World::new(8);
    world.begin_write(5);
    assert_eq!(failing(world, is_data), [Err(StoreError::Data)]);
}

/// As on a file system that is full: the first bytes of a piece, or its checksums.
#[test]
fn space_that_cannot_be_made_zero_is_nobodys_and_the_disk_goes_on() {
    let is_sums = |effect: &Effect| matches!(effect, Effect::WritePages { pages, .. } if pages.len() > 1);
    let is_clear = |effect: &Effect| matches!(effect, Effect::Clear { .. });
    let kinds: [&dyn Fn(&Effect) -> bool; 2] = [&is_clear, &is_sums];
    for fails in kinds {
        let mut world = World::new(8);
        world.run();
        let (free, bytes) = (world.store.free(), world.store.columns().next().unwrap().bytes);
        let grow = |world: &mut World| {
            let ticket = world.ask(Asked::Other);
            world.with(|store, now, out| store.grow_column(ticket, KEY, 12 << 20, now, out));
            ticket
        };
        let ticket = grow(&mut world);
        let at = loop {
            match world.todo.iter().position(|(_, effect)| fails(effect)) {
                Some(at) => break at,
                None => world.step(),
            }
        };
        let (_, effect) = world.todo.remove(at);
        let (Effect::Clear { io, .. } | Effect::WritePages { io, .. }) = effect else { panic!("{effect:?}") };
        let mut out = Vec::new();
        world.store.done(io, false, world.now, &mut out);
        let answer = Effect::Answer { ticket, result: Err(StoreError::NotCleared) };
        assert!(out.contains(&answer), "{out:?}");
        world.asked.remove(&ticket);
        out.retain(|effect| *effect != answer);
        let now = world.now;
        world.todo.extend(out.into_iter().map(|effect| (now, effect)));
        world.run();
        assert_eq!((world.store.free(), world.store.columns().next().unwrap().bytes), (free, bytes));
        world.begin_write(5);
        world.run();
        grow(&mut world);
        world.run();
        assert_eq!(world.store.columns().next().unwrap().bytes, 12 << 20, "there is room now");
    }
}

impl World {
    /// The first page of checksums of a column is other than it was, and the disk is opened again.
    fn rots(&mut self, key: ColumnKey, change: impl FnOnce(&mut [u8; UNIT])) {
        let place = self.store.place(key, 0, UNIT as u64).unwrap();
        let number = place.sum_pages(self.store.sizes()).next().unwrap();
        let page = sum_page_at(self.store.sizes(), number) / UNIT as u64;
        let mut bytes = self.disk.read(page);
        change(&mut bytes);
        self.disk.write(page, bytes);
        self.kill();
    }

    /// What is answered to a read of one unit.
    fn answer_to_read(&mut self, key: ColumnKey, unit: u64) -> Result<Answer, StoreError> {
        let (ticket, mut out) = (Ticket(1 << 40), Vec::new());
        self.store.read(ticket, key, unit * UNIT as u64, UNIT as u64, &mut out);
        self.todo.extend(out.into_iter().map(|effect| (0, effect)));
        self.asked.insert(ticket, Asked::Read { first: unit, units: 1 });
        let answers = answers(self);
        self.asked.remove(&ticket);
        answers.into_iter().next().unwrap()
    }
}

#[test]
fn checksums_that_cannot_be_read_are_unknown_until_somebody_says_them() {
    let mut world = World::new(9);
    world.begin_write(5);
    world.run();
    world.wait(10_000);
    world.run();
    assert_eq!(world.dirty(), 0);
    world.rots(KEY, |page| page[77] ^= 1);
    assert_eq!(world.answer_to_read(KEY, 5), Ok(Answer::Sums(vec![None])));
    let unsure: Vec<_> = world.store.unsure().map(|(_, offset, _)| offset >> 20).collect();
    assert_eq!(unsure, [0, 1, 2, 3], "the page has checksums of all four");
    world.resum();
    world.check();
}

/// A slot of the table of columns is damaged when all has been quiet for a moment, or the disk was closed: the other one has the same.
#[test]
fn a_table_that_was_changed_is_in_both_slots_soon() {
    for closes in [false, true] {
        let mut world = World::new(4);
        if closes {
            world.close();
        } else {
            world.wait(1_000);
            world.run();
        }
        for slot in [Slot::A, Slot::B] {
            let mut disk = world.disk.clone();
            let page = world.store.sizes().column_page_at(0, slot) / UNIT as u64;
            let mut bytes = disk.read(page);
            bytes[99] ^= 1;
            disk.write(page, bytes);
            let store = open(&disk, 1, &mut Vec::new()).unwrap();
            assert_eq!(store.columns().count(), 1, "{slot:?} is damaged, closed: {closes}");
        }
    }
}

/// The process ends before the other slot of what it has changed is written. The next one sees to that.
#[test]
fn a_table_that_was_changed_before_a_kill_is_in_both_slots_soon_after_it() {
    for closes in [false, true] {
        let mut world = World::new(4);
        world.kill();
        world.run();
        for _ in 0..5 {
            world.wait(1_000);
            world.run();
        }
        if closes {
            world.close();
        }
        for slot in [Slot::A, Slot::B] {
            let mut disk = world.disk.clone();
            let page = world.store.sizes().column_page_at(0, slot) / UNIT as u64;
            let mut bytes = disk.read(page);
            bytes[99] ^= 1;
            disk.write(page, bytes);
            let store = open(&disk, 1, &mut Vec::new()).unwrap();
            assert_eq!(store.columns().count(), 1, "{slot:?} is damaged, closed: {closes}");
        }
    }
}

/// All that is damaged of a slot is how it begins. The other slot has the same, and rots later.
#[test]
fn a_slot_that_begins_in_another_way_is_written_anew() {
    for at in [0, 5, 9, 13, 17] {
        for slot in Slot::BOTH {
            let mut world = World::new(4);
            world.close();
            let rots = |world: &mut World, slot, at: usize| {
                let page = world.store.sizes().column_page_at(0, slot) / UNIT as u64;
                let mut bytes = world.disk.read(page);
                bytes[at] ^= 1;
                world.disk.write(page, bytes);
            };
            rots(&mut world, slot, at);
            world.kill();
            for _ in 0..5 {
                world.run();
                world.wait(1_000);
            }
            rots(&mut world, slot.other(), 99);
            let columns = open(&world.disk, 1, &mut Vec::new()).map(|store| store.columns().count());
            assert_eq!(columns, Ok(1), "byte {at} of {slot:?}");
        }
    }
}

/// A page that is none any more says that what is around it may be gone, too.
#[test]
fn where_there_is_no_page_of_checksums_the_data_are_lost_until_they_are_written_again() {
    let mut world = World::new(9);
    world.begin_write(5);
    world.run();
    world.wait(10_000);
    world.run();
    // Also where something is being written.
    world.begin_write(7);
    world.run();
    world.rots(KEY, |page| page.fill(0));
    assert_ne!(world.store.unsure().count(), 0);
    let lost = Ok(Answer::Sums(vec![Some(Sum::Lost)]));
    for unit in [5, 7, 900] {
        assert_eq!(world.answer_to_read(KEY, unit), lost, "unit {unit}");
    }
    world.resum();
    assert_eq!(world.answer_to_read(KEY, 5), lost);
    let past = SUMS as u64;
    assert_eq!(
        world.answer_to_read(KEY, past),
        Ok(Answer::Sums(vec![Some(Sum::NeverWritten)])),
        "another page"
    );
    // What is written again is there when that is answered, whatever ends then.
    world.begin_write(5);
    world.run();
    let latest = world.units[5].latest;
    world.kill();
    world.run();
    world.resum();
    let sum = Sum::of_crc(sum_of(&bytes_of(5, latest)));
    assert_eq!(world.answer_to_read(KEY, 5), Ok(Answer::Sums(vec![Some(sum)])));
    assert_eq!(world.answer_to_read(KEY, 6), lost);
}

/// Does all that is to be done; the answers to requests.
fn answers(world: &mut World) -> Vec<Result<Answer, StoreError>> {
    let mut answers = Vec::new();
    while let Some((moment, effect)) = world.todo.pop() {
        match effect {
            Effect::Answer { result, .. } => answers.push(result),
            Effect::Data { io, .. } => {
                let mut out = Vec::new();
                world.store.done(io, true, world.now, &mut out);
                world.todo.extend(out.into_iter().map(|effect| (0, effect)));
            }
            Effect::ReadPage { io, at } => {
                let (bytes, mut out) = (world.disk.read(at / UNIT as u64), Vec::new());
                world.store.page_read(io, Some(&bytes), world.now, &mut out);
                world.todo.extend(out.into_iter().map(|effect| (0, effect)));
            }
            other => {
                // No other one: an answer is none of what a step does.
                let rest = core::mem::replace(&mut world.todo, vec![(moment, other)]);
                world.step();
                world.todo.extend(rest);
            }
        }
    }
    answers
}

/// A page of checksums that an open request needs stays in memory however many others are read meanwhile.
#[test]
fn a_write_sets_its_checksum_however_many_pages_are_read_while_it_is_open() {
    let mut world = World::new(10);
    world.begin_write(5);
    world.run();
    world.wait(10_000);
    world.run();
    world.begin_write(5);
    world.run_all_but(is_data);
    // Each of these is in another page; the column has four, of which two are kept.
    for unit in [1020, 1030, 2044] {
        let ticket = world.ask(Asked::Read { first: unit, units: 1 });
        world.with(|store, _, out| store.read(ticket, KEY, unit * UNIT as u64, UNIT as u64, out));
        let of_write = |effect: &Effect| matches!(effect, Effect::Data { ticket: of, .. } if *of != ticket);
        world.run_all_but(of_write);
    }
    world.run();
    world.wait(10_000);
    world.run();
    assert_eq!(world.dirty(), 0);
    let ticket = world.ask(Asked::Read { first: 5, units: 1 });
    world.with(|store, _, out| store.read(ticket, KEY, 5 * UNIT as u64, UNIT as u64, out));
    world.run();
}

/// What a write that failed has left is not known, and is not taken for damage.
#[test]
fn units_of_a_write_that_failed_have_no_checksum() {
    let mut world = World::new(11);
    world.begin_write(5);
    world.run_all_but(is_data);
    let Some((_, Effect::Data { io, at, .. })) = world.todo.pop() else { panic!("the data") };
    // They are there, and the answer is an error.
    world.disk.write(at / UNIT as u64, bytes_of(5, world.value));
    let mut out = Vec::new();
    world.store.done(io, false, world.now, &mut out);
    let failed = |effect: &Effect| matches!(effect, Effect::Answer { result: Err(StoreError::Data), .. });
    assert!(out.iter().any(failed), "{out:?}");
    out.retain(|effect| !failed(effect));
    world.asked.clear();
    world.take(out);
    world.run();
    world.wait(10_000);
    world.run();
    assert_eq!(world.dirty(), 1, "its data may not fit their checksum");
    world.resum();
    let ticket = world.ask(Asked::Read { first: 5, units: 1 });
    world.units[5].latest = world.value;
    world.with(|store, _, out| store.read(ticket, KEY, 5 * UNIT as u64, UNIT as u64, out));
    world.run();
}

#[test]
fn a_new_column_has_missed_nothing_that_the_one_before_it_has() {
    let mut world = World::new(12);
    let ticket = world.ask(Asked::Write { first: 300, values: vec![1] });
    let sums = vec![Sum::of_crc(sum_of(&bytes_of(300, 1)))];
    world.with(|store, now, out| store.write(ticket, KEY, 300 * UNIT as u64, sums, true, now, out));
    world.run();
    let remove = world.ask(Asked::Other);
    world.with(|store, now, out| store.remove_column(remove, KEY, now, out));
    world.run();
    let create = world.ask(Asked::Other);
    world.with(|store, now, out| store.create_column(create, column(0, LONG), LONG, now, out));
    world.run();
    assert_eq!(world.store.missed(KEY).count(), 0);
    world.store = open(&world.disk, world.boot, &mut Vec::new()).unwrap();
    assert_eq!(world.store.missed(KEY).count(), 0);
}

impl World {
    /// The daemon is killed, and what it has asked for has been done or not; the disk keeps its power. Another daemon opens it.
    fn kill(&mut self) {
        self.todo.clear();
        self.asked.clear();
        self.read.clear();
        let mut out = Vec::new();
        self.store = open(&self.disk, self.boot, &mut out).unwrap();
        self.take(out);
    }
}

/// What a killed daemon has written the next one reads, and it is lost with the power all the same.
#[test]
fn a_bit_that_is_found_set_is_not_taken_for_durable() {
    let mut world = World::new(13);
    world.begin_write(5);
    let is_sync = |effect: &Effect| matches!(effect, Effect::Sync { .. });
    world.run_all_but(is_sync);
    world.kill();
    assert_eq!(world.store.unsure().count(), 1);
    world.begin_write(5);
    world.run_all_but(is_sync);
    assert!(world.asked.len() == 1, "the data of {:?} are there before the bit", world.asked);
    world.run();
    world.cut();
}

#[test]
fn pieces_whose_column_is_not_durably_gone_are_not_cleared() {
    let mut world = World::new(14);
    let is_sync = |effect: &Effect| matches!(effect, Effect::Sync { .. });
    let ticket = world.ask(Asked::Other);
    world.with(|store, now, out| store.remove_column(ticket, KEY, now, out));
    world.run_all_but(is_sync);
    world.kill();
    assert_eq!(content(&world.store), (vec![], 3));
    let ticket = world.ask(Asked::Other);
    world.with(|store, now, out| store.create_column(ticket, column(1, LONG), LONG, now, out));
    let is_clear = |effect: &Effect| matches!(effect, Effect::Clear { .. });
    assert!(!world.todo.iter().any(|(_, effect)| is_clear(effect)), "the other column may come back");
    world.run();
    assert_eq!(content(&world.store), (vec![(1, 8 << 20)], 1));
}

#[test]
fn a_page_is_written_to_the_slot_that_is_not_the_last_one() {
    let mut store = open(&formatted(), 0, &mut Vec::new()).unwrap();
    for page in [
        tables::Page::Superblock,
        tables::Page::Pieces(0),
        tables::Page::Columns(0),
        tables::Page::Regions(RegionMap::Dirty, 0),
        tables::Page::Regions(RegionMap::Missed, 0),
    ] {
        let places: [u64; 4] = core::array::from_fn(|_| store.tables.encode(page).0);
        assert!(places[0] != places[1] && places[..2] == places[2..], "{page:?}: {places:?}");
    }
}

/// Daemons that are killed as soon as they have written something, and then the power goes: of each page one slot is whole.
#[test]
fn no_slot_is_written_before_the_other_one_is_durable() {
    for seed in 0..60 {
        let mut world = World::new(seed);
        let is_sync = |effect: &Effect| matches!(effect, Effect::Sync { .. });
        for _ in 0..3 {
            world.begin_write(5);
            world.run_all_but(is_sync);
            world.kill();
            assert!(world.todo.iter().all(|(_, effect)| is_sync(effect)), "what was found may be lost yet");
            world.step();
        }
        world.run_all_but(is_sync);
        world.todo.clear();
        world.disk.cut(&mut world.random);
        assert_eq!(
            content(&open(&world.disk, world.boot, &mut Vec::new()).unwrap()),
            (vec![(0, 8 << 20)], 1)
        );
    }
}
