//! Copies of mirrored volumes whose bytes change on the medium while they are served.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::harness::{KIB, LONG, MIB, content, eventually, scratch};
use crate::mirror::{Scene, at, volume};

pub(crate) const SEED: u64 = 31;
const WRITTEN: u64 = 8 * MIB;
const UNIT: u64 = 4 * KIB;
const BLOCK: u64 = 64 * KIB;

/// Where a node's disk keeps its copy of a unit.
fn place(disk: &PathBuf, offset: u64) -> u64 {
    let unit = content::bytes(offset, UNIT as usize, SEED);
    let all = fs::read(disk).unwrap();
    all.chunks(UNIT as usize).position(|part| part == unit).expect("the unit is on the disk") as u64 * UNIT
}

/// Changes a bit of a unit of a copy.
pub(crate) fn flip(disk: &PathBuf, offset: u64) {
    let at = place(disk, offset) + 777;
    let file = File::options().read(true).write(true).open(disk).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
    file.sync_all().unwrap();
}

/// What a scrub at a node says, and its status.
fn scrub(scene: &mut Scene, number: usize) -> (Value, Option<i32>) {
    let done = at(&mut scene.cluster, number, &["volume", "scrub", "data", "--rate", "0", "--json"]);
    (serde_json::from_str(&done.stdout).unwrap_or_else(|_| panic!("{done}")), done.status.code())
}

#[test]
fn what_rots_at_a_copy_is_read_and_mended_from_the_other_one() {
    let dir = scratch();
    let mut scene = Scene::new(dir.path());
    let third = scene.third;
    let mut client = scene.cluster.export(third, "data").open();
    for offset in (0..WRITTEN).step_by(MIB as usize) {
        client.write(offset, &content::bytes(offset, MIB as usize, SEED)).unwrap();
    }
    client.flush().unwrap();
    client.close();
    // No cache has anything of it: what is read now comes from the disks.
    (1..=3).for_each(|number| _ = at(&mut scene.cluster, number, &["volume", "detach", "data"]).ok());
    scene.cluster.node(third).kill();
    scene.restart(third);
    let shown = volume(&mut scene.cluster, third);
    assert_eq!(shown["cached_blocks"], 0, "{shown}");
    let primary = scene.primary(third);
    let other = scene.other(primary);
    let disk = |number: usize| dir.path().join(format!("fast{number}.img"));
    let map = volume(&mut scene.cluster, third)["mirror"]["map"].clone();

    let (here, there, block, both, part) =
        (MIB + 5 * BLOCK, 2 * MIB + BLOCK, 3 * MIB + 2 * BLOCK, 4 * MIB + 8 * UNIT, 5 * MIB);
    for offset in [here, block, both, part] {
        flip(&disk(primary), offset);
    }
    // Of one block each copy has something that the other one has not.
    for offset in [there, block + 3 * UNIT, both] {
        flip(&disk(other), offset);
    }

    // A part of a unit can be written although the rest of it is damaged at one copy.
    let mut client = scene.cluster.export(third, "data").open();
    client.write(part + 512, &content::bytes(part + 512, 512, SEED + 1)).expect("a part of a unit");
    for offset in (0..WRITTEN).step_by(BLOCK as usize) {
        let found = client.read(offset, BLOCK as usize);
        if (offset..offset + BLOCK).contains(&both) {
            let error = found.map(drop).expect_err("no copy has it");
            assert_eq!(error.raw_os_error(), Some(libc::EIO), "{error}");
            continue;
        }
        let mut found = found.unwrap_or_else(|error| panic!("at {offset}: {error}"));
        if offset == part {
            content::check(&found[512..1024], offset + 512, SEED + 1);
            found[512..1024].copy_from_slice(&content::bytes(part + 512, 512, SEED));
        }
        content::check(&found, offset, SEED);
    }
    let problems = scene.cluster.node(primary).status()["problems"].to_string();
    let said = format!(
        "volume data, at all its copies in sync: the 4 KiB at byte {both} are not what was written there"
    );
    assert!(problems.contains(&said), "{problems}");

    // What nobody has read at the other copy, a scrub finds.
    let elsewhere = at(&mut scene.cluster, third, &["volume", "scrub", "data"]).fails();
    let says = format!("the primary of volume data is node n{primary}: run this command there");
    assert!(elsewhere.stderr.contains(&says), "{elsewhere}");
    let (report, status) = scrub(&mut scene, primary);
    assert_eq!(status, Some(1), "{report}");
    let of = |report: &Value, repaired: bool| -> Vec<(u64, bool)> {
        let places = report["places"].as_array().unwrap().iter();
        let places = places.filter(|place| place["repaired"] == repaired);
        let of_primary = format!("copy n{primary}:");
        let copy = |place: &Value| place["reason"].as_str().unwrap().contains(&of_primary);
        let mut found: Vec<_> =
            places.map(|place| (place["offset"].as_u64().unwrap(), copy(place))).collect();
        found.sort_unstable();
        found
    };
    assert_eq!(of(&report, true), [(there, false), (block + 3 * UNIT, false)], "{report}");
    assert_eq!(of(&report, false), [(both, false), (both, true)], "{report}");
    assert_eq!(report["bytes"], 16 * MIB);

    // What is written anew can be read, and nothing is left.
    client.write(both, &content::bytes(both, UNIT as usize, SEED)).unwrap();
    client.flush().unwrap();
    content::check(&client.read(both - 8 * UNIT, BLOCK as usize).unwrap(), both - 8 * UNIT, SEED);
    let (report, status) = scrub(&mut scene, primary);
    assert_eq!(
        (status, &report["repaired"], &report["damaged"]),
        (Some(0), &0.into(), &0.into()),
        "{report}"
    );
    let problems = scene.cluster.node(primary).status()["problems"].to_string();
    assert!(!problems.contains("at byte"), "{problems}");
    client.close();

    // No copy was given up for it, and each is whole.
    assert_eq!(volume(&mut scene.cluster, third)["mirror"]["map"], map);
    for number in [other, primary] {
        assert!(scene.cluster.node(number).terminate().success());
        let scrubbed = crate::mirror::cards(&["disk", "scrub", disk(number).to_str().unwrap()]).ok();
        assert!(scrubbed.stdout.contains("damaged      nothing\n"), "{scrubbed}");
    }
}

