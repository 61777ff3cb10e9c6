//! Volumes on a managed disk.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cards_disk::{
    Altered, Backend, Completion, Disk, DiskError, DiskOptions, Engine, ExtentKind, Job, JobError, Managed,
    ManagedError, ManagedOptions, Op, Outcome,
};
use cards_layout::format::{Sizes, Superblock, Uuid};
use tempfile::TempDir;

use crate::harness::{BACKENDS, Random, collect, data_thread, lend, one, read, write};

const MIB: u64 = 1 << 20;
const UNIT: u64 = 4096;

/// What `cards disk format` writes on a file of zeroes.
pub(crate) fn format(path: &Path, bytes: u64) {
    let file = File::create(path).unwrap();
    file.set_len(bytes).unwrap();
    let superblock = Superblock::formatted(
        Uuid::random([3; 16]),
        Sizes::choose(bytes).unwrap(),
        None,
        "fast1".parse().unwrap(),
    );
    for (at, page) in superblock.fresh_tables().chain(superblock.fresh()) {
        file.write_all_at(&page, at).unwrap();
    }
}

fn options(path: &Path, backend: Backend) -> ManagedOptions {
    ManagedOptions::new(DiskOptions { backend, ..DiskOptions::path(path) })
}

fn open(path: &Path) -> Arc<Managed> {
    Managed::open(&options(path, Backend::Auto)).unwrap()
}

fn refused(options: &ManagedOptions) -> String {
    Managed::open(options).unwrap_err().to_string()
}

fn volume(managed: &Arc<Managed>, name: &str) -> Arc<Disk> {
    Disk::of_volume(managed, name, &DiskOptions::path("")).unwrap()
}

/// A formatted image with a volume of so many bytes.
fn image(bytes: u64) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk.img");
    format(&path, 64 * MIB);
    open(&path).create_volume(&"data".parse().unwrap(), bytes).unwrap();
    (dir, path)
}

/// Where a byte of the volume is in the image: looked for by what is there.
fn find(path: &Path, what: &[u8]) -> u64 {
    let bytes = std::fs::read(path).unwrap();
    bytes.windows(what.len()).position(|part| part == what).expect("it is on the disk") as u64
}

#[test]
fn a_volume_is_zero_is_written_and_is_there_when_the_disk_is_opened_again() {
    for backend in BACKENDS {
        let (_dir, path) = image(5 * MIB);
        let managed = Managed::open(&options(&path, backend)).unwrap();
        let disk = volume(&managed, "data");
        assert_eq!((disk.size(), disk.read_only()), (5 * MIB, false));
        assert_eq!(disk.name(), format!("{}, volume data", path.display()));
        data_thread(async {
            let engine = Engine::new(&disk);
            assert!(read(&engine, 0, 3 << 20).await.unwrap().iter().all(|byte| *byte == 0));
            write(&engine, MIB - 3 * UNIT, &[7; 6 * UNIT as usize], false).await.unwrap();
            // Not of whole units, and over the end of a piece.
            write(&engine, 2 * MIB - 5, &[9; 10], true).await.unwrap();
            write(&engine, 100, &[8; 50], false).await.unwrap();
            one(&engine, Op::Flush).await.unwrap();
        });
        drop((disk, managed));
        let managed = open(&path);
        assert!(managed.superblock().closed);
        let disk = volume(&managed, "data");
        data_thread(async {
            let engine = Engine::new(&disk);
            let bytes = read(&engine, 0, 5 << 20).await.unwrap();
            let is = |range: std::ops::Range<u64>, value: u8| {
                bytes[range.start as usize..range.end as usize].iter().all(|byte| *byte == value)
            };
            assert!(is(0..100, 0) && is(100..150, 8) && is(150..MIB - 3 * UNIT, 0));
            assert!(is(MIB - 3 * UNIT..MIB + 3 * UNIT, 7) && is(MIB + 3 * UNIT..2 * MIB - 5, 0));
            assert!(is(2 * MIB - 5..2 * MIB + 5, 9) && is(2 * MIB + 5..5 * MIB, 0));
            assert_eq!(managed.damaged(), 0);
        });
    }
}

