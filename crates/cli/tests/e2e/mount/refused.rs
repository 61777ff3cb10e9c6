//! What would corrupt a volume, or cannot be: refused, with the reason and the remedy, and nothing left behind.

use std::fs;
use std::process::Command;
use std::time::Duration;

use super::site::{Site, missing_devices};
use crate::harness::cluster::CARDS;
use crate::harness::process::{Finished, run, sh};
use crate::harness::tools::{need, skip_if};
use crate::harness::{LONG, SHORT, eventually, scratch};

#[track_caller]
fn says(refused: Finished, words: &[&str]) {
    let refused = refused.fails();
    assert!(words.iter().all(|word| refused.stderr.contains(word)), "{words:?} is not in: {refused}");
}

#[test]
fn a_file_system_is_written_at_one_node_only() {
    need!("mke2fs");
    skip_if!(missing_devices());
    let dir = scratch();
    let mut site = Site::ext4(dir.path(), 3);
    site.mount(2, "").ok();
    fs::write(site.point(2).join("file"), "of n2").unwrap();
    for options in ["", "--read-only", "-o ro"] {
        says(site.mount(3, options), &["node n2", "cards umount disk", "--takeover"]);
        site.is_bare(3);
    }
    says(site.cards(3, "attach disk --block"), &["node n2"]);
    site.is_bare(3);

    // In use where it is mounted.
    let point = site.point(2).display().to_string();
    says(site.cards(2, "detach disk"), &["mounted at", &point, "--lazy"]);
    says(site.mount(2, ""), &["is mounted there already"]);
    let mut reader = Command::new("sleep").arg("60").current_dir(&point).spawn().unwrap();
    says(site.umount(2), &["is in use", "sleep", &reader.id().to_string(), "--lazy"]);
    reader.kill().unwrap();
    reader.wait().unwrap();
    // Another mount needs no more than the one that is there.
    says(
        site.cards(2, "attach disk --mode rw"),
        &["mode exclusive", "--mode rw needs rw", "cards detach disk"],
    );
    assert_eq!(site.card(2)["mode"], "exclusive");
    assert!(site.prints(2, "attach disk --block").starts_with("/dev/loop"));
    // It was attached by itself meanwhile, and does not go with the mount.
    site.umount(2).ok();
    assert_eq!(site.card(2)["mode"], "exclusive");
    // The kernel has one state for all mounts of a device, and mount(8) would be content with it.
    site.mount(2, "-o ro").ok();
    let other = site.point(1).display().to_string();
    says(site.cards(2, &format!("mount disk {other}")), &["only be mounted read-only", &point]);
    site.umount(2).ok();
    site.cards(2, "detach disk").ok();
    site.is_bare(2);

    site.mount(3, "").ok();
    assert_eq!(fs::read_to_string(site.point(3).join("file")).unwrap(), "of n2");
    site.umount(3).ok();
}

#[test]
fn a_volume_is_taken_over_from_a_node_that_is_gone() {
    need!("mke2fs");
    skip_if!(missing_devices());
    let dir = scratch();
    let mut site = Site::ext4(dir.path(), 3);
    site.mount(2, "").ok();
    fs::write(site.point(2).join("file"), "of n2").unwrap();
    sh(&format!("sync -f {}", site.point(2).display()), LONG).ok();
    site.cluster.node(2).pause();
    says(site.mount(3, ""), &["node n2"]);
    site.mount(3, "--takeover").ok();
    assert_eq!(fs::read_to_string(site.point(3).join("file")).unwrap(), "of n2");
    site.umount(3).ok();
    site.is_bare(3);
    site.cluster.node(2).resume();
}

#[test]
fn what_cannot_be_mounted_is_named_with_what_to_do() {
    skip_if!(missing_devices());
    let dir = scratch();
    let image = dir.path().join("disk.img");
    let mut site = Site::blank(dir.path(), 2);
    let point = site.point(2).display().to_string();
    says(site.mount(2, ""), &["zeroes", "mkfs"]);
    site.is_bare(2);
    let mut table = vec![0; 512];
    table[510..].copy_from_slice(&[0x55, 0xaa]);
    let device = site.prints(2, "attach disk");
    let file = fs::File::options().write(true).open(&device).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &table, 0).unwrap();
    drop(file);
    site.cards(2, "detach disk").ok();
    says(site.mount(2, ""), &["a partition table", "partx"]);
    site.is_bare(2);

    says(site.cards(2, &format!("mount other {point}")), &["\"other\"", "cards volume list"]);
    says(site.cards(2, &format!("mount ../disk {point}")), &["letters, digits"]);
    says(site.cards(2, &format!("mount disk {point}/none")), &["create the directory"]);
    says(site.cards(2, "mount disk /proc"), &["/proc", "mounted there already"]);
    says(site.cards(2, &format!("mount disk {}", image.display())), &["directory"]);
    says(site.cards(2, &format!("mount disk {point} -o remount,rw")), &["remount"]);
    says(site.cards(2, &format!("umount {point}")), &["nothing is mounted there"]);
    says(site.cards(2, "umount /proc"), &["no volume of this cluster"]);
    says(site.cards(2, "umount disk"), &["not mounted here"]);
    says(site.cards(2, "detach disk"), &["no device here", "cards volume detach"]);
    says(site.cards(2, "detach other"), &["no device here"]);
    site.is_bare(2);
}

