//! Columns of placement groups on a managed disk.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cards_array::group::{Extent, Extents, Record, Work};
use cards_disk::{
    Column, ColumnKey, Disk, DiskOptions, Engine, JobError, Managed, ManagedColumn, ManagedError,
    ManagedOptions, Op,
};
use cards_layout::format::{SUPERBLOCKS, Slot, Superblock, UNIT, Uuid, newest};
use tempfile::TempDir;
use tokio::sync::oneshot;

use crate::harness::{data_thread, one, read, write};
use crate::managed::format;

const MIB: u64 = 1 << 20;
const UNIT_BYTES: u64 = UNIT as u64;

fn open(path: &Path) -> Arc<Managed> {
    Managed::open(&ManagedOptions::new(DiskOptions::path(path))).unwrap()
}

/// A column of the volume `shared`.
pub(crate) fn shared(column: u8, bytes: u64) -> ManagedColumn {
    let name = "shared".parse().unwrap();
    ManagedColumn { volume: Uuid::random([0x51; 16]), name, group: 0, column, bytes }
}

/// A formatted image with a column of 4 MiB.
fn image() -> (TempDir, PathBuf, ColumnKey) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk.img");
    format(&path, 64 * MIB);
    let column = shared(0, 4 * MIB);
    data_thread(open(&path).create_column(&column)).unwrap();
    (dir, path, column.key())
}

fn column(managed: &Arc<Managed>, key: ColumnKey) -> Column {
    data_thread(managed.column(key, true)).unwrap()
}

/// Has a column do something, and waits for the answer.
pub(crate) async fn ask(column: &Column, work: Work<Vec<u8>>) -> Result<Option<Vec<u8>>, JobError> {
    let (done, answer) = oneshot::channel();
    column.submit(work, |result| {
        let _ = done.send(result);
    });
    answer.await.expect("each work has an answer")
}

pub(crate) fn put(offset: u64, payload: Vec<u8>, missed: bool) -> Work<Vec<u8>> {
    let length = payload.len() as u64;
    Work::Write { extent: Extent { offset, length }, payload, missed }
}

fn get(offset: u64, length: u64) -> Work<Vec<u8>> {
    Work::Read { extent: Extent { offset, length } }
}

/// What a column does, from outside of a runtime.
fn done(column: &Column, work: Work<Vec<u8>>) -> Result<Option<Vec<u8>>, JobError> {
    data_thread(ask(column, work))
}

fn extents(start: u64, end: u64) -> Extents {
    [Extent { offset: start, length: end - start }].into_iter().collect()
}

/// As if the machine had been started again: the superblock names another boot. Whether the disk was closed.
pub(crate) fn start_again(path: &Path) -> bool {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let decode = |slot: Slot| {
        let mut page = [0; UNIT];
        file.read_exact_at(&mut page, SUPERBLOCKS[slot as usize]).unwrap();
        Superblock::decode(&page, slot)
    };
    let found = newest(decode(Slot::A), decode(Slot::B)).unwrap();
    let there = Superblock { boot: Uuid::random([0xb0; 16]), ..found.value };
    file.write_all_at(&there.encode(), SUPERBLOCKS[found.slot as usize]).unwrap();
    there.closed
}

const RECORD: Record =
    Record { generation: 3, sealed_epoch: 12, in_sync_epoch: 11, is_lossy: false, life: 10 };

