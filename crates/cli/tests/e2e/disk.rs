//! `cards disk format` and `show`: what is refused, what is written, and what is noticed afterwards.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use cards_disk::{DiskOptions, Managed, ManagedColumn, ManagedOptions};
use cards_layout::format::Uuid;
use serde_json::Value;

use crate::harness::cluster::CARDS;
use crate::harness::process::{Finished, run};
use crate::harness::tools::{is_root, need, skip};
use crate::harness::{LONG, MIB, SHORT, scratch};

fn disk(verb: &str, path: &Path, more: &[&str]) -> Finished {
    let mut argv = vec![CARDS, "disk", verb, path.to_str().unwrap()];
    argv.extend(more);
    run(&argv, LONG)
}

/// A file of zeroes.
fn image(dir: &Path, size: u64) -> PathBuf {
    let path = dir.join("disk.img");
    File::create(&path).unwrap().set_len(size).unwrap();
    path
}

fn show(path: &Path) -> Value {
    let done = disk("show", path, &["--json"]);
    serde_json::from_str(&done.stdout).unwrap_or_else(|error| panic!("{error}: {done}"))
}

/// Changes a byte, and says what it was.
fn change(file: &File, at: u64) -> u8 {
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
    byte[0]
}

fn open(path: &Path) -> File {
    File::options().read(true).write(true).open(path).unwrap()
}

#[test]
fn a_formatted_image_is_shown() {
    let dir = scratch();
    let path = image(dir.path(), 64 * MIB);
    let done = disk("format", &path, &["--name", "fast1", "--domain", "rack3/n1"]).ok();
    for part in ["disk         fast1 (", "pieces       45 of 1M: 45 MiB", "cluster      none yet"] {
        assert!(done.stdout.contains(part), "{part:?} in {done}");
    }
    let report = show(&path);
    for (key, value) in [
        ("usable", Value::from(true)),
        ("name", "fast1".into()),
        ("domain", "rack3/n1".into()),
        ("cluster", Value::Null),
        ("size", (64 * MIB).into()),
        ("sequence", 2.into()),
        ("slot", "B".into()),
        ("closed", true.into()),
        ("piece_bytes", MIB.into()),
        ("columns", 0.into()),
        ("volumes", Value::Array(vec![])),
        ("dirty_regions", 0.into()),
        ("damage", Value::Array(vec![])),
    ] {
        assert_eq!(report[key], value, "{key} in {report}");
    }
    assert_eq!(report["pieces"]["free"], report["pieces"]["all"]);
    let shown = disk("show", &path, &[]).ok();
    assert!(shown.stdout.contains("state        ok\n"), "{shown}");
    assert_eq!(fs::metadata(&path).unwrap().len(), 64 * MIB, "a file keeps its size");
}

/// Without a daemon: one would make the copy, and keep the disk.
#[test]
fn the_copy_of_a_volume_is_shown_scrubbed_and_not_formatted_away() {
    let dir = scratch();
    let path = image(dir.path(), 64 * MIB);
    disk("format", &path, &["--name", "fast1"]).ok();
    let managed = Managed::open(&ManagedOptions::new(DiskOptions::path(&path))).unwrap();
    let volume = Uuid::random([7; 16]);
    let copy = ManagedColumn { volume, name: "shared".parse().unwrap(), group: 0, column: 1, bytes: 3 * MIB };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(managed.create_column(&copy)).unwrap();
    drop(managed);
    let shown = disk("show", &path, &[]).ok().stdout;
    for line in [
        format!("volume       shared ({volume}), 3 MiB in 3 pieces\n"),
        "copy         1 of group 0 of shared, not used yet\n".into(),
    ] {
        assert!(shown.contains(&line), "{line:?} in {shown}");
    }
    let report = show(&path);
    let copies = serde_json::json!([{
        "volume": "shared", "group": 0, "column": 1, "generation": 0, "sealed_epoch": 0, "in_sync_epoch": 0, "lost_power": false,
    }]);
    assert_eq!((&report["copies"], &report["volumes"][0]["name"]), (&copies, &"shared".into()));
    let scrubbed = disk("scrub", &path, &["--json"]).ok().stdout;
    let scrubbed: Value = serde_json::from_str(&scrubbed).unwrap();
    assert_eq!((&scrubbed["bytes"], &scrubbed["damaged"]), (&(3 * MIB).into(), &0.into()));
    let refused = disk("format", &path, &["--force"]).fails().stderr;
    assert!(refused.contains("volume shared"), "{refused}");
}