#[test]
fn many_requests_at_a_time_leave_what_the_last_of_each_place_wrote() {
    let (_dir, path) = image(3 * MIB);
    let managed = open(&path);
    let disk = volume(&managed, "data");
    let mut model = vec![0_u8; 3 << 20];
    data_thread(async {
        let engine = Engine::new(&disk);
        let mut random = Random(7);
        for round in 0..60_u8 {
            // Places that do not overlap, and mostly share units.
            let mut bytes: Vec<(u64, Vec<u8>)> = Vec::new();
            let mut at = random.below(64 << 10);
            while at < 3 * MIB - (80 << 10) && bytes.len() < 24 {
                let length = 1 + random.below(70 << 10);
                bytes.push((at, vec![round * 4 + bytes.len() as u8 % 4 + 1; length as usize]));
                at += length + random.below(9000) * random.below(2);
            }
            for (tag, (at, bytes)) in bytes.iter_mut().enumerate() {
                let op = match (tag + usize::from(round)) % 7 {
                    5 => {
                        Op::Zero { offset: *at, len: bytes.len() as u64, no_hole: tag % 2 == 0, fast: false }
                    }
                    _ => Op::Write { offset: *at, buf: lend(bytes), fua: tag % 5 == 0 },
                };
                let value = if matches!(op, Op::Zero { .. }) { 0 } else { bytes[0] };
                model[*at as usize..*at as usize + bytes.len()].fill(value);
                engine.submit(Job { tag: tag as u64, op });
            }
            for Completion { result, .. } in collect(&engine, bytes.len()).await {
                assert_eq!(result, Ok(Outcome::Done));
            }
            let (at, length) = (random.below(MIB), 1 + random.below(2 * MIB - 1));
            let there = read(&engine, at, length as usize).await.unwrap();
            assert!(there == model[at as usize..(at + length) as usize], "round {round}");
        }
        one(&engine, Op::Trim { offset: 5000, len: 3 * UNIT }).await.unwrap();
        model[8192..16384].fill(0);
        assert!(read(&engine, 0, 3 << 20).await.unwrap() == model);
    });
    drop((disk, managed));
    let managed = open(&path);
    let disk = volume(&managed, "data");
    data_thread(async {
        assert!(read(&Engine::new(&disk), 0, 3 << 20).await.unwrap() == model);
    });
    let scrub = managed.scrub("data", 0, 3 * MIB).unwrap();
    assert_eq!((scrub.bytes, scrub.unverified, scrub.damaged), (3 * MIB, 0, 0), "{scrub:?}");
}

/// A copy of the image at any moment is what a daemon leaves that is killed then.
#[test]
fn what_was_written_is_there_after_a_kill_and_is_verified_again() {
    let (dir, path) = image(4 * MIB);
    let managed = open(&path);
    let disk = volume(&managed, "data");
    let copy = dir.path().join("copy.img");
    data_thread(async {
        let engine = Engine::new(&disk);
        write(&engine, 0, &[5; 64 << 10], false).await.unwrap();
        write(&engine, 3 * MIB + 77, &[6; 1000], false).await.unwrap();
        std::fs::copy(&path, &copy).unwrap();
        write(&engine, 0, &[4; 64 << 10], false).await.unwrap();
    });
    let after = open(&copy);
    assert!(!after.superblock().closed);
    let disk = volume(&after, "data");
    data_thread(async {
        let engine = Engine::new(&disk);
        assert!(read(&engine, 0, 64 << 10).await.unwrap() == [5; 64 << 10]);
        assert!(read(&engine, 3 * MIB + 77, 1000).await.unwrap() == [6; 1000]);
    });
    while after.unsure() > 0 {
        std::thread::yield_now();
    }
    let scrub = after.scrub("data", 0, 4 * MIB).unwrap();
    assert_eq!((scrub.unverified, scrub.damaged), (0, 0), "{scrub:?}");
    drop((disk, after));
    assert!(open(&copy).superblock().closed);
}

