//! A managed disk whose power is cut: what was flushed is there, and nothing has a wrong checksum. The disk is an NBD server that notes
//! the order of writes and flushes; after a cut, of the writes that no flush covers any sectors are there. The disk has a column of a
//! group, too, which finds what it needs to agree with other copies.

use std::io::{Read, Write};
use std::os::unix::fs::FileExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Mutex};

use cards_array::group::{Extent, Record, Work};
use cards_disk::{Column, Disk, DiskOptions, Engine, Job, JobError, Managed, ManagedOptions, Op};
use cards_wire::nbd::consts::*;
use cards_wire::nbd::{self, Request, reply};

use crate::columns::{ask, put, shared, start_again};
use crate::harness::{Random, collect, data_thread, lend, one, read};
use crate::managed::format;

const DEVICE: u64 = 64 << 20;
const VOLUME: u64 = 6 << 20;
const COLUMN: u64 = 8 << 20;
const UNIT: u64 = 4096;
const SECTOR: usize = 512;
/// Units that are written: few, in several regions, so that they meet again.
const UNITS: [u64; 12] = [0, 1, 2, 255, 256, 300, 511, 512, 1000, 1008, 1009, 1500];

/// What the server was asked, in order.
#[derive(Clone)]
enum Event {
    Write(u64, Vec<u8>),
    /// All writes before are durable.
    Flush,
}

#[derive(Default)]
struct Medium {
    content: Vec<u8>,
    events: Vec<Event>,
}

/// Serves the medium until the client goes.
fn serve(mut stream: UnixStream, medium: &Mutex<Medium>) -> std::io::Result<()> {
    let mut hello = [INIT_PASSWD.to_be_bytes(), OPTS_MAGIC.to_be_bytes()].concat();
    hello.extend(NBD_FLAG_NO_ZEROES.to_be_bytes());
    stream.write_all(&hello)?;
    stream.read_exact(&mut [0; 4 + 16])?;
    let flags = NBD_FLAG_HAS_FLAGS | NBD_FLAG_SEND_FLUSH;
    stream.write_all(&[&DEVICE.to_be_bytes()[..], &flags.to_be_bytes()].concat())?;
    loop {
        let mut header = [0; Request::SIZE];
        stream.read_exact(&mut header)?;
        let request = Request::take(&mut &header[..]).unwrap().unwrap();
        let mut payload = vec![0; request.payload() as usize];
        stream.read_exact(&mut payload)?;
        let range = request.offset as usize..request.offset as usize + request.length as usize;
        let mut answer = reply::simple(request.cookie, Ok(())).to_vec();
        let mut medium = medium.lock().unwrap();
        match request.command {
            nbd::Command::Read => answer.extend(&medium.content[range]),
            nbd::Command::Write => {
                medium.content[range].copy_from_slice(&payload);
                medium.events.push(Event::Write(request.offset, payload));
            }
            nbd::Command::Flush => medium.events.push(Event::Flush),
            nbd::Command::Disc => return Ok(()),
            other => panic!("{other:?}"),
        }
        drop(medium);
        stream.write_all(&answer)?;
    }
}

/// What a unit is after its `value`-th write: each sector says which unit and which write.
fn bytes_of(unit: u64, value: u64) -> Vec<u8> {
    if value == 0 {
        return vec![0; UNIT as usize];
    }
    (0..UNIT / 16).flat_map(|_| [unit.to_le_bytes(), value.to_le_bytes()].concat()).collect()
}

/// The medium after a cut behind `events`.
fn cut(before: &[u8], events: &[Event], random: &mut Random) -> Vec<u8> {
    let mut there = before.to_vec();
    let durable = events.iter().rposition(|event| matches!(event, Event::Flush)).unwrap_or(0);
    for (i, event) in events.iter().enumerate() {
        let Event::Write(offset, bytes) = event else { continue };
        let how = random.below(3);
        for (sector, bytes) in bytes.chunks(SECTOR).enumerate() {
            if i < durable || how == 1 || how == 2 && random.below(2) == 0 {
                let at = *offset as usize + sector * SECTOR;
                there[at..at + bytes.len()].copy_from_slice(bytes);
            }
        }
    }
    there
}

/// What is known of the volume at an event: for each unit the last value that was flushed.
struct Mark {
    events: usize,
    flushed: Vec<u64>,
}

/// What a group has asked of its column, each with the number of events when it was asked for, answered, or taken back.
#[derive(Default)]
struct Group {
    puts: Vec<Put>,
    records: Vec<(usize, usize, Record)>,
    marked: Vec<(usize, usize, Extent)>,
    /// Events at the end of a sync, and how many writes were done before it began.
    synced: Vec<(usize, usize)>,
}