#[test]
fn the_name_is_that_of_the_file_and_each_disk_has_a_uuid_of_its_own() {
    let dir = scratch();
    let path = image(dir.path(), 64 * MIB);
    let uuid = || {
        disk("format", &path, &["--force"]).ok();
        let report = show(&path);
        assert_eq!(report["name"], "disk.img");
        report["disk"].as_str().unwrap().to_owned()
    };
    assert_ne!(uuid(), uuid());
    let odd = dir.path().join("ä b");
    fs::copy(&path, &odd).unwrap();
    let done = disk("format", &odd, &["--force"]).fails();
    assert!(done.stderr.contains("give one with --name"), "{done}");
}

#[test]
fn data_are_refused_without_force() {
    need!("mkfs.ext4", "mkfs.xfs", "mkswap");
    let dir = scratch();
    for (tool, size, says) in [
        (&["mkfs.ext4", "-q"][..], 64 * MIB, "an ext2, ext3 or ext4 file system"),
        (&["mkfs.xfs", "-q"], 320 * MIB, "an XFS file system"),
        (&["mkswap"], 64 * MIB, "swap space"),
        (&[CARDS, "disk", "format"], 64 * MIB, "a managed disk of CARDs, disk.img ("),
    ] {
        let path = image(dir.path(), size);
        run(&[tool, &[path.to_str().unwrap()]].concat(), LONG).ok();
        let before = fs::read(&path).unwrap();
        let done = disk("format", &path, &[]).fails();
        assert!(done.stderr.contains(says) && done.stderr.contains("or use --force"), "{says:?} in {done}");
        assert!(fs::read(&path).unwrap() == before, "{says}: a refused image is changed");
        disk("format", &path, &["--force"]).ok();
        assert_eq!(show(&path)["usable"], true);
    }
}

#[test]
fn nothing_of_what_was_there_is_recognised_afterwards() {
    need!("mkfs.ext4", "blkid");
    let dir = scratch();
    let path = image(dir.path(), 64 * MIB);
    run(&["mkfs.ext4", "-q", path.to_str().unwrap()], LONG).ok();
    disk("format", &path, &["--force"]).ok();
    let found = run(&["blkid", "-p", path.to_str().unwrap()], SHORT);
    assert_eq!(found.stdout, "", "{found}");
}

#[test]
fn data_that_are_not_known_are_refused_too() {
    let dir = scratch();
    for at in [777, 64 * MIB - 1] {
        let path = image(dir.path(), 64 * MIB);
        change(&open(&path), at);
        let done = disk("format", &path, &[]).fails();
        assert!(done.stderr.contains(&format!("data that are not known (byte {at} is not zero)")), "{done}");
    }
}

#[test]
fn what_is_no_disk_is_refused_with_the_remedy() {
    let dir = scratch();
    let missing = dir.path().join("missing");
    for verb in ["format", "show"] {
        let done = disk(verb, &missing, &[]).fails();
        assert!(done.stderr.contains("truncate -s 1G FILE"), "{done}");
        let done = disk(verb, dir.path(), &[]).fails();
        assert!(done.stderr.contains("neither a file nor a block device"), "{done}");
    }
    let small = image(dir.path(), 32 * MIB - 1);
    let done = disk("format", &small, &[]).fails();
    assert!(done.stderr.contains("it has 32 MiB to 128 TiB"), "{done}");
    let done = disk("show", &small, &[]).fails();
    assert!(done.stderr.contains("is no managed disk") && done.stderr.contains("there is none"), "{done}");
    let empty = image(dir.path(), 0);
    disk("show", &empty, &[]).fails();
}

#[test]
fn a_disk_in_use_is_refused_whatever_is_said() {
    let dir = scratch();
    let path = image(dir.path(), 64 * MIB);
    let holder = open(&path);
    holder.lock().unwrap();
    let done = disk("format", &path, &["--force"]).fails();
    assert!(done.stderr.contains("is in use"), "{done}");
}

