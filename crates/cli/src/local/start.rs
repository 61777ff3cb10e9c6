//! The start of the process that serves a volume.

use std::fs::File;
use std::io::{self, Read as _};
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use cards_config::Mode;
use cards_device::Description;

use super::{LocalError, Place, log};
use crate::signals::Signals;

/// How long a server may take until it serves.
const PATIENCE: Duration = Duration::from_secs(40);
/// How long one that was started in vain may take to end.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// Longest line that is read from it, in bytes.
const LINE_MAX: usize = 16 << 10;
const LOOK: Duration = Duration::from_millis(10);

/// How the volume is served.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Service {
    /// Also as a block device.
    pub(crate) block: bool,
    /// As a disk of the ublk driver, and not as a file.
    pub(crate) ublk: bool,
    /// The kernel keeps no pages of the file.
    pub(crate) direct: bool,
    /// The daemon drops what the kernel has read.
    pub(crate) exclusive: bool,
    /// Of the card; the server attaches it again when the daemon has forgotten it.
    pub(crate) mode: Mode,
}

/// Starts `cards device` in the background and waits until it serves.
///
/// # Errors
/// It does not, or a signal asked this program to end; the process has ended then.
pub(crate) fn start(place: &Place, service: Service, signals: &Signals) -> Result<Description, LocalError> {
    let since = log::length(place);
    let failed = |source| LocalError::Start { volume: place.volume().into(), source };
    // Started by systemd, it goes on writing to the journal of its unit.
    let log = std::env::var_os("JOURNAL_STREAM").is_none().then(|| log::open(place)).transpose()?;
    let mut child = command(place, service, log).and_then(|mut command| command.spawn()).map_err(failed)?;
    let answer = child.stdout.take().map_or(Err(LocalError::Interrupted), |out| wait(out, place, signals));
    let error = match answer {
        Ok(Some(record)) => return Ok(record),
        Ok(None) => {
            let said = log::last_line(place, since);
            let unsaid = || format!("`cards device {}` ended without a word; see its log", place.volume());
            LocalError::Ended { said: said.unwrap_or_else(unsaid) }
        }
        Err(error) => error,
    };
    stop(&mut child);
    Err(error)
}

fn command(place: &Place, service: Service, log: Option<File>) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("device").arg(place.volume()).arg("--socket").arg(place.socket());
    command.args(["--mode", service.mode.name()]);
    for (wanted, flag) in [
        (service.block, "--block"),
        (service.ublk, "--ublk"),
        (service.direct, "--direct"),
        (service.exclusive, "--exclusive"),
    ] {
        if wanted {
            command.arg(flag);
        }
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    if let Some(log) = log {
        command.stderr(log);
    }
    // A mount below the caller's directory could not be unmounted otherwise.
    command.current_dir("/");
    // SAFETY: the closure runs between fork and exec and calls only async-signal-safe functions on its own values;
    // `io::Error` from an errno does not allocate.
    unsafe {
        command.pre_exec(|| {
            let mut none = MaybeUninit::<libc::sigset_t>::uninit();
            libc::sigemptyset(none.as_mut_ptr());
            // A session of its own: it outlives the terminal, and gets no signal from it.
            if libc::setsid() < 0
                || libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut()) != 0
            {
                return Err(io::Error::last_os_error());
            }
            Ok(())
        });
    }
    Ok(command)
}

/// The record that the server writes once it serves; none if it ends before.
fn wait(mut out: ChildStdout, place: &Place, signals: &Signals) -> Result<Option<Description>, LocalError> {
    let broken = |source| LocalError::Start { volume: place.volume().into(), source };
    set_nonblocking(&out).map_err(broken)?;
    let deadline = Instant::now() + PATIENCE;
    let mut line = Vec::new();
    let mut input = [0; 1024];
    loop {
        match out.read(&mut input) {
            Ok(0) => return Ok(None),
            Ok(bytes) => line.extend_from_slice(&input[..bytes]),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                if signals.end_within(LOOK) {
                    return Err(LocalError::Interrupted);
                }
            }
            Err(e) => return Err(broken(e)),
        }
        if let Some(end) = line.iter().position(|&byte| byte == b'\n') {
            return serde_json::from_slice(&line[..end]).map(Some).map_err(|e| broken(e.into()));
        }
        if line.len() > LINE_MAX || Instant::now() > deadline {
            let (volume, seconds) = (place.volume().into(), PATIENCE.as_secs());
            return Err(LocalError::Silent { volume, seconds, log: place.log() });
        }
    }
}

fn set_nonblocking(out: &ChildStdout) -> io::Result<()> {
    let fd = out.as_raw_fd();
    // SAFETY: the descriptor is open, and both commands take and give plain numbers.
    let set = unsafe {
        let flags = libc::fcntl(fd, libc::F_GETFL);
        flags >= 0 && libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK) == 0
    };
    if set { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Ends a server that was started in vain, so that it cleans up if it can.
fn stop(child: &mut Child) {
    let deadline = Instant::now() + LAST_WORDS;
    crate::signals::send(child.id(), libc::SIGTERM);
    while Instant::now() < deadline {
        if !matches!(child.try_wait(), Ok(None)) {
            return;
        }
        std::thread::sleep(LOOK);
    }
    // It can only fail for a process that has ended.
    let _ = child.kill();
    let _ = child.wait();
}