#[test]
fn a_card_of_another_mode_is_named() {
    need!("mke2fs");
    skip_if!(missing_devices());
    let dir = scratch();
    let mut site = Site::ext4(dir.path(), 2);
    site.cards(2, "volume attach disk --mode rw").ok();
    says(site.mount(2, ""), &["mode rw", "needs exclusive", "cards volume detach disk"]);
    says(site.cards(2, "attach disk --mode ro"), &["mode rw", "needs ro"]);
    // A card that was there stays there.
    assert_eq!(site.card(2)["mode"], "rw");
    site.mount(2, "-o ro").ok();
    site.umount(2).ok();
    assert_eq!(site.card(2)["mode"], "rw");
    site.cards(2, "volume detach disk").ok();
    let uri = site.prints(2, "attach disk --nbd");
    assert!(uri.starts_with("nbd+unix:///disk?socket="), "{uri}");
    assert_eq!(site.card(2)["clients"], 0);
    site.cards(2, "detach disk").ok();
    site.is_bare(2);
}

#[test]
fn a_device_of_another_mode_or_kind_is_named_and_stays() {
    skip_if!(missing_devices());
    let dir = scratch();
    let mut site = Site::blank(dir.path(), 1);
    let file = site.prints(1, "attach disk --mode ro");
    for mode in ["rw", "exclusive"] {
        says(
            site.cards(1, &format!("attach disk --mode {mode}")),
            &["mode ro", &format!("--mode {mode} needs {mode}"), "cards detach disk"],
        );
    }
    says(site.cards(1, "attach disk --block"), &["as the file", &file, "cards detach disk"]);
    assert_eq!(site.prints(1, "attach disk --mode ro"), file);
    assert_eq!(site.card(1)["mode"], "ro");
    site.cards(1, "detach disk").ok();
    site.is_bare(1);
    let block = site.prints(1, "attach disk --block");
    says(site.cards(1, "attach disk --ublk"), &["as the loop device", &block, "cards detach disk"]);
    site.cards(1, "detach disk").ok();
    site.is_bare(1);
}

#[test]
fn without_a_daemon_there_is_no_device() {
    let dir = scratch();
    let socket = dir.path().join("admin.sock").display().to_string();
    let refused = run(&[CARDS, "attach", "disk", "--nbd", "--socket", &socket], SHORT).fails();
    assert!(refused.stderr.contains("is the daemon running?"), "{refused}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn two_attaches_at_once_give_one_device() {
    skip_if!(missing_devices());
    let dir = scratch();
    let mut site = Site::blank(dir.path(), 1);
    let socket = site.runtime(1).join("admin.sock").display().to_string();
    let attach = format!("{CARDS} attach disk --block --socket {socket}");
    let done = sh(&format!("{attach} & {attach} & {attach} & wait"), LONG).ok();
    let paths: Vec<&str> = done.stdout.lines().collect();
    assert!(paths.len() == 3 && paths.iter().all(|path| *path == paths[0]), "{done}");
    site.cards(1, "detach disk").ok();
    site.is_bare(1);
}

#[test]
fn an_attach_that_is_interrupted_leaves_nothing() {
    skip_if!(missing_devices());
    let dir = scratch();
    let mut site = Site::blank(dir.path(), 1);
    let socket = site.runtime(1).join("admin.sock");
    let mut interrupted = 0;
    for wait_ms in [2, 5, 10, 15, 20, 30, 45, 60, 100] {
        let mut attach = Command::new(CARDS)
            .args(["attach", "disk", "--block", "--socket"])
            .arg(&socket)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(wait_ms));
        // SAFETY: kill takes plain numbers; the pid is that of a child not yet waited for.
        unsafe { libc::kill(attach.id() as i32, libc::SIGINT) };
        let status = eventually("the end of the attach", SHORT, || attach.try_wait().unwrap());
        if status.success() {
            site.cards(1, "detach disk").ok();
        } else {
            interrupted += 1;
        }
        site.is_bare(1);
    }
    assert!(interrupted > 0, "no attach was interrupted");
}
