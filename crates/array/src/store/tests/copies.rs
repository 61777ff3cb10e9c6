//! A column that is a copy: what its group finds on the disk after any number of kills and cuts.

use super::*;
use crate::group::{Disk as Found, Record};

const COPY: ColumnKey = ColumnKey { column: 1, ..KEY };
/// Units that are written: some share a region, and one is in the last.
const PLACES: [u64; 5] = [0, 3, 255, 300, 1023];

/// A write of the group.
#[derive(Clone, Debug)]
struct Put {
    unit: u64,
    missed: bool,
    /// Its data may be on the disk.
    is_there: bool,
    is_done: bool,
    is_released: bool,
    is_synced: bool,
}

/// What the group has asked for, and knows.
#[derive(Debug, Default)]
pub(super) struct Copies {
    puts: BTreeMap<u64, Put>,
    /// Units that were noted as missed, durably.
    marked: BTreeSet<u64>,
    /// The record that was answered last, and those that were asked for since.
    records: Vec<Record>,
    number: u64,
}

impl World {
    fn with_copy(seed: u64) -> Self {
        let mut world = Self::new(seed);
        let column = Column { mirrored: true, ..column(COPY.column, 1) };
        let ticket = world.ask(Asked::Other);
        world.with(|store, now, out| store.create_column(ticket, column, 1, now, out));
        world.run();
        let found = world.store.begin(COPY, true).unwrap();
        assert!(found.dirty.is_empty() && found.missed.is_empty(), "{found:?}");
        world.copies.records = vec![found.record];
        world
    }

    /// The data of a write are on their way to the disk.
    pub(super) fn copy_is_there(&mut self, number: u64) -> (u64, u64) {
        let put = self.copies.puts.get_mut(&number).unwrap();
        put.is_there = true;
        (put.unit, number)
    }

    pub(super) fn copy_answered(&mut self, asked: &Asked) {
        match asked {
            Asked::Put { number } => self.copies.puts.get_mut(number).unwrap().is_done = true,
            Asked::Harden { numbers } => {
                for number in numbers {
                    if let Some(put) = self.copies.puts.get_mut(number) {
                        put.is_synced = true;
                    }
                }
            }
            Asked::Mark { unit } => {
                self.copies.marked.insert(*unit);
            }
            Asked::Record { at } => {
                self.copies.records.drain(..self.copies.records.len() - at);
            }
            _ => {}
        }
        self.copies.puts.retain(|_, put| !put.is_released || !put.is_synced || put.missed);
    }

    fn put(&mut self, unit: u64, missed: bool) {
        let is_open = |put: &Put| put.unit == unit && !put.is_done;
        if self.copies.puts.values().any(is_open) {
            return;
        }
        self.copies.number += 1;
        let number = self.copies.number;
        let put = Put { unit, missed, is_there: false, is_done: false, is_released: false, is_synced: false };
        self.copies.puts.insert(number, put);
        let ticket = self.ask(Asked::Put { number });
        let sums = vec![Sum::of_crc(sum_of(&bytes_of(unit, number)))];
        let at = unit * UNIT as u64;
        let extent = Extent { offset: at, length: UNIT as u64 };
        self.with(|store, now, out| {
            store.hold(COPY, extent, missed);
            store.write(ticket, COPY, at, sums, missed, now, out);
        });
    }

    fn harden(&mut self) {
        let done = self.copies.puts.iter().filter(|(_, put)| put.is_done);
        let numbers = done.map(|(number, _)| *number).collect();
        let ticket = self.ask(Asked::Harden { numbers });
        self.with(|store, _, out| store.sync(ticket, out));
    }

    fn release(&mut self, number: u64) {
        let put = self.copies.puts.get_mut(&number).unwrap();
        put.is_released = true;
        let extent = Extent { offset: put.unit * UNIT as u64, length: UNIT as u64 };
        self.store.release(COPY, extent);
    }

    fn set_record(&mut self, record: Record) {
        self.copies.records.push(record);
        // How many there are from this one on when it is answered, if no other is asked for.
        let at = 1;
        let ticket = self.ask(Asked::Record { at });
        self.with(|store, now, out| store.set_record(ticket, COPY, record, now, out));
    }