#[test]
fn a_flipped_bit_is_an_error_of_its_unit_until_that_is_written_anew() {
    let (_dir, path) = image(4 * MIB);
    let fill = |managed: &Arc<Managed>| {
        let disk = volume(managed, "data");
        data_thread(async {
            let engine = Engine::new(&disk);
            let bytes: Vec<u8> = (0..MIB / 8).flat_map(|i| (i * 0x9e37_79b9).to_le_bytes()).collect();
            write(&engine, MIB, &bytes, false).await.unwrap();
            bytes
        })
    };
    let bytes = fill(&open(&path));
    let at = find(&path, &bytes[5 * UNIT as usize..6 * UNIT as usize]);
    let file = File::options().read(true).write(true).open(&path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at + 1234).unwrap();
    file.write_all_at(&[byte[0] ^ 1], at + 1234).unwrap();

    let managed = open(&path);
    let disk = volume(&managed, "data");
    let damaged = Err(JobError::Damaged { offset: MIB + 5 * UNIT, length: UNIT });
    data_thread(async {
        let engine = Engine::new(&disk);
        assert_eq!(read(&engine, MIB, 64 << 10).await, damaged.clone());
        assert!(read(&engine, MIB, 5 << 12).await.unwrap() == bytes[..5 << 12]);
        assert!(read(&engine, MIB + 6 * UNIT, 1 << 12).await.unwrap() == bytes[6 << 12..7 << 12]);
        // A part of the unit cannot be written: the rest of it is not known.
        assert_eq!(
            write(&engine, MIB + 5 * UNIT + 7, &[1; 9], false).await,
            damaged.map(|_: Vec<u8>| Outcome::Done)
        );
    });
    assert_eq!(
        (managed.damaged(), disk.stats().snapshot().errors, disk.stats().snapshot().damaged),
        (2, 2, 2)
    );
    let scrub = managed.scrub("data", 0, 4 * MIB).unwrap();
    assert_eq!((scrub.damaged, scrub.places.len()), (UNIT, 1), "{scrub:?}");
    let place = &scrub.places[0];
    assert_eq!(
        (place.offset, place.length, place.reason().as_str()),
        (MIB + 5 * UNIT, UNIT, "does not fit its checksum")
    );
    data_thread(async {
        let engine = Engine::new(&disk);
        write(&engine, MIB + 5 * UNIT, &bytes[5 << 12..6 << 12], true).await.unwrap();
        assert!(read(&engine, MIB, 1 << 20).await.unwrap() == bytes);
    });
    assert_eq!(managed.scrub("data", 0, 4 * MIB).unwrap().damaged, 0);
    for (offset, length) in [(0, 5 * MIB), (1, UNIT), (0, 100), (u64::MAX - UNIT + 1, UNIT)] {
        let error = managed.scrub("data", offset, length).unwrap_err().to_string();
        assert_eq!(error, "volume \"data\" has 4194304 bytes: name a range of it in multiples of 4096");
    }
}

/// What the volume says of its bytes, each of its extents as kind and length in units.
fn extents(disk: &Arc<Disk>, offset: u64, len: u64) -> Vec<(ExtentKind, u64)> {
    data_thread(async {
        let engine = Engine::new(disk);
        let (mut at, mut all): (_, Vec<(ExtentKind, u64)>) = (offset, Vec::new());
        while at < offset + len {
            let asked = Op::Extents { offset: at, len: offset + len - at };
            let Ok(Outcome::Extents(found)) = one(&engine, asked).await else { panic!("no extents at {at}") };
            for extent in found {
                at += extent.len;
                match all.last_mut() {
                    Some((kind, last)) if *kind == extent.kind => *last += extent.len,
                    _ => all.push((extent.kind, extent.len)),
                }
            }
        }
        all
    })
}

