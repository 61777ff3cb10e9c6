//! Volumes on managed disks: made offline, served to the cluster, there after kills, and never wrong.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use serde_json::Value;

use crate::harness::client::Client;
use crate::harness::cluster::{CARDS, Cluster};
use crate::harness::plan::{Attach, Disk, Plan};
use crate::harness::process::{Finished, run, sh};
use crate::harness::tools::need;
use crate::harness::{KIB, LONG, MIB, SHORT, content, eventually, scratch};

const SEED: u64 = 23;
const SIZE: u64 = 24 * MIB;

fn cards(words: &[&str]) -> Finished {
    run(&[&[CARDS], words].concat(), LONG)
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A file that is the managed disk `fast1`, with a volume `data`.
fn disk(dir: &Path) -> PathBuf {
    let path = dir.join("fast1.img");
    File::create(&path).unwrap().set_len(64 * MIB).unwrap();
    cards(&["disk", "format", text(&path), "--name", "fast1"]).ok();
    let size = SIZE.to_string();
    cards(&["volume", "create", "data", "--size", &size, "--disk", text(&path)]).ok();
    path
}

/// Node 1 has the disk; all attach the volume.
fn plan(dir: &Path, nodes: usize, disk: &Path) -> Plan {
    let mut plan = Plan::new(dir, nodes);
    plan.nodes[0].disks.push(Disk::managed("fast1", disk));
    for node in &mut plan.nodes {
        node.attach.push(Attach { volume: "data".into(), mode: "rw", policy: None });
    }
    plan
}

fn show(path: &Path) -> Value {
    serde_json::from_str(&cards(&["disk", "show", text(path), "--json"]).ok().stdout).unwrap()
}

/// The first line of `cards status` at a node.
fn headline(cluster: &mut Cluster, node: usize) -> String {
    let socket = cluster.node(node).admin_socket();
    let done = run(&[CARDS, "status", "--socket", &socket], SHORT).ok();
    done.stdout.lines().next().unwrap_or_default().to_owned()
}

/// Where these bytes are in the file.
fn find(path: &Path, bytes: &[u8]) -> u64 {
    let all = fs::read(path).unwrap();
    all.windows(bytes.len()).position(|part| part == bytes).expect("they are on the disk") as u64
}

/// Writes a part of the volume and makes it durable.
fn write(client: &mut Client, offset: u64, length: u64) {
    for at in (offset..offset + length).step_by(MIB as usize) {
        let part = MIB.min(offset + length - at) as usize;
        client.write(at, &content::bytes(at, part, SEED)).expect("a write");
    }
    client.flush().expect("a flush");
}

#[test]
fn a_volume_is_served_to_the_cluster_and_there_after_kills() {
    let dir = scratch();
    let path = disk(dir.path());
    let mut cluster = Cluster::start(plan(dir.path(), 2, &path));
    let mut client = cluster.export(2, "data").open();
    assert!(
        client.read(0, SIZE as usize).unwrap().iter().all(|byte| *byte == 0),
        "zero before the first use"
    );
    write(&mut client, 0, 9 * MIB + 4 * KIB + 512);
    content::check(&cluster.export(1, "data").read(0, 9 << 20).unwrap(), 0, SEED);
    drop(client);

    // Beside one that is killed while it writes.
    for _ in 0..2 {
        let mut client = cluster.export(1, "data").open();
        write(&mut client, 12 * MIB, 3 * MIB);
        client
            .send(
                crate::harness::client::CMD_WRITE,
                16 * MIB,
                MIB as u32,
                &content::bytes(16 * MIB, 1 << 20, SEED),
            )
            .expect("a write");
        cluster.node(1).kill();
        assert_eq!(show(&path)["closed"], false);
        cluster.node(1).restart();
        for number in [1, 2] {
            let read = |at: u64, length: u64| {
                cluster.export(number, "data").read(at, length as usize).expect("a read")
            };
            content::check(&read(0, 9 * MIB + 4 * KIB), 0, SEED);
            content::check(&read(12 * MIB, 3 * MIB), 12 * MIB, SEED);
        }
    }
    let status = cluster.node(1).terminate();
    assert!(status.success(), "{}", cluster.node(1).log());
    let report = show(&path);
    assert_eq!(
        (&report["closed"], &report["cluster"], &report["node"]),
        (&true.into(), &"lab".into(), &"n1".into())
    );
    assert_eq!(report["volumes"][0]["name"], "data", "{report}");
    assert_eq!(
        (&report["dirty_regions"], &report["volumes"][0]["size"]),
        (&0.into(), &SIZE.into()),
        "{report}"
    );
    let scrub = cards(&["disk", "scrub", text(&path)]).ok();
    assert_eq!(scrub.stdout, "read         24 MiB\ndamaged      nothing\n");
    // One superblock serves for both, and is not passed over.
    let file = File::options().write(true).open(&path).unwrap();
    file.write_all_at(&[7; 64], 512).unwrap();
    let config = dir.path().join("n1.toml");
    let doctor = cards(&["doctor", "--config", text(&config)]);
    assert!(doctor.stdout.contains("the superblock in slot A is damaged"), "{doctor}");
    let scrub = cards(&["disk", "scrub", text(&path)]).fails();
    assert!(scrub.stderr.contains("the superblock in slot A was damaged"), "{scrub}");
    let again = cards(&["disk", "scrub", text(&path)]).ok();
    assert!(again.stderr.is_empty(), "it was written anew: {again}");
}

#[test]
fn foreign_tools_find_what_they_wrote() {
    need!("qemu-io", "fio");
    let dir = scratch();
    let path = disk(dir.path());
    let cluster = Cluster::start(plan(dir.path(), 2, &path));
    let uri = cluster.export(2, "data").uri();
    let one = "write -P 7 1000448 8192";
    let done = run(
        &[
            "qemu-io",
            "-f",
            "raw",
            "-c",
            one,
            "-c",
            "write -z 1003520 4096",
            "-c",
            "discard 1M 1M",
            "-c",
            "flush",
            "-c",
            "read -P 7 1000448 3072",
            "-c",
            "read -P 0 1003520 4096",
            "-c",
            "read -P 7 1007616 1024",
            &uri,
        ],
        LONG,
    )
    .ok();
    assert!(!done.stdout.contains("verification failed"), "{done}");
    let uri = format!("--uri={uri}");
    let job = [
        "fio",
        "--name=verify",
        "--ioengine=nbd",
        &uri,
        "--rw=randrw",
        "--bsrange=512-128k",
        "--bs_unaligned=0",
        "--blockalign=512",
        "--size=20M",
        "--offset=2M",
        "--io_size=24M",
        "--iodepth=16",
        "--verify=crc32c",
        "--fsync=32",
        "--randseed=5",
    ];
    let engines = run(&["fio", "--enghelp"], SHORT);
    if engines.stdout.contains("nbd") {
        run(&job, LONG).ok();
    }
}

#[test]
fn a_flipped_bit_is_an_error_that_is_named_and_the_rest_is_served() {
    let dir = scratch();
    let path = disk(dir.path());
    {
        let mut cluster = Cluster::start(plan(dir.path(), 1, &path));
        write(&mut cluster.export(1, "data").open(), 0, 4 * MIB);
        assert!(cluster.node(1).terminate().success());
    }
    let place = MIB + 320 * KIB;
    let at = find(&path, &content::bytes(place, 4096, SEED)) + 999;
    let file = File::options().read(true).write(true).open(&path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 0x40], at).unwrap();

    let scrub = cards(&["disk", "scrub", text(&path)]).fails();
    let said = format!("volume data, 4 KiB at byte {place}: does not fit its checksum\n");
    assert!(scrub.stdout.contains("damaged      4 KiB\n") && scrub.stdout.contains(&said), "{scrub}");
    let report: Value =
        serde_json::from_str(&cards(&["disk", "scrub", text(&path), "--json"]).stdout).unwrap();
    assert_eq!((&report["damaged"], &report["places"][0]["offset"]), (&4096.into(), &place.into()));

    let mut cluster = Cluster::start(plan(dir.path(), 2, &path));
    for number in [2, 1] {
        let mut client = cluster.export(number, "data").open();
        let error = client.read(place, 4096).expect_err("a read of what is damaged");
        assert_eq!(error.raw_os_error(), Some(libc::EIO), "{error}");
        for (from, to) in [(0, MIB + 320 * KIB), (MIB + 384 * KIB, 4 * MIB)] {
            content::check(&client.read(from, (to - from) as usize).unwrap(), from, SEED);
        }
    }
    let line = headline(&mut cluster, 1);
    let says = format!("checksum: the 4 KiB at byte {place} of the volume are not what was written there");
    assert!(line.contains("disk data: ") && line.contains(&says), "{line}");
    assert!(headline(&mut cluster, 2).contains("volume data: "), "{}", headline(&mut cluster, 2));
    // The remedy can be followed while the daemon runs, and is none for another fault.
    let problems = cluster.node(1).status()["problems"].to_string();
    assert!(problems.contains("`cards volume scrub data`") && !problems.contains("make room"), "{problems}");
    let sockets = [1, 2].map(|number| cluster.node(number).admin_socket());
    let scrub =
        |number: usize| cards(&["volume", "scrub", "data", "--rate", "1G", "--socket", &sockets[number - 1]]);
    let found = scrub(1).fails();
    assert!(
        found.stdout.contains("read         24 MiB\ndamaged      4 KiB\n") && found.stdout.contains(&said),
        "{found}"
    );
    assert!(
        scrub(2).fails().stderr.contains("the disk of volume data is at node n1: run this command there")
    );
    // A daemon that has not read them knows it from a scrub, and says so until they are written anew.
    assert!(cluster.node(1).terminate().success());
    cluster.node(1).restart();
    assert_eq!(cluster.node(1).status()["disks"][0]["damaged"], 0);
    scrub(1).fails();
    let line = headline(&mut cluster, 1);
    assert!(
        line.contains(&format!("volume data: the 4 KiB at byte {place} are not what was written there")),
        "{line}"
    );
    assert_eq!(cluster.node(1).status()["disks"][0]["damaged"], 4096);
    // What is written anew can be read.
    let mut client = cluster.export(2, "data").open();
    client.write(place, &content::bytes(place, 4096, SEED)).expect("a write of the whole unit");
    client.flush().expect("a flush");
    content::check(&cluster.export(1, "data").read(0, 4 << 20).unwrap(), 0, SEED);
    assert_eq!(cluster.node(1).status()["disks"][0]["damaged"], 0);
    assert!(!headline(&mut cluster, 1).contains("at byte"), "{}", headline(&mut cluster, 1));
    assert_eq!(scrub(1).ok().stdout, "read         24 MiB\ndamaged      nothing\n");
}