    fn group_acts(&mut self) {
        let unit = PLACES[self.random.below(PLACES.len() as u64) as usize];
        match self.random.below(14) {
            0..=4 => {
                let missed = self.random.below(3) == 0;
                self.put(unit, missed);
            }
            5 => self.harden(),
            6..=7 => {
                let done = self.copies.puts.iter().filter(|(_, put)| put.is_done && !put.is_released);
                let done: Vec<u64> = done.map(|(number, _)| *number).collect();
                if !done.is_empty() {
                    let number = done[self.random.below(done.len() as u64) as usize];
                    self.release(number);
                }
            }
            8 if !self.asked.values().any(|asked| matches!(asked, Asked::Record { .. })) => {
                let last = self.copies.records[0];
                self.set_record(Record { sealed_epoch: last.sealed_epoch + 1, is_lossy: false, ..last });
            }
            9 => {
                let extents = extents(unit * UNIT as u64, unit * UNIT as u64 + 1);
                let ticket = self.ask(Asked::Mark { unit });
                self.with(|store, now, out| store.mark_missed(ticket, COPY, &extents, now, out));
            }
            10 => {
                let is_open = |put: &Put| put.unit == unit && !put.is_done;
                let marks = |asked: &Asked| matches!(asked, Asked::Mark { unit: other } if *other == unit);
                if self.copies.puts.values().any(is_open) || self.asked.values().any(marks) {
                    return;
                }
                self.copies.marked.remove(&unit);
                let of_unit = self.copies.puts.values_mut().filter(|put| put.unit == unit);
                of_unit.for_each(|put| put.missed = false);
                let extents = extents(unit * UNIT as u64, (unit + 1) * UNIT as u64);
                self.with(|store, now, out| store.caught_up(COPY, &extents, now, out));
            }
            _ => {}
        }
    }

    /// Whether what the disk keeps of a unit is this write.
    fn is_durable(&self, unit: u64, number: u64) -> bool {
        let place = self.store.place(COPY, unit * UNIT as u64, UNIT as u64).unwrap();
        let page = place.data_at(self.store.sizes()) / UNIT as u64;
        self.disk.durable.get(&page).is_some_and(|bytes| *bytes == bytes_of(unit, number))
    }

    /// What the group finds, by what it knows; from now on it is what the group knows.
    fn group_begins(&mut self, loses: bool) {
        let found = self.store.begin(COPY, true).unwrap();
        let at = |unit: u64| Extent { offset: unit * UNIT as u64, length: UNIT as u64 };
        for (number, put) in &self.copies.puts {
            // The store syncs by itself, too.
            let is_latest = !self.copies.puts.range(number + 1..).any(|(_, later)| later.unit == put.unit);
            let is_durable = put.is_synced || !is_latest || self.is_durable(put.unit, *number);
            let is_clean = put.is_released && is_durable || !put.is_there;
            assert!(is_clean || found.dirty.overlaps(at(put.unit)), "write {number} is forgotten: {put:?}");
            let is_missed = put.missed && put.is_there;
            assert!(
                !is_missed || found.missed.overlaps(at(put.unit)),
                "what was missed is forgotten: {put:?}"
            );
        }
        for unit in &self.copies.marked {
            assert!(found.missed.overlaps(at(*unit)), "unit {unit} was noted as missed");
        }
        let records = &self.copies.records;
        let is_it = |record: &Record| {
            let is_lossy = loses || record.is_lossy;
            Record { is_lossy, ..*record } == found.record
        };
        assert!(records.iter().any(is_it), "{:?} is none of {records:?}, {loses}", found.record);
        // The disk knows regions, in which there are other units.
        let missed = PLACES.into_iter().filter(|unit| found.missed.overlaps(at(*unit)));
        self.copies.marked = missed.collect();
        self.copies.records = vec![found.record];
        self.copies.puts.clear();
        // What was dirty is released as it was found.
        if self.random.below(2) == 0 {
            found.dirty.iter().for_each(|extent| self.store.release(COPY, extent));
        } else {
            self.found_dirty = Some(found);
        }
    }
}

fn runs_of_copies(seeds: core::ops::Range<u64>) {
    for seed in seeds {
        println!("seed {seed}");
        let mut world = World::with_copy(seed);
        for _ in 0..4 {
            for _ in 0..100 + world.random.below(200) {
                if world.random.below(2) == 0 { world.group_acts() } else { world.act() }
            }
            let found = world.found_dirty.take();
            match world.random.below(3) {
                0 => {
                    world.leave_under_way();
                    world.kill();
                    world.still_dirty(found);
                    world.group_begins(false);
                    world.forget_units();
                    world.run();
                    world.resum();
                }
                1 => {
                    world.boot += 1;
                    world.cut();
                    world.still_dirty(found);
                    world.group_begins(true);
                }
                _ => {
                    world.close();
                    // Another boot has lost nothing of what was closed.
                    world.boot += 1;
                    world.kill();
                    assert_eq!(world.store.unsure().count(), 0);
                    world.still_dirty(found);
                    world.group_begins(false);
                    world.run();
                }
            }
        }
    }
}

