//! The process that serves a device is killed.

use std::fs::{self, File};
use std::process::Command;

use super::site::{Site, missing_devices};
use crate::harness::process::sh;
use crate::harness::tools::{need, skip_if};
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
    skip_if!(missing_devices());
    let dir = scratch();
    let mut site = Site::blank(dir.path(), 1);
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
    skip_if!(missing_devices());
    let dir = scratch();
    let mut site = Site::ext4(dir.path(), 2);
    site.mount(2, "").ok();
    fs::write(site.point(2).join("file"), "synced").unwrap();
    sh(&format!("sync -f {}", site.point(2).display()), LONG).ok();
    kill_server(&site, 2);
    let refused = site.cards(2, "attach disk --block").fails();
    assert!(refused.stderr.contains("was killed") && refused.stderr.contains("--lazy"), "{refused}");
    let refused = site.cards(2, "detach disk").fails();
    assert!(refused.stderr.contains("mounted at"), "{refused}");
    let done = site.cards(2, "detach disk --lazy").ok();
    assert!(done.stderr.contains("was killed: what was not synced before is lost"), "{done}");
    site.is_bare(2);
    site.mount(1, "").ok();
    assert_eq!(fs::read_to_string(site.point(1).join("file")).unwrap(), "synced");
    site.umount(1).ok();
}

#[test]
fn a_mount_on_a_killed_device_is_unmounted_and_mounted_again() {
    need!("mke2fs");
    skip_if!(missing_devices());
    let dir = scratch();
    let mut site = Site::ext4(dir.path(), 1);
    site.mount(1, "").ok();
    fs::write(site.point(1).join("file"), "synced").unwrap();
    sh(&format!("sync -f {}", site.point(1).display()), LONG).ok();
    kill_server(&site, 1);
    let refused = site.mount(1, "").fails();
    assert!(refused.stderr.contains("is mounted there already; unmount it first"), "{refused}");
    let done = site.umount(1).ok();
    assert!(done.stderr.contains("was killed: what was not synced before is lost"), "{done}");
    site.is_bare(1);
    site.mount(1, "").ok();
    assert_eq!(fs::read_to_string(site.point(1).join("file")).unwrap(), "synced");
    let done = site.umount(1).ok();
    assert!(!done.stderr.contains("was killed"), "{done}");
    site.is_bare(1);
}

#[test]
fn an_open_file_of_a_killed_device_is_named_and_goes_lazily() {
    skip_if!(missing_devices());
    let dir = scratch();
    let mut site = Site::blank(dir.path(), 1);
    let path = site.prints(1, "attach disk");
    let mut reader = Command::new("sleep").arg("60").stdin(File::open(&path).unwrap()).spawn().unwrap();
    kill_server(&site, 1);
    // The second, while the kernel is at it.
    let error = fs::read(&path).unwrap_err().raw_os_error();
    assert!([libc::ENOTCONN, libc::ECONNABORTED].map(Some).contains(&error), "{error:?}");
    for verb in ["attach disk", "detach disk"] {
        let refused = site.cards(1, verb).fails();
        for word in ["open in sleep", &reader.id().to_string(), "cards detach --lazy"] {
            assert!(refused.stderr.contains(word), "no {word:?} in {refused}");
        }
    }
    site.cards(1, "detach --lazy disk").ok();
    site.is_bare(1);
    assert_eq!(site.prints(1, "attach disk"), path);
    fs::read(&path).unwrap();
    reader.kill().unwrap();
    reader.wait().unwrap();
    site.cards(1, "detach disk").ok();
    site.is_bare(1);
}
