//! `mount -t cards`, `umount` and fstab, with the program as their helper.
//!
//! util-linux looks for helpers in /sbin only: the tests put them there in a mount namespace of their own, on an
//! overlay that goes with it.

use std::path::Path;

use super::site::{Site, missing_devices, missing_file_system};
use crate::harness::cluster::CARDS;
use crate::harness::process::sh;
use crate::harness::tools::{need, skip_if};
use crate::harness::{LONG, scratch};

/// Runs `script` where the helpers are installed; `over` is an empty directory.
fn with_helpers(over: &Path, script: &str) -> crate::harness::process::Finished {
    let over = over.display();
    let inner = format!(
        "set -e; mount -t tmpfs none /run/mount; mount -t tmpfs none {over}; mkdir {over}/upper {over}/work\n\
         mount -t overlay none -o lowerdir=/usr/sbin,upperdir={over}/upper,workdir={over}/work /usr/sbin\n\
         ln -s {CARDS} /sbin/mount.cards; ln -s {CARDS} /sbin/umount.cards\n{script}"
    );
    std::fs::create_dir_all(over.to_string()).unwrap();
    let path = Path::new(&over.to_string()).with_extension("sh");
    std::fs::write(&path, inner).unwrap();
    sh(&format!("unshare --mount sh {}", path.display()), LONG)
}

#[test]
fn mount_and_umount_call_the_helper() {
    need!("mke2fs", "unshare");
    skip_if!(missing_devices().or_else(|| missing_file_system("overlay")));
    let dir = scratch();
    let mut site = Site::ext4(dir.path(), 2);
    let (point, socket) = (site.point(2), site.runtime(2).join("admin.sock"));
    let (point, socket, base) = (point.display(), socket.display(), dir.path().display());
    let script = format!(
        "test -d /sbin && cd {base}\n\
         mount -t cards disk {point} -o socket={socket}; echo hello > {point}/file; umount {point}\n\
         mkdir disk; mount -t cards disk {point} -o ro,socket={socket}; grep hello {point}/file; umount {point}\n\
         echo 'disk {point} cards _netdev,noauto,nofail,x-systemd.after=cards.service,ro,socket={socket} 0 0' > fstab\n\
         mount -T fstab {point}; mount -T fstab {point}\n\
         grep hello {point}/file; findmnt -no FSTYPE,OPTIONS {point}; touch {point}/x 2>&1 || true; umount {point}\n\
         mount -fT fstab {point}; ! findmnt {point}\n\
         ! mount -t cards /dev/null {point} -o socket={socket}\n\
         ! mount -t cards other {point} -o socket={socket},wait=0s\n\
         ! mount -t cards disk {point} -o socket={socket},remount\n\
         echo table; cat /run/mount/utab"
    );
    let done = with_helpers(&dir.path().join("over"), &script).ok();
    for word in ["hello\nhello\n", "ext4", "ro", "norecovery"] {
        assert!(done.stdout.contains(word), "{word} is not in: {done}");
    }
    for word in ["mounted at", "Read-only file system", "a path is no volume", "\"other\""] {
        assert!(done.stderr.contains(word) || done.stdout.contains(word), "{word} is not in: {done}");
    }
    site.is_bare(2);
}
