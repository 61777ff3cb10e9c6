//! The process that serves a device is killed.

use std::fs;

use super::site::{Site, missing_devices};
use crate::harness::process::sh;
use crate::harness::tools::{need, skip};
use crate::harness::{LONG, SHORT, eventually, scratch};

/// `kill -9` of the process that serves the volume at node `number`, and its end.
fn kill_server(site: &Site, number: usize) {
    let record = fs::read(site.runtime(number).join("dev/disk.json")).unwrap();
    let record: serde_json::Value = serde_json::from_slice(&record).unwrap();
    let pid = record["pid"].as_u64().unwrap();
    sh(&format!("kill -9 {pid}"), SHORT).ok();
    eventually("the end of the server", SHORT, || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        (stat.is_empty() || stat.contains(") Z ")).then_some(())
    });
}

#[test]
fn what_a_killed_device_has_left_is_cleaned_up() {
    if let Some(reason) = missing_devices() {
        return skip(&reason);
    }
    let dir = scratch();
    fs::write(dir.path().join("disk.img"), vec![0; 8 << 20]).unwrap();
    let mut site = Site::new(dir.path(), 1);
    site.prints(1, "attach disk --block");
    kill_server(&site, 1);
    let device = site.prints(1, "attach disk --block");
    sh(&format!("dd if={device} of=/dev/null bs=1M status=none"), LONG).ok();
    kill_server(&site, 1);
    site.cards(1, "detach disk").ok();
    site.is_bare(1);
}

#[test]
fn a_mount_on_a_killed_device_is_named_and_goes_lazily() {
    need!("mke2fs", "e2fsck");
    if let Some(reason) = missing_devices() {
        return skip(&reason);
    }
    let dir = scratch();
    sh(&format!("mke2fs -q -t ext4 {}/disk.img 24M", dir.path().display()), LONG).ok();
    let mut site = Site::new(dir.path(), 2);
    site.mount(2, "").ok();
    fs::write(site.point(2).join("file"), "synced").unwrap();
    sh(&format!("sync -f {}", site.point(2).display()), LONG).ok();
    kill_server(&site, 2);
    let refused = site.cards(2, "attach disk --block").fails();
    assert!(refused.stderr.contains("was killed") && refused.stderr.contains("--lazy"), "{refused}");
    let refused = site.cards(2, "detach disk").fails();
    assert!(refused.stderr.contains("mounted at"), "{refused}");
    site.cards(2, "detach disk --lazy").ok();
    site.is_bare(2);
    site.mount(1, "").ok();
    assert_eq!(fs::read_to_string(site.point(1).join("file")).unwrap(), "synced");
    site.umount(1).ok();
}
