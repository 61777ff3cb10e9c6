//! A device beneath a managed disk: as long as its process stands still, the disk answers nothing, and nothing fails.

use std::fs;
use std::os::unix::fs::symlink;

use super::{Device, cluster, missing_fuse};
use crate::harness::plan::Plan;
use crate::harness::tools::skip_if;
use crate::harness::{LONG, MIB, eventually, scratch};
use crate::mirror::{Writer, at, check_all, cluster_by, number_of, volume_at};

#[test]
fn all_volumes_leave_a_primary_whose_disk_hangs() {
    skip_if!(missing_fuse());
    let dir = scratch();
    let below = dir.path().join("below");
    fs::create_dir(&below).unwrap();
    let mut beneath = cluster(&below, 1, 96 * MIB);
    let device = Device::start(&mut beneath, 1, &[]);
    symlink(&device.path, dir.path().join("fast1.img")).unwrap();
    let mut cluster = cluster_by(Plan { disk_wait: "60s", ..Plan::new(dir.path(), 3) }, None);
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
    let writer = Writer::begin(cluster.export(3, "data"), true);
    let reader = writer.reader(cluster.export(3, "data"));
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
    drop(cluster);
}