#[test]
fn a_column_is_made_and_used_while_the_disk_is() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk.img");
    format(&path, 64 * MIB);
    let managed = open(&path);
    let free = managed.free_bytes();
    assert_eq!(free, 45 * MIB);
    assert_eq!((managed.disk_name().as_str(), managed.domain()), ("fast1", None));
    assert_eq!(managed.uuid(), managed.superblock().disk);
    managed.create_volume(&"data".parse().unwrap(), 3 * MIB).unwrap();
    let volume = Disk::of_volume(&managed, "data", &DiskOptions::path("")).unwrap();
    let wanted = shared(0, 5 * MIB);
    data_thread(async {
        let engine = Engine::new(&volume);
        write(&engine, 0, &[7; 8192], false).await.unwrap();
        managed.create_column(&wanted).await.unwrap();
        let column = managed.column(wanted.key(), true).await.unwrap();
        let found = column.found();
        assert_eq!((found.disk, found.record), (managed.uuid(), Record::default()));
        assert!(found.dirty.is_empty() && found.missed.is_empty());
        assert_eq!((column.bytes(), column.managed().uuid()), (5 * MIB, managed.uuid()));
        let there = ask(&column, get(0, 5 * MIB)).await.unwrap().unwrap();
        assert!(there.len() as u64 == 5 * MIB && there.iter().all(|byte| *byte == 0));
        // Of whole units over the end of a piece, and not.
        assert_eq!(ask(&column, put(MIB - UNIT_BYTES, vec![1; 8192], false)).await, Ok(None));
        assert_eq!(ask(&column, put(2 * MIB - 5, vec![2; 10], false)).await, Ok(None));
        assert_eq!(ask(&column, Work::Sync).await, Ok(None));
        let there = ask(&column, get(MIB - UNIT_BYTES - 1, 8194)).await.unwrap().unwrap();
        assert!(there[0] == 0 && there[1..8193].iter().all(|byte| *byte == 1) && there[8193] == 0);
        assert_eq!(
            ask(&column, get(2 * MIB - 6, 12)).await,
            Ok(Some(b"\0\x02\x02\x02\x02\x02\x02\x02\x02\x02\x02\0".to_vec()))
        );
        // A payload of another type, which is not copied.
        let payload: Arc<[u8]> = Arc::from([3; UNIT]);
        let (done, answer) = oneshot::channel();
        let extent = Extent { offset: 0, length: UNIT_BYTES };
        column.submit(Work::Write { extent, payload, missed: false }, |result| {
            let _ = done.send(result);
        });
        assert_eq!(answer.await.unwrap(), Ok(None));
        assert_eq!(ask(&column, get(0, UNIT_BYTES)).await, Ok(Some(vec![3; UNIT])));
        assert!(read(&engine, 0, 8192).await.unwrap() == [7; 8192]);
    });
    assert_eq!(managed.free_bytes(), free - 8 * MIB);
    assert_eq!(managed.columns(), std::slice::from_ref(&wanted));
    assert_eq!(managed.volumes().len(), 1);
    drop((managed, volume));
    let managed = open(&path);
    assert_eq!(managed.columns(), std::slice::from_ref(&wanted));
    assert_eq!((managed.volumes().len(), managed.free_bytes()), (1, free - 8 * MIB));
    assert_eq!(done(&column(&managed, wanted.key()), get(0, UNIT_BYTES)), Ok(Some(vec![3; UNIT])));
    data_thread(managed.remove_column(wanted.key())).unwrap();
    assert!(managed.columns().is_empty());
    assert_eq!(managed.free_bytes(), free - 3 * MIB);
    data_thread(managed.create_column(&wanted)).unwrap();
    let there = done(&column(&managed, wanted.key()), get(0, 5 * MIB)).unwrap().unwrap();
    assert!(there.iter().all(|byte| *byte == 0), "what the column had that was removed");
}

#[test]
fn what_is_wrong_with_a_column_or_a_work_is_said() {
    let (_dir, path, key) = image();
    let managed = open(&path);
    let error = |column: &ManagedColumn| data_thread(managed.create_column(column)).unwrap_err();
    assert_eq!(
        error(&shared(0, MIB)).to_string(),
        "the disk has this volume or copy already; remove it first"
    );
    assert!(matches!(error(&shared(1, 4095)), ManagedError::Size { bytes: 4095 }));
    assert_eq!(
        error(&shared(1, 42 * MIB)).to_string(),
        "the volume needs 42 pieces, and the disk has 41 that are free; make the volume smaller, or remove another one"
    );
    // The name is that of another volume.
    let other = ManagedColumn { volume: Uuid::random([9; 16]), ..shared(0, MIB) };
    assert!(matches!(error(&other), ManagedError::Exists { .. }));
    let name = "shared".parse().unwrap();
    assert!(matches!(managed.create_volume(&name, MIB), Err(ManagedError::Exists { .. })));
    managed.create_volume(&"data".parse().unwrap(), MIB).unwrap();
    let of_volume = ManagedColumn { name: "data".parse().unwrap(), ..other };
    assert!(matches!(error(&of_volume), ManagedError::Exists { .. }));
    let none = ColumnKey { group: 7, ..key };
    assert_eq!(
        data_thread(managed.column(none, true)).unwrap_err().to_string(),
        "the disk has no such volume or copy; `cards disk show` lists those that it has"
    );
    assert_eq!(
        data_thread(managed.remove_column(none)).unwrap_err().to_string(),
        "the disk has no such volume or copy; `cards disk show` lists those that it has"
    );
    assert!(matches!(managed.remove_volume("shared"), Err(ManagedError::NoVolume { .. })));

    let column = column(&managed, key);
    let size = 4 * MIB;
    for offset in [size, size - 1, u64::MAX] {
        let beyond = Err(JobError::OutOfRange { offset, len: 2, size });
        assert_eq!(done(&column, put(offset, vec![1; 2], false)), beyond);
    }
    let invalid = Err(JobError::Os { errno: libc::EINVAL });
    assert_eq!(done(&column, get(0, 0)), invalid);
    let extent = Extent { offset: 0, length: 5 };
    assert_eq!(done(&column, Work::Write { extent, payload: vec![1; 4], missed: false }), invalid);
    data_thread(managed.remove_column(key)).unwrap();
    let gone = Err(JobError::Os { errno: libc::ENXIO });
    assert_eq!(done(&column, get(0, 1)), gone);
    assert_eq!(done(&column, put(0, vec![1], true)), gone);
    assert_eq!(done(&column, Work::SetRecord(RECORD)), gone);
    assert_eq!(done(&column, Work::MarkMissed(extents(0, 1))), gone);
    managed.close();
    assert_eq!(done(&column, get(0, 1)), Err(JobError::Os { errno: libc::ESHUTDOWN }));
    assert!(matches!(data_thread(managed.column(key, true)), Err(ManagedError::Store(_))));
}

