//! The process that serves a volume as a file or a block device: `cards device`.

use std::fs::{self, TryLockError};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cards_device::mountinfo::{self, Mount};
use cards_device::{Description, loop_devices_over};

use super::place::{LOCK, RECORD};
use super::sys::{self, Process};
use super::{LocalError, Place, block_device, log, users};

/// How long a server may take to end.
const PATIENCE: Duration = Duration::from_secs(20);
/// The same while its daemon is away: what is under way waits for that.
const PATIENCE_STUCK: Duration = Duration::from_secs(5);
/// How long it may take to notice that nobody uses what it serves any more.
const LAST_USE: Duration = Duration::from_secs(3);

/// What serves a volume here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Server {
    /// Nothing.
    None,
    /// A process.
    Running(Description),
    /// A process that has ended without cleaning up: what it served is still there, and answers nothing. What it said
    /// of itself, if it came to that.
    Dead(Option<Description>),
}

impl Server {
    /// Looks for the server of a volume.
    ///
    /// # Errors
    /// There is one that cannot be understood.
    pub(crate) fn of(place: &Place) -> Result<Self, LocalError> {
        if is_locked(place)? {
            let Some(text) = place.read(RECORD)? else {
                return Err(LocalError::Starting { volume: place.volume().into(), log: place.log() });
            };
            let record = serde_json::from_slice(&text);
            return record.map(Self::Running).map_err(|e| LocalError::file(&place.path(RECORD), e.into()));
        }
        let said = place.read(RECORD)?;
        let left = said.is_some()
            || !loop_devices_over(&place.file()).is_empty()
            || mountinfo::mounts().is_ok_and(|mounts| mountinfo::at(&mounts, &place.file()).is_some());
        let said = said.and_then(|text| serde_json::from_slice(&text).ok());
        Ok(if left { Self::Dead(said) } else { Self::None })
    }

    /// The record of a running server.
    pub(crate) const fn record(&self) -> Option<&Description> {
        match self {
            Self::Running(record) => Some(record),
            Self::None | Self::Dead(_) => None,
        }
    }

    /// The number of the ublk disk that went with the process that served it. Only what is mounted from it still has
    /// this number, unless another disk has been given it.
    pub(crate) fn lost_disk(&self) -> Option<(u32, u32)> {
        let Self::Dead(Some(left)) = self else { return None };
        let number = (left.major, left.minor);
        (left.is_ublk() && !block_device::exists(number)).then_some(number)
    }

    /// Who uses what it serves.
    pub(crate) fn users(&self, place: &Place) -> Vec<users::User> {
        let (server, blocks) = (self.record().map(|record| record.pid), self.blocks(place));
        let mut users = users::of_volume(&place.file(), &blocks, self.lost_disk(), server);
        // While its daemon is away, whoever opens a block device may wait for the I/O of another one, and nothing ends that: not even a kill.
        let answers = server.is_none() || has_daemon(place);
        if users.is_empty() && answers && blocks.iter().any(|path| users::is_claimed(path)) {
            users.push(users::User::Unseen);
        }
        users
    }

    /// Its block devices.
    pub(crate) fn blocks(&self, place: &Place) -> Vec<PathBuf> {
        let mut blocks = loop_devices_over(&place.file());
        blocks.extend(self.record().and_then(|record| record.block.clone()));
        blocks.sort();
        blocks.dedup();
        blocks
    }
}