impl World {
    /// What was dirty when the group began and was not released is found dirty again.
    fn still_dirty(&mut self, before: Option<Found>) {
        let found = self.store.begin(COPY, true).unwrap().dirty;
        let before = before.map(|found| found.dirty).unwrap_or_default();
        assert!(
            before.iter().all(|extent| found.overlaps(extent)),
            "{before:?} were not released: {found:?}"
        );
    }

    /// After a kill, each unit of the plain column is what it is.
    fn forget_units(&mut self) {
        for unit in 0..self.units.len() as u64 {
            let place = self.store.place(KEY, unit * UNIT as u64, UNIT as u64).unwrap();
            let bytes = self.disk.read(place.data_at(self.store.sizes()) / UNIT as u64);
            let may_be = self.units[unit as usize].may_be.clone();
            let value = may_be.iter().copied().find(|value| *bytes_of(unit, *value) == *bytes);
            self.units[unit as usize].latest = value.expect("a write is there or is not");
        }
    }
}

#[test]
fn a_group_finds_what_it_has_not_released_and_what_was_missed() {
    runs_of_copies(0..80);
}

#[test]
#[ignore = "long"]
fn a_group_finds_in_many_runs_what_it_has_not_released_and_what_was_missed() {
    runs_of_copies(1_000..9_000);
}

#[test]
fn a_region_is_dirty_until_its_writes_are_released_and_synced() {
    let mut world = World::with_copy(1);
    world.put(300, false);
    world.put(301, false);
    world.harden();
    world.run();
    let dirty =
        |world: &World| open(&world.disk, 0, &mut Vec::new()).unwrap().begin(COPY, true).unwrap().dirty;
    let region = extents(1 << 20, 2 << 20);
    for _ in 0..3 {
        world.wait(10_000);
        world.run();
        assert_eq!(dirty(&world), region, "no write is released");
    }
    world.release(1);
    world.wait(10_000);
    world.run();
    assert_eq!(dirty(&world), region, "one is not released");
    world.release(2);
    world.wait(10_000);
    world.run();
    assert!(dirty(&world).is_empty());
}

/// The unreleased write is known after the disk was closed, and its checksum, too.
#[test]
fn a_disk_is_closed_with_what_is_not_released() {
    let mut world = World::with_copy(2);
    world.put(300, true);
    world.close();
    world.boot += 1;
    world.kill();
    world.run();
    let found = world.store.begin(COPY, true).unwrap();
    assert_eq!((&found.dirty, &found.missed), (&extents(1 << 20, 2 << 20), &extents(1 << 20, 2 << 20)));
    assert!(!found.record.is_lossy && world.store.unsure().count() == 0);
    found.dirty.iter().for_each(|extent| world.store.release(COPY, extent));
    world.wait(10_000);
    world.run();
    let found = open(&world.disk, 0, &mut Vec::new()).unwrap().begin(COPY, true).unwrap();
    assert!(found.dirty.is_empty());
    assert_eq!(found.missed, extents(1 << 20, 2 << 20));
}

/// Power is lost, and processes come and go: the group alone says when it is over.
#[test]
fn that_power_was_lost_stays_until_the_group_says_otherwise() {
    let mut world = World::with_copy(3);
    let is_lossy = |world: &World| {
        open(&world.disk, world.boot, &mut Vec::new()).unwrap().begin(COPY, true).unwrap().record
    };
    world.kill();
    world.run();
    assert!(!is_lossy(&world).is_lossy, "a process was killed, and its machine went on");
    world.boot += 1;
    world.kill();
    for steps in 0..8 {
        for _ in 0..steps {
            if !world.todo.is_empty() {
                world.step();
            }
        }
        // As the process writes, so the next one finds it.
        assert!(is_lossy(&world).is_lossy, "after {steps} steps");
        world.kill();
    }
    world.run();
    world.close();
    world.kill();
    world.run();
    let record = is_lossy(&world);
    assert!(record.is_lossy, "it was closed since");
    world.set_record(Record { is_lossy: false, ..record });
    world.run();
    assert!(!is_lossy(&world).is_lossy);
}

