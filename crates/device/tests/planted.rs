//! Root's device of another user's daemon: whatever that user plants, root's files are as they were.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use cards_device::Device;

use crate::fake::Fake;
use crate::{end, options, skipped};

/// Whoever the daemon runs as.
const OTHER: u32 = 65534;
const SECRET: &[u8] = b"root:secret\n";

/// A daemon of another user, with `dev` in its runtime directory, and a file that only root may read and write.
struct Site {
    fake: Fake,
    victim: PathBuf,
}

impl Site {
    /// None where no volume can be mounted.
    fn new() -> Option<Site> {
        if skipped() {
            return None;
        }
        let fake = Fake::start();
        let victim = fake.runtime().with_file_name("shadow");
        fs::write(&victim, SECRET).unwrap();
        fs::set_permissions(&victim, fs::Permissions::from_mode(0o600)).unwrap();
        fs::create_dir(fake.runtime().join("dev")).unwrap();
        for dir in [fake.runtime(), fake.runtime().join("dev")] {
            chown(dir, Some(OTHER), Some(OTHER)).unwrap();
        }
        Some(Site { fake, victim })
    }

    /// The directory of root's devices of this daemon.
    fn beside(&self) -> PathBuf {
        self.fake.runtime().with_file_name("run-dev")
    }

    /// Whether anybody has touched the file.
    #[track_caller]
    fn is_untouched(&self) {
        let now = fs::metadata(&self.victim).unwrap();
        assert_eq!(fs::read(&self.victim).unwrap(), SECRET);
        assert_eq!((now.mode() & 0o7777, now.uid()), (0o600, 0));
    }

    /// A device starts and ends.
    #[track_caller]
    fn serves(&self) {
        end(Device::start(options(&self.fake)).unwrap());
    }

    /// No device starts; why.
    #[track_caller]
    fn refuses(&self) -> String {
        Device::start(options(&self.fake)).unwrap_err().to_string()
    }
}

fn pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn a_symbolic_link_in_place_of_a_file_is_not_followed() {
    for name in ["disk.lock", "disk.json.new", "disk.json", ".pages.lock"] {
        let Some(site) = Site::new() else { return };
        symlink(&site.victim, site.fake.runtime().join("dev").join(name)).unwrap();
        site.serves();
        site.is_untouched();
    }
}

#[test]
fn a_hard_link_in_place_of_a_file_is_not_written() {
    for name in ["disk.lock", "disk.json.new"] {
        let Some(site) = Site::new() else { return };
        fs::hard_link(&site.victim, site.fake.runtime().join("dev").join(name)).unwrap();
        site.serves();
        site.is_untouched();
    }
}

#[test]
fn a_pipe_in_place_of_a_file_holds_nobody_up() {
    for name in ["disk.lock", "disk.json.new", "disk.json"] {
        let Some(site) = Site::new() else { return };
        pipe(&site.fake.runtime().join("dev").join(name));
        site.serves();
    }
}

#[test]
fn a_link_in_place_of_the_directory_is_not_followed() {
    let Some(site) = Site::new() else { return };
    let (dev, elsewhere) = (site.fake.runtime().join("dev"), site.fake.runtime().with_file_name("etc"));
    fs::create_dir(&elsewhere).unwrap();
    fs::remove_dir(&dev).unwrap();
    symlink(&elsewhere, &dev).unwrap();
    site.serves();
    fs::remove_dir_all(site.beside()).unwrap();
    symlink(&elsewhere, site.beside()).unwrap();
    let said = site.refuses();
    assert!(said.contains("run-dev is no directory"), "{said}");
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
}

#[test]
fn a_directory_of_another_user_or_that_others_write_is_refused() {
    let Some(site) = Site::new() else { return };
    fs::create_dir(site.beside()).unwrap();
    chown(site.beside(), Some(OTHER), None).unwrap();
    symlink(&site.victim, site.beside().join("disk.lock")).unwrap();
    let said = site.refuses();
    assert!(said.contains("run-dev belongs to user 65534"), "{said}");
    // One on the way to it is no better: whoever owns that can put another in its place.
    let (above, top) = (site.fake.runtime().parent().unwrap().to_path_buf(), Some(0));
    fs::remove_dir_all(site.beside()).unwrap();
    chown(&above, Some(OTHER), None).unwrap();
    let said = site.refuses();
    assert!(said.contains(&format!("{} belongs to user 65534", above.display())), "{said}");
    chown(&above, top, None).unwrap();
    fs::set_permissions(&above, fs::Permissions::from_mode(0o777)).unwrap();
    let said = site.refuses();
    assert!(said.contains("can be written by others (mode 777)"), "{said}");
    site.is_untouched();
}

#[test]
fn the_daemon_can_read_the_directory_and_write_nothing_there() {
    let Some(site) = Site::new() else { return };
    let device = Device::start(options(&site.fake)).unwrap();
    let dir = fs::metadata(site.beside()).unwrap();
    assert_eq!(device.description().path, site.beside().join("disk"));
    assert_eq!((dir.uid(), dir.gid(), dir.mode() & 0o7777), (0, OTHER, 0o750));
    for entry in fs::read_dir(site.beside()).unwrap().flatten().filter(|entry| entry.file_name() != "disk") {
        let file = entry.metadata().unwrap();
        assert_eq!((file.uid(), file.mode() & 0o022), (0, 0), "{:?}", entry.file_name());
    }
    end(device);
}
