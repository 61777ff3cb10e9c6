//! Power cuts: every write and every sync of the file is recorded, and the registry is opened again as it would
//! have been found after each of them.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redb::StorageBackend;

use crate::change::{Change, Join, Seat};
use crate::error::FileError;
use crate::ids::{Epoch, Incarnation, Now, WallClock};
use crate::record::{AttachMode, Record, Volume};
use crate::registry::{Registry, Terms};
use crate::view::View;

use super::store::Store;

#[derive(Clone, Debug)]
enum Operation {
    Write(usize, Vec<u8>),
    Length(usize),
    Sync,
}

#[derive(Debug, Default)]
struct Image {
    bytes: Vec<u8>,
    log: Vec<Operation>,
}

/// A file in memory that remembers how it came about.
#[derive(Clone, Debug, Default)]
struct Recorder(Arc<Mutex<Image>>);

fn play(bytes: &mut Vec<u8>, operation: &Operation) {
    match operation {
        Operation::Write(at, data) => bytes[*at..*at + data.len()].copy_from_slice(data),
        Operation::Length(length) => bytes.resize(*length, 0),
        Operation::Sync => {}
    }
}

impl Recorder {
    fn record(&self, operation: Operation) {
        let mut image = self.0.lock().unwrap();
        play(&mut image.bytes, &operation);
        image.log.push(operation);
    }
}

