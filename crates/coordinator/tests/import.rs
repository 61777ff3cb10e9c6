//! Registry files of earlier releases: read as they were written, or refused.

use std::fs;
use std::path::{Path, PathBuf};

use cards_coordinator::{
    AttachMode, Change, Error, FileError, Local, Record, Registry, View, earlier_records,
};
use redb::{Database, ReadableTable as _, TableDefinition};
use tempfile::TempDir;

use crate::common::{NOON, alone, at, join, opened, registry, seat, terms, volume};

const TABLE: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("registry");

/// A directory in memory if there is one: nothing here is about disks, and thousands of files are opened.
fn in_memory() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// A file of an earlier release, with some of everything, and what it holds.
fn written(directory: &TempDir) -> (PathBuf, View) {
    let file = directory.path().join("registry.redb");
    let head = terms(3_600_000).head().unwrap();
    let mut registry = Registry::load([Record::Head(head)], |_, head| head.lease()).unwrap();
    for name in ["a", "b", "c"] {
        let disk = format!("disk-{name}");
        let attach = Change::Attach {
            seat: seat(name, 1),
            volume: "vol-a".into(),
            mode: AttachMode::Rw,
            takes_over: false,
        };
        for change in [
            Change::Join(join(name, 1, NOON)),
            Change::PutDisk { seat: seat(name, 1), disk: disk.clone(), bytes: 1 << 40 },
            Change::PutVolume(volume(&format!("vol-{name}"), &disk)),
            attach,
        ] {
            registry.apply(at(0), &change).unwrap();
        }
    }
    write(&file, &registry);
    (file, registry.view())
}

/// As it was written: the records with their sums, and a seal over all of them.
fn write(file: &Path, registry: &Registry) {
    let database = Database::create(file).unwrap();
    let mut transaction = database.begin_write().unwrap();
    transaction.set_two_phase_commit(true);
    {
        let mut table = transaction.open_table(TABLE).unwrap();
        let (mut records, mut sums) = (0, 0);
        for record in registry.records() {
            let (key, json) = (record.key(), record.value());
            table.insert(key.as_str(), sealed(&key, &json).as_slice()).unwrap();
            (records, sums) = (records + 1, sums + u64::from(sum(&key, &json)));
        }
        let seal = format!(r#"{{"records":{records},"sum":{sums}}}"#);
        table.insert("seal", sealed("seal", &seal).as_slice()).unwrap();
    }
    transaction.commit().unwrap();
}

fn sum(key: &str, json: &str) -> u32 {
    crc32fast::hash(&[key.as_bytes(), b"\0", json.as_bytes()].concat())
}

fn sealed(key: &str, json: &str) -> Vec<u8> {
    [&sum(key, json).to_le_bytes(), json.as_bytes()].concat()
}

/// What a file holds.
fn read(file: &Path) -> Result<View, FileError> {
    let records = earlier_records(file)?;
    match Registry::load(records, |_, head| head.lease()) {
        Ok(registry) => Ok(registry.view()),
        Err(damage) => Err(FileError::Record { file: file.to_owned(), damage }),
    }
}

/// Opens a copy with other bytes; true if it was whole, false if it was refused.
fn opens_as_written(directory: &TempDir, bytes: &[u8], view: &View, what: &str) -> bool {
    let file = directory.path().join("copy");
    fs::write(&file, bytes).unwrap();
    match read(&file) {
        Ok(found) => {
            assert_eq!(found, *view, "{what}: opened as another registry");
            true
        }
        Err(FileError::Damaged { .. } | FileError::Record { .. }) => false,
        Err(other) => panic!("{what}: {other}"),
    }
}

#[tokio::test]
async fn it_is_imported_once_and_put_aside() {
    let directory = in_memory();
    let (file, view) = written(&directory);
    let own = directory.path().join("register");
    let local = Local::import(alone(&own), &file).unwrap();
    assert_eq!(local.view().await.unwrap(), view);
    let history = local.history().expect("it has one from now on");
    local.submit(Change::SetPolicy { volume: "vol-b".into(), policy: "later".into() }).await.unwrap();
    drop(local);
    assert!(!file.exists() && directory.path().join("registry.redb.imported").exists());
    let local = opened(&own).await.unwrap();
    assert_eq!(local.view().await.unwrap().volumes["vol-b"].policy, "later");
    assert_eq!(local.history(), Some(history));
    // A copy of the file that comes back does not take the place of what there is now.
    write(&file, &registry());
    let error = Local::import(alone(&own), &file).unwrap_err();
    assert!(
        matches!(error, Error::Store(_)) && error.to_string().contains("there is one already"),
        "{error}"
    );
}

#[test]
fn a_file_cut_short_at_any_length_is_refused_or_whole() {
    let directory = in_memory();
    let (file, view) = written(&directory);
    let bytes = fs::read(&file).unwrap();
    assert!(opens_as_written(&directory, &bytes, &view, "whole"));
    let steps = (0..64).chain((64..bytes.len()).step_by(bytes.len() / 150 + 1));
    for length in steps.chain([bytes.len() - 1]) {
        let whole = opens_as_written(&directory, &bytes[..length], &view, &format!("cut to {length}"));
        assert!(!whole || length > 4096, "nothing can be whole in {length} bytes");
    }
}

#[test]
fn a_changed_byte_anywhere_is_refused_or_without_effect() {
    let directory = in_memory();
    let (file, view) = written(&directory);
    let bytes = fs::read(&file).unwrap();
    // The header byte by byte, then every page that holds anything at some places.
    let header = 0..512;
    let pages = (1..bytes.len() / 4096).map(|page| page * 4096);
    let used = pages.filter(|page| bytes[*page..page + 4096].iter().any(|byte| *byte != 0));
    let places: Vec<usize> = header
        .chain(used.flat_map(|page| [page, page + 1, page + 4, page + 37, page + 400, page + 4000]))
        .collect();
    let mut refused = 0;
    for place in &places {
        for flip in [1 << (place % 8), 0xff] {
            let mut changed = bytes.clone();
            changed[*place] ^= flip;
            let what = format!("byte {place} xor {flip:#x}");
            refused += usize::from(!opens_as_written(&directory, &changed, &view, &what));
        }
    }
    assert!(
        refused > places.len() / 10,
        "{refused} of {} refused: the places hold nothing",
        places.len() * 2
    );
}

/// Numbers that are the same in every run.
fn random(state: &mut u64, below: usize) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as usize % below
}