/// Asks the server to end, and waits until it has.
///
/// # Errors
/// It is not what the record says, or it goes on.
pub(crate) fn end(place: &Place, record: &Description) -> Result<(), LocalError> {
    let Some(process) = process(place, record)? else { return Ok(()) };
    let since = log::length(place);
    signal(&process, record, libc::SIGTERM)?;
    let is_stuck = !has_daemon(place);
    let deadline = Instant::now() + if is_stuck { PATIENCE_STUCK } else { PATIENCE };
    while Instant::now() < deadline {
        if process.ends_within(Duration::from_millis(200)) {
            return Ok(());
        }
        // It says so if it does not want to, for somebody has begun to use it.
        if let Some(said) = log::last_line(place, since)
            && !Server::Running(record.clone()).users(place).is_empty()
        {
            return Err(LocalError::GoesOn { volume: place.volume().into(), pid: record.pid, said });
        }
    }
    if is_stuck {
        return Err(LocalError::Stuck { volume: place.volume().into(), pid: record.pid });
    }
    let said = log::last_line(place, since).unwrap_or_else(|| format!("see {}", place.log().display()));
    Err(LocalError::GoesOn { volume: place.volume().into(), pid: record.pid, said })
}

/// Asks the server to take what it serves out of sight, and to end when nobody uses it any more; whether that is now.
///
/// # Errors
/// It is not what the record says.
pub(crate) fn let_go(place: &Place, record: &Description) -> Result<bool, LocalError> {
    let Some(process) = process(place, record)? else { return Ok(true) };
    signal(&process, record, libc::SIGHUP)?;
    Ok(process.ends_within(LAST_USE))
}

/// The server's process; none if it has ended.
fn process(place: &Place, record: &Description) -> Result<Option<Process>, LocalError> {
    let process = match Process::open(record.pid) {
        Err(e) if e.raw_os_error() == Some(libc::ESRCH) => return Ok(None),
        opened => opened.map_err(|source| LocalError::Signal { pid: record.pid, source })?,
    };
    // The number is that of the process that is open now: it cannot become another one's any more.
    if has_open(record.pid, &place.path(LOCK)) {
        return Ok(Some(process));
    }
    if process.ends_within(Duration::ZERO) {
        return Ok(None);
    }
    Err(LocalError::NotTheServer { record: place.path(RECORD), pid: record.pid })
}

/// Sends a signal to the server; that it has ended is no matter.
fn signal(process: &Process, record: &Description, number: i32) -> Result<(), LocalError> {
    match process.signal(number) {
        Err(e) if e.raw_os_error() != Some(libc::ESRCH) => {
            Err(LocalError::Signal { pid: record.pid, source: e })
        }
        _ => Ok(()),
    }
}

/// Removes what a dead server has left: the loop devices, the ublk disk, the mount, the record. What is in use goes
/// when it is not used any more.
///
/// # Errors
/// It cannot be removed.
pub(crate) fn clean_up(place: &Place, left: Option<&Description>) -> Result<(), LocalError> {
    if let Some(left) = left {
        cards_device::delete_left(left);
    }
    let file = place.file();
    for device in loop_devices_over(&file) {
        match sys::clear_loop(&device) {
            Err(e) if e.raw_os_error() != Some(libc::ENXIO) => return Err(LocalError::file(&device, e)),
            _ => {}
        }
    }
    // Several, if servers died one after the other.
    while mountinfo::mounts().is_ok_and(|mounts| mountinfo::at(&mounts, &file).is_some_and(Mount::is_volume))
    {
        sys::unmount_lazily(&file).map_err(|source| LocalError::file(&file, source))?;
    }
    place.remove(RECORD)?;
    place.remove("")
}

/// Whether a daemon takes connections.
fn has_daemon(place: &Place) -> bool {
    UnixStream::connect(place.socket()).is_ok()
}

/// Whether a process has the lock of a server.
fn is_locked(place: &Place) -> Result<bool, LocalError> {
    let Some(dir) = place.dir()? else { return Ok(false) };
    let Some(file) = dir.file(&place.name(LOCK))? else { return Ok(false) };
    match file.try_lock_shared() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(source)) => Err(LocalError::file(&place.path(LOCK), source)),
    }
}