#[test]
fn a_volume_on_one_disk_is_scrubbed_without_being_asked_and_the_node_remembers_when() {
    let dir = scratch();
    let path = disk(dir.path());
    let mut plan = plan(dir.path(), 1, &path);
    plan.nodes[0].keys = "scrub_every = \"1s\"\nscrub_rate = \"0\"\n";
    let mut cluster = Cluster::start(plan.clone());
    let mut client = cluster.export(1, "data").open();
    write(&mut client, 0, MIB);
    client.close();
    let at = find(&path, &content::bytes(MIB / 2, 4 * KIB as usize, SEED));
    let file = File::options().write(true).open(&path).unwrap();
    file.write_all_at(&[0xa5; 8], at + 100).unwrap();
    cluster.node(1).says(&["volume=\"data\"", "24 MiB read, repaired 0 B, damaged 4 KiB"]);
    let scrubbed = |cluster: &mut Cluster| {
        let shown = cards(&["volume", "show", "data", "--json", "--socket", &cluster.node(1).admin_socket()]);
        let shown: Value = serde_json::from_str(&shown.ok().stdout).unwrap();
        shown["scrub"]["last_s"].as_u64()
    };
    assert!(scrubbed(&mut cluster).is_some());
    cluster.node(1).kill();
    drop(cluster);
    // The next one is not due for two weeks.
    plan.nodes[0].keys = "";
    let mut cluster = Cluster::start(plan);
    assert!(scrubbed(&mut cluster).is_some());
}

