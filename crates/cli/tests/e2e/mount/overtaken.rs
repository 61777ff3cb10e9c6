//! A mount whose volume another node has had meanwhile: its kernel remembers what is not there any more. It must fail, and
//! nothing of it may get to the disk.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::site::{Site, missing_devices};
use crate::harness::process::{Finished, run, sh};
use crate::harness::tools::{need, skip_if};
use crate::harness::{LONG, eventually, scratch};

const FILES: usize = 100;

/// Writes files and syncs them.
fn write(point: &Path, name: &str) -> Finished {
    let script = format!(
        "cd {} && for i in $(seq {FILES}); do echo {name}-$i > {name}-$i || exit 1; done && sync -f .",
        point.display()
    );
    run(&["sh", "-c", &script], LONG)
}

/// A mount at node 2 with files of its own, on an ext4.
fn mounted(dir: &Path) -> Site {
    let site = Site::ext4(dir, 3);
    site.mount(2, "").ok();
    write(&site.point(2), "n2").ok();
    site
}

/// Node 3 has the volume in between, and leaves files of its own in place of those of node 2.
fn between(site: &Site, options: &str) {
    eventually("node 3 has the volume", LONG, || site.mount(3, options).status.success().then_some(()));
    sh(&format!("rm {}/n2-*", site.point(3).display()), LONG).ok();
    write(&site.point(3), "n3").ok();
    site.umount(3).ok();
}

/// What is mounted at node 2 fails and is said to be over; unmounted and attached anew, it is what node 3 has left.
fn ends_whole(site: &mut Site) {
    eventually("node 2 knows", LONG, || {
        site.cards(2, "status").stdout.contains("taken over by node n3").then_some(())
    });
    let written = write(&site.point(2), "void");
    assert!(!written.status.success(), "{written}");
    // The file system can sync no more, which is no reason not to end it.
    site.umount(2);
    eventually("nothing is left", LONG, || {
        site.cards(2, "detach disk");
        site.card(2).is_null().then_some(())
    });
    site.is_bare(2);
    let device = site.prints(1, "attach disk --block --mode exclusive");
    sh(&format!("e2fsck -fn {device}"), LONG).ok();
    site.cards(1, "detach disk").ok();
    site.mount(2, "").ok();
    let names = |name: &str| {
        let found = fs::read_dir(site.point(2)).unwrap().flatten();
        found.filter(|entry| entry.file_name().to_string_lossy().starts_with(name)).count()
    };
    assert_eq!((names("n2-"), names("n3-"), names("void-")), (0, FILES, 0));
    write(&site.point(2), "anew").ok();
    site.umount(2).ok();
    site.is_bare(2);
}

#[test]
fn a_mount_that_was_taken_over_does_not_come_back() {
    need!("mke2fs", "e2fsck");
    skip_if!(missing_devices());
    let dir = scratch();
    let mut site = mounted(dir.path());
    between(&site, "--takeover");
    // As long as a card takes to come back by itself.
    std::thread::sleep(Duration::from_secs(3));
    site.cluster.node(2).says(&["the card is over", "taken over by node n3"]);
    ends_whole(&mut site);
}

/// The lease ends while the daemon is away, and anybody may have the volume then.
#[test]
fn a_mount_whose_volume_was_elsewhere_while_its_daemon_was_away_does_not_come_back() {
    need!("mke2fs", "e2fsck");
    skip_if!(missing_devices());
    let dir = scratch();
    let mut site = mounted(dir.path());
    site.cluster.node(2).kill();
    between(&site, "");
    site.cluster.node(2).spawn();
    ends_whole(&mut site);
}

/// `[[attach]]` asks for a card beside which others write.
#[test]
fn a_mount_stays_the_only_one_whatever_its_daemon_is_configured_to_attach() {
    need!("mke2fs", "e2fsck");
    skip_if!(missing_devices());
    let dir = scratch();
    let mut site = mounted(dir.path());
    let config = dir.path().join("n2.toml");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, text + "\n[[attach]]\nvolume = \"disk\"\n").unwrap();
    site.cluster.node(2).kill();
    site.cluster.node(2).spawn();
    site.wait_known(2);
    assert_eq!(site.card(2)["mode"], "exclusive");
    for arguments in ["attach disk --mode rw --nbd", "attach disk --mode ro --nbd"] {
        let refused = site.cards(3, arguments);
        assert!(!refused.status.success() && refused.stderr.contains("node n2 has volume"), "{refused}");
    }
    write(&site.point(2), "more").ok();
    site.umount(2).ok();
    // The card that `cards mount` made is gone; the next start attaches what is configured.
    site.is_bare(2);
    site.cluster.node(2).kill();
    site.cluster.node(2).spawn();
    site.wait_known(2);
    assert_eq!(site.card(2)["mode"], "rw");
    let device = site.prints(1, "attach disk --block --mode ro");
    sh(&format!("e2fsck -fn {device}"), LONG).ok();
    site.cards(1, "detach disk").ok();
}
