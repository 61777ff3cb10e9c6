//! Which life of the node this process is, and which one it follows.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use cards_wire::peer::LIVES_MAX;

use crate::state_dir;

/// Replaces the kernel's boot id, for tests that let a machine lose its power.
const BOOT_ID: &str = "CARDS_BOOT_ID";

/// A life of a node. While it lasts, no other process can begin one in the same directory.
#[derive(Debug)]
pub(crate) struct Life {
    /// Its number: milliseconds since 1970, but [`BETWEEN`] later than that of the node's last life that is known of. So a
    /// clock that was set back, or is behind after a start of the machine, does not make a node older than it was.
    pub(crate) incarnation: u64,
    /// The last lives in this `runtime_dir`, the latest first. They are over: their processes had the lock that this one has. A peer may
    /// have met none of the latest: they may have ended before they were members.
    pub(crate) succeeds: Vec<u64>,
    /// `state_dir` knows of no earlier life.
    pub(crate) is_first: bool,
    /// None if the directory takes no locks; nothing is known of earlier lives then.
    _lock: Option<File>,
}

/// Another process lives in the directory.
#[derive(Debug)]
pub(crate) struct InUse(pub(crate) Option<Holder>);

/// The process that lives there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) pid: u32,
    pub(crate) end: End,
}

/// Whether a process can be ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Nothing is known against it.
    Can,
    /// It was killed, and has not ended yet.
    Killed,
    /// It was killed, and a thread of it waits in the kernel, where no signal comes: it ends when that wait does.
    Stuck,
}

impl Holder {
    /// The process that has locked a file, if it can be seen.
    pub(crate) fn of(file: &File) -> Option<Self> {
        let inode = file.metadata().ok()?.ino();
        let pid = locked_by(&fs::read_to_string("/proc/locks").ok()?, inode)?;
        let states = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let states: Vec<String> =
            states.filter_map(|thread| fs::read_to_string(thread.path().join("status")).ok()).collect();
        Some(Self { pid, end: end_of(&states) })
    }
}

/// The process that has locked the file with this number, by what `/proc/locks` says.
fn locked_by(locks: &str, inode: u64) -> Option<u32> {
    let of_file = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = words.iter().position(|word| *word == "FLOCK").filter(|_| !words.contains(&"->"))?;
        let (pid, file) = (words.get(at + 3)?, words.get(at + 4)?);
        (file.rsplit(':').next()?.parse() == Ok(inode)).then(|| pid.parse().ok())?
    };
    locks.lines().find_map(of_file)
}

/// Whether a process can be ended, by the `status` of its threads in /proc.
fn end_of(threads: &[String]) -> End {
    let field = |thread: &'static str| {
        move |status: &String| -> Option<String> {
            Some(status.lines().find_map(|line| line.strip_prefix(thread))?.trim().to_owned())
        }
    };
    let any = |name: &'static str, is: fn(&str) -> bool| {
        threads.iter().filter_map(field(name)).any(|value| is(&value))
    };
    let has_kill =
        |mask: &str| u64::from_str_radix(mask, 16).is_ok_and(|mask| mask & (1 << (libc::SIGKILL - 1)) != 0);
    let is_killed =
        any("State:", |state| state.starts_with('Z')) || any("SigPnd:", has_kill) || any("ShdPnd:", has_kill);
    match is_killed {
        false => End::Can,
        true if any("State:", |state| state.starts_with('D')) => End::Stuck,
        true => End::Killed,
    }
}

/// The lock of a `runtime_dir`: no other process begins a life in it.
#[derive(Debug)]
pub(crate) struct Claim {
    path: PathBuf,
    /// The file that has the number of the last life; an error if the directory takes no locks.
    file: io::Result<File>,
}