/// Whether a sync has failed before a process was killed nobody knows.
#[test]
fn a_life_is_known_after_a_disk_was_closed_and_not_after_its_process_was_killed() {
    let mut world = World::with_copy(5);
    let life = |world: &mut World| world.store.begin(COPY, true).unwrap().record.life;
    world.set_record(Record { life: 7, ..Record::default() });
    world.run();
    for _ in 0..2 {
        world.close();
        world.kill();
        assert_eq!(life(&mut world), 7);
        world.run();
    }
    for steps in 0..4 {
        world.kill();
        assert_eq!(life(&mut world), 0, "after {steps} steps");
        for _ in 0..steps {
            if !world.todo.is_empty() {
                world.step();
            }
        }
    }
    world.run();
    world.close();
    world.kill();
    assert_eq!(life(&mut world), 0, "it was closed since");
}

#[test]
fn a_disk_that_failed_is_found_as_one_that_lost_power() {
    let mut world = World::with_copy(4);
    assert!(!world.store.has_failed());
    world.put(300, false);
    world.harden();
    while let Some((_, effect)) = world.todo.pop() {
        let mut out = Vec::new();
        match effect {
            Effect::Sync { io } => world.store.done(io, false, world.now, &mut out),
            other => {
                world.todo.push((0, other));
                world.step();
            }
        }
        out.retain(|effect| !matches!(effect, Effect::Answer { .. }));
        world.take(out);
    }
    assert!(world.store.has_failed());
    world.kill();
    assert!(world.store.begin(COPY, true).unwrap().record.is_lossy);
}

/// Before it says that it is open its superblock may be on its way: the other slot is all there is then.
#[test]
fn a_disk_that_fails_says_so_for_copies_and_not_before_it_has_said_that_it_is_open() {
    let fails = |mut world: World| {
        let sync = world.ask(Asked::Other);
        world.with(|store, _, out| store.sync(sync, out));
        let is_sync = |(_, effect): &(u64, Effect)| matches!(effect, Effect::Sync { .. });
        let at = world.todo.iter().position(is_sync).unwrap();
        let (_, Effect::Sync { io }) = world.todo.swap_remove(at) else { unreachable!() };
        let mut out = Vec::new();
        world.store.done(io, false, world.now, &mut out);
        assert!(world.store.has_failed());
        out.iter().any(|effect| matches!(effect, Effect::WritePages { .. }))
    };
    assert!(fails(World::with_copy(13)));
    assert!(!fails(World::new(13)), "it has no copies");
    let mut early = World::with_copy(13);
    early.kill();
    assert!(!fails(early));
}

#[test]
fn a_region_is_missed_until_all_of_it_that_was_missed_is_caught_up() {
    let mut world = World::with_copy(5);
    world.put(300, true);
    world.put(310, true);
    world.run();
    let missed =
        |world: &World| open(&world.disk, 0, &mut Vec::new()).unwrap().begin(COPY, true).unwrap().missed;
    let caught_up = |world: &mut World, unit: u64| {
        let extents = extents(unit * UNIT as u64, (unit + 1) * UNIT as u64);
        world.with(|store, now, out| store.caught_up(COPY, &extents, now, out));
        world.run();
    };
    caught_up(&mut world, 300);
    assert_eq!(missed(&world), extents(1 << 20, 2 << 20));
    caught_up(&mut world, 310);
    assert!(missed(&world).is_empty());
    // A note of it is durable when it is answered, and does not wait if it is already.
    for _ in 0..2 {
        let ticket = world.ask(Asked::Mark { unit: 300 });
        let extents = extents(300 * UNIT as u64, 300 * UNIT as u64 + 5);
        world.with(|store, now, out| store.mark_missed(ticket, COPY, &extents, now, out));
        world.run();
        assert_eq!(missed(&world), self::extents(1 << 20, 2 << 20));
    }
    assert!(world.todo.is_empty());
}

/// A bit that another request has asked for is not durable yet.
#[test]
fn a_missed_write_waits_for_a_note_that_is_on_its_way() {
    let mut world = World::with_copy(6);
    world.put(300, false);
    world.run();
    let ticket = world.ask(Asked::Mark { unit: 300 });
    let extents = extents(300 * UNIT as u64, 301 * UNIT as u64);
    world.with(|store, now, out| store.mark_missed(ticket, COPY, &extents, now, out));
    world.put(301, true);
    world.run_all_but(|effect| matches!(effect, Effect::Sync { .. }));
    assert!(!world.todo.iter().any(|(_, effect)| is_data(effect)));
    assert!(world.copies.puts.values().any(|put| put.unit == 301 && !put.is_there));
    world.run();
}