/// A copy of the image at any moment is what a daemon leaves that is killed then.
#[test]
fn a_group_finds_after_a_kill_what_it_has_not_released_and_what_was_missed() {
    let (dir, path, key) = image();
    let managed = open(&path);
    let first = column(&managed, key);
    assert_eq!(done(&first, put(100, vec![1; 5000], false)), Ok(None));
    assert_eq!(done(&first, put(MIB, vec![2; 4096], true)), Ok(None));
    assert_eq!(done(&first, Work::Sync), Ok(None));
    assert_eq!(done(&first, Work::SetRecord(RECORD)), Ok(None));
    assert_eq!(done(&first, Work::MarkMissed(extents(3 * MIB + 5, 3 * MIB + 6))), Ok(None));
    assert_eq!(done(&first, Work::MarkMissed(Extents::default())), Ok(None));
    let copy = dir.path().join("copy.img");
    std::fs::copy(&path, &copy).unwrap();
    let region = |n: u64| Extent { offset: n * MIB, length: MIB };
    let after = open(&copy);
    let column_after = column(&after, key);
    let found = column_after.found();
    let killed = Record { life: 0, ..RECORD };
    assert_eq!(found.record, killed, "a process was killed: nothing is lost");
    assert_eq!(found.dirty, [region(0), region(1)].into_iter().collect());
    assert_eq!(found.missed, [region(1), region(3)].into_iter().collect());
    assert_eq!(done(&column_after, get(100, 5000)), Ok(Some(vec![1; 5000])));
    while after.unsure() > 0 {
        std::thread::yield_now();
    }
    assert_eq!(done(&column_after, get(MIB, 4096)), Ok(Some(vec![2; 4096])));
    // As the group does it.
    found.dirty.iter().for_each(|extent| column_after.release(extent));
    column_after.caught_up([region(1)].into_iter().collect());
    assert_eq!(done(&column_after, Work::Sync), Ok(None));
    drop((column_after, after));
    let after = open(&copy);
    assert!(after.superblock().closed);
    let found = column(&after, key).found().clone();
    assert!(found.dirty.is_empty(), "{found:?}");
    assert_eq!((found.missed, found.record), (extents(3 * MIB, 4 * MIB), killed));
}

#[test]
fn a_disk_is_closed_with_what_is_not_released_and_keeps_its_checksums() {
    let (_dir, path, key) = image();
    let managed = open(&path);
    let before = column(&managed, key);
    assert_eq!(done(&before, put(MIB, vec![5; 4096], false)), Ok(None));
    drop((before, managed));
    assert!(start_again(&path));
    let managed = open(&path);
    assert!(managed.superblock().closed);
    assert_eq!(managed.unsure(), 0);
    let after = column(&managed, key);
    assert_eq!(after.found().dirty, extents(MIB, 2 * MIB));
    assert!(!after.found().record.is_lossy);
    // The group that begins anew in the same process finds it, too, and writes that are released are gone.
    assert_eq!(done(&after, put(0, vec![5; 4096], false)), Ok(None));
    let again = column(&managed, key);
    assert_eq!(again.found().dirty, extents(0, 2 * MIB));
    again.release(Extent { offset: 0, length: 2 * MIB });
    assert!(column(&managed, key).found().dirty.is_empty());
}