/// A part of a disk is zero, data and checksums, as after an image was cut short and grew again.
#[test]
fn a_hole_in_a_disk_is_mended_from_the_other_copy() {
    let dir = scratch();
    let mut scene = Scene::new(dir.path());
    let third = scene.third;
    let primary = scene.primary(third);
    let other = scene.other(primary);
    let mut client = scene.cluster.export(third, "data").open();
    for offset in (0..WRITTEN).step_by(MIB as usize) {
        client.write(offset, &content::bytes(offset, MIB as usize, SEED)).unwrap();
    }
    client.flush().unwrap();
    client.close();
    assert!(scene.cluster.node(other).terminate().success());
    let disk = dir.path().join(format!("fast{other}.img"));
    // A page of checksums is in front of each MiB of data.
    let begin = place(&disk, 0) - UNIT;
    let file = File::options().write(true).open(&disk).unwrap();
    file.write_all_at(&vec![0; 3 * MIB as usize], begin).unwrap();
    file.sync_all().unwrap();
    scene.restart(other);
    scene.wait_in_sync();
    let (report, status) = scrub(&mut scene, primary);
    assert_eq!((status, &report["damaged"]), (Some(0), &0.into()), "{report}");
    assert!(report["repaired"].as_u64().unwrap() >= 2 * MIB, "{report}");
    let (report, status) = scrub(&mut scene, primary);
    assert_eq!((status, &report["repaired"]), (Some(0), &0.into()), "{report}");
    assert!(scene.cluster.node(primary).terminate().success());
    let mut client = scene.cluster.export(third, "data").open();
    for offset in (0..WRITTEN).step_by(BLOCK as usize) {
        content::check(&client.read(offset, BLOCK as usize).unwrap(), offset, SEED);
    }
    client.close();
}