/// Other copies have what is around a page of checksums that is damaged.
#[test]
fn what_damaged_checksums_of_a_copy_are_of_is_lost_until_it_is_written_again() {
    let mut world = World::with_copy(8);
    world.put(3, false);
    world.run();
    world.release(1);
    world.wait(10_000);
    world.run();
    let sum = Answer::Sums(vec![Some(Sum::of_crc(sum_of(&bytes_of(3, 1))))]);
    assert_eq!(world.answer_to_read(COPY, 3), Ok(sum));
    world.rots(COPY, |page| page[77] ^= 1);
    world.store.begin(COPY, true).unwrap();
    let lost = Ok(Answer::Sums(vec![Some(Sum::Lost)]));
    assert_eq!(world.answer_to_read(COPY, 3), lost);
    world.put(3, false);
    world.run();
    // It is answered: a kill does not lose it once more, nor does it bring back what is lost, before the region is looked at or after.
    let number = world.copies.number;
    let sum = Ok(Answer::Sums(vec![Some(Sum::of_crc(sum_of(&bytes_of(3, number))))]));
    world.kill();
    world.run();
    assert_eq!(world.answer_to_read(COPY, 4), lost);
    world.resum();
    assert_eq!(world.answer_to_read(COPY, 3), sum);
    assert_eq!(world.answer_to_read(COPY, 4), lost);
}

/// A process that finds something dirty reads that at once, and the page of checksums with it: before its group begins. What that page has of
/// regions that are clean is lost all the same.
#[test]
fn what_damaged_checksums_are_of_is_lost_though_a_region_beside_it_is_looked_at_before_the_group_begins() {
    let mut world = World::with_copy(8);
    world.put(3, false);
    world.run();
    world.release(1);
    world.wait(10_000);
    world.run();
    world.put(300, false);
    world.run();
    // A write that was not for this disk: the end of the page, and data.
    let place = world.store.place(COPY, 3 * UNIT as u64, UNIT as u64).unwrap();
    let page = place.data_at(world.store.sizes()) / UNIT as u64;
    world.disk.write(page, Box::new([77; UNIT]));
    world.rots(COPY, |page| page[2048..].fill(77));
    let unsure: Vec<_> = world.store.unsure().map(|(_, offset, _)| offset >> 20).collect();
    assert_eq!(unsure, [1], "unit 3 is in a region that is clean");
    world.run();
    assert_eq!(world.store.unsure_known().count(), 0, "nobody looks at it yet");
    world.store.begin(COPY, true).unwrap();
    // Who looks at the region has its page read.
    assert_eq!(world.store.unsure_known().count(), 1);
    assert_eq!(world.answer_to_read(COPY, 300), Ok(Answer::Sums(vec![None])));
    world.resum();
    assert_eq!(world.answer_to_read(COPY, 3), Ok(Answer::Sums(vec![Some(Sum::Lost)])));
}

/// The group has no other column in sync, from the beginning or by now: bits of its checksums that are wrong are all that is.
#[test]
fn a_column_that_is_alone_in_its_group_keeps_data_whose_checksums_are_damaged() {
    for was_alone in [true, false] {
        let mut world = World::with_copy(9);
        world.put(3, false);
        world.run();
        world.release(1);
        world.wait(10_000);
        world.run();
        world.rots(COPY, |page| page[77] ^= 1);
        world.store.begin(COPY, !was_alone).unwrap();
        world.store.has_copy(COPY, false);
        assert_eq!(world.answer_to_read(COPY, 3), Ok(Answer::Sums(vec![None])));
    }
}

#[test]
fn what_is_dirty_or_missed_ends_with_the_column() {
    let mut world = World::new(9);
    let bytes = (3 << 20) + UNIT as u64;
    let column = Column { mirrored: true, bytes, ..column(COPY.column, 1) };
    let ticket = world.ask(Asked::Other);
    world.with(|store, now, out| store.create_column(ticket, column, 1, now, out));
    world.run();
    world.put(768, true);
    world.run();
    world.kill();
    let found = world.store.begin(COPY, true).unwrap();
    let last = extents(3 << 20, bytes);
    assert_eq!((&found.dirty, &found.missed), (&last, &last));
}

/// A group knows a disk that was put back by that.
#[test]
fn a_disk_has_counted_what_it_noted_as_dirty_when_the_next_process_opens_it() {
    let mut world = World::with_copy(10);
    let before = world.store.marks();
    world.put(300, false);
    world.run();
    let after = world.store.marks();
    assert!(after > before, "{before:?}, {after:?}");
    world.kill();
    assert_eq!((world.store.marks(), world.store.begin(COPY, true).unwrap().marks), (after, after));
}

