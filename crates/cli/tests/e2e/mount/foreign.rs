//! The daemon of another user, and root's devices of it: nothing that user plants is followed, or believed.

use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};

use super::site::{Site, missing_devices};
use crate::harness::scratch;
use crate::harness::tools::{need, skip_if};

/// Whoever the daemon runs as.
const OTHER: u32 = 65534;
/// What is kept of a volume.
const NAMES: [&str; 8] = [
    "disk",
    "disk.card",
    "disk.card.new",
    "disk.json",
    "disk.json.new",
    "disk.lock",
    "disk.log",
    "disk.turn",
];

/// A file that only root may read and write.
struct Victim(PathBuf);

impl Victim {
    fn new(dir: &Path) -> Victim {
        let path = dir.join("shadow");
        fs::write(&path, "root:secret\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        Victim(path)
    }

    #[track_caller]
    fn is_untouched(&self) {
        let now = fs::metadata(&self.0).unwrap();
        assert_eq!(fs::read_to_string(&self.0).unwrap(), "root:secret\n");
        assert_eq!((now.mode() & 0o7777, now.uid()), (0o600, 0));
    }
}

#[test]
fn what_the_daemons_user_plants_is_left_alone() {
    need!("mke2fs", "setpriv");
    skip_if!(missing_devices());
    let dir = scratch();
    let mut site = Site::run_as(OTHER, dir.path());
    let (victim, planted) = (Victim::new(dir.path()), site.runtime(1).join("dev"));
    let _ = fs::create_dir(&planted);
    chown(&planted, Some(OTHER), Some(OTHER)).unwrap();
    for name in NAMES {
        symlink(&victim.0, planted.join(name)).unwrap();
    }

    let path = site.prints(1, "attach disk");
    assert_eq!(Path::new(&path), dir.path().join("n1-dev/disk"));
    victim.is_untouched();
    let found = fs::metadata(site.dev(1)).unwrap();
    assert_eq!((found.uid(), found.gid(), found.mode() & 0o7777), (0, OTHER, 0o750));
    // A daemon that starts looks at the lock that the device has there, and gets the pages back.
    let mut file = File::open(&path).unwrap();
    let mut bytes = [0; 4096];
    file.read_exact(&mut bytes).unwrap();
    site.cluster.node(1).kill();
    site.cluster.node(1).restart();
    site.wait_known(1);
    file.read_exact(&mut bytes).unwrap();
    drop(file);
    site.cards(1, "detach disk").ok();
    site.is_bare(1);

    site.mount(1, "").ok();
    fs::write(site.point(1).join("file"), "written").unwrap();
    site.umount(1).ok();
    site.is_bare(1);
    victim.is_untouched();
    assert_eq!(fs::read_dir(&planted).unwrap().count(), NAMES.len());
}

#[test]
fn a_directory_in_place_of_roots_is_refused_by_name() {
    need!("mke2fs", "setpriv");
    skip_if!(missing_devices());
    let dir = scratch();
    let site = Site::run_as(OTHER, dir.path());
    let (victim, beside) = (Victim::new(dir.path()), site.runtime(1).with_file_name("n1-dev"));
    fs::create_dir(&beside).unwrap();
    for name in NAMES {
        symlink(&victim.0, beside.join(name)).unwrap();
    }
    chown(&beside, Some(OTHER), Some(OTHER)).unwrap();
    for command in ["attach disk", "detach disk", "attach disk --nbd"] {
        let refused = site.cards(1, command).fails();
        assert!(refused.stderr.contains("n1-dev belongs to user 65534"), "{refused}");
    }
    let refused = site.mount(1, "").fails();
    assert!(refused.stderr.contains("n1-dev belongs to user 65534"), "{refused}");
    victim.is_untouched();
}
