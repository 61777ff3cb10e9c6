//! Registry files that are not what was written: recovered as they were, or refused.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cards_coordinator::{AttachMode, Change, Embedded, FileError, Terms, View, WallClock};
use redb::{Database, ReadableDatabase as _, ReadableTable as _, TableDefinition};
use tempfile::TempDir;

use crate::common::{join, seat, volume};

const TABLE: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("registry");

/// A directory in memory if there is one: nothing here is about disks, and thousands of files are opened.
fn in_memory() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// A registry with some of everything, closed, and what it holds.
async fn written(directory: &TempDir) -> (PathBuf, View) {
    let file = directory.path().join("registry");
    let terms = Terms { lease: Duration::from_secs(3600), ..Terms::new("lab") };
    let home = Embedded::create(&file, &terms).unwrap();
    for name in ["a", "b", "c"] {
        home.submit(Change::Join(join(name, 1, WallClock::now()))).await.unwrap();
        let disk = format!("disk-{name}");
        home.submit(Change::PutDisk { seat: seat(name, 1), disk: disk.clone(), bytes: 1 << 40 })
            .await
            .unwrap();
        home.submit(Change::PutVolume(volume(&format!("vol-{name}"), &disk))).await.unwrap();
        let attach = Change::Attach {
            seat: seat(name, 1),
            volume: "vol-a".into(),
            mode: AttachMode::Rw,
            takes_over: false,
        };
        home.submit(attach).await.unwrap();
    }
    let view = home.view().await.unwrap();
    (file, view)
}

/// Opens a copy with other bytes; true if it was whole, false if it was refused.
async fn opens_as_written(directory: &TempDir, bytes: &[u8], view: &View, what: &str) -> bool {
    let file = directory.path().join("copy");
    fs::write(&file, bytes).unwrap();
    match Embedded::open(&file) {
        Ok(home) => {
            assert_eq!(home.view().await.unwrap(), *view, "{what}: opened as another registry");
            true
        }
        Err(FileError::Damaged { .. } | FileError::Record { .. }) => false,
        Err(other) => panic!("{what}: {other}"),
    }
}

#[tokio::test]
async fn a_file_cut_short_at_any_length_is_refused_or_whole() {
    let directory = in_memory();
    let (file, view) = written(&directory).await;
    let bytes = fs::read(&file).unwrap();
    assert!(opens_as_written(&directory, &bytes, &view, "whole").await);
    let steps = (0..64).chain((64..bytes.len()).step_by(bytes.len() / 150 + 1));
    for length in steps.chain([bytes.len() - 1]) {
        let whole = opens_as_written(&directory, &bytes[..length], &view, &format!("cut to {length}")).await;
        assert!(!whole || length > 4096, "nothing can be whole in {length} bytes");
    }
}

#[tokio::test]
async fn a_changed_byte_anywhere_is_refused_or_without_effect() {
    let directory = in_memory();
    let (file, view) = written(&directory).await;
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
            refused += usize::from(!opens_as_written(&directory, &changed, &view, &what).await);
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

#[tokio::test]
async fn random_damage_is_refused_or_without_effect() {
    let directory = in_memory();
    let (file, view) = written(&directory).await;
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
        opens_as_written(&directory, &changed, &view, &format!("round {round}")).await;
    }
}

#[tokio::test]
async fn pages_of_an_older_copy_are_never_mixed_with_newer_ones() {
    let directory = in_memory();
    let (file, old) = written(&directory).await;
    let older = fs::read(&file).unwrap();
    let home = Embedded::open(&file).unwrap();
    for turn in 0..3 {
        let policy = format!("later {turn}");
        home.submit(Change::SetPolicy { volume: "vol-b".into(), policy }).await.unwrap();
    }
    let new = home.view().await.unwrap();
    drop(home);
    let newer = fs::read(&file).unwrap();
    let both = older.len().min(newer.len());
    let pages = (0..both).step_by(4096);
    let differ: Vec<usize> = pages.filter(|at| older[*at..at + 4096] != newer[*at..at + 4096]).collect();
    assert!(differ.len() > 3, "{differ:?}");
    let mut state = 11;
    let mut refused = 0;
    for round in 0..120 {
        let mut mixed = newer.clone();
        // One page for a start, then any number of them: writes that a disk had acknowledged and lost.
        for (n, at) in differ.iter().enumerate() {
            let stale = if round < differ.len() { n == round } else { random(&mut state, 2) == 0 };
            if stale {
                mixed[*at..at + 4096].copy_from_slice(&older[*at..at + 4096]);
            }
        }
        let copy = directory.path().join("copy");
        fs::write(&copy, &mixed).unwrap();
        match Embedded::open(&copy) {
            Ok(home) => {
                let found = home.view().await.unwrap();
                assert!(
                    found == new || found == old,
                    "round {round}: revision {} was never written",
                    found.revision
                );
            }
            Err(FileError::Damaged { .. } | FileError::Record { .. }) => refused += 1,
            Err(other) => panic!("round {round}: {other}"),
        }
    }
    assert!(refused > 0);
}