#[test]
fn random_damage_is_refused_or_without_effect() {
    let directory = in_memory();
    let (file, view) = written(&directory);
    let bytes = fs::read(&file).unwrap();
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    let mut state = 7;
    for round in 0..250 {
        let mut changed = bytes.clone();
        for _ in 0..=random(&mut state, 3) {
            let (at, from) = (random(&mut state, used), random(&mut state, used));
            let length = (1 << random(&mut state, 13)).min(bytes.len() - at.max(from));
            match random(&mut state, 3) {
                0 => changed[at..at + length].fill(0),
                1 => changed.copy_within(from..from + length, at),
                _ => {
                    changed[at..at + length].iter_mut().for_each(|byte| *byte = random(&mut state, 256) as u8)
                }
            }
        }
        opens_as_written(&directory, &changed, &view, &format!("round {round}"));
    }
}

#[test]
fn what_is_no_registry_is_refused_and_left_alone() {
    let directory = in_memory();
    let file = directory.path().join("registry");
    let noise: Vec<u8> = (0..100_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let mut headed = noise.clone();
    headed[..9].copy_from_slice(b"redb\x1a\x0a\xa9\x0d\x0a");
    for bytes in [&b""[..], b"x", b"members = []\n", &[0; 4096], &[0xff; 65536], &noise, &headed] {
        fs::write(&file, bytes).unwrap();
        let error = earlier_records(&file).unwrap_err();
        assert!(matches!(error, FileError::Damaged { .. }), "{error}");
        assert!(error.to_string().contains("bring back a copy"), "{error}");
        assert_eq!(fs::read(&file).unwrap(), bytes, "a file of somebody else is not touched");
    }
    let error = earlier_records(directory.path()).unwrap_err();
    assert!(matches!(error, FileError::Storage { .. }), "{error}");
}

/// Changes the table as only a program could that knows redb and not the registry.
fn tamper(file: &Path, change: impl FnOnce(&mut redb::Table<'_, &str, &[u8]>)) {
    let database = Database::open(file).unwrap();
    let transaction = database.begin_write().unwrap();
    change(&mut transaction.open_table(TABLE).unwrap());
    transaction.commit().unwrap();
}

fn refused_after(change: impl FnOnce(&mut redb::Table<'_, &str, &[u8]>)) -> String {
    let directory = in_memory();
    let (file, _) = written(&directory);
    tamper(&file, change);
    read(&file).expect_err("it was tampered with").to_string()
}

#[test]
fn records_that_are_not_those_written_are_refused() {
    let gone = refused_after(|table| drop(table.remove("volume/vol-c").unwrap()));
    assert!(gone.contains("not those that were last written"), "{gone}");
    let new = refused_after(|table| drop(table.insert("disk/x", &b"\0\0\0\0{}"[..]).unwrap()));
    assert!(new.contains("key `disk/x` has a value that is not the one written"), "{new}");
    let short = refused_after(|table| drop(table.insert("head", &b"\0"[..]).unwrap()));
    assert!(short.contains("key `head` has a value without a checksum"), "{short}");
    let exchanged = refused_after(|table| {
        let other = table.get("member/b").unwrap().unwrap().value().to_vec();
        table.insert("member/a", other.as_slice()).unwrap();
    });
    assert!(exchanged.contains("key `member/a` has a value that is not the one written"), "{exchanged}");
    let unsealed = refused_after(|table| drop(table.remove("seal").unwrap()));
    assert!(unsealed.contains("not those that were last written"), "{unsealed}");
}

#[test]
fn a_registry_of_a_later_schema_is_refused_by_its_number() {
    let error = refused_after(|table| {
        let head = table.get("head").unwrap().unwrap().value()[4..].to_vec();
        let head = String::from_utf8(head).unwrap().replace(r#""schema":1"#, r#""schema":2"#);
        table.insert("head", sealed("head", &head).as_slice()).unwrap();
        let rows: Vec<u32> = table
            .iter()
            .unwrap()
            .map(|row| row.unwrap())
            .filter(|(key, _)| key.value() != "seal")
            .map(|(_, value)| u32::from_le_bytes(value.value()[..4].try_into().unwrap()))
            .collect();
        let total: u64 = rows.iter().map(|sum| u64::from(*sum)).sum();
        let seal = format!(r#"{{"records":{},"sum":{total}}}"#, rows.len());
        table.insert("seal", sealed("seal", &seal).as_slice()).unwrap();
    });
    assert!(error.contains("is of schema 2, this version reads schema 1"), "{error}");
}
