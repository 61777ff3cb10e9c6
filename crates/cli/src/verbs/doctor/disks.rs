//! io_uring, directories and disks: really set up, written to and opened.

use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use cards_config::{Config, Origin, size};
use cards_disk::{Disk, DiskError, DiskOptions, Engine, EngineKind, Examined, Room};
use cards_layout::format::{SUPERBLOCKS, Slot, Superblock, UNIT, newest};
use cards_node::{ServeError, examine_disk, examine_managed};

use super::daemon::{AS_ROOT, Daemon};
use super::finding::Finding;
use super::machine::read;
use super::network::reach;

/// How long the server of a disk may be silent, twice.
const SERVER_WITHIN: Duration = Duration::from_secs(4);
/// How long a file or device may be silent: less than all checks together.
const DEVICE_WITHIN: Duration = Duration::from_secs(3);
/// For what is done after one that was silent for so long.
const GRACE: Duration = Duration::from_millis(300);
/// What to do about a file system that is nearly full.
const NO_ROOM: &str = "make room, or writes there fail (ENOSPC)";

/// Sets a ring up on a file of its own and sees it work, as the daemon does.
pub(super) fn io_uring() -> Finding {
    const CHECK: &str = "io_uring";
    match engine() {
        Ok(EngineKind::IoUring) => Finding::ok(CHECK, "a ring was set up and works"),
        Ok(EngineKind::Threads { reason }) => {
            let remedy = match read("/proc/sys/kernel/io_uring_disabled").as_deref() {
                Some("1" | "2") => "sysctl kernel.io_uring_disabled=0",
                _ => {
                    "allow io_uring_setup, io_uring_enter and io_uring_register in the seccomp filter of the container"
                }
            };
            Finding::warning(CHECK, format!("{reason}; disks are read by threads, at more CPU"), remedy)
        }
        Ok(EngineKind::Nbd | EngineKind::Object) => Finding::ok(CHECK, "not used"),
        Err(reason) => Finding::warning(CHECK, format!("cannot be tried: {reason}"), "make $TMPDIR writable"),
    }
}

fn engine() -> Result<EngineKind, String> {
    let file = tempfile::NamedTempFile::new().map_err(|e| e.to_string())?;
    file.as_file().set_len(1 << 16).map_err(|e| e.to_string())?;
    let disk = Disk::open(&DiskOptions::path(file.path())).map_err(|e| e.to_string())?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| e.to_string())?;
    Ok(runtime.block_on(async { Engine::new(&disk).kind().clone() }))
}

/// The directories that the daemon writes to.
pub(super) fn directories(config: &Config, daemon: &Daemon) -> Vec<Finding> {
    let mut directories = vec![("runtime_dir", config.runtime_dir.clone())];
    if config.coordinator.is_some() || config.disks.iter().any(|disk| !disk.read_only) {
        directories.push(("state_dir", config.state_dir.clone()));
    }
    let nbd = config.nbd.unix.as_ref().and_then(|path| path.parent()).map(Path::to_path_buf);
    directories.extend(nbd.filter(|dir| *dir != config.runtime_dir).map(|dir| ("nbd.unix", dir)));
    directories.into_iter().map(|(key, dir)| directory(key, &dir, daemon)).collect()
}

/// A few blocks, synced: a file can be made on a file system that has no room for its bytes.
fn try_to_write(dir: &Path) -> io::Result<()> {
    let mut file = tempfile::tempfile_in(dir)?;
    file.write_all(&[1; 16 << 10])?;
    file.sync_all()
}