#[tokio::test]
async fn what_is_no_registry_is_refused_and_left_alone() {
    let directory = in_memory();
    let file = directory.path().join("registry");
    let noise: Vec<u8> = (0..100_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let mut headed = noise.clone();
    headed[..9].copy_from_slice(b"redb\x1a\x0a\xa9\x0d\x0a");
    for bytes in [&b""[..], b"x", b"members = []\n", &[0; 4096], &[0xff; 65536], &noise, &headed] {
        fs::write(&file, bytes).unwrap();
        let error = Embedded::open(&file).unwrap_err();
        assert!(matches!(error, FileError::Damaged { .. }), "{error}");
        assert!(error.to_string().contains("bring back a copy"), "{error}");
        assert_eq!(fs::read(&file).unwrap(), bytes, "a file of somebody else is not touched");
    }
    let error = Embedded::open(directory.path()).unwrap_err();
    assert!(matches!(error, FileError::Storage { .. }), "{error}");
}

/// Changes the table as only a program could that knows redb and not the registry.
fn tamper(file: &Path, change: impl FnOnce(&mut redb::Table<'_, &str, &[u8]>)) {
    let database = Database::open(file).unwrap();
    let transaction = database.begin_write().unwrap();
    change(&mut transaction.open_table(TABLE).unwrap());
    transaction.commit().unwrap();
}

async fn refused_after(change: impl FnOnce(&mut redb::Table<'_, &str, &[u8]>)) -> String {
    let directory = in_memory();
    let (file, _) = written(&directory).await;
    tamper(&file, change);
    Embedded::open(&file).expect_err("it was tampered with").to_string()
}

#[tokio::test]
async fn records_that_are_not_those_written_are_refused() {
    let gone = refused_after(|table| drop(table.remove("volume/vol-c").unwrap())).await;
    assert!(gone.contains("not those that were last written"), "{gone}");
    let new = refused_after(|table| drop(table.insert("disk/x", &b"\0\0\0\0{}"[..]).unwrap())).await;
    assert!(new.contains("key `disk/x` has a value that is not the one written"), "{new}");
    let short = refused_after(|table| drop(table.insert("head", &b"\0"[..]).unwrap())).await;
    assert!(short.contains("key `head` has a value without a checksum"), "{short}");
    let exchanged = refused_after(|table| {
        let other = table.get("member/b").unwrap().unwrap().value().to_vec();
        table.insert("member/a", other.as_slice()).unwrap();
    })
    .await;
    assert!(exchanged.contains("key `member/a` has a value that is not the one written"), "{exchanged}");
    let unsealed = refused_after(|table| drop(table.remove("seal").unwrap())).await;
    assert!(unsealed.contains("not those that were last written"), "{unsealed}");
}

#[tokio::test]
async fn a_registry_of_a_later_schema_is_refused_by_its_number() {
    let error = refused_after(|table| {
        let head = table.get("head").unwrap().unwrap().value()[4..].to_vec();
        let head = String::from_utf8(head).unwrap().replace(r#""schema":1"#, r#""schema":2"#);
        let sum = |key: &str, json: &str| crc32fast::hash(&[key.as_bytes(), b"\0", json.as_bytes()].concat());
        let sealed = |key: &str, json: &str| [&sum(key, json).to_le_bytes(), json.as_bytes()].concat();
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
    })
    .await;
    assert!(error.contains("is of schema 2, this version reads schema 1"), "{error}");
}

#[tokio::test]
async fn the_file_is_laid_out_as_the_reference_says() {
    let directory = in_memory();
    let (file, _) = written(&directory).await;
    let database = Database::open(&file).unwrap();
    let table = database.begin_read().unwrap().open_table(TABLE).unwrap();
    let head = table.get("head").unwrap().unwrap().value().to_vec();
    let json = concat!(
        r#"{"schema":1,"cluster":"lab","epoch":3,"revision":12,"#,
        r#""lease_ms":3600000,"clock_bound_ms":300000}"#
    );
    assert_eq!(head[..4], crc32fast::hash(format!("head\0{json}").as_bytes()).to_le_bytes());
    assert_eq!(std::str::from_utf8(&head[4..]).unwrap(), json);
    let keys: Vec<String> = table.iter().unwrap().map(|row| row.unwrap().0.value().to_owned()).collect();
    assert_eq!(
        keys,
        [
            "attachment/a/vol-a",
            "attachment/b/vol-a",
            "attachment/c/vol-a",
            "disk/disk-a",
            "disk/disk-b",
            "disk/disk-c",
            "head",
            "member/a",
            "member/b",
            "member/c",
            "seal",
            "volume/vol-a",
            "volume/vol-b",
            "volume/vol-c",
        ]
    );
}