#[test]
fn what_is_none_of_its_disks_is_refused_by_name_and_untouched() {
    let dir = scratch();
    let path = disk(dir.path());
    let refuses = |plan: Plan, says: &[&str]| {
        let before = plan.nodes[0].disks.iter().map(|disk| disk.origin.clone()).collect::<Vec<_>>();
        let config = plan.runtime_dir(0).with_file_name("n1.toml");
        let mut cluster = Cluster::spawn(plan);
        eventually("the daemon ends", SHORT, || (!cluster.node(1).is_alive()).then_some(()));
        let log = cluster.node(1).log();
        assert!(says.iter().all(|part| log.contains(part)), "{says:?} of {before:?} are not in: {log}");
        // The same before anybody starts it; there the disk is named by the check.
        let doctor = cards(&["doctor", "--config", text(&config)]).fails().stdout;
        let part = |part: &&str| doctor.contains(part.trim_start_matches("disk \"fast1\": "));
        assert!(says.iter().all(part), "{says:?} of {before:?} are not in: {doctor}");
    };
    let at = |name: &str| {
        let dir = dir.path().join(name);
        fs::create_dir(&dir).unwrap();
        dir
    };
    // It is of cluster "lab" from then on.
    assert!(Cluster::start(plan(&at("first"), 1, &path)).node(1).terminate().success());
    // That one is opened, and closed again.
    let mut twice = plan(&at("twice"), 1, &path);
    let plain = dir.path().join("plain.img");
    content::image(&plain, MIB, SEED);
    twice.nodes[0].disks.push(Disk { name: "data".into(), ..Disk::file(&plain) });
    refuses(twice, &["disk \"fast1\": has a volume \"data\"", "another of that name"]);
    let before = fs::read(&path).unwrap();
    let mut other = plan(&at("other"), 1, &path);
    other.nodes[0].cluster = "factory".into();
    refuses(other, &["is of cluster \"lab\", and this node is of \"factory\"", "correct `managed`"]);
    let mut renamed = plan(&at("renamed"), 1, &path);
    renamed.nodes[0].disks[0].name = "fast2".into();
    refuses(renamed, &["is called \"fast1\" and not \"fast2\"", "another disk is in its place"]);
    let blank = dir.path().join("blank.img");
    File::create(&blank).unwrap().set_len(64 * MIB).unwrap();
    refuses(plan(&at("blank"), 1, &blank), &["is no managed disk", "`cards disk format` makes it"]);
    assert!(fs::read(&blank).unwrap().iter().all(|byte| *byte == 0), "a refused file is changed");
    refuses(plan(&at("plain"), 1, &plain), &["is no managed disk", "has `path` in node.toml"]);
    assert!(fs::read(&path).unwrap() == before, "a refused disk is changed");
    content::check(&fs::read(&plain).unwrap(), 0, SEED);

    let file = File::options().write(true).open(&path).unwrap();
    file.set_len(60 * MIB).unwrap();
    refuses(plan(&at("short"), 1, &path), &["has 62914560 bytes and had 67108864 when it was formatted"]);
    file.set_len(64 * MIB).unwrap();
    for slot in [0, 65_536] {
        file.write_all_at(&[3], slot + 8).unwrap();
    }
    refuses(plan(&at("newer"), 1, &path), &["format version 3", "knows version 2; use a newer program"]);
}