fn directory(key: &str, dir: &Path, daemon: &Daemon) -> Finding {
    // The daemon makes what is missing.
    let Some(existing) = dir.ancestors().find(|dir| dir.exists()) else {
        return Finding::problem(key, format!("{}: not found", dir.display()), format!("correct `{key}`"));
    };
    let shown = dir.display();
    match try_to_write(existing) {
        Ok(_) if existing == dir => Finding::ok(key, format!("{shown} can be written")),
        Ok(_) if key == "nbd.unix" => {
            Finding::problem(key, format!("{shown}: not found"), format!("mkdir -p {shown}"))
        }
        Ok(_) => Finding::ok(key, format!("{shown} can be made")),
        // The daemon's user may write where this one may not.
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied && daemon.is_hidden() => Finding::warning(
            key,
            format!("{}: {e}: whether the daemon can write there is not seen", existing.display()),
            AS_ROOT,
        ),
        Err(e) => {
            let remedy = match e.kind() {
                io::ErrorKind::PermissionDenied => {
                    format!(
                        "run this as the daemon's user; if that is this one, have it own {shown} (chown, as root)"
                    )
                }
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => format!("make room in {shown}"),
                _ => format!("correct `{key}`"),
            };
            Finding::problem(key, format!("{}: {e}", existing.display()), remedy)
        }
    }
}

/// What a look at a disk has found by then. One at a device that hangs never ends, and its thread ends with this program.
fn by(until: Instant, disk: &cards_config::Disk, look: &mpsc::Receiver<Finding>) -> Finding {
    look.recv_timeout(until.saturating_duration_since(Instant::now())).unwrap_or_else(|_| {
        let silent = ServeError::silent(disk, DEVICE_WITHIN);
        refused(format!("disk {}", disk.name), disk, silent, &Daemon::Away)
    })
}

/// [`disk`] of the disk at this place of the configuration; of a file or device, for as long as one may be silent.
pub(super) fn plain(config: &Arc<Config>, index: usize, daemon: &Arc<Daemon>) -> Finding {
    let of = &config.disks[index];
    if !matches!(of.origin, Origin::Path(_)) {
        return disk(config, of, daemon);
    }
    let (to, look) = mpsc::channel();
    let until = Instant::now() + DEVICE_WITHIN;
    let (own, daemon) = (Arc::clone(config), Arc::clone(daemon));
    thread::spawn(move || to.send(disk(&own, &own.disks[index], &daemon)));
    by(until, of, &look)
}

/// Plain disks, files, devices, origins and objects: opened as the daemon opens them, and let go at once.
fn disk(config: &Config, disk: &cards_config::Disk, daemon: &Daemon) -> Finding {
    let check = format!("disk {}", disk.name);
    if let Origin::Nbd(uri) = &disk.origin
        && daemon.is_there()
    {
        // Its server may have room for one client only, the daemon.
        return match reach(uri) {
            Ok(()) => Finding::ok(check, format!("{uri} takes connections")),
            Err(e) => Finding::problem(
                check,
                format!("{uri}: {e}"),
                "check that the server runs and the address is right",
            ),
        };
    }
    let path = match &disk.origin {
        Origin::Path(path) => Some(path.as_path()),
        _ => None,
    };
    match examine_disk(config, disk, SERVER_WITHIN) {
        Err(ServeError::Disk { source: DiskError::Busy { path, .. }, .. }) if daemon.is_there() => {
            in_use(check, &path, disk, daemon.size(&disk.name))
        }
        Err(error) => refused(check, disk, error, daemon),
        Ok(open) => {
            if let Some(short) = path.and_then(short_of_room).filter(|_| !disk.read_only) {
                return Finding::warning(check, short, NO_ROOM);
            }
            let version = open.version().map(|tag| format!(", ETag {tag}")).unwrap_or_default();
            let how = match (open.read_only(), disk.direct) {
                (true, _) => "can be read",
                (false, true) => "can be read and written, with O_DIRECT",
                (false, false) => "can be read and written",
            };
            Finding::ok(check, format!("{open}: {}, {how}{version}", size::human(open.size())))
        }
    }
}

