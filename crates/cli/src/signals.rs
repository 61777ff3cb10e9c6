//! Signals as events, and processes that do not outlive this one.

use std::cell::Cell;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::{Duration, Instant};

/// How often it is looked whether what is waited for is done.
const LOOK: Duration = Duration::from_millis(10);
/// How long what is cut short by a signal may take to end by itself.
const MOMENT: Duration = Duration::from_secs(1);

/// The signals that end or wake this program, blocked and waited for instead of handled.
///
/// Threads that are started afterwards inherit the block; processes must be started through
/// [`with_parent`].
#[derive(Debug)]
pub(crate) struct Signals {
    set: libc::sigset_t,
}

thread_local! {
    /// The last signal that this thread has taken and that asks the program to end.
    static ENDED_BY: Cell<Option<i32>> = const { Cell::new(None) };
}

/// The exit status of a verb that a signal has ended, as shells have it: 128 and its number, that of Ctrl-C if another thread took it.
pub(crate) fn interrupted() -> u8 {
    u8::try_from(128 + ENDED_BY.get().unwrap_or(libc::SIGINT)).unwrap_or(u8::MAX)
}

/// A signal that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrived {
    /// Its number.
    pub(crate) number: i32,
    /// A process sent it to this one alone; otherwise the terminal sent it to the whole foreground.
    pub(crate) from_process: bool,
}

impl Arrived {
    /// Whether it asks this program to end.
    pub(crate) const fn ends(self) -> bool {
        matches!(self.number, libc::SIGINT | libc::SIGTERM | libc::SIGHUP)
    }
}

impl Signals {
    /// Blocks SIGINT, SIGTERM, SIGHUP and SIGCHLD.
    pub(crate) fn block() -> Self {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: `sigemptyset` initialises the set, the others take an initialised set and valid signal
        // numbers; none of them fails then.
        let set = unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGCHLD] {
                libc::sigaddset(set.as_mut_ptr(), signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut());
            set.assume_init()
        };
        Self { set }
    }

    /// The next signal, within `timeout`. May come back early without one.
    pub(crate) fn wait(&self, timeout: Duration) -> Option<Arrived> {
        let timeout = libc::timespec {
            tv_sec: timeout.as_secs().min(3600) as libc::time_t,
            tv_nsec: timeout.subsec_nanos().into(),
        };
        let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
        // SAFETY: all three point to initialised values that outlive the call.
        let number = unsafe { libc::sigtimedwait(&self.set, info.as_mut_ptr(), &timeout) };
        // SAFETY: all bits zero is a valid siginfo_t, and the kernel writes valid ones.
        let info = unsafe { info.assume_init() };
        let arrived = (number > 0).then_some(Arrived { number, from_process: info.si_code == libc::SI_USER });
        if arrived.is_some_and(Arrived::ends) {
            ENDED_BY.set(Some(number));
        }
        arrived
    }

    /// Does `call`, which another process may hold up: when a signal asks this program to end, it has a moment more to end by itself, then
    /// `end` cuts it short. Says what it has come to, if it ended by itself, and whether a signal came.
    pub(crate) fn during<T: Send>(
        &self,
        end: impl FnOnce(),
        call: impl FnOnce() -> T + Send,
    ) -> (Option<T>, bool) {
        std::thread::scope(|scope| {
            let call = scope.spawn(call);
            let (mut end, mut asked) = (Some(end), None);
            while !call.is_finished() {
                if self.wait(LOOK).is_some_and(Arrived::ends) {
                    asked.get_or_insert_with(Instant::now);
                }
                if asked.is_some_and(|at| at.elapsed() >= MOMENT)
                    && let Some(end) = end.take()
                {
                    end();
                }
            }
            let done = call.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            (end.is_some().then_some(done), asked.is_some())
        })
    }

    /// Waits for `duration`; whether a signal asked this program to end meanwhile.
    pub(crate) fn end_within(&self, duration: Duration) -> bool {
        let deadline = Instant::now() + duration;
        loop {
            if self.wait(deadline.saturating_duration_since(Instant::now())).is_some_and(Arrived::ends) {
                return true;
            }
            if Instant::now() >= deadline {
                return false;
            }
        }
    }
}

/// Lets the process of `command` start with no signal blocked, and get `signal` when this thread ends,
/// however it ends.
pub(crate) fn with_parent(command: &mut Command, signal: i32) -> &mut Command {
    let parent = std::process::id();
    // SAFETY: the closure runs between fork and exec and calls only async-signal-safe functions on its own
    // values; `io::Error` from an errno does not allocate.
    unsafe {
        command.pre_exec(move || {
            let mut none = MaybeUninit::<libc::sigset_t>::uninit();
            libc::sigemptyset(none.as_mut_ptr());
            if libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut()) != 0
                || libc::prctl(libc::PR_SET_PDEATHSIG, signal as libc::c_ulong) != 0
            {
                return Err(io::Error::last_os_error());
            }
            // The parent may have ended before the request for a signal was made.
            if libc::getppid() as u32 != parent {
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
            Ok(())
        })
    }
}

/// Sends `signal` to the process `pid`, a child that has not been waited for.
pub(crate) fn send(pid: u32, signal: i32) {
    // SAFETY: no memory is involved. It can only fail for a process that has ended, which is what is wanted.
    unsafe { libc::kill(pid as libc::pid_t, signal) };
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    #[test]
    fn a_signal_is_an_event() {
        let signals = Signals::block();
        assert!(!signals.end_within(Duration::from_millis(1)));
        // SAFETY: no memory is involved; the signal is blocked and stays pending for this thread.
        unsafe { libc::raise(libc::SIGTERM) };
        assert!(signals.end_within(Duration::from_secs(5)));
        assert!(!signals.end_within(Duration::ZERO));
        assert_eq!(interrupted(), 128 + 15);
    }

    #[test]
    fn a_call_that_is_held_up_ends_with_a_signal() {
        let signals = Signals::block();
        assert_eq!(signals.during(|| (), || 7), (Some(7), false));
        let (mut here, _there) = std::os::unix::net::UnixStream::pair().unwrap();
        let line = here.try_clone().unwrap();
        // SAFETY: no memory is involved; the signal is blocked and stays pending for this thread.
        unsafe { libc::raise(libc::SIGTERM) };
        let end = || line.shutdown(std::net::Shutdown::Both).unwrap();
        assert!(matches!(signals.during(end, || io::Read::read(&mut here, &mut [0])), (None, true)));
    }

    #[test]
    fn children_start_with_no_signal_blocked() {
        let _signals = Signals::block();
        let mut command = Command::new("sh");
        command.args(["-c", "kill -TERM $$; exit 0"]);
        let status = with_parent(&mut command, libc::SIGKILL).status().unwrap();
        assert_eq!(status.signal(), Some(libc::SIGTERM));
    }
}