#[test]
fn a_plain_disk_beside_it_stays_as_it_is() {
    let dir = scratch();
    let path = disk(dir.path());
    let plain = dir.path().join("plain.img");
    content::image(&plain, 2 * MIB, SEED);
    let before = fs::read(&plain).unwrap();
    let mut plan = plan(dir.path(), 2, &path).disk(Disk::file(&plain));
    plan.nodes[1].attach.reverse();
    let mut cluster = Cluster::start(plan);
    cluster.export(2, "disk").check_all(SEED);
    let socket = cluster.node(1).admin_socket();
    let scrub = cards(&["volume", "scrub", "disk", "--socket", &socket]).fails();
    assert!(scrub.stderr.contains("volume disk is a plain disk, which has no checksums"), "{scrub}");
    assert!(scrub.stderr.contains("erases what is on it"), "{scrub}");
    let remove = cards(&["volume", "remove", "disk", "--socket", &socket]).fails();
    assert!(
        remove.stderr.contains("If that is a plain disk") && remove.stderr.contains("node.toml"),
        "{remove}"
    );
    write(&mut cluster.export(2, "data").open(), 0, MIB);
    assert!(cluster.node(1).terminate().success());
    assert!(fs::read(&plain).unwrap() == before, "a plain disk is changed");
}