#[test]
fn data_that_are_lost_are_no_hole() {
    let (_dir, path) = image(4 * MIB);
    let managed = open(&path);
    let disk = volume(&managed, "data");
    let mark: Vec<u8> = (0..UNIT / 8).flat_map(|i| (i ^ 0x1234_5678_9abc).to_le_bytes()).collect();
    data_thread(async {
        let engine = Engine::new(&disk);
        write(&engine, MIB, &[mark.clone(), vec![7; 7 * UNIT as usize]].concat(), false).await.unwrap();
        // Zeroed, and never written: holes.
        one(&engine, Op::Zero { offset: 2 * MIB, len: 8 * UNIT, no_hole: false, fast: false }).await.unwrap();
    });
    let (hole, data) = (ExtentKind::Hole, ExtentKind::Data);
    let whole = [(hole, MIB), (data, 8 * UNIT), (hole, 3 * MIB - 8 * UNIT)];
    assert_eq!(extents(&disk, 0, 4 * MIB), whole);
    drop((disk, managed));

    // Blocks that the file system below has lost, as after a file that was cut short and made longer again.
    let at = find(&path, &mark);
    let file = File::options().read(true).write(true).open(&path).unwrap();
    let punched = (at + 2 * UNIT) as libc::off_t;
    let keep = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: takes a descriptor and numbers.
    let done =
        unsafe { libc::fallocate(std::os::fd::AsRawFd::as_raw_fd(&file), keep, punched, 3 * UNIT as i64) };
    assert_eq!(done, 0);
    let managed = open(&path);
    let disk = volume(&managed, "data");
    assert_eq!(extents(&disk, 0, 4 * MIB), whole);
    // In the middle of units, too.
    let part = [(data, 6 * UNIT - 100), (hole, 100)];
    assert_eq!(extents(&disk, MIB + 2 * UNIT + 100, 6 * UNIT), part);
    drop((disk, managed));

    // The page of checksums of the first piece is gone: what it was of is lost, holes as well.
    let sizes = Sizes::choose(64 * MIB).unwrap();
    let piece = (at - sizes.data_at(0)) / (sizes.data_at(1) - sizes.data_at(0));
    file.write_all_at(&[0; UNIT as usize], sizes.sums_at(piece as u32)).unwrap();
    let managed = open(&path);
    let disk = volume(&managed, "data");
    let lost = extents(&disk, 0, 4 * MIB);
    data_thread(async {
        let engine = Engine::new(&disk);
        let mut at = 0;
        for (kind, len) in &lost {
            for unit in (at..at + len).step_by(UNIT as usize) {
                let read = read(&engine, unit, UNIT as usize).await;
                let is_zero = read.is_ok_and(|bytes| bytes.iter().all(|byte| *byte == 0));
                assert_eq!(is_zero, *kind == hole, "{kind:?} at {unit}");
            }
            at += len;
        }
    });
    assert_ne!(lost, whole);
}

/// Opens the disk with faults below the store.
fn faulty(path: &Path, fault: &str) -> Arc<Managed> {
    let disk = DiskOptions { fault: Some(fault.into()), ..DiskOptions::path(path) };
    Managed::open(&ManagedOptions::new(disk)).unwrap()
}

#[test]
fn a_sync_that_fails_is_final_for_all_volumes_until_the_disk_is_opened_again() {
    let (_dir, path) = image(4 * MIB);
    open(&path).create_volume(&"other".parse().unwrap(), MIB).unwrap();
    // The first is that of opening; the superblock and the bits of the region have one or two.
    let managed = faulty(&path, "sync-eio=4+");
    let (disk, other) = (volume(&managed, "data"), volume(&managed, "other"));
    data_thread(async {
        let engine = Engine::new(&disk);
        write(&engine, 0, &[1; 8192], false).await.unwrap();
        assert!(one(&engine, Op::Flush).await.is_err() || one(&engine, Op::Flush).await.is_err());
        assert!(disk.sync_failed());
        assert_eq!(read(&engine, 0, 4096).await, Err(JobError::StoreFailed));
        assert_eq!(read(&Engine::new(&other), 0, 4096).await, Err(JobError::StoreFailed));
    });
    drop((disk, other, managed));
    let managed = open(&path);
    assert!(!managed.superblock().closed);
    let disk = volume(&managed, "data");
    data_thread(async {
        let engine = Engine::new(&disk);
        assert!(read(&engine, 0, 8192).await.unwrap() == [1; 8192]);
        one(&engine, Op::Flush).await.unwrap();
    });
}