struct Put {
    unit: u64,
    missed: bool,
    released: usize,
    caught_up: usize,
}

/// Units that are noted as missed, each in a region of its own.
const NOTED: [u64; 4] = [1100, 1400, 1700, 2000];
const NEVER: usize = usize::MAX;

fn of_unit(unit: u64) -> Extent {
    Extent { offset: unit * UNIT, length: UNIT }
}

impl Group {
    /// A few works, each after the other; the number of a write is that of its place, from 1.
    async fn act(&mut self, column: &Column, random: &mut Random, medium: &Mutex<Medium>) {
        let events = || medium.lock().unwrap().events.len();
        for _ in 0..1 + random.below(3) {
            let unit = UNITS[random.below(10) as usize];
            self.puts.push(Put { unit, missed: random.below(3) == 0, released: NEVER, caught_up: NEVER });
            let missed = self.puts.last().unwrap().missed;
            let bytes = bytes_of(unit, self.puts.len() as u64);
            ask(column, put(unit * UNIT, bytes, missed)).await.unwrap();
        }
        match random.below(6) {
            0 => {
                let done = self.puts.len();
                ask(column, Work::Sync).await.unwrap();
                self.synced.push((events(), done));
            }
            1 => {
                let epoch = self.records.len() as u64;
                let record = Record { generation: 1, sealed_epoch: epoch, ..Record::default() };
                let asked = events();
                ask(column, Work::SetRecord(record)).await.unwrap();
                self.records.push((asked, events(), record));
            }
            2 => {
                let extent = of_unit(NOTED[random.below(4) as usize]);
                ask(column, Work::MarkMissed([extent].into_iter().collect())).await.unwrap();
                self.marked.push((events(), NEVER, extent));
            }
            3 => {
                let unit = [&UNITS[..10], &NOTED].concat()[random.below(14) as usize];
                let asked = events();
                let of_it = self.puts.iter_mut().filter(|put| put.unit == unit);
                of_it.for_each(|put| put.caught_up = put.caught_up.min(asked));
                let of_it = self.marked.iter_mut().filter(|(_, _, extent)| *extent == of_unit(unit));
                of_it.for_each(|(_, caught_up, _)| *caught_up = (*caught_up).min(asked));
                column.caught_up([of_unit(unit)].into_iter().collect());
            }
            _ => {
                for put in self.puts.iter_mut().filter(|put| put.released == NEVER) {
                    if random.below(2) == 0 {
                        put.released = events();
                        column.release(of_unit(put.unit));
                    }
                }
            }
        }
    }

    /// Holds what is found after a cut against what was asked for.
    async fn judge(&self, column: &Column, at: usize, lost: bool) {
        let found = column.found();
        let synced =
            self.synced.iter().filter(|(end, _)| *end <= at).map(|(_, done)| *done).max().unwrap_or(0);
        for unit in &UNITS[..10] {
            let read = Work::Read { extent: of_unit(*unit) };
            let bytes: Result<_, JobError> = ask(column, read).await;
            let bytes = bytes.unwrap().unwrap();
            let last_synced =
                self.puts[..synced].iter().rposition(|put| put.unit == *unit).map_or(0, |i| i + 1);
            for sector in bytes.chunks(SECTOR) {
                let value = u64::from_le_bytes(*sector[8..].first_chunk().unwrap()) as usize;
                assert!(*sector == bytes_of(*unit, value as u64)[..SECTOR], "unit {unit} is of no write");
                assert!(value >= last_synced, "unit {unit}: write {value}, and {last_synced} was synced");
                let Some(put) = value.checked_sub(1).map(|i| &self.puts[i]) else { continue };
                let is_dirty = found.dirty.overlaps(of_unit(*unit));
                assert!(
                    is_dirty || put.released <= at && value <= synced,
                    "write {value} is forgotten: {found:?}"
                );
                let is_missed = found.missed.overlaps(of_unit(*unit));
                assert!(
                    is_missed || !put.missed || put.caught_up <= at,
                    "that {value} was missed is forgotten"
                );
            }
        }
        for (answered, caught_up, extent) in &self.marked {
            let is_missed = found.missed.overlaps(*extent) || *answered > at || *caught_up <= at;
            assert!(is_missed, "{extent:?} was noted as missed: {found:?}");
        }
        let answered = self.records.iter().rposition(|(_, answered, _)| *answered <= at);
        let may_be = self.records[answered.unwrap_or(0)..].iter().take_while(|(asked, ..)| *asked <= at);
        let records: Vec<_> = may_be.map(|(.., record)| Record { is_lossy: lost, ..*record }).collect();
        let none = answered.is_none() && found.record == Record { is_lossy: lost, ..Record::default() };
        assert!(none || records.contains(&found.record), "{:?} is none of {records:?}", found.record);
    }
}