#[test]
fn volumes_are_made_and_removed_while_no_daemon_has_the_disk() {
    let dir = scratch();
    let path = disk(dir.path());
    let at = text(&path);
    let fails = |words: &[&str], says: &str| {
        let done = cards(words).fails();
        assert!(done.stderr.contains(says), "{says:?} of {words:?}: {done}");
    };
    let create = |name: &'static str, size: &'static str| -> Finished {
        cards(&["volume", "create", name, "--size", size, "--disk", at])
    };
    assert!(create("data", "1M").fails().stderr.contains("has a volume \"data\" already"));
    assert!(create("odd", "1000").fails().stderr.contains("use a multiple of 4096"));
    assert!(
        create("large", "30M").fails().stderr.contains("needs 30 pieces, and the disk has 21 that are free")
    );
    fails(
        &["volume", "create", "x", "--size", "1M", "--disk", at, "--layout", "raid1"],
        "--layout raid1:2: it is on disks of several nodes, and --disk names one",
    );
    create("log", "2M").ok();
    fails(&["volume", "remove", "data", "--disk", at], "add --force=data");
    fails(
        &["volume", "remove", "date", "--disk", at, "--force=date"],
        "has no volume \"date\"; it has data, log",
    );
    fails(&["disk", "format", at, "--force"], "is the managed disk fast1, with volume data, volume log");
    cards(&["volume", "remove", "data", "--disk", at, "--force=data"]).ok();
    let mut plan = plan(dir.path(), 1, &path);
    plan.nodes[0].attach[0].volume = "log".into();
    let mut cluster = Cluster::start(plan);
    fails(&["volume", "create", "x", "--size", "1M", "--disk", at], "in use by another daemon or program");
    fails(&["disk", "scrub", at], "in use, mounted or open in a daemon");
    let other = dir.path().join("other.img");
    File::create(&other).unwrap().set_len(64 * MIB).unwrap();
    cards(&["disk", "format", text(&other), "--name", "other"]).ok();
    let socket = cluster.node(1).admin_socket();
    fails(
        &["volume", "create", "log", "--size", "1M", "--disk", text(&other), "--socket", &socket],
        "volume \"log\": node n1 of cluster lab has a volume of this name",
    );
    cards(&["volume", "create", "x", "--size", "1M", "--disk", text(&other), "--socket", &socket]).ok();
    assert_eq!(cluster.node(1).status()["volumes"].as_array().unwrap().len(), 1);
    assert!(cluster.node(1).terminate().success());
    cards(&["disk", "format", at, "--force=fast1", "--name", "fast1"]).ok();
    assert_eq!(show(&path)["volumes"].as_array().unwrap().len(), 0);
}

