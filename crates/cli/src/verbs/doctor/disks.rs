//! io_uring, directories and disks: really set up, written to and opened.

use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cards_config::{Config, Origin, size};
use cards_disk::{Disk, DiskError, DiskOptions, Engine, EngineKind, Room};
use cards_layout::format::{SUPERBLOCKS, Slot, Superblock, UNIT, newest};

use super::finding::Finding;
use super::machine::read;
use super::network::reach;

/// How long the server of an object may be silent, twice.
const OBJECT_WITHIN: Duration = Duration::from_secs(4);

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
pub(super) fn directories(config: &Config) -> Vec<Finding> {
    let mut directories = vec![("runtime_dir", config.runtime_dir.clone())];
    if config.coordinator.is_some() || config.disks.iter().any(|disk| !disk.read_only) {
        directories.push(("state_dir", config.state_dir.clone()));
    }
    let nbd = config.nbd.unix.as_ref().and_then(|path| path.parent()).map(Path::to_path_buf);
    directories.extend(nbd.filter(|dir| *dir != config.runtime_dir).map(|dir| ("nbd.unix", dir)));
    directories.into_iter().map(|(key, dir)| directory(key, &dir)).collect()
}

/// A few blocks, synced: a file can be made on a file system that has no room for its bytes.
fn try_to_write(dir: &Path) -> io::Result<()> {
    let mut file = tempfile::tempfile_in(dir)?;
    file.write_all(&[1; 16 << 10])?;
    file.sync_all()
}

fn directory(key: &str, dir: &Path) -> Finding {
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
        Err(e) => {
            let remedy = match e.kind() {
                io::ErrorKind::PermissionDenied => {
                    format!("run this as the user of the daemon, or make it the owner of {shown}")
                }
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => format!("make room in {shown}"),
                _ => format!("correct `{key}`"),
            };
            Finding::problem(key, format!("{}: {e}", existing.display()), remedy)
        }
    }
}

/// A disk of the configuration: opened as the daemon opens it, and let go at once.
pub(super) fn disk(disk: &cards_config::Disk, running: bool) -> Finding {
    let check = format!("disk {}", disk.name);
    let path: &PathBuf = match &disk.origin {
        Origin::Object(of) => return object(check, of),
        Origin::Path(path) | Origin::Managed(path) => path,
        Origin::Nbd(uri) => {
            return match reach(uri) {
                Ok(()) => Finding::ok(check, format!("{uri} takes connections")),
                Err(e) => Finding::problem(
                    check,
                    format!("{uri}: {e}"),
                    "check that the server runs and the address is right",
                ),
            };
        }
    };
    let options = DiskOptions { read_only: disk.read_only, direct: disk.direct, ..DiskOptions::path(path) };
    let is_used = |opened: &Result<_, DiskError>| match opened {
        Ok(_) => true,
        Err(error) => running && matches!(error, DiskError::Busy { .. }),
    };
    let opened = Disk::open(&options);
    if let (Ok(_), Origin::Managed(path)) = (&opened, &disk.origin)
        && let Err(says) = managed(path)
    {
        return Finding::problem(check, says, "format it with `cards disk format`, or correct `managed`");
    }
    if let Some(short) = short_of_room(path).filter(|_| is_used(&opened) && !disk.read_only) {
        return Finding::warning(check, short, "make room, or writes there fail (ENOSPC)");
    }
    match opened {
        Ok(open) => {
            let how = match (disk.read_only, disk.direct) {
                (true, _) => "can be read",
                (false, true) => "can be read and written, with O_DIRECT",
                (false, false) => "can be read and written",
            };
            Finding::ok(check, format!("{}: {}, {how}", path.display(), size::human(open.size())))
        }
        Err(DiskError::Busy { .. }) if running => {
            Finding::ok(check, format!("{}: in use by this node's daemon", path.display()))
        }
        Err(DiskError::Direct { .. }) => Finding::problem(
            check,
            format!("{}: its file system has no O_DIRECT", path.display()),
            "set `direct = false`",
        ),
        // It names the disk itself.
        Err(e) => Finding::error(check, e.to_string().trim_start_matches("disk ")),
    }
}

