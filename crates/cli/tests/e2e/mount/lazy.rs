//! `--lazy`: a volume goes although it is in use, and its end is that of its last use.

use std::fs::{self, File};
use std::io::{Read as _, Seek as _, Write as _};

use super::site::{Site, missing_devices};
use crate::harness::tools::{need, skip_if};
use crate::harness::{SHORT, eventually, scratch};

#[test]
fn a_lazy_unmount_ends_with_the_last_open_file() {
    need!("mke2fs", "e2fsck");
    skip_if!(missing_devices());
    let dir = scratch();
    let mut site = Site::ext4(dir.path(), 2);
    site.mount(2, "").ok();
    let path = site.point(2).join("file");
    let mut file = File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
    file.write_all(b"before").unwrap();
    let point = site.point(2).display().to_string();
    let done = site.cards(2, &format!("umount --lazy {point} --json")).ok();
    assert!(done.stdout.contains("\"detached\":false") && done.stderr.contains("still in use"), "{done}");
    assert!(!path.exists(), "it is still in the tree");

    // Nobody else can write it, and who has the file open can go on.
    site.mount(1, "").fails();
    file.write_all(b" and after").unwrap();
    file.sync_all().unwrap();
    let mut text = String::new();
    file.rewind().unwrap();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text, "before and after");
    drop(file);
    let record = site.runtime(2).join("dev/disk.json");
    eventually("the device to end", SHORT, || (!record.exists()).then_some(()));
    site.cards(2, "detach disk").ok();
    site.is_bare(2);
    site.mount(1, "").ok();
    assert_eq!(fs::read_to_string(site.point(1).join("file")).unwrap(), text);
    site.umount(1).ok();
}