impl StorageBackend for Recorder {
    fn len(&self) -> Result<u64, io::Error> {
        Ok(self.0.lock().unwrap().bytes.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
        let image = self.0.lock().unwrap();
        let at = usize::try_from(offset).unwrap();
        let found = image.bytes.get(at..at + out.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(found);
        Ok(())
    }

    fn set_len(&self, len: u64) -> Result<(), io::Error> {
        self.record(Operation::Length(usize::try_from(len).unwrap()));
        Ok(())
    }

    fn sync_data(&self) -> Result<(), io::Error> {
        self.record(Operation::Sync);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        self.record(Operation::Write(usize::try_from(offset).unwrap(), data.to_vec()));
        Ok(())
    }
}

const NOW: Now = Now { mono: Duration::ZERO, wall: WallClock(1_700_000_000_000) };

fn changes() -> Vec<Change> {
    let seat = |name: &str| Seat { name: name.into(), incarnation: Incarnation(1) };
    let mut changes = Vec::new();
    for name in ["a", "b", "c"] {
        changes.push(Change::Join(Join {
            cluster: "lab".into(),
            seat: seat(name),
            address: format!("{name}:1"),
            clock: NOW.wall,
            seen: Epoch(0),
            succeeds: None,
        }));
        changes.push(Change::PutDisk { seat: seat(name), disk: format!("disk-{name}"), bytes: 1 << 40 });
        changes.push(Change::PutVolume(Volume {
            name: format!("vol-{name}"),
            disk: format!("disk-{name}"),
            block_bytes: 4096,
            policy: "none".repeat(200),
            modes: [AttachMode::Rw].into(),
        }));
        changes.push(Change::Attach {
            seat: seat(name),
            volume: format!("vol-{name}"),
            mode: AttachMode::Rw,
            takes_over: false,
        });
    }
    for turn in 0..6 {
        changes
            .push(Change::SetPolicy { volume: "vol-a".into(), policy: format!("policy {turn} ").repeat(90) });
    }
    changes.push(Change::Detach { seat: seat("b"), volume: "vol-b".into() });
    changes.push(Change::Left { seat: seat("b") });
    changes.push(Change::RemoveVolume { volume: "vol-b".into() });
    changes
}

fn view(records: Vec<Record>) -> View {
    Registry::load(records, |_, head| head.lease()).unwrap().view()
}

fn reopened(bytes: &[u8]) -> Result<View, FileError> {
    let recorder = Recorder(Arc::new(Mutex::new(Image { bytes: bytes.to_vec(), log: Vec::new() })));
    Store::open_backend(Path::new("recorded"), recorder).map(|(_, records)| view(records))
}

/// The file after its creation, and what was done to it since; where in that log each change was acknowledged, and
/// what the registry was then.
struct Recording {
    start: Vec<u8>,
    log: Vec<Operation>,
    acknowledged: Vec<(usize, View)>,
}

fn recording() -> Recording {
    let recorder = Recorder::default();
    let head = Terms::new("lab").head().unwrap();
    let mut store = Store::create_backend(Path::new("recorded"), recorder.clone(), &head).unwrap();
    let mut registry = Registry::load([Record::Head(head)], |_, head| head.lease()).unwrap();
    let start = {
        let mut image = recorder.0.lock().unwrap();
        image.log.clear();
        image.bytes.clone()
    };
    let mut acknowledged = vec![(0, registry.view())];
    for change in changes() {
        let effects = registry.decide(NOW, &change).unwrap();
        store.commit(&effects.writes).unwrap();
        registry.take(NOW, effects);
        acknowledged.push((recorder.0.lock().unwrap().log.len(), registry.view()));
    }
    drop(store);
    let log = recorder.0.lock().unwrap().log.clone();
    Recording { start, log, acknowledged }
}

impl Recording {
    /// After `done` operations the registry is the last acknowledged one, or the one being written.
    fn check(&self, done: usize, bytes: &[u8], what: &str) {
        let last = self.acknowledged.iter().rposition(|(at, _)| *at <= done).unwrap();
        let found = reopened(bytes).unwrap_or_else(|e| panic!("{what} after {done} operations: {e}"));
        let next = self.acknowledged.get(last + 1).map(|(_, view)| view);
        let good = found == self.acknowledged[last].1 || Some(&found) == next;
        assert!(good, "{what} after {done} operations: revision {} is neither", found.revision);
    }
}

#[test]
fn a_kill_between_any_two_writes_loses_nothing_that_was_acknowledged() {
    let recording = recording();
    let mut bytes = recording.start.clone();
    recording.check(0, &bytes, "kill");
    for (done, operation) in recording.log.iter().enumerate() {
        play(&mut bytes, operation);
        recording.check(done + 1, &bytes, "kill");
    }
    assert!(recording.log.len() > 100, "{} operations", recording.log.len());
}

#[test]
fn a_power_cut_that_drops_any_writes_since_the_last_sync_loses_nothing_that_was_acknowledged() {
    let recording = recording();
    let mut durable = recording.start.clone();
    let mut pending: Vec<&Operation> = Vec::new();
    let mut random = 1_u64;
    for (done, operation) in recording.log.iter().enumerate() {
        if matches!(operation, Operation::Sync) {
            pending.drain(..).for_each(|operation| play(&mut durable, operation));
            recording.check(done + 1, &durable, "power cut after a sync");
            continue;
        }
        pending.push(operation);
        for _ in 0..2 {
            let mut bytes = durable.clone();
            for operation in &pending {
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                // Lengths are kept: a file system writes them with the data or before it.
                if random >> 63 == 0 || matches!(operation, Operation::Length(_)) {
                    play(&mut bytes, operation);
                }
            }
            recording.check(done + 1, &bytes, "power cut");
        }
    }
}

/// Where the header of the file says which of its two commit slots is the valid one, and how it was written.
const FLAGS: usize = 9;
/// Length of the header with both commit slots.
const HEADER: usize = 320;

#[test]
fn a_damaged_header_after_a_kill_does_not_bring_back_an_older_commit() {
    let recording = recording();
    let changes =
        (0..HEADER).step_by(3).map(|place| (place, 0xff)).chain((0..8).map(|bit| (FLAGS, 1 << bit)));
    let changes: Vec<(usize, u8)> = changes.collect();
    let mut older = Vec::new();
    // Two in a row, one in either slot.
    for (at, view) in recording.acknowledged.iter().rev().take(2) {
        let mut bytes = recording.start.clone();
        recording.log[..*at].iter().for_each(|operation| play(&mut bytes, operation));
        for (place, flip) in &changes {
            let mut changed = bytes.clone();
            changed[*place] ^= flip;
            if let Ok(found) = reopened(&changed)
                && found != *view
            {
                older.push((*place, *flip, found.revision));
            }
        }
    }
    assert_eq!(older, []);
}