#[test]
fn a_disk_that_another_boot_finds_open_has_lost_something_until_the_group_has_seen_to_it() {
    let (_dir, path, key) = image();
    // A daemon that is killed: its file is a copy.
    let killed = |path: &Path, name: &str| {
        let other = path.with_extension(name);
        std::fs::copy(path, &other).unwrap();
        other
    };
    let managed = open(&path);
    assert!(!column(&managed, key).found().record.is_lossy);
    let copy = killed(&path, "first");
    drop(managed);
    assert!(!start_again(&copy));
    let managed = open(&copy);
    let second = killed(&copy, "second");
    let record = column(&managed, key).found().record;
    assert!(record.is_lossy, "{record:?}");
    drop(managed);
    let managed = open(&copy);
    assert!(
        managed.superblock().closed && column(&managed, key).found().record.is_lossy,
        "it was closed since"
    );
    drop(managed);
    let managed = open(&second);
    let lossy = column(&managed, key);
    assert!(lossy.found().record.is_lossy, "a process was killed since");
    assert_eq!(done(&lossy, Work::SetRecord(RECORD)), Ok(None));
    drop((lossy, managed));
    let managed = open(&second);
    assert_eq!(column(&managed, key).found().record, RECORD);
}

#[test]
fn a_superblock_that_is_damaged_does_not_let_a_disk_pass_for_closed() {
    let (_dir, path, key) = image();
    let managed = open(&path);
    let file = File::options().read(true).write(true).open(&path).unwrap();
    let newer = {
        let decode = |slot: Slot| {
            let mut page = [0; UNIT];
            file.read_exact_at(&mut page, SUPERBLOCKS[slot as usize]).unwrap();
            Superblock::decode(&page, slot)
        };
        newest(decode(Slot::A), decode(Slot::B)).unwrap()
    };
    assert!(!newer.value.closed);
    let copy = path.with_extension("copy");
    std::fs::copy(&path, &copy).unwrap();
    File::options()
        .write(true)
        .open(&copy)
        .unwrap()
        .write_all_at(&[1], SUPERBLOCKS[newer.slot as usize] + 999)
        .unwrap();
    drop(managed);
    let managed = open(&copy);
    assert!(!managed.superblock().closed);
    assert!(column(&managed, key).found().record.is_lossy);
}

#[test]
fn a_damaged_unit_is_an_error_that_names_it() {
    let (_dir, path, key) = image();
    let bytes: Vec<u8> = (0..MIB / 8).flat_map(|i| (i * 0x9e37_79b9).to_le_bytes()).collect();
    let managed = open(&path);
    let before = column(&managed, key);
    assert_eq!(done(&before, put(MIB, bytes.clone(), false)), Ok(None));
    before.release(Extent { offset: MIB, length: MIB });
    drop((before, managed));
    let all = std::fs::read(&path).unwrap();
    let unit = &bytes[5 * UNIT..6 * UNIT];
    let at = all.windows(UNIT).position(|part| part == unit).unwrap() as u64;
    File::options().write(true).open(&path).unwrap().write_all_at(&[!unit[77]], at + 77).unwrap();
    let managed = open(&path);
    let column = column(&managed, key);
    let damaged = Err(JobError::Damaged { offset: MIB + 5 * UNIT_BYTES, length: UNIT_BYTES });
    assert_eq!(done(&column, get(MIB, MIB)), damaged);
    assert_eq!(done(&column, get(MIB, 5 * UNIT_BYTES)), Ok(Some(bytes[..5 * UNIT].to_vec())));
    assert_eq!(managed.damaged(), 1);
    let verify = |offset, length| Work::Verify { extent: Extent { offset, length } };
    assert_eq!(done(&column, verify(MIB, 5 * UNIT_BYTES)), Ok(None));
    assert_eq!(done(&column, verify(0, 2 * MIB)), damaged);
    assert_eq!(done(&column, put(MIB + 5 * UNIT_BYTES, unit.to_vec(), false)), Ok(None));
    assert_eq!(done(&column, get(MIB, MIB)), Ok(Some(bytes)));
}

