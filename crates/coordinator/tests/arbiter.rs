//! The store of an arbiter, and the registry in it.

use std::fs;
use std::path::Path;

use cards_coordinator::{ArbiterStore, Change, Record, Registry, StoreProblem, records_in};
use cards_register::{Acceptor, AcceptorState, Ballot, Led, ProposerId, Request, RequestBody, StoreId};
use cards_wire::register::encode_state;

use crate::common::{NOON, at, join, registry, seat, volume};

/// A registry with a record of each kind but certificates.
fn busy() -> Registry {
    let mut registry = registry();
    let (a, disk) = (seat("a", 1), "wwn-1".to_owned());
    let changes = [
        Change::Join(join("a", 1, NOON)),
        Change::Join(join("b", 2, NOON)),
        Change::PutDisk { seat: a.clone(), disk: disk.clone(), bytes: 1 << 30 },
        Change::PutVolume(volume("v", &disk)),
        Change::Attach {
            seat: a,
            volume: "v".into(),
            mode: cards_coordinator::AttachMode::Rw,
            takes_over: false,
        },
    ];
    for change in changes {
        registry.apply(at(0), &change).unwrap();
    }
    registry
}

fn founder(content: Vec<u8>) -> AcceptorState<Led<Vec<u8>>> {
    AcceptorState::founder(StoreId(7), Led { leader: None, epoch: 0, content })
}

fn loaded(records: Vec<Record>) -> Registry {
    Registry::load(records, |_, head| head.lease()).unwrap()
}

#[test]
fn a_registry_is_what_its_content_says() {
    let registry = busy();
    let content = registry.content();
    let again = loaded(records_in(&content).unwrap());
    assert_eq!(again.view(), registry.view());
    assert_eq!(again.content(), content, "one content");
    assert!(content.len() < 1024, "{} bytes", content.len());
}

#[test]
fn content_that_was_changed_is_refused_or_another_registry() {
    let content = busy().content();
    for at in 0..content.len() {
        for bit in 0..8 {
            let mut changed = content.clone();
            changed[at] ^= 1 << bit;
            // Another letter of a name may make another registry; never the same one, and no panic.
            if let Ok(records) = records_in(&changed)
                && let Ok(registry) = Registry::load(records, |_, head| head.lease())
            {
                assert_eq!(registry.content(), changed, "bit {bit} of byte {at}");
            }
        }
    }
}

#[test]
fn content_that_is_cut_short_or_out_of_order_is_refused() {
    let content = busy().content();
    let lines: Vec<_> = content.split_inclusive(|byte| *byte == b'\n').collect();
    assert!(lines.len() > 4);
    for length in 1..content.len() {
        let records = records_in(&content[..length]);
        assert_eq!(records.is_ok(), content[length - 1] == b'\n', "{length} bytes");
    }
    let swapped = [lines[1], lines[0]].concat();
    let twice = [lines[0], lines[0]].concat();
    for (what, bytes) in [
        ("swapped", swapped),
        ("twice", twice),
        ("text", b"head\n".to_vec()),
        ("no text", b"\xff \n".to_vec()),
    ] {
        assert!(records_in(&bytes).is_err(), "{what}");
    }
}

fn open(file: &Path) -> Result<AcceptorState<Led<Vec<u8>>>, StoreProblem> {
    ArbiterStore::open(file).map(|(_, state)| state).map_err(|error| error.problem)
}

#[test]
fn what_was_kept_is_there_again() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("register");
    assert!(matches!(open(&file), Err(StoreProblem::Missing)));
    let first = founder(busy().content());
    let mut store = ArbiterStore::create(&file, &first).unwrap();
    assert_eq!(open(&file).unwrap(), first);
    let prepare =
        Request { store: StoreId(7), body: RequestBody::Prepare(Ballot::prepared(3, ProposerId(9))) };
    let promised = Acceptor::new(first).decide(&prepare).state.unwrap();
    store.keep(&promised).unwrap();
    assert_eq!(open(&file).unwrap(), promised);
    let error = ArbiterStore::create(&file, &promised).unwrap_err();
    assert!(matches!(error.problem, StoreProblem::Exists), "{error}");
}