impl Claim {
    /// Takes the lock of `runtime_dir`. Nothing is written.
    ///
    /// # Errors
    /// Another process has it.
    pub(crate) fn take(runtime_dir: &Path) -> Result<Self, InUse> {
        let path = runtime_dir.join("incarnation");
        let opened = File::options().read(true).write(true).create(true).truncate(false).open(&path);
        let file = match opened.map(|file| (file.try_lock(), file)) {
            Ok((Err(TryLockError::WouldBlock), file)) => return Err(InUse(Holder::of(&file))),
            Ok((Err(TryLockError::Error(error)), _)) | Err(error) => Err(error),
            Ok((Ok(()), file)) => Ok(file),
        };
        Ok(Self { path, file })
    }
}

/// Numbers from one life to the next, at least. The stamps of a life begin with its number and go on into those that follow,
/// which must be nobody's: this is room for 2^32 writes of a life while the clock stands still.
const BETWEEN: u64 = 1 << 12;

/// Longest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 512;

impl Life {
    /// Begins a life of a node. Its number goes into both directories: `runtime_dir`, which is claimed, may be empty after a
    /// start of the machine; `state_dir` is not.
    pub(crate) fn begin(Claim { path, file }: Claim, state_dir: &Path, node: &str) -> Self {
        let lasting = state_dir.join(format!("incarnation.{node}"));
        let now = u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis());
        let after = |last: Option<u64>| now.unwrap_or(0).max(last.unwrap_or(0) + BETWEEN);
        let known = File::open(&lasting).ok().and_then(|file| numbers_in(&file).ok()?.first().copied());
        let kept = file.and_then(|mut file| {
            let mut succeeds = numbers_in(&file)?;
            succeeds.truncate(LIVES_MAX);
            let incarnation = after(succeeds.first().copied().max(known));
            file.rewind()?;
            file.set_len(0)?;
            let lives: String =
                [incarnation].iter().chain(&succeeds).map(|life| format!("{life}\n")).collect();
            file.write_all(lives.as_bytes())?;
            Ok(Self { incarnation, succeeds, is_first: known.is_none(), _lock: Some(file) })
        });
        let life = kept.unwrap_or_else(|error| {
            tracing::warn!(
                "{}: {error}; after a restart this node may have to wait until the leases of its last life are over",
                path.display()
            );
            Self { incarnation: after(known), succeeds: Vec::new(), is_first: known.is_none(), _lock: None }
        });
        if let Err(error) = keep(&lasting, life.incarnation) {
            tracing::warn!(
                "state_dir: {}: {error}; if the machine starts again with its clock behind, other nodes drop what they have cached of this node's disks; {}",
                lasting.display(),
                state_dir::remedy(&error)
            );
        }
        life
    }
}

/// The lives in a file, a line each; none if it is broken. The core shifts them by 20 bits, which must not overflow.
fn numbers_in(file: &File) -> io::Result<Vec<u64>> {
    let mut text = Vec::new();
    file.take(FILE_BYTES_MAX).read_to_end(&mut text)?;
    let number = |line: &str| line.parse().ok().filter(|number| (1..1 << 43).contains(number));
    let numbers = std::str::from_utf8(&text).ok().and_then(|text| text.lines().map(number).collect());
    Ok(numbers.unwrap_or_default())
}

/// Writes the number so that it survives the machine, and the one before it a crash meanwhile.
fn keep(path: &Path, incarnation: u64) -> io::Result<()> {
    let directory = path.parent().map(PathBuf::from).unwrap_or_default();
    fs::create_dir_all(&directory)?;
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let mut file = File::create(&new)?;
    writeln!(file, "{incarnation}")?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    File::open(&directory)?.sync_all()
}