fn run(seed: u64) {
    let mut random = Random(seed);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk.img");
    format(&path, DEVICE);
    let file = ManagedOptions::new(DiskOptions::path(&path));
    let managed = Managed::open(&file).unwrap();
    managed.create_volume(&"data".parse().unwrap(), VOLUME).unwrap();
    data_thread(managed.create_column(&shared(0, COLUMN))).unwrap();
    let key = shared(0, COLUMN).key();
    drop(managed);
    let before = std::fs::read(&path).unwrap();

    let medium = Arc::new(Mutex::new(Medium { content: before.clone(), events: Vec::new() }));
    let socket = dir.path().join("s");
    let listener = UnixListener::bind(&socket).unwrap();
    let served = Arc::clone(&medium);
    let server = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        // The client may go at any point.
        let _ = serve(stream, &served);
    });
    let uri = format!("nbd+unix:///?socket={}", socket.display());
    let managed = Managed::open(&ManagedOptions::new(DiskOptions::uri(uri))).unwrap();
    let disk = Disk::of_volume(&managed, "data", &DiskOptions::path("")).unwrap();
    let mut marks = vec![Mark { events: 0, flushed: vec![0; UNITS.len()] }];
    let mut values = vec![0; UNITS.len()];
    let mut group = Group::default();
    data_thread(async {
        let engine = Engine::new(&disk);
        let column = managed.column(key, true).await.unwrap();
        for _ in 0..40 {
            // Each unit at most once at a time.
            let mut writes: Vec<(usize, Vec<u8>)> = Vec::new();
            for (i, unit) in UNITS.iter().enumerate() {
                if random.below(3) == 0 {
                    values[i] += 1;
                    writes.push((i, bytes_of(*unit, values[i])));
                }
            }
            for (i, bytes) in &mut writes {
                let op = Op::Write { offset: UNITS[*i] * UNIT, buf: lend(bytes), fua: false };
                engine.submit(Job { tag: *i as u64, op });
            }
            for done in collect(&engine, writes.len()).await {
                done.result.unwrap();
            }
            group.act(&column, &mut random, &medium).await;
            if random.below(3) == 0 {
                one(&engine, Op::Flush).await.unwrap();
                let events = medium.lock().unwrap().events.len();
                marks.push(Mark { events, flushed: values.clone() });
            }
        }
    });
    let events = medium.lock().unwrap().events.clone();
    drop((disk, managed));
    server.join().unwrap();

    // Anywhere, and where an answer was given that has to hold.
    let answered = group.records.iter().map(|(_, at, _)| *at).chain(group.marked.iter().map(|(at, ..)| *at));
    let anywhere = (0..12).map(|_| random.below(events.len() as u64 + 1) as usize);
    let cuts: Vec<usize> = anywhere.chain(answered.step_by(3)).collect();
    for at in cuts {
        let image = cut(&before, &events[..at], &mut random);
        std::fs::File::options().write(true).open(&path).unwrap().write_all_at(&image, 0).unwrap();
        let lost = !start_again(&path);
        let flushed = &marks.iter().rfind(|mark| mark.events <= at).unwrap().flushed;
        let managed = Managed::open(&file).unwrap_or_else(|error| panic!("seed {seed}, event {at}: {error}"));
        let disk = Disk::of_volume(&managed, "data", &DiskOptions::path("")).unwrap();
        data_thread(async {
            group.judge(&managed.column(key, true).await.unwrap(), at, lost).await;
            let engine = Engine::new(&disk);
            for (i, unit) in UNITS.iter().enumerate() {
                let bytes = read(&engine, unit * UNIT, UNIT as usize).await;
                let bytes =
                    bytes.unwrap_or_else(|error| panic!("seed {seed}, event {at}, unit {unit}: {error}"));
                for sector in bytes.chunks(SECTOR) {
                    let number = |at: usize| u64::from_le_bytes(*sector[at..].first_chunk().unwrap());
                    let value = number(8);
                    let is_whole = *sector == bytes_of(*unit, value)[..SECTOR];
                    assert!(
                        is_whole && value >= flushed[i] && value <= values[i],
                        "seed {seed}, event {at}, unit {unit}: write {value} of {}, {} flushed",
                        values[i],
                        flushed[i]
                    );
                }
            }
        });
        while managed.unsure() > 0 {
            std::thread::yield_now();
        }
        let scrub = managed.scrub("data", 0, VOLUME).unwrap();
        assert_eq!((scrub.damaged, scrub.unverified), (0, 0), "seed {seed}, event {at}: {scrub:?}");
    }
}

#[test]
fn no_cut_loses_what_was_flushed_or_leaves_a_wrong_checksum() {
    (1..5).for_each(run);
}