/// All managed disks, since the volumes of one must not have the names of another's.
pub(super) fn managed(config: &Config, daemon: &Arc<Daemon>) -> Vec<Finding> {
    let until = Instant::now() + DEVICE_WITHIN;
    let looks: Vec<_> = examine_managed(config, DEVICE_WITHIN)
        .into_iter()
        .map(|(disk, found)| {
            let ((to, look), of, daemon) = (mpsc::channel(), disk.clone(), Arc::clone(daemon));
            // One that is in use is looked at again.
            thread::spawn(move || to.send(of_managed(&of, found, &daemon)));
            (disk, look)
        })
        .collect();
    looks.iter().map(|(disk, look)| by(until + GRACE, disk, look)).collect()
}

fn of_managed(disk: &cards_config::Disk, found: Result<Examined, ServeError>, daemon: &Daemon) -> Finding {
    let check = format!("disk {}", disk.name);
    let Origin::Managed(path) = &disk.origin else { unreachable!("only managed disks are asked for") };
    match found {
        Err(ServeError::Disk { source: DiskError::Busy { path, .. }, .. }) if daemon.is_there() => {
            let formatted = formatted_bytes(&path);
            in_use(check, &path, disk, formatted)
        }
        Err(error) => refused(check, disk, error, daemon),
        Ok(Examined { damaged: Some((slot, reason)), .. }) => {
            let says = format!(
                "{}: the superblock in slot {slot} is damaged: {reason}; the other serves",
                path.display()
            );
            let remedy = "start the daemon, which writes it anew, and see to the device (dmesg): the other one has no spare now";
            Finding::warning(check, says, remedy)
        }
        Ok(Examined { volumes, .. }) if daemon.runs() => {
            match daemon.elsewhere(volumes.iter().map(|volume| volume.name.as_str())) {
                Some((volume, place)) => {
                    let says = format!(
                        "{}: the daemon runs without it, and does not start again with it: it has a volume {volume}, and the cluster has one of \
                         this name on {place}",
                        path.display()
                    );
                    let remedy = "take it out of node.toml before a restart, and find out whose disk it is; remove and format nothing before";
                    Finding::problem(check, says, remedy)
                }
                None => {
                    let says = format!("{}: the daemon runs without it", path.display());
                    Finding::warning(check, says, "restart the daemon")
                }
            }
        }
        Ok(Examined { size: bytes, volumes, .. }) => {
            if let Some(short) = short_of_room(path) {
                return Finding::warning(check, short, NO_ROOM);
            }
            let volumes = match volumes.len() {
                1 => "1 volume".into(),
                count => format!("{count} volumes"),
            };
            Finding::ok(check, format!("{}: {}, {volumes}", path.display(), size::human(bytes)))
        }
    }
}

/// A disk that the daemon has open: whether it still has its `bytes`.
fn in_use(check: String, path: &Path, disk: &cards_config::Disk, bytes: Option<u64>) -> Finding {
    let now = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file).map(|about| about.len());
    match (now, bytes) {
        (Some(now), Some(served)) if now < served => {
            let says = format!(
                "{}: has {now} bytes of the {served} that are served: it was cut short, and what was beyond is lost",
                path.display()
            );
            let remedy = match disk.origin {
                Origin::Managed(_) => "do not make it longer again: that brings nothing back, and what was lost is damaged then (mended from other copies where there are any, else EIO); stop the daemon and bring a copy of the \
                                       whole disk back, or format another one under another name and have the copies on this one replaced (`cards \
                                       volume replace`)"
                    .to_owned(),
                _ => format!(
                    "give it its size again (truncate -s {served} {}) and restore the contents",
                    path.display()
                ),
            };
            Finding::problem(check, says, remedy)
        }
        _ => match short_of_room(path).filter(|_| !disk.read_only) {
            Some(short) => Finding::warning(check, short, NO_ROOM),
            None => Finding::ok(check, format!("{}: in use by this node's daemon", path.display())),
        },
    }
}

