//! The disk below fails: the client gets the error for exactly what is lost, and the rest goes on.

use std::fs::{self, OpenOptions};

use super::{SEED, SIZE, image};
use crate::harness::cluster::{CARDS, Cluster};
use crate::harness::plan::{Disk, Plan};
use crate::harness::process::{Process, run};
use crate::harness::reference::Reference;
use crate::harness::tools::need;
use crate::harness::{MIB, SHORT, content, scratch};

#[test]
fn another_nbd_server_is_a_disk() {
    need!("qemu-nbd");
    let dir = scratch();
    let origin = Reference::qemu_nbd(dir.path(), &image(dir.path(), "disk.img"));
    let plan = Plan::new(dir.path(), 3).disk(Disk::remote(&origin.export.uri()));
    let cluster = Cluster::start(plan.cache("16M"));
    cluster.disk().iter().rev().for_each(|export| export.check_all(SEED));
    let mut writer = cluster.export(3, "disk").open();
    writer.write(4096, &content::bytes(4096, 8192, 80)).expect("a write");
    writer.flush().expect("a flush");
    content::check(&origin.export.read(4096, 8192).expect("a read"), 4096, 80);
}

#[test]
fn an_unreadable_part_of_the_disk_is_eio_and_the_rest_is_served() {
    need!("nbdkit");
    let dir = scratch();
    let image = image(dir.path(), "disk.img");
    let (bad, size) = (16 * MIB, SIZE);
    // The last half of the origin cannot be read.
    let arguments = [
        "eval".to_string(),
        format!("get_size=echo {size}"),
        format!(
            "pread=if [ $(( $4 + $3 )) -gt {bad} ]; then echo EIO medium error >&2; exit 1; fi; \
             dd if={} iflag=skip_bytes,count_bytes skip=$4 count=$3 bs=1M status=none",
            image.display()
        ),
    ];
    let origin = Reference::nbdkit(dir.path(), &arguments);
    let mut disk = Disk::remote(&origin.export.uri());
    disk.read_only = true;
    let mut cluster = Cluster::start(Plan::new(dir.path(), 2).disk(disk));
    let mut client = cluster.export(2, "disk").open();
    for _ in 0..2 {
        for offset in [0, 3 * MIB, bad - 4 * MIB] {
            content::check(&client.read(offset, 64 << 10).expect("a good part"), offset, SEED);
        }
        let error = client.read(bad + MIB, 4096).expect_err("a bad part");
        assert_eq!(error.raw_os_error(), Some(libc::EIO), "{error}");
    }
    assert!(cluster.node(1).is_alive() && cluster.node(2).is_alive());
}

#[test]
fn a_shrunk_disk_is_eio_and_no_crash() {
    let dir = scratch();
    let image = image(dir.path(), "disk.img");
    let mut disk = Disk::file(&image);
    disk.read_only = true;
    let mut cluster = Cluster::start(Plan::new(dir.path(), 2).disk(disk));
    OpenOptions::new().write(true).open(&image).unwrap().set_len(8 * MIB).unwrap();
    let mut client = cluster.export(2, "disk").open();
    let error = client.read(SIZE - MIB, 4096).expect_err("there is nothing any more");
    assert_eq!(error.raw_os_error(), Some(libc::EIO), "{error}");
    content::check(&client.read(2 * MIB, 64 << 10).expect("what is left"), 2 * MIB, SEED);
    assert!(cluster.node(1).is_alive() && cluster.node(2).is_alive());
}

/// What was at its end would read as errors, and what is in its place is not what nodes have cached.
#[test]
fn a_disk_that_came_back_shorter_or_not_at_all_is_not_served() {
    let dir = scratch();
    let image = image(dir.path(), "disk.img");
    let mut cluster = Cluster::start(Plan::new(dir.path(), 1).disk(Disk::file(&image)));
    cluster.node(1).terminate();
    let config = dir.path().join("n1.toml").display().to_string();
    let refused = || run(&[CARDS, "serve", "--config", &config], SHORT).fails().stderr;
    let resize = |size| OpenOptions::new().write(true).open(&image).unwrap().set_len(size).unwrap();
    resize(SIZE - MIB);
    let shrunk = refused();
    assert!(shrunk.contains(&format!("and had {SIZE} when it was served last")), "{shrunk}");
    fs::rename(&image, dir.path().join("away.img")).unwrap();
    let gone = refused();
    assert!(gone.contains("was served here before; bring it back") && !gone.contains("truncate"), "{gone}");
    // An empty file in its place is not the disk, whatever its size.
    for size in [SIZE, 4 * SIZE] {
        fs::File::create_new(&image).unwrap().set_len(size).unwrap();
        let blank = refused();
        assert!(
            blank.contains("is another file than was served here before, and was never written"),
            "{blank}"
        );
        let doctor = run(&[CARDS, "doctor", "--config", &config], SHORT).fails().stdout;
        assert!(doctor.contains("is another file") && !doctor.contains("truncate"), "{doctor}");
        fs::remove_file(&image).unwrap();
    }
    let doctor = run(&[CARDS, "doctor", "--config", &config], SHORT).fails().stdout;
    assert!(
        doctor.contains("was served here before; bring it back") && !doctor.contains("truncate"),
        "{doctor}"
    );
    fs::rename(dir.path().join("away.img"), &image).unwrap();
    resize(SIZE);
    cluster.node(1).restart();
    content::check(&cluster.export(1, "disk").read(0, 4096).expect("a read"), 0, SEED);
    // As both messages say.
    cluster.node(1).terminate();
    resize(SIZE - MIB);
    fs::remove_file(cluster.plan.runtime_dir(0).join("state/disk@n1@lab.journal")).unwrap();
    cluster.node(1).restart();
}

#[test]
fn a_lost_origin_is_eio() {
    need!("qemu-nbd");
    let dir = scratch();
    let mut origin: Option<Process> = None;
    let uri = {
        let server = Reference::qemu_nbd(dir.path(), &image(dir.path(), "disk.img"));
        let uri = server.export.uri();
        origin.replace(server.process);
        uri
    };
    let mut cluster = Cluster::start(Plan::new(dir.path(), 2).disk(Disk::remote(&uri)).impatient());
    let mut client = cluster.export(2, "disk").open();
    content::check(&client.read(0, 4096).expect("a read"), 0, SEED);
    drop(origin);
    let error = client.read(SIZE - MIB, 4096).expect_err("the origin is gone");
    assert_eq!(error.raw_os_error(), Some(libc::EIO), "{error}");
    assert!(cluster.node(1).is_alive() && cluster.node(2).is_alive());
}