/// A write behind the new end would make the file longer again, as if nothing was lost.
#[test]
fn a_disk_that_was_cut_short_gives_and_takes_nothing_any_more() {
    let (_dir, path) = image(4 * MIB);
    assert!(cards_disk::is_managed(&path) && !cards_disk::is_managed(Path::new("/dev/null")));
    let managed = open(&path);
    let disk = volume(&managed, "data");
    assert_eq!(managed.altered(), None);
    data_thread(async {
        let engine = Engine::new(&disk);
        write(&engine, 0, &[1; 8192], true).await.unwrap();
        std::fs::File::options().write(true).open(&path).unwrap().set_len(MIB).unwrap();
        let said = managed.altered().unwrap();
        assert!(matches!(said, Altered::ManagedCut { size: MIB, .. }), "{said}");
        let text = said.to_string();
        assert!(text.contains("do not make it longer again: that brings nothing back"), "{text}");
        assert!(!text.contains("zeroes"), "{text}");
        assert!(read(&engine, 0, 4096).await.is_err());
        assert!(write(&engine, 3 * MIB, &[2; 8192], true).await.is_err());
    });
    assert_eq!(std::fs::metadata(&path).unwrap().len(), MIB);
}

#[test]
fn a_write_that_fails_is_an_error_and_its_region_gets_checksums_again() {
    let (_dir, path) = image(4 * MIB);
    // Superblock and bits are written first.
    let managed = faulty(&path, "write-eio=5");
    let disk = volume(&managed, "data");
    data_thread(async {
        let engine = Engine::new(&disk);
        let mut failed = 0;
        for unit in 0..8 {
            failed += u64::from(
                write(&engine, unit * UNIT, &[unit as u8 + 1; UNIT as usize], false).await.is_err(),
            );
        }
        assert_eq!(failed, 1, "{:?}", disk.stats().snapshot());
        while managed.unsure() > 0 {
            tokio::task::yield_now().await;
        }
        let bytes = read(&engine, 0, 8 << 12).await.unwrap();
        let zero = bytes.chunks(4096).filter(|unit| unit.iter().all(|byte| *byte == 0)).count();
        assert_eq!(zero, 1);
    });
    assert_eq!(managed.scrub("data", 0, 4 * MIB).unwrap().damaged, 0);
}

/// Regions get their checksums again beside writes of the same region, of which some fail, too.
#[test]
fn writes_that_fail_again_and_again_leave_no_wrong_checksum() {
    let (_dir, path) = image(4 * MIB);
    let managed =
        faulty(&path, "write-eio=20,write-eio=21,write-eio=47,write-eio=90,write-eio=133,write-eio=190");
    let disk = volume(&managed, "data");
    data_thread(async {
        let engine = Engine::new(&disk);
        let mut failed = 0;
        for round in 1..=40_u8 {
            let mut bytes: Vec<Vec<u8>> = (0..8).map(|_| vec![round; UNIT as usize]).collect();
            for (i, bytes) in bytes.iter_mut().enumerate() {
                let offset = (u64::from(round) * 7 + i as u64 * 31) % 256 * UNIT;
                engine.submit(Job { tag: i as u64, op: Op::Write { offset, buf: lend(bytes), fua: false } });
            }
            let done = collect(&engine, 8).await;
            failed += done.iter().filter(|done| done.result.is_err()).count();
        }
        assert_eq!(failed, 6);
        // What is read is verified, or not known.
        read(&engine, 0, 1 << 20).await.unwrap();
    });
    loop {
        let scrub = managed.scrub("data", 0, 4 * MIB).unwrap();
        assert_eq!(scrub.damaged, 0, "{scrub:?}");
        if scrub.unverified == 0 {
            break;
        }
    }
}