/// What the daemon would say at its start; the disk is named before it.
fn refused(check: String, disk: &cards_config::Disk, error: ServeError, daemon: &Daemon) -> Finding {
    // What this user may not do the daemon's may.
    if let ServeError::Disk {
        source: DiskError::NotPermitted { path } | DiskError::NotWritable { path, .. },
        ..
    } = &error
        && daemon.is_hidden()
    {
        let says =
            format!("{}: not for this user to open: whether the daemon can is not seen", path.display());
        return Finding::warning(check, says, AS_ROOT);
    }
    let error = error.to_string();
    let says = error.strip_prefix(&format!("disk {:?}: ", disk.name)).unwrap_or(&error);
    Finding::error(check, says.strip_prefix("disk ").unwrap_or(says))
}

/// The bytes that a managed disk had when it was formatted, while another process has it locked.
fn formatted_bytes(path: &Path) -> Option<u64> {
    let file = std::fs::File::open(path).ok()?;
    let page = |slot: Slot| {
        let mut page = [0; UNIT];
        // What is behind the end is zero, and no superblock.
        let _ = file.read_at(&mut page, SUPERBLOCKS[slot as usize]);
        Superblock::decode(&page, slot)
    };
    Some(newest(page(Slot::A), page(Slot::B)).ok()?.value.sizes.device)
}

/// What to say of a file whose file system will be full before the file.
fn short_of_room(path: &Path) -> Option<String> {
    let (room, found) = (Room::of(path).ok()??, std::fs::metadata(path).ok()?);
    room.is_short(found.len()).then(|| {
        format!(
            "{}: its file system has {} left, and {} of the disk were never written",
            path.display(),
            size::human(room.free),
            size::human(room.unwritten)
        )
    })
}

#[cfg(test)]
mod tests {
    use cards_layout::format::{Sizes, Uuid};

    use super::super::finding::Level;
    use super::*;

    /// A node with one disk.
    fn config(dir: &Path, name: &str, origin: Origin) -> Config {
        let mut config = Config::new("lab", "n1");
        config.state_dir = dir.join("state");
        config.disks = vec![cards_config::Disk::new(name, origin)];
        config
    }