#[test]
fn a_volume_that_takes_the_place_of_another_is_not_read_for_it() {
    let dir = scratch();
    let path = disk(dir.path());
    let make = |name: &str| {
        cards(&["volume", "create", name, "--size", "2M", "--disk", text(&path)]).ok();
    };
    make("log");
    make("a-third");
    let mut cluster = Cluster::start(plan(dir.path(), 2, &path));
    write(&mut cluster.export(2, "data").open(), 0, MIB);
    let names = |cluster: &mut Cluster| -> Vec<String> {
        let status = cluster.node(1).status();
        let disks = status["disks"].as_array().unwrap();
        disks.iter().map(|disk| disk["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&mut cluster), ["data", "log", "a-third"]);
    assert!(cluster.node(1).terminate().success());
    cards(&["volume", "remove", "data", "--disk", text(&path), "--force=data"]).ok();
    // Without this file, volumes are numbered by their order.
    fs::remove_file(dir.path().join("n1/state/numbers@n1@lab.json")).unwrap();
    cluster.node(1).spawn();
    eventually("node 1 is refused", SHORT, || {
        let line = headline(&mut cluster, 2);
        line.contains("has another volume, log, where it had data").then_some(())
    });
    let error = Client::open(&cluster.export(2, "data")).and_then(|mut client| client.read(MIB, 4096));
    assert!(error.is_err(), "what is gone is read");
    let socket = cluster.node(2).admin_socket();
    cards(&["volume", "detach", "data", "--socket", &socket]).ok();
    eventually("the volume is attached", SHORT, || {
        cards(&["volume", "attach", "log", "--socket", &socket]).status.success().then_some(())
    });
    assert!(cluster.export(2, "log").read(0, 1 << 20).unwrap().iter().all(|byte| *byte == 0));
}

#[test]
fn a_volume_keeps_its_number_whatever_disks_and_volumes_come_and_go() {
    let dir = scratch();
    let path = disk(dir.path());
    let at = text(&path);
    cards(&["volume", "create", "old", "--size", "2M", "--disk", at]).ok();
    cards(&["volume", "create", "last", "--size", "2M", "--disk", at]).ok();
    let mut plan = plan(dir.path(), 2, &path);
    for volume in ["old", "last"] {
        plan.nodes[1].attach.push(Attach { volume: volume.into(), mode: "rw", policy: None });
    }
    let mut cluster = Cluster::start_connected(plan);
    let mut client = cluster.export(2, "last").open();
    client.write(0, &content::bytes(0, 1 << 20, SEED)).unwrap();
    client.flush().unwrap();
    assert!(cluster.node(1).terminate().success());

    // A plain disk first, a managed disk before the other, a volume made anew, one more, and one that ends.
    let (plain, first) = (dir.path().join("plain.img"), dir.path().join("first.img"));
    for path in [&plain, &first] {
        File::create(path).unwrap().set_len(64 * MIB).unwrap();
    }
    cards(&["disk", "format", text(&first), "--name", "first"]).ok();
    cards(&["volume", "create", "more", "--size", "2M", "--disk", text(&first)]).ok();
    cards(&["volume", "remove", "old", "--disk", at, "--force=old"]).ok();
    cards(&["volume", "create", "old", "--size", "2M", "--disk", at]).ok();
    let disks = &mut cluster.plan.nodes[0].disks;
    disks.insert(0, Disk { name: "plain".into(), ..Disk::file(&plain) });
    disks.insert(1, Disk::managed("first", &first));
    fs::write(dir.path().join("n1.toml"), cluster.plan.toml(0)).unwrap();
    cluster.node(1).restart();

    // The client that was there all the time goes on, and so does a new one.
    content::check(&client.read(0, 1 << 20).unwrap(), 0, SEED);
    client.write(MIB, &content::bytes(MIB, 1 << 20, SEED)).expect("a write");
    content::check(&cluster.export(2, "last").read(0, 2 << 20).unwrap(), 0, SEED);
    eventually("the volume that was made anew is another one", SHORT, || {
        let status = cluster.node(2).status();
        let volumes = status["volumes"].as_array().unwrap();
        let is_told = |volume: &Value| {
            volume["name"] == "old"
                && volume["reason"].as_str().is_some_and(|reason| reason.contains("made anew"))
        };
        volumes.iter().any(is_told).then_some(())
    });
    assert!(Client::open(&cluster.export(2, "old")).and_then(|mut client| client.read(0, 4096)).is_err());
    let socket = cluster.node(2).admin_socket();
    cards(&["volume", "detach", "old", "--socket", &socket]).ok();
    for volume in ["old", "more", "plain"] {
        cards(&["volume", "attach", volume, "--socket", &socket]).ok();
        assert!(
            cluster.export(2, volume).read(0, 1 << 20).unwrap().iter().all(|byte| *byte == 0),
            "{volume}"
        );
    }
    eventually("the registry has followed", SHORT, || {
        (cluster.node(1).status()["healthy"] == true && cluster.node(2).status()["healthy"] == true)
            .then_some(())
    });
}

#[test]
fn a_writer_elsewhere_goes_on_over_kills_of_the_disk_node() {
    let dir = scratch();
    let path = disk(dir.path());
    let mut cluster = Cluster::start(Plan { disk_wait: "60s", ..plan(dir.path(), 2, &path) });
    let export = cluster.export(2, "data");
    let (done, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut client = export.open();
            for number in 0.. {
                let at = number * 20 * KIB % SIZE;
                let length = (20 * KIB).min(SIZE - at) as usize;
                client.write(at, &content::bytes(at, length, SEED)).expect("a write");
                if number % 64 == 63 {
                    client.flush().expect("a flush");
                }
                done.fetch_add(1, Ordering::SeqCst);
                if stop.load(Ordering::SeqCst) && number * 20 * KIB > SIZE {
                    break;
                }
            }
            client.flush().expect("a flush");
        });
        for _ in 0..3 {
            let from = done.load(Ordering::SeqCst);
            eventually("writes go on", LONG, || {
                (done.load(Ordering::SeqCst) > from + 100 || writer.is_finished()).then_some(())
            });
            cluster.node(1).kill();
            cluster.node(1).spawn();
        }
        stop.store(true, Ordering::SeqCst);
        writer.join().expect("no error");
    });
    export.check_all(SEED);
    let socket = cluster.node(1).admin_socket();
    let scrub = cards(&["volume", "scrub", "data", "--socket", &socket]).ok();
    assert!(scrub.stdout.contains("damaged      nothing\n"), "{scrub}");
}

