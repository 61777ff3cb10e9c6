//! A daemon whose disk hangs: here the file of a volume of another daemon that stands still.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::Value;

use super::{Device, cluster, missing_fuse};
use crate::harness::client::CMD_READ;
use crate::harness::cluster::{CARDS, Cluster};
use crate::harness::plan::{Disk, Plan};
use crate::harness::process::run;
use crate::harness::tools::skip_if;
use crate::harness::{LONG, MIB, SHORT, eventually, scratch};
use crate::mirror::{Writer, at, check_all, cluster_by, number_of, volume_at};
use crate::striped::parts;

#[test]
fn a_disk_that_hangs_is_named_and_holds_up_no_doctor() {
    skip_if!(missing_fuse());
    let dir = scratch();
    let (below, above, later) =
        (dir.path().join("below"), dir.path().join("above"), dir.path().join("later"));
    [&below, &above, &later].iter().for_each(|dir| std::fs::create_dir_all(dir).unwrap());
    // What waits for the file of a daemon that stands still may not end before that one: whatever becomes of the test, it ends first.
    let (mut upper, mut next);
    let mut lower = cluster(&below, 1, 16 * MIB);
    let device = Device::start(&mut lower, 1, &[]);
    let path = device.path.display().to_string();
    upper = Cluster::start(Plan::new(&above, 1).disk(Disk::file(&device.path)));
    let mut client = upper.export(1, "disk").open();
    client.read(0, 4096).expect("a read of a disk that answers");

    lower.node(1).pause();
    client.send(CMD_READ, 8 * MIB, 4096, &[]).unwrap();
    let silent = format!("disk disk: {path} has not answered for ");
    let is_named = |cluster: &mut Cluster| cluster.node(1).status()["problems"].to_string().contains(&silent);
    eventually("the status names the disk", SHORT, || is_named(&mut upper).then_some(()));
    upper.node(1).says(&["ERROR", &silent, "1 request waits for it", "dmesg"]);
    let config = above.join("n1.toml").display().to_string();
    let doctor = run(&[CARDS, "doctor", "--config", &config], SHORT);
    let problem = format!("{path} does not answer within 3 s");
    let mut problems = doctor.stdout.lines().filter(|line| line.starts_with("problem  disk disk"));
    assert!(problems.any(|line| line.contains(&problem)), "{doctor}");
    lower.node(1).resume();
    upper.node(1).says(&["INFO", &path, "answers again, after "]);
    eventually("the status forgets it", SHORT, || (!is_named(&mut upper)).then_some(()));

    drop(client);
    upper.node(1).kill();

    // One that waits for such a disk at its start says so.
    lower.node(1).pause();
    next = Cluster::spawn(Plan::new(&later, 1).disk(Disk::file(&device.path)));
    let socket = next.node(1).admin_socket();
    let silent = format!("{path} has not answered for ");
    eventually("the start says what it waits for", SHORT, || {
        let said = run(&[CARDS, "status", "--socket", &socket], SHORT).stdout;
        (said.contains("starting: waits for disk disk for ") && said.contains(&silent)).then_some(())
    });
    next.node(1).says(&["ERROR", &silent, "until it answers nothing is served here"]);
    lower.node(1).resume();
    next.node(1).wait_ready();
}

/// Each part of a volume, and also a volume that nobody uses: each would find out for itself when it is used.
#[test]
fn all_volumes_leave_a_primary_whose_disk_hangs() {
    skip_if!(missing_fuse());
    let dir = scratch();
    let below = dir.path().join("below");
    fs::create_dir(&below).unwrap();
    // As above.
    let (mut cluster, writer, reader);
    let mut lower = super::cluster(&below, 1, 96 * MIB);
    let device = Device::start(&mut lower, 1, &[]);
    symlink(&device.path, dir.path().join("fast1.img")).unwrap();
    cluster = cluster_by(Plan { disk_wait: "60s", ..Plan::new(dir.path(), 3) }, None);
    for (name, layout, on) in
        [("data", "raid10", "n1:fast1,n2:fast2,n3:fast3"), ("idle", "raid1:2", "n1:fast1,n2:fast2")]
    {
        let create = ["volume", "create", name, "--size", "16M", "--layout", layout, "--on", on];
        at(&mut cluster, 1, &create).ok();
    }
    eventually("n3 attaches the volume", LONG, || {
        at(&mut cluster, 3, &["volume", "attach", "data"]).status.success().then_some(())
    });
    let groups = |cluster: &mut _| {
        let mut groups = parts(cluster, 3);
        groups.push(volume_at(cluster, 3, "idle")["mirror"].clone());
        groups
    };
    let led_by_1 = |cluster: &mut _| {
        let groups = groups(cluster).into_iter();
        groups.map(|group| number_of(&group["map"]["primary"])).filter(|leads| *leads == Some(1)).count()
    };
    eventually("n1 orders writes of several groups", LONG, || (led_by_1(&mut cluster) > 1).then_some(()));
    writer = Writer::begin(cluster.export(3, "data"), true);
    reader = writer.reader(cluster.export(3, "data"));
    writer.goes_on(20);
    device.process.signal(libc::SIGSTOP);
    eventually("n1 orders no writes any more", LONG, || (led_by_1(&mut cluster) == 0).then_some(()));
    writer.goes_on(20);
    let log = cluster.node(1).log();
    assert!(log.contains("disk fast1: ") && log.contains(" has not answered for "), "{log}");
    device.process.signal(libc::SIGCONT);
    eventually("all copies are in sync", LONG, || {
        let is_in_sync = |group: &Value| {
            let copies = group["copies"].as_array()?;
            copies.iter().all(|copy| copy["state"] == "in_sync").then_some(())
        };
        groups(&mut cluster).iter().try_for_each(is_in_sync)
    });
    let known = writer.end(reader);
    cluster.node(2).kill();
    check_all(&cluster.export(3, "data"), &known);
}