/// A sample of what carries meaning, and of the zeroes behind it: `cards-layout` tests every bit.
#[test]
fn a_damaged_byte_of_a_superblock_is_noticed() {
    let dir = scratch();
    let path = image(dir.path(), 64 * MIB);
    disk("format", &path, &["--name", "fast1"]).ok();
    let file = open(&path);
    for at in (0..352).step_by(11).chain((352..4096).step_by(512)).chain([4095]) {
        for (slot, other, begin) in [("A", "B", 0), ("B", "A", 65_536)] {
            let was = change(&file, begin + at);
            let report = show(&path);
            assert_eq!(
                (&report["usable"], &report["name"]),
                (&true.into(), &"fast1".into()),
                "byte {at}: {report}"
            );
            assert_eq!(report["slot"], other, "byte {at}: {report}");
            let damage = &report["damage"];
            assert_eq!(damage.as_array().unwrap().len(), 1, "byte {at}: {report}");
            assert_eq!(
                (&damage[0]["what"], &damage[0]["slot"]),
                (&"superblock".into(), &slot.into()),
                "byte {at}"
            );
            file.write_all_at(&[was], begin + at).unwrap();
        }
    }
    change(&file, 300);
    change(&file, 65_536 + 300);
    let done = disk("show", &path, &[]).fails();
    assert!(done.stderr.matches("it has changed since it was written").count() == 2, "{done}");
}

#[test]
fn damaged_tables_and_cut_devices_are_named() {
    let dir = scratch();
    let path = image(dir.path(), 64 * MIB);
    disk("format", &path, &[]).ok();
    let file = open(&path);
    // Piece table, slots A and B; column table; dirty and missed regions, behind what a few more columns would have needed.
    for at in (0..8).chain(12..16).map(|page| MIB + page * 4096) {
        change(&file, at + 99);
        let report = show(&path);
        assert_eq!(
            (&report["usable"], &report["damage"][0]["offset"]),
            (&true.into(), &at.into()),
            "{report}"
        );
        change(&file, at + 99);
    }
    change(&file, MIB + 99);
    change(&file, MIB + 4096 + 99);
    let done = disk("show", &path, &[]).fails();
    assert!(done.stdout.contains("state        cannot be used\n"), "{done}");
    assert!(
        done.stdout.contains("damaged      page 0 of the piece table, slot A, at byte 1048576: "),
        "{done}"
    );
    change(&file, MIB + 99);
    change(&file, MIB + 4096 + 99);
    assert_eq!(show(&path)["usable"], true);
    file.set_len(63 * MIB).unwrap();
    let done = disk("show", &path, &[]).fails();
    assert!(done.stdout.contains("it ends there, and had 67108864 bytes when it was formatted"), "{done}");
}

#[test]
fn a_loop_device_is_formatted_and_a_mounted_one_is_refused() {
    need!("losetup", "mkfs.ext4", "mount");
    if !is_root() {
        return skip("loop devices need root");
    }
    let dir = scratch();
    let path = image(dir.path(), 64 * MIB);
    let made = run(&["losetup", "--find", "--show", path.to_str().unwrap()], SHORT);
    if !made.status.success() {
        return skip(&format!("no loop device: {}", made.stderr.trim()));
    }
    let device = PathBuf::from(made.stdout.trim());
    let name = device.to_str().unwrap();
    let detach = || run(&["losetup", "--detach", name], SHORT);
    let formatted = disk("format", &device, &["--name", "loop"]);
    let report = disk("show", &device, &["--json"]);
    run(&["mkfs.ext4", "-q", "-F", name], LONG);
    let point = dir.path().join("mnt");
    fs::create_dir(&point).unwrap();
    let mounted = run(&["mount", name, point.to_str().unwrap()], SHORT);
    let refused = disk("format", &device, &["--force"]);
    if mounted.status.success() {
        run(&["umount", point.to_str().unwrap()], SHORT);
    }
    detach();
    formatted.ok();
    assert!(report.ok().stdout.contains("\"name\":\"loop\""));
    if mounted.status.success() {
        let refused = refused.fails();
        assert!(refused.stderr.contains("is in use"), "{refused}");
    }
}