#[test]
fn only_its_owner_reads_it() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("register");
    ArbiterStore::create(&file, &AcceptorState::blank(StoreId(7))).unwrap();
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_crash_before_the_rename_leaves_the_last_state() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("register");
    let (first, mut next) = (founder(b"one".to_vec()), AcceptorState::blank(StoreId(7)));
    let mut store = ArbiterStore::create(&file, &first).unwrap();
    next.promised = Ballot::prepared(9, ProposerId(9));
    let frame = encode_state(&next).unwrap();
    for length in 0..=frame.len() {
        fs::write(dir.path().join("register.new"), &frame[..length]).unwrap();
        assert_eq!(open(&file).unwrap(), first, "{length} bytes");
    }
    store.keep(&next).unwrap();
    assert_eq!(open(&file).unwrap(), next);
}

#[test]
fn damage_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("register");
    ArbiterStore::create(&file, &founder(b"one".to_vec())).unwrap();
    let whole = fs::read(&file).unwrap();
    let refused = |bytes: &[u8]| {
        fs::write(&file, bytes).unwrap();
        assert!(matches!(open(&file), Err(StoreProblem::Damaged(_) | StoreProblem::Mark)), "{bytes:02x?}");
    };
    for bit in 0..whole.len() * 8 {
        let mut changed = whole.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        refused(&changed);
    }
    (0..whole.len()).for_each(|length| refused(&whole[..length]));
    refused(&[whole.as_slice(), b"\n"].concat());
}

#[test]
fn a_store_that_has_failed_keeps_nothing_more() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("home");
    fs::create_dir(&home).unwrap();
    let state = AcceptorState::blank(StoreId(7));
    let mut store = ArbiterStore::create(&home.join("register"), &state).unwrap();
    fs::rename(&home, dir.path().join("away")).unwrap();
    assert!(matches!(store.keep(&state).unwrap_err().problem, StoreProblem::Disk(_)));
    fs::rename(dir.path().join("away"), &home).unwrap();
    assert!(matches!(store.keep(&state).unwrap_err().problem, StoreProblem::Stopped));
}

#[test]
fn no_two_new_stores_have_one_id() {
    assert_ne!(ArbiterStore::new_id(), ArbiterStore::new_id());
}

#[test]
fn a_copy_is_told_from_the_file_that_was_written() {
    let dir = tempfile::tempdir().unwrap();
    let (file, copy) = (dir.path().join("register"), dir.path().join("copy"));
    let mut store = ArbiterStore::create(&file, &founder(b"one".to_vec())).unwrap();
    let is_copy = |file: &Path| ArbiterStore::open(file).unwrap().0.is_copy();
    assert!(!is_copy(&file));
    let older = fs::read(&file).unwrap();
    let backup = dir.path().join("backup");
    fs::copy(&file, &backup).unwrap();
    assert!(is_copy(&backup));
    store.keep(&founder(b"two".to_vec())).unwrap();
    assert!(!is_copy(&file));
    // Over the file, beside it and in its place; with the times of the first one too.
    fs::write(&file, &older).unwrap();
    assert!(is_copy(&file));
    let as_it_was = |from: &Path, to: &Path| {
        fs::copy(from, to).unwrap();
        let written = fs::metadata(from).unwrap().modified().unwrap();
        fs::File::options().write(true).open(to).unwrap().set_modified(written).unwrap();
    };
    let mut store = ArbiterStore::create(&copy, &founder(b"three".to_vec())).unwrap();
    as_it_was(&copy, &backup);
    assert!(is_copy(&backup));
    store.keep(&founder(b"four".to_vec())).unwrap();
    fs::rename(&backup, &copy).unwrap();
    assert!(is_copy(&copy));
}

#[test]
fn a_file_that_is_only_moved_is_no_copy() {
    let dir = tempfile::tempdir().unwrap();
    let (file, moved) = (dir.path().join("register"), dir.path().join("moved"));
    drop(ArbiterStore::create(&file, &founder(b"one".to_vec())).unwrap());
    fs::rename(&file, &moved).unwrap();
    assert!(!ArbiterStore::open(&moved).unwrap().0.is_copy());
}