/// A disk is put back to what it was before it confirmed some writes, as a machine is from a snapshot: no copy of it is used before it has
/// what it has forgotten.
#[test]
fn what_a_disk_that_was_put_back_has_forgotten_is_filled() {
    let dir = scratch();
    let mut scene = Scene::new(dir.path());
    let third = scene.third;
    let primary = scene.primary(third);
    let other = scene.other(primary);
    let write = |scene: &Scene, place: u64| {
        let mut client = scene.cluster.export(third, "data").open();
        for offset in (place..place + WRITTEN).step_by(MIB as usize) {
            client.write(offset, &content::bytes(offset, MIB as usize, SEED)).unwrap();
        }
        client.flush().unwrap();
        client.close();
    };
    let (disk, aside) = (dir.path().join(format!("fast{other}.img")), dir.path().join("aside.img"));
    write(&scene, 0);
    scene.cluster.node(other).pause();
    fs::copy(&disk, &aside).unwrap();
    scene.cluster.node(other).resume();
    write(&scene, WRITTEN);
    scene.cluster.node(other).kill();
    // Nobody puts a disk back in less time than the primary needs to find out.
    eventually("the copy is out of sync", LONG, || {
        let told = volume(&mut scene.cluster, third);
        let copies = told["mirror"]["copies"].as_array()?;
        copies.iter().any(|copy| copy["state"] != "in_sync").then_some(())
    });
    fs::rename(&aside, &disk).unwrap();
    scene.restart(other);
    scene.wait_in_sync();
    assert!(scene.cluster.node(primary).terminate().success());
    let mut client = scene.cluster.export(third, "data").open();
    for offset in (0..2 * WRITTEN).step_by(BLOCK as usize) {
        content::check(&client.read(offset, BLOCK as usize).unwrap(), offset, SEED);
    }
    client.close();
}

/// All processes of the copies end, and one disk is put back to what it was some terms ago. Its node is the first one that is started: the
/// volume waits for the other one.
#[test]
fn a_disk_that_was_put_back_is_not_the_volume_although_it_is_alone() {
    let dir = scratch();
    let mut scene = Scene::new(dir.path());
    let third = scene.third;
    let old = scene.primary(third);
    let other = scene.other(old);
    let write = |scene: &Scene, seed: u64| {
        let mut client = scene.cluster.export(third, "data").open();
        client.write(0, &content::bytes(0, MIB as usize, seed)).unwrap();
        client.flush().unwrap();
        client.close();
    };
    let (disk, aside) = (dir.path().join(format!("fast{old}.img")), dir.path().join("aside.img"));
    write(&scene, SEED);
    scene.cluster.node(old).pause();
    fs::copy(&disk, &aside).unwrap();
    scene.cluster.node(old).resume();
    assert!(scene.cluster.node(other).terminate().success());
    write(&scene, SEED + 1);
    scene.restart(other);
    scene.wait_in_sync();
    scene.cluster.node(old).kill();
    scene.cluster.node(other).kill();
    fs::rename(&aside, &disk).unwrap();
    scene.cluster.node(old).restart();
    let export = scene.cluster.export(third, "data");
    let read = thread::spawn(move || {
        let mut client = export.open();
        client.socket.limit(LONG).unwrap();
        client.read(0, MIB as usize)
    });
    // What the reader's node has in its cache it may serve for a lease; the old disk, never.
    thread::sleep(Duration::from_secs(8));
    scene.restart(other);
    content::check(&read.join().unwrap().expect("a read when the other one is there"), 0, SEED + 1);
    scene.wait_in_sync();
    assert!(scene.cluster.node(other).terminate().success());
    let found = scene.cluster.export(third, "data").read(0, MIB as usize).unwrap();
    content::check(&found, 0, SEED + 1);
}