/// Names the boot of this machine: its page cache lasts as long.
pub(crate) fn boot_id() -> io::Result<String> {
    if let Ok(given) = std::env::var(BOOT_ID) {
        return Ok(given);
    }
    Ok(std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lives_follow_each_other_even_if_the_clock_goes_back() {
        let dir = tempfile::tempdir().unwrap();
        let begin = || begin(dir.path());
        let first = begin().unwrap();
        assert!(first.succeeds.is_empty());
        let number = first.incarnation;
        drop(first);
        let second = begin().unwrap();
        assert!(second.incarnation > number && second.succeeds == [number], "{second:?}");
        let next = second.incarnation;
        drop(second);
        assert_eq!(begin().unwrap().succeeds, [next, number]);
        for _ in 0..2 * LIVES_MAX {
            begin().unwrap();
        }
        assert_eq!(begin().unwrap().succeeds.len(), LIVES_MAX);
        let file = dir.path().join("run/incarnation");
        fs::write(&file, format!("{}\n", number + 1_000_000_000)).unwrap();
        assert_eq!(begin().unwrap().incarnation, number + 1_000_000_000 + BETWEEN);
        fs::write(&file, "rubbish").unwrap();
        fs::write(dir.path().join("state/incarnation.n1"), "rubbish").unwrap();
        let after = begin().unwrap();
        assert!(after.incarnation < number + 1_000_000_000 && after.succeeds.is_empty());
    }

    fn begin(dir: &Path) -> Result<Life, InUse> {
        fs::create_dir_all(dir.join("run")).unwrap();
        Ok(Life::begin(Claim::take(&dir.join("run"))?, &dir.join("state"), "n1"))
    }

    #[test]
    fn lives_follow_each_other_over_a_start_of_the_machine_with_its_clock_behind() {
        let dir = tempfile::tempdir().unwrap();
        let number = begin(dir.path()).unwrap().incarnation + 1_000_000_000;
        fs::write(dir.path().join("run/incarnation"), format!("{number}\n")).unwrap();
        assert_eq!(begin(dir.path()).unwrap().incarnation, number + BETWEEN);
        fs::remove_dir_all(dir.path().join("run")).unwrap();
        let after = begin(dir.path()).unwrap();
        assert_eq!((after.incarnation, after.succeeds), (number + 2 * BETWEEN, Vec::new()));
    }

    #[test]
    fn a_life_begins_where_nothing_can_be_kept() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("state"), "no directory").unwrap();
        let number = begin(dir.path()).unwrap().incarnation;
        assert!(begin(dir.path()).unwrap().incarnation > number);
    }

    #[test]
    fn two_do_not_live_in_one_directory() {
        let dir = tempfile::tempdir().unwrap();
        let _life = begin(dir.path()).unwrap();
        let InUse(holder) = begin(dir.path()).unwrap_err();
        // A sandbox may hide who has a lock.
        let own = Holder { pid: std::process::id(), end: End::Can };
        assert!(holder.is_none_or(|holder| holder == own), "{holder:?}");
    }

    #[test]
    fn who_has_the_lock_is_in_the_list_of_the_kernel() {
        let locks = "1: POSIX  ADVISORY  WRITE 4001 fe:00:131 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 4002 fe:00:131 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 4003 fe:00:132 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 4004 00:2b:133 0 EOF\n";
        assert_eq!([131, 132, 133].map(|inode| locked_by(locks, inode)), [Some(4002), None, Some(4004)]);
    }

    #[test]
    fn one_that_was_killed_ends_when_its_threads_are_out_of_the_kernel() {
        let thread = |state: &str, pending: &str| {
            format!("Name:\tcards\nState:\t{state}\nSigPnd:\t{pending}\nShdPnd:\t0000000000000000\n")
        };
        let (none, kill) = ("0000000000000000", "0000000000000100");
        for (threads, end) in [
            (vec![thread("S (sleeping)", none), thread("D (disk sleep)", none)], End::Can),
            (vec![thread("Z (zombie)", none), thread("D (disk sleep)", kill)], End::Stuck),
            (vec![thread("D (disk sleep)", kill)], End::Stuck),
            (vec![thread("Z (zombie)", none), thread("R (running)", kill)], End::Killed),
            (vec![], End::Can),
        ] {
            assert_eq!(end_of(&threads), end, "{threads:?}");
        }
    }
}
