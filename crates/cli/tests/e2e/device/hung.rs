//! A daemon whose disk hangs: here the file of a volume of another daemon that stands still.

use std::fs;
use std::os::unix::fs::symlink;

use super::{Device, cluster, missing_fuse};
use crate::harness::client::CMD_READ;
use crate::harness::cluster::{CARDS, Cluster};
use crate::harness::plan::{Disk, Plan};
use crate::harness::process::run;
use crate::harness::tools::skip_if;
use crate::harness::{LONG, MIB, SHORT, eventually, scratch};
use crate::mirror::{Writer, at, check_all, cluster_by, number_of, volume_at};

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

/// Also those that nobody uses, and at once.
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
    // Nobody uses the other ones.
    let names = ["data", "idle1", "idle2"];
    for name in names {
        let on = ["--layout", "raid1:2", "--on", "n1:fast1,n2:fast2"];
        at(&mut cluster, 1, &[&["volume", "create", name, "--size", "16M"], &on[..]].concat()).ok();
    }
    eventually("n3 attaches the volume", LONG, || {
        at(&mut cluster, 3, &["volume", "attach", "data"]).status.success().then_some(())
    });
    let primary = |cluster: &mut _, name| number_of(&volume_at(cluster, 3, name)["mirror"]["map"]["primary"]);
    for name in names {
        eventually(&format!("n1 orders the writes of {name}"), LONG, || {
            (primary(&mut cluster, name) == Some(1)).then_some(())
        });
    }
    writer = Writer::begin(cluster.export(3, "data"), true);
    reader = writer.reader(cluster.export(3, "data"));
    writer.goes_on(20);
    device.process.signal(libc::SIGSTOP);
    for name in names {
        eventually(&format!("n2 orders the writes of {name}"), LONG, || {
            (primary(&mut cluster, name) == Some(2)).then_some(())
        });
    }
    writer.goes_on(20);
    let log = cluster.node(1).log();
    assert!(log.contains("disk fast1: ") && log.contains(" has not answered for "), "{log}");
    device.process.signal(libc::SIGCONT);
    for name in names {
        eventually(&format!("both copies of {name} are in sync"), LONG, || {
            let told = volume_at(&mut cluster, 3, name);
            let copies = told["mirror"]["copies"].as_array()?;
            copies.iter().all(|copy| copy["state"] == "in_sync").then_some(())
        });
    }
    let known = writer.end(reader);
    cluster.node(2).kill();
    check_all(&cluster.export(3, "data"), &known);
}