/// A client that copies a volume skips its holes: data that are lost must not be among them.
#[test]
fn what_is_lost_is_not_copied_as_a_hole() {
    need!("nbdcopy", "nbdinfo");
    let dir = scratch();
    let path = disk(dir.path());
    let mut cluster = Cluster::start(plan(dir.path(), 2, &path));
    write(&mut cluster.export(1, "data").open(), 4 * MIB, MIB);
    assert!(cluster.node(1).terminate().success());
    // The file system below loses blocks, as when a file was cut short and made longer again.
    let at = find(&path, &content::bytes(4 * MIB, 4096, SEED));
    let file = File::options().write(true).open(&path).unwrap();
    let range = format!("--offset={} --length=16384", at + 64 * KIB);
    sh(&format!("fallocate --punch-hole {range} {}", path.display()), SHORT).ok();
    file.sync_all().unwrap();
    cluster.node(1).restart();
    // A node that is not connected to the disk's yet says that all are data.
    eventually("n2 is connected to n1", LONG, || (cluster.node(2).status()["healthy"] == true).then_some(()));
    for number in [1, 2] {
        let uri = cluster.export(number, "data").uri();
        let map = run(&["nbdinfo", "--map", &uri], LONG).ok().stdout;
        let kinds: Vec<Vec<&str>> =
            map.lines().map(|line| line.split_whitespace().take(3).collect()).collect();
        let (start, length, end) = (4 * MIB, MIB, 5 * MIB);
        let is_data = kinds.iter().any(|words| words[..] == [&*start.to_string(), &*length.to_string(), "0"]);
        assert!(is_data && kinds.len() == 3, "data from {start} to {end}, and holes around:\n{map}");
        let copy = dir.path().join("copy.img");
        run(&["nbdcopy", &uri, text(&copy)], LONG).fails();
    }
}