/// Whether the process has the file at `path` open.
fn has_open(pid: u32, path: &Path) -> bool {
    let path = path.canonicalize().unwrap_or_else(|_| path.into());
    let links = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    links.filter_map(|link| fs::read_link(link.path()).ok()).any(|target| target == path)
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    fn place(dir: &Path) -> Place {
        let place = Place::new(&dir.join("admin.sock"), "data").unwrap();
        place.make_dir().unwrap();
        place
    }

    fn description(place: &Place, pid: u32) -> Description {
        Description {
            volume: "data".into(),
            path: place.file(),
            block: None,
            major: 0,
            minor: 1,
            size: 4096,
            read_only: false,
            pid,
            claim: None,
        }
    }

    #[test]
    fn a_server_is_known_by_its_lock() {
        let dir = tempfile::tempdir().unwrap();
        let place = place(dir.path());
        assert_eq!(Server::of(&place).unwrap(), Server::None);
        let record = description(&place, std::process::id());
        let lock = File::create(place.path(LOCK)).unwrap();
        lock.lock().unwrap();
        assert!(matches!(Server::of(&place), Err(LocalError::Starting { .. })));
        fs::write(place.path(RECORD), serde_json::to_string(&record).unwrap()).unwrap();
        assert_eq!(Server::of(&place).unwrap(), Server::Running(record));
        fs::write(place.path(RECORD), "{").unwrap();
        assert!(matches!(Server::of(&place), Err(LocalError::File { .. })));
        drop(lock);
        assert_eq!(Server::of(&place).unwrap(), Server::Dead(None));
        clean_up(&place, None).unwrap();
        assert_eq!(Server::of(&place).unwrap(), Server::None);
    }

    #[test]
    fn a_ublk_disk_that_is_gone_is_known_by_its_number_unless_another_has_it() {
        let dir = tempfile::tempdir().unwrap();
        let file = description(&place(dir.path()), 1);
        let disk = Description { block: Some(file.path.clone()), major: 4095, ..file.clone() };
        let lost = |left| Server::Dead(Some(left)).lost_disk();
        assert_eq!(lost(disk.clone()), Some((4095, 1)));
        assert_eq!(lost(file), None);
        let numbers = fs::read_dir("/sys/dev/block").unwrap().flatten().next();
        let Some(number) = numbers.and_then(|entry| entry.file_name().into_string().ok()) else { return };
        let (major, minor) = number.split_once(':').unwrap();
        let taken =
            Description { major: major.parse().unwrap(), minor: minor.parse().unwrap(), ..disk.clone() };
        assert_eq!(lost(taken), None);
        assert_eq!(Server::Running(disk).lost_disk(), None);
    }

    #[test]
    fn no_process_but_the_server_is_ended() {
        let dir = tempfile::tempdir().unwrap();
        let place = place(dir.path());
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let record = description(&place, child.id());
        assert!(matches!(end(&place, &record), Err(LocalError::NotTheServer { .. })));
        assert!(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
        end(&place, &record).unwrap();
    }

    /// As one does whose kernel waits for reads that only the daemon can answer.
    #[test]
    fn a_server_that_waits_for_its_daemon_is_named_with_what_it_waits_for() {
        let dir = tempfile::tempdir().unwrap();
        let place = place(dir.path());
        let lock = File::create(place.path(LOCK)).unwrap();
        let mut deaf = std::process::Command::new("sh");
        let deaf = deaf.args(["-c", "trap '' TERM; echo; exec sleep 60"]).stdin(lock);
        let mut child = deaf.stdout(std::process::Stdio::piped()).spawn().unwrap();
        // It is deaf from here on.
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut [0]).unwrap();
        let refused = end(&place, &description(&place, child.id())).unwrap_err().to_string();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(
            refused.contains("its daemon does not run") && refused.contains("start the daemon"),
            "{refused}"
        );
    }

    #[test]
    fn the_server_ends_when_it_is_asked() {
        let dir = tempfile::tempdir().unwrap();
        let place = place(dir.path());
        let lock = File::create(place.path(LOCK)).unwrap();
        let mut child = std::process::Command::new("sleep").arg("60").stdin(lock).spawn().unwrap();
        let record = description(&place, child.id());
        let waiter = std::thread::spawn(move || child.wait());
        end(&place, &record).unwrap();
        waiter.join().unwrap().unwrap();
    }
}