/// Its map of dirty regions is damaged: each may be one of them. What others may not have is compared with them, and has its checksums.
#[test]
fn a_plain_column_that_may_be_dirty_on_a_closed_disk_is_unsure_and_a_copy_is_not() {
    let mut world = World::with_copy(11);
    world.close();
    let sizes = *world.store.sizes();
    for slot in [Slot::A, Slot::B] {
        let page = sizes.region_page_at(RegionMap::Dirty, 0, slot) / UNIT as u64;
        let mut bytes = world.disk.read(page);
        bytes[77] ^= 1;
        world.disk.write(page, bytes);
    }
    world.kill();
    let unsure: BTreeSet<_> = world.store.unsure().map(|(key, offset, _)| (key, offset >> 20)).collect();
    assert_eq!(unsure, (0..8).map(|region| (KEY, region)).collect());
    assert_eq!(world.store.begin(COPY, true).unwrap().dirty, extents(0, 4 << 20));
}

#[test]
fn a_column_that_goes_takes_what_is_known_of_its_regions_with_it_and_of_no_other_ones() {
    let unsure = |world: &World| world.store.unsure().map(|(key, ..)| key).collect::<Vec<_>>();
    for (gone, other) in [(KEY, COPY), (COPY, KEY)] {
        let mut world = World::with_copy(14);
        world.begin_write(5);
        world.put(300, false);
        world.run();
        world.kill();
        world.run();
        assert_eq!(unsure(&world), [KEY, COPY]);
        let remove = world.ask(Asked::Other);
        world.with(|store, now, out| store.remove_column(remove, gone, now, out));
        world.run();
        assert_eq!(unsure(&world), [other]);
        let column = Column { mirrored: true, ..column(gone.column, 1) };
        let create = world.ask(Asked::Other);
        world.with(|store, now, out| store.create_column(create, column, 1, now, out));
        world.run();
        assert_eq!(unsure(&world), [other]);
        assert!(world.store.begin(gone, true).unwrap().dirty.is_empty());
        let dirty = world.store.begin(COPY, true).unwrap().dirty;
        assert_eq!(dirty, if gone == KEY { extents(1 << 20, 2 << 20) } else { Extents::default() });
    }
}

#[test]
fn plain_columns_are_no_groups() {
    let mut world = World::with_copy(7);
    assert_eq!(world.store.begin(KEY, true), None);
    assert_eq!(world.store.begin(ColumnKey { column: 7, ..KEY }, true), None);
    let mut out = Vec::new();
    world.store.set_record(Ticket(1 << 40), KEY, Record::default(), 0, &mut out);
    world.store.mark_missed(Ticket(1 << 41), ColumnKey { column: 7, ..KEY }, &extents(0, 9), 0, &mut out);
    let refused = |ticket| Effect::Answer { ticket: Ticket(ticket), result: Err(StoreError::NoColumn) };
    assert_eq!(out, [refused(1 << 40), refused(1 << 41)]);
    // Ranges that reach beyond the column are of no regions.
    world.store.hold(COPY, Extent { offset: u64::MAX - 1, length: 1 }, false);
    world.store.release(COPY, Extent { offset: 0, length: u64::MAX });
    assert!(world.store.begin(COPY, true).unwrap().dirty.is_empty());
}

/// A region that is found dirty needs no bit, and its write waits all the same: the next process must not take the disk for closed.
#[test]
fn nothing_is_written_before_the_disk_says_that_it_is_open() {
    let mut world = World::with_copy(8);
    world.put(300, false);
    world.close();
    world.kill();
    world.put(301, false);
    while !world.todo.iter().any(|(_, effect)| is_data(effect)) {
        world.step();
    }
    world.disk.cache.clear();
    let decode =
        |slot: Slot| Superblock::decode(&world.disk.read(SUPERBLOCKS[slot as usize] / UNIT as u64), slot);
    let superblock = newest(decode(Slot::A), decode(Slot::B)).unwrap().value;
    assert!(!superblock.closed);
}

#[test]
fn a_disk_is_announced_when_it_says_that_it_is_open() {
    let mut world = World::with_copy(12);
    assert!(world.store.is_announced());
    world.kill();
    assert!(!world.store.is_announced());
    world.run();
    assert!(world.store.is_announced());
}