#[test]
fn volumes_share_a_disk_and_what_one_leaves_the_next_does_not_see() {
    let (_dir, path) = image(20 * MIB);
    let managed = open(&path);
    let name = |name: &str| name.parse().unwrap();
    let error = managed.create_volume(&name("data"), MIB).unwrap_err();
    assert!(matches!(error, ManagedError::Exists { .. }), "{error}");
    for bytes in [0, 4095, MIB + 1] {
        let error = managed.create_volume(&name("odd"), bytes).unwrap_err().to_string();
        assert_eq!(error, format!("a volume cannot have {bytes} bytes: use a multiple of 4096, such as 10G"));
    }
    let error = managed.create_volume(&name("large"), 26 * MIB).unwrap_err().to_string();
    assert_eq!(
        error,
        "the volume needs 26 pieces, and the disk has 25 that are free; make the volume smaller, or remove another one"
    );
    let error = Disk::of_volume(&managed, "none", &DiskOptions::path("")).unwrap_err().to_string();
    assert_eq!(error, format!("disk {}: has no volume \"none\"; it has data", path.display()));
    let disk = volume(&managed, "data");
    data_thread(async { write(&Engine::new(&disk), 0, &vec![1; 20 << 20], true).await.unwrap() });
    managed.remove_volume("data").unwrap();
    data_thread(async {
        let gone = JobError::Os { errno: libc::ENXIO };
        assert_eq!(read(&Engine::new(&disk), 0, 4096).await, Err(gone));
    });
    managed.create_volume(&name("next"), 40 * MIB).unwrap();
    let next = volume(&managed, "next");
    drop(managed);
    data_thread(async {
        assert!(read(&Engine::new(&next), 0, 40 << 20).await.unwrap().iter().all(|byte| *byte == 0));
    });
}

#[test]
fn what_is_none_of_its_disks_is_refused_by_name() {
    let (dir, path) = image(MIB);
    let auto = || options(&path, Backend::Auto);
    let held = open(&path);
    let error = Managed::open(&auto()).unwrap_err();
    assert!(matches!(error, DiskError::Busy { .. }), "{error}");
    drop(held);
    let at = path.display();
    assert_eq!(
        refused(&ManagedOptions { name: Some("fast2".into()), ..auto() }),
        format!(
            "disk {at}: is called \"fast1\" and not \"fast2\": another disk is in its place, or `name` in node.toml is wrong"
        )
    );
    let of =
        |cluster: &str| ManagedOptions { cluster: Some(cluster.into()), node: Some("n1".into()), ..auto() };
    drop(Managed::open(&of("one")).unwrap());
    drop(Managed::open(&of("one")).unwrap());
    let said = refused(&of("two"));
    assert!(
        said.starts_with(&format!("disk {at}: is of cluster \"one\", and this node is of \"two\"")),
        "{said}"
    );
    // Who asks for none, as the tools do, may look.
    let again = open(&path);
    let superblock = again.superblock();
    assert_eq!(superblock.node.as_ref().map(ToString::to_string).as_deref(), Some("n1"));
    assert_eq!(superblock.cluster_name.as_ref().map(ToString::to_string).as_deref(), Some("one"));
    drop(again);

    let blank = dir.path().join("blank.img");
    File::create(&blank).unwrap().set_len(64 * MIB).unwrap();
    let said = refused(&options(&blank, Backend::Auto));
    assert!(said.contains("is no managed disk") && said.contains("`cards disk format`"), "{said}");
    let tiny = dir.path().join("tiny.img");
    std::fs::write(&tiny, [1; 100]).unwrap();
    let said = refused(&options(&tiny, Backend::Auto));
    assert!(said.contains("is no managed disk"), "{said}");

    let file = File::options().write(true).open(&path).unwrap();
    file.set_len(60 * MIB).unwrap();
    let said = refused(&auto());
    assert!(said.contains("has 62914560 bytes and had 67108864 when it was formatted"), "{said}");
    file.set_len(64 * MIB).unwrap();
    // The first byte of the version.
    file.write_all_at(&[9], 8).unwrap();
    let said = refused(&auto());
    assert!(said.contains("it is of format version 9, and this program knows version 2"), "{said}");
}
