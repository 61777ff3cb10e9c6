//! Nodes die, hang and come back.

use std::fs;
use std::io;
use std::thread;
use std::time::{Duration, Instant};

use super::{SEED, SIZE, image, three_nodes};
use crate::harness::client::Client;
use crate::harness::cluster::Cluster;
use crate::harness::export::Export;
use crate::harness::plan::{Disk, Plan};
use crate::harness::process::run;
use crate::harness::tools::need;
use crate::harness::{KIB, MIB, SHORT, content, eventually, scratch};

const STEP: u64 = 256 * KIB;

/// Reads the whole volume; half-way, `disturb` runs while the reading goes on.
fn read_through(export: &Export, disturb: impl FnOnce()) {
    let (half, reached) = std::sync::mpsc::channel();
    let export = export.clone();
    let reader = thread::spawn(move || {
        let mut client = export.open();
        for offset in (0..SIZE).step_by(STEP as usize) {
            if offset == SIZE / 2 {
                half.send(()).expect("the test waits");
            }
            let data = client.read(offset, STEP as usize).expect("a read while the disk node lives");
            content::check(&data, offset, SEED);
        }
    });
    // A reader that failed drops its end; the join below tells why.
    let _ = reached.recv();
    disturb();
    reader.join().expect("the reader");
}

#[test]
fn a_dead_cache_costs_no_error() {
    let dir = scratch();
    let mut cluster = three_nodes(dir.path());
    cluster.export(2, "disk").check_all(SEED);
    let reader = cluster.export(3, "disk");
    read_through(&reader, || cluster.node(2).kill());
    cluster.export(1, "disk").check_all(SEED);
    cluster.node(2).restart();
    cluster.disk().iter().for_each(|export| export.check_all(SEED));
}

#[test]
fn a_hung_cache_costs_no_error() {
    let dir = scratch();
    let mut cluster = three_nodes(dir.path());
    cluster.export(2, "disk").check_all(SEED);
    let reader = cluster.export(3, "disk");
    read_through(&reader, || cluster.node(2).pause());
    cluster.node(2).resume();
    cluster.disk().iter().for_each(|export| export.check_all(SEED));
}

#[test]
fn a_dead_disk_node_gives_eio_and_then_service() {
    let dir = scratch();
    let plan = Plan::new(dir.path(), 3).disk(Disk::file(&image(dir.path(), "disk.img")));
    let mut cluster = Cluster::start(plan.cache("64M").impatient());
    let mut client = cluster.export(2, "disk").open();
    content::check(&client.read(0, 4096).expect("a read"), 0, SEED);
    cluster.node(1).kill();
    let error = client.read(SIZE - MIB, 4096).expect_err("nobody has this block");
    assert_eq!(error.raw_os_error(), Some(libc::EIO), "{error}");
    // The same connection works again once the disk is back.
    cluster.node(1).restart();
    let data = eventually("service resumes", SHORT, || match client.read(SIZE - MIB, 4096) {
        Ok(data) => Some(data),
        Err(error) if error.raw_os_error() == Some(libc::EIO) => None,
        Err(error) => panic!("the connection must outlive the disk node: {error}"),
    });
    content::check(&data, SIZE - MIB, SEED);
    client.close();
    cluster.node(3).wait_ready();
    cluster.disk().iter().for_each(|export| export.check_all(SEED));
}

/// What a client that copies asks first is which parts are holes, which only the disk node can say.
#[test]
fn a_cached_read_only_volume_is_copied_without_its_disk_node() {
    need!("nbdcopy");
    let dir = scratch();
    let mut disk = Disk::file(&image(dir.path(), "disk.img"));
    disk.read_only = true;
    disk.policy = "rd".into();
    let mut cluster = Cluster::start(Plan::new(dir.path(), 2).disk(disk).cache("64M"));
    let export = cluster.export(2, "disk");
    export.check_all(SEED);
    cluster.node(1).kill();
    let copy = dir.path().join("copy.img");
    run(&["nbdcopy", &export.uri(), &copy.display().to_string()], SHORT).ok();
    assert_eq!(fs::read(&copy).expect("a copy"), content::bytes(0, SIZE as usize, SEED));
}

#[test]
fn a_flushed_write_survives_kill_9_of_every_node() {
    let dir = scratch();
    let mut cluster = three_nodes(dir.path());
    let mut writer = cluster.export(2, "disk").open();
    writer.write(2 * MIB, &content::bytes(2 * MIB, 100 << 10, 77)).expect("a write");
    writer.flush().expect("a flush");
    for number in [2, 1, 3] {
        cluster.node(number).kill();
    }
    // Each waits for another one: two of the three that keep the registry.
    (1..=3).for_each(|number| cluster.node(number).spawn());
    (1..=3).for_each(|number| cluster.node(number).wait_ready());
    for export in cluster.disk() {
        content::check(&export.read(2 * MIB, 100 << 10).expect("a read"), 2 * MIB, 77);
    }
}

#[test]
fn a_node_returns_several_times() {
    let dir = scratch();
    let mut cluster = three_nodes(dir.path());
    for _ in 0..3 {
        cluster.export(3, "disk").check_all(SEED);
        cluster.node(3).kill();
        cluster.export(2, "disk").check_all(SEED);
        cluster.node(3).restart();
    }
}

#[test]
fn sigterm_ends_every_node_with_0() {
    let dir = scratch();
    let mut cluster = three_nodes(dir.path());
    // Idle and busy connections must not keep a daemon from ending.
    let mut clients: Vec<Client> = cluster.disk().iter().map(Export::open).collect();
    clients[1].read(0, MIB as usize).expect("a read");
    for number in [2, 3, 1] {
        let status = cluster.node(number).terminate();
        assert_eq!(status.code(), Some(0), "n{number}: {status}\n{}", cluster.node(number).log());
    }
    let gone = clients[0].read(0, 512).expect_err("the daemon has ended");
    let lost = [io::ErrorKind::UnexpectedEof, io::ErrorKind::BrokenPipe, io::ErrorKind::ConnectionReset];
    assert!(lost.contains(&gone.kind()) || gone.raw_os_error().is_some(), "{gone}");
}

/// A node that is stopped gives its cards back: writers elsewhere need not wait until its leases are over.
#[test]
fn who_says_goodbye_holds_up_no_writer() {
    const LEASE: Duration = Duration::from_secs(10);
    let dir = scratch();
    let mut plan = Plan::new(dir.path(), 3).disk(Disk::file(&image(dir.path(), "disk.img")));
    (plan.lease, plan.disk_wait) = ("10s", "30s");
    let mut cluster = Cluster::start(plan);
    let mut writer = cluster.export(2, "disk").open();
    cluster.export(3, "disk").check_all(SEED);
    assert!(cluster.node(3).terminate().success());
    let began = Instant::now();
    writer.write(0, &content::bytes(0, MIB as usize, 3)).unwrap();
    assert!(began.elapsed() < LEASE / 2, "{:?}", began.elapsed());
}