/// Its group takes a column that has refused a write for one that has nothing of it, wherever pieces of the disk end.
#[test]
fn of_a_write_whose_last_unit_is_damaged_nothing_is_written() {
    let (dir, path, key) = image();
    let bytes: Vec<u8> = (0..MIB / 4).flat_map(|i| (i * 0x9e37_79b9).to_le_bytes()).collect();
    let managed = open(&path);
    let before = column(&managed, key);
    assert_eq!(done(&before, put(MIB, bytes.clone(), false)), Ok(None));
    before.release(Extent { offset: MIB, length: 2 * MIB });
    drop((before, managed));
    let all = std::fs::read(&path).unwrap();
    let unit = &bytes[MIB as usize..][..UNIT];
    let at = all.windows(UNIT).position(|part| part == unit).unwrap() as u64;
    File::options().write(true).open(&path).unwrap().write_all_at(&[!unit[77]], at + 77).unwrap();
    let managed = open(&path);
    let column = column(&managed, key);
    let damaged = Err(JobError::Damaged { offset: 2 * MIB, length: UNIT_BYTES });
    for length in [512, UNIT, 3 * UNIT] {
        let first = 2 * MIB - length as u64;
        assert_eq!(done(&column, put(first, vec![7; length + 512], false)), damaged, "{length}");
        let there = bytes[MIB as usize - length..MIB as usize].to_vec();
        assert!(done(&column, get(first, length as u64)) == Ok(Some(there)), "{length} bytes before it");
    }
    // Another column may have done it, which misses what this one has: the next process knows.
    assert!(column.found().missed.is_empty());
    assert_eq!(done(&column, put(2 * MIB - 512, vec![7; 1024], true)), damaged);
    let copy = dir.path().join("copy.img");
    std::fs::copy(&path, &copy).unwrap();
    assert_eq!(self::column(&open(&copy), key).found().missed, extents(MIB, 2 * MIB));
}

#[test]
fn a_disk_whose_sync_failed_is_found_as_one_that_lost_power() {
    let (_dir, path, key) = image();
    let faulty = DiskOptions { fault: Some("sync-eio=6+".into()), ..DiskOptions::path(&path) };
    let managed = Managed::open(&ManagedOptions::new(faulty)).unwrap();
    let before = column(&managed, key);
    assert_eq!(done(&before, put(0, vec![1; 4096], false)), Ok(None));
    let mut answers = (0..6).map(|_| done(&before, Work::Sync));
    assert!(answers.any(|answer| answer == Err(JobError::StoreFailed)));
    assert_eq!(done(&before, get(0, 1)), Err(JobError::StoreFailed));
    assert_eq!(done(&before, put(0, vec![1; 4096], false)), Err(JobError::StoreFailed));
    drop((before, managed));
    let managed = open(&path);
    let found = column(&managed, key).found().clone();
    assert!(found.record.is_lossy);
    assert_eq!(found.dirty, extents(0, MIB));
}

/// Requests of the volume go on while a large column is cleared and made.
#[test]
fn works_of_many_threads_are_each_answered_once() {
    let (_dir, path, key) = image();
    let managed = open(&path);
    managed.create_volume(&"data".parse().unwrap(), MIB).unwrap();
    let volume = Disk::of_volume(&managed, "data", &DiskOptions::path("")).unwrap();
    let column = column(&managed, key);
    std::thread::scope(|scope| {
        for thread in 0..4_u8 {
            let column = column.clone();
            scope.spawn(move || {
                data_thread(async {
                    let at = u64::from(thread) * MIB;
                    for round in 0..20_u8 {
                        let bytes = vec![round * 4 + thread; 3 * UNIT];
                        assert_eq!(ask(&column, put(at, bytes.clone(), round % 3 == 0)).await, Ok(None));
                        assert_eq!(ask(&column, get(at, 3 * UNIT_BYTES)).await, Ok(Some(bytes)));
                        column.release(Extent { offset: at, length: 3 * UNIT_BYTES });
                    }
                });
            });
        }
        data_thread(async {
            let engine = Engine::new(&volume);
            let wanted = shared(1, 20 * MIB);
            for round in 0..5 {
                write(&engine, round * UNIT_BYTES, &[1; UNIT], false).await.unwrap();
                managed.create_column(&wanted).await.unwrap();
                one(&engine, Op::Flush).await.unwrap();
                managed.remove_column(wanted.key()).await.unwrap();
            }
        });
    });
    // The regions rest until a settling; the group awaits no release.
    assert!(self::column(&managed, key).found().dirty.is_empty());
    assert_eq!(self::column(&managed, key).found().missed.iter().count(), 4);
}