    #[test]
    fn disks_are_opened_as_the_daemon_does() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk.img");
        let config = config(dir.path(), "d", Origin::Path(path.clone()));
        let of = |daemon: &Daemon| disk(&config, &config.disks[0], daemon);
        let silent = Daemon::Silent("it stands still".into());
        assert!(of(&Daemon::Away).to_string().contains("truncate -s 1G"), "{}", of(&Daemon::Away));
        std::fs::write(&path, vec![0; 4096]).unwrap();
        assert_eq!(of(&Daemon::Away).says, format!("{}: 4 KiB, can be read and written", path.display()));
        let _used = Disk::open(&DiskOptions::path(&path)).unwrap();
        assert_eq!((of(&Daemon::Away).level, of(&silent).level), (Level::Problem, Level::Ok));
    }

    /// As its journal says: what was served before must not be made anew.
    #[test]
    fn a_disk_that_was_served_before_is_not_to_be_created() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk.img");
        let config = config(dir.path(), "d", Origin::Path(path));
        std::fs::create_dir(&config.state_dir).unwrap();
        std::fs::write(config.state_dir.join("d@n1@lab.journal"), "").unwrap();
        let found = disk(&config, &config.disks[0], &Daemon::Away).to_string();
        assert!(
            found.contains("was served here before; bring it back") && !found.contains("truncate"),
            "{found}"
        );
    }

    #[test]
    fn a_device_that_hangs_is_a_problem_of_its_disk() {
        let disk = cards_config::Disk::new("fast", Origin::Path("/dev/sdb".into()));
        let (hold, look) = mpsc::channel();
        let found = by(Instant::now() + Duration::from_millis(10), &disk, &look).to_string();
        drop(hold);
        assert!(
            found.starts_with("problem  disk fast")
                && found.contains("/dev/sdb does not answer within 3 s; see"),
            "{found}"
        );
    }

    fn format(path: &Path, name: &str) -> [u8; UNIT] {
        let superblock = Superblock {
            sequence: 2,
            ..Superblock::formatted(
                Uuid([7; 16]),
                Sizes::choose(64 << 20).unwrap(),
                None,
                name.parse().unwrap(),
            )
        };
        let file = std::fs::File::create(path).unwrap();
        file.set_len(64 << 20).unwrap();
        file.write_all_at(&superblock.encode(), SUPERBLOCKS[1]).unwrap();
        superblock.encode()
    }

    #[test]
    fn a_managed_disk_is_the_one_that_its_name_says() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk.img");
        std::fs::write(&path, vec![0; 1 << 20]).unwrap();
        let config = config(dir.path(), "d", Origin::Managed(path.clone()));
        let of = || managed(&config, &Arc::new(Daemon::Away)).remove(0);
        let found = of();
        assert_eq!(found.level, Level::Problem);
        assert!(found.to_string().contains("is no managed disk"), "{found}");
        // One that is damaged is not to be formatted.
        let superblock = format(&path, "d");
        std::fs::write(&path, [&superblock[..200], &[1; UNIT][..]].concat()).unwrap();
        let found = of().to_string();
        assert!(found.contains("is a managed disk, and both of its superblocks are damaged"), "{found}");
        assert!(found.contains("do not format it"), "{found}");
        format(&path, "other");
        let found = of().to_string();
        assert!(
            found.starts_with("problem") && found.contains("is called \"other\" and not \"d\""),
            "{found}"
        );
    }

    /// As a plain disk it would be overwritten; one that is not there is not made anew by a file.
    #[test]
    fn a_managed_disk_is_no_plain_one_and_is_not_made_anew() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk.img");
        format(&path, "d");
        let plain = config(dir.path(), "d", Origin::Path(path.clone()));
        let found = disk(&plain, &plain.disks[0], &Daemon::Away).to_string();
        assert!(
            found.starts_with("problem") && found.contains(&format!("managed = \"{}\"", path.display())),
            "{found}"
        );
        // What was served so before has whatever its clients have made of it.
        std::fs::create_dir(&plain.state_dir).unwrap();
        std::fs::write(plain.state_dir.join("d@n1@lab.journal"), "").unwrap();
        let found = disk(&plain, &plain.disks[0], &Daemon::Away).to_string();
        assert!(!found.contains("managed ="), "{found}");
        std::fs::remove_file(&path).unwrap();
        let config = config(dir.path(), "d", Origin::Managed(path));
        let found = managed(&config, &Arc::new(Daemon::Away)).remove(0).to_string();
        assert!(
            found.contains("bring the disk back, or mount") && found.contains("cards disk format"),
            "{found}"
        );
    }

    #[test]
    fn a_disk_in_use_that_was_cut_short_is_a_problem() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk.img");
        format(&path, "d");
        let config = config(dir.path(), "d", Origin::Managed(path.clone()));
        let _used = Disk::open(&DiskOptions::path(&path)).unwrap();
        let silent = Arc::new(Daemon::Silent("it stands still".into()));
        let of = || managed(&config, &silent).remove(0);
        assert_eq!(of().level, Level::Ok, "{}", of());
        std::fs::File::options().write(true).open(&path).unwrap().set_len(32 << 20).unwrap();
        let found = of().to_string();
        assert!(
            found.starts_with("problem")
                && found.contains("that brings nothing back")
                && !found.contains("zeroes"),
            "{found}"
        );
    }

    #[test]
    fn a_directory_that_is_missing_can_be_made() {
        let dir = tempfile::tempdir().unwrap();
        let directory = |key, dir: &Path| directory(key, dir, &Daemon::Away);
        assert_eq!(directory("runtime_dir", dir.path()).level, Level::Ok);
        assert!(directory("state_dir", &dir.path().join("a/b")).says.ends_with("can be made"));
        let missing = directory("nbd.unix", &dir.path().join("a"));
        assert!(missing.level == Level::Problem && missing.to_string().contains("mkdir -p"), "{missing}");
        assert_eq!(directory("runtime_dir", Path::new("/proc/nothing")).level, Level::Problem);
    }
}