/// Whether the file or device says of itself that it is a managed disk.
fn managed(path: &Path) -> Result<(), String> {
    let page = |slot: Slot| {
        let mut page = [0; UNIT];
        let file = std::fs::File::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
        // What is behind the end is zero, and no superblock.
        let _ = file.read_at(&mut page, SUPERBLOCKS[slot as usize]);
        Ok::<_, String>(Superblock::decode(&page, slot))
    };
    match newest(page(Slot::A)?, page(Slot::B)?) {
        Ok(_) => Ok(()),
        Err([a, _]) => Err(format!("{}: is no managed disk: {a}", path.display())),
    }
}

/// An object: the server is asked about it as the daemon asks.
fn object(check: String, object: &cards_config::Object) -> Finding {
    let options = DiskOptions {
        reconnect_wait: OBJECT_WITHIN,
        ..DiskOptions::object(cards_node::object_source(object))
    };
    match Disk::open(&options) {
        Ok(open) => {
            let version = open.version().map(|tag| format!(", ETag {tag}")).unwrap_or_default();
            Finding::ok(check, format!("{open}: {}, can be read{version}", size::human(open.size())))
        }
        // It names the URL itself.
        Err(e) => Finding::error(check, e.to_string().trim_start_matches("disk ")),
    }
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
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn disks_are_opened_as_the_daemon_does() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk.img");
        let of = |running| disk(&cards_config::Disk::new("d", Origin::Path(path.clone())), running);
        assert!(of(false).to_string().contains("truncate -s 1G"), "{}", of(false));
        std::fs::write(&path, vec![0; 4096]).unwrap();
        assert_eq!(of(false).says, format!("{}: 4 KiB, can be read and written", path.display()));
        let _used = Disk::open(&DiskOptions::path(&path)).unwrap();
        assert_eq!((of(false).level, of(true).level), (Level::Problem, Level::Ok));
    }

    #[test]
    fn a_managed_disk_says_that_it_is_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk.img");
        std::fs::write(&path, vec![0; 1 << 20]).unwrap();
        let of = || disk(&cards_config::Disk::new("d", Origin::Managed(path.clone())), false);
        let found = of();
        assert_eq!(found.level, Level::Problem);
        assert!(found.to_string().contains("is no managed disk: there is none"), "{found}");
        assert!(found.to_string().contains("cards disk format"), "{found}");
        let sizes = cards_layout::format::Sizes::choose(64 << 20).unwrap();
        let superblock = Superblock {
            sequence: 2,
            disk: cards_layout::format::Uuid([7; 16]),
            cluster: cards_layout::format::Uuid::default(),
            cluster_name: None,
            sizes,
            closed: true,
            journal_disk: None,
            boot: cards_layout::format::Uuid::default(),
            incarnation: 0,
            node: None,
            domain: None,
            name: "d".parse().unwrap(),
        };
        let mut bytes = vec![0; 1 << 20];
        bytes[65_536..65_536 + UNIT].copy_from_slice(&superblock.encode());
        std::fs::write(&path, bytes).unwrap();
        assert_eq!(of().level, Level::Ok, "{}", of());
    }

    #[test]
    fn a_directory_that_is_missing_can_be_made() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(directory("runtime_dir", dir.path()).level, Level::Ok);
        assert!(directory("state_dir", &dir.path().join("a/b")).says.ends_with("can be made"));
        let missing = directory("nbd.unix", &dir.path().join("a"));
        assert!(missing.level == Level::Problem && missing.to_string().contains("mkdir -p"), "{missing}");
        assert_eq!(directory("runtime_dir", Path::new("/proc/nothing")).level, Level::Problem);
    }
}