#[test]
fn a_column_grows_while_it_is_used_and_keeps_what_it_had() {
    let (_dir, path, key) = image();
    let managed = open(&path);
    let (old, new) = (4 * MIB, 9 * MIB + UNIT_BYTES);
    let used = column(&managed, key);
    done(&used, put(old - UNIT_BYTES, vec![5; UNIT], false)).unwrap();
    let free = managed.free_bytes();
    data_thread(managed.grow_column(key, new)).unwrap();
    data_thread(managed.grow_column(key, new)).unwrap();
    data_thread(managed.grow_column(key, old)).unwrap();
    assert_eq!((used.bytes(), managed.columns()[0].bytes), (new, new), "also for who has it in use");
    assert_eq!(managed.free_bytes(), free - 6 * MIB);
    let there = done(&used, get(old - UNIT_BYTES, new - old + UNIT_BYTES)).unwrap().unwrap();
    assert!(there[..UNIT] == [5; UNIT] && there[UNIT..].iter().all(|byte| *byte == 0));
    done(&used, put(old - 10, vec![6; 2 * MIB as usize], true)).unwrap();
    done(&used, Work::Sync).unwrap();
    let refused = data_thread(managed.grow_column(key, 1 << 40)).unwrap_err().to_string();
    assert!(refused.contains("pieces, and the disk has"), "{refused}");
    drop((managed, used));
    let managed = open(&path);
    assert_eq!(managed.columns()[0].bytes, new);
    let there = done(&column(&managed, key), get(old - 11, 2 * MIB + 2)).unwrap().unwrap();
    assert!(there[0] == 5 && there[1..=2 * MIB as usize].iter().all(|byte| *byte == 6));
    assert_eq!(there[2 * MIB as usize + 1], 0);
}

/// Columns of a group grow one after the other, and those that have not hear of what the others have.
#[test]
fn behind_its_end_a_column_is_zero() {
    let (_dir, path, key) = image();
    let managed = open(&path);
    let end = 4 * MIB;
    let used = column(&managed, key);
    done(&used, put(end - UNIT_BYTES, vec![5; UNIT], false)).unwrap();
    let there = done(&used, get(end - UNIT_BYTES, 3 * UNIT_BYTES)).unwrap().unwrap();
    assert!(there[..UNIT] == [5; UNIT] && there[UNIT..] == [0; 2 * UNIT]);
    assert_eq!(done(&used, get(end + MIB, 8)), Ok(Some(vec![0; 8])));
    let verify = |offset| Work::Verify { extent: Extent { offset, length: 2 * UNIT_BYTES } };
    assert_eq!((done(&used, verify(end - UNIT_BYTES)), done(&used, verify(end))), (Ok(None), Ok(None)));
    // A copy of a larger one: what is behind the end has to be zero.
    let mut bytes = vec![7; UNIT];
    bytes.extend([0; 2 * UNIT]);
    assert_eq!(done(&used, put(end - UNIT_BYTES, bytes.clone(), false)), Ok(None));
    assert_eq!(done(&used, put(end, vec![0; UNIT], true)), Ok(None));
    bytes[2 * UNIT] = 1;
    let (offset, len) = (end - UNIT_BYTES, bytes.len() as u64);
    let beyond = Err(JobError::OutOfRange { offset, len, size: end });
    assert_eq!(done(&used, put(offset, bytes, false)), beyond);
    let there = done(&used, get(end - UNIT_BYTES, UNIT_BYTES)).unwrap().unwrap();
    assert!(there == [7; UNIT], "what was refused has changed nothing");
    // What lay behind the end is not released twice, for another write that came after it.
    data_thread(managed.grow_column(key, end + MIB)).unwrap();
    done(&used, put(end, vec![9; UNIT], false)).unwrap();
    for extent in [(end - UNIT_BYTES, 3 * UNIT_BYTES), (end, UNIT_BYTES)] {
        used.release(Extent { offset: extent.0, length: extent.1 });
    }
    let found = column(&managed, key).found().clone();
    assert!(found.dirty.overlaps(Extent { offset: end, length: UNIT_BYTES }), "{:?}", found.dirty);
}
