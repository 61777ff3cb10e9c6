//! Who uses a device or a mount point. As far as can be seen: processes of other users are seen by root only.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use cards_device::mountinfo::{self, Mount};

use super::block_device;

/// Most users that are named.
const SHOWN_MAX: usize = 5;

/// One use of something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum User {
    /// It is mounted.
    Mount(PathBuf),
    /// It is mounted where only others see it: in a container, for example.
    ForeignMount(PathBuf, u32),
    /// A device is built on it.
    Device(String),
    /// It is swapped to.
    Swap,
    /// A process has it open, or runs in it.
    Process(String, u32),
    /// The kernel has it for itself, and it is not seen for what.
    Unseen,
}

impl std::fmt::Display for User {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Mount(point) => write!(f, "mounted at {}", point.display()),
            Self::ForeignMount(point, pid) => {
                write!(f, "mounted at {} as process {pid} sees it", point.display())
            }
            Self::Device(name) => write!(f, "under the device {name}"),
            Self::Swap => f.write_str("swapped to"),
            Self::Process(name, pid) => write!(f, "open in {name} ({pid})"),
            Self::Unseen => {
                f.write_str("mounted where it is not seen from here, or unmounted lazily and still open")
            }
        }
    }
}

/// The users in words, the first few of them.
pub(crate) fn list(users: &[User]) -> String {
    let shown: Vec<String> = users.iter().take(SHOWN_MAX).map(ToString::to_string).collect();
    let more = users.len().saturating_sub(SHOWN_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    shown.join(", ") + &more
}

/// Who uses a volume that is the file `file` and the block devices `blocks`, or was the disk of number `lost`, other
/// than the process `server`.
pub(crate) fn of_volume(
    file: &Path,
    blocks: &[PathBuf],
    lost: Option<(u32, u32)>,
    server: Option<u32>,
) -> Vec<User> {
    let blocks_there = blocks.iter().filter_map(|path| block_device::numbers(path));
    let numbers: Vec<(u32, u32)> = blocks_there.chain(lost).collect();
    let mounts = mountinfo::mounts().unwrap_or_default();
    let ours = |mount: &&Mount| numbers.contains(&mount.device);
    let mut users: Vec<User> =
        mounts.iter().filter(ours).map(|mount| User::Mount(mount.point.clone())).collect();
    if users.is_empty() && !numbers.is_empty() {
        users.extend(
            foreign_mounts()
                .into_iter()
                .filter(|(mount, _)| numbers.contains(&mount.device))
                .map(|(mount, pid)| User::ForeignMount(mount.point, pid)),
        );
    }
    users.extend(blocks.iter().flat_map(|path| block_device::holders(path)).map(User::Device));
    let swaps = fs::read("/proc/swaps").unwrap_or_default();
    let swaps = String::from_utf8_lossy(&swaps);
    let swapped = |path: &Path| {
        swaps.lines().any(|line| line.split_whitespace().next().is_some_and(|first| Path::new(first) == path))
    };
    if swapped(file) || blocks.iter().any(|path| swapped(path)) {
        users.push(User::Swap);
    }
    let open = |path: &Path| path == file || blocks.iter().any(|block| block == path);
    users.extend(processes(server, &["fd"], open));
    users
}

/// Whether the kernel has given the block device to one user alone: a file system, another device, swap.
pub(crate) fn is_claimed(block: &Path) -> bool {
    let opened = fs::File::options().read(true).custom_flags(libc::O_EXCL).open(block);
    opened.is_err_and(|e| e.raw_os_error() == Some(libc::EBUSY))
}

/// Who keeps the mount at `point` from being unmounted.
pub(crate) fn of_mount(point: &Path) -> Vec<User> {
    let mounts = mountinfo::mounts().unwrap_or_default();
    let below =
        mounts.iter().map(|mount| &mount.point).filter(|path| *path != point && path.starts_with(point));
    let mut users: Vec<User> = below.cloned().map(User::Mount).collect();
    users.extend(processes(None, &["cwd", "root", "exe", "fd", "map_files"], |path| path.starts_with(point)));
    users
}

/// The mounts of all other namespaces, each with a process that lives in it.
fn foreign_mounts() -> Vec<(Mount, u32)> {
    let namespace = |pid: &str| fs::metadata(format!("/proc/{pid}/ns/mnt")).map(|meta| meta.ino()).ok();
    let mut seen: HashSet<u64> = namespace("self").into_iter().collect();
    let mut all = Vec::new();
    for pid in pids() {
        let new = namespace(&pid.to_string()).is_some_and(|inode| seen.insert(inode));
        if new && let Ok(text) = fs::read(format!("/proc/{pid}/mountinfo")) {
            all.extend(mountinfo::parse(&text).into_iter().map(|mount| (mount, pid)));
        }
    }
    all
}

/// The processes one of whose links in the files or directories `of` of /proc/PID leads to what `wanted` accepts.
/// The links are read, not followed: what they lead to may not answer.
fn processes(except: Option<u32>, of: &[&str], wanted: impl Fn(&Path) -> bool) -> Vec<User> {
    let uses = |pid: u32| {
        of.iter().any(|name| {
            let path = PathBuf::from(format!("/proc/{pid}/{name}"));
            if let Ok(target) = fs::read_link(&path) {
                return wanted(&target);
            }
            let links = fs::read_dir(&path).into_iter().flatten().flatten();
            links.filter_map(|link| fs::read_link(link.path()).ok()).any(|target| wanted(&target))
        })
    };
    let others = pids().into_iter().filter(|&pid| Some(pid) != except && pid != std::process::id());
    others.filter(|&pid| uses(pid)).map(|pid| User::Process(name(pid), pid)).collect()
}

fn pids() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// The name of a process, without what would confuse a terminal.
fn name(pid: u32) -> String {
    let name = fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    String::from_utf8_lossy(&name).trim_end().chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_an_open_file_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap().join("volume");
        fs::write(&path, "").unwrap();
        assert_eq!(of_volume(&path, &[], None, None), []);
        let file = fs::File::open(&path).unwrap();
        let mut child = std::process::Command::new("sleep").arg("60").stdin(file).spawn().unwrap();
        let users = of_volume(&path, &[], None, None);
        assert!(users.contains(&User::Process("sleep".into(), child.id())), "{users:?}");
        assert_eq!(of_volume(&path, &[], None, Some(child.id())), []);
        assert_eq!(of_mount(path.parent().unwrap()).len(), 1);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_few_users_are_named_and_the_others_counted() {
        let users: Vec<User> = (1..=7).map(|pid| User::Process("dd".into(), pid)).collect();
        assert_eq!(list(&users[..2]), "open in dd (1), open in dd (2)");
        assert!(list(&users).ends_with("open in dd (5) and 2 more"), "{}", list(&users));
    }
}
