//! A wait that wakes its thread once.
//!
//! tokio keeps its timers in wheels of 64 slots: a thread that waits for longer than 64 ms is woken when the slot of a coarser wheel
//! begins, and again in the end. A timer of the kernel is woken by in the end only, which halves what a daemon costs that has
//! nothing to do. For the waits that never end in an idle daemon; each has a descriptor.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::time::Duration;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// One timer, used by one task.
pub(crate) struct Alarm {
    /// None if there was no descriptor: then tokio's timers do.
    timer: Option<AsyncFd<File>>,
}

impl Alarm {
    /// Called in the runtime whose thread is to be woken.
    pub(crate) fn new() -> Self {
        let registered = timer().and_then(|timer| {
            // SAFETY: a `File` owns its descriptor and answers with the same one until it is dropped.
            Ok(unsafe { AsyncFd::register_with_interest(timer, Interest::READABLE) }?)
        });
        Self { timer: registered.ok() }
    }

    /// Waits for so long, on a clock that goes on while the machine is suspended.
    pub(crate) async fn sleep(&self, pause: Duration) {
        let Some(timer) = &self.timer else { return tokio::time::sleep(pause).await };
        if set(timer.get_ref(), pause).is_err() {
            return tokio::time::sleep(pause).await;
        }
        loop {
            let Ok(mut ready) = timer.readable().await else { return tokio::time::sleep(pause).await };
            let rings = ready.try_io(|timer| timer.get_ref().read_exact(&mut [0; 8]));
            // Setting it anew takes back that it has rung.
            if let Ok(rung) = rings {
                return rung.unwrap_or_default();
            }
        }
    }
}

fn timer() -> io::Result<File> {
    // SAFETY: takes two numbers and gives a descriptor, or -1.
    let timer = unsafe { libc::timerfd_create(libc::CLOCK_BOOTTIME, libc::TFD_CLOEXEC | libc::TFD_NONBLOCK) };
    if timer < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it was opened above, and nothing else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(timer) }.into())
}

/// Has it ring after this time, and not before.
fn set(timer: &File, pause: Duration) -> io::Result<()> {
    // Zero would stop it.
    let pause = pause.max(Duration::from_nanos(1));
    let value = libc::timespec {
        tv_sec: libc::time_t::try_from(pause.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: pause.subsec_nanos().into(),
    };
    let once = libc::itimerspec { it_interval: libc::timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
    // SAFETY: reads the structure that it is given, and writes nothing.
    match unsafe { libc::timerfd_settime(timer.as_raw_fd(), 0, &raw const once, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::Relaxed;
    use std::time::Instant;

    use super::*;

    /// `test` is given what says how often the thread has gone to sleep.
    fn run(test: impl AsyncFnOnce(&AtomicUsize)) {
        let parked = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&parked);
        let count = move || _ = counter.fetch_add(1, Relaxed);
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().on_thread_park(count).build();
        runtime.unwrap().block_on(test(&parked));
    }

    #[test]
    fn it_rings_in_the_end_and_has_woken_its_thread_once() {
        run(async |parked| {
            let alarm = Alarm::new();
            for pause in [0, 1, 300].map(Duration::from_millis) {
                let (began, before) = (Instant::now(), parked.load(Relaxed));
                alarm.sleep(pause).await;
                assert!(began.elapsed() >= pause, "{pause:?}");
                let parked = parked.load(Relaxed) - before;
                assert!(parked <= 1, "{parked} for {pause:?}");
            }
        });
    }

    #[test]
    fn one_that_was_given_up_does_not_ring_in_the_next_wait() {
        run(async |_| {
            let alarm = Alarm::new();
            for _ in 0..3 {
                let short = Duration::from_millis(20);
                tokio::select! {
                    () = alarm.sleep(short) => {}
                    // It rings, and nobody looks.
                    () = async { std::thread::sleep(short * 2) } => {}
                }
            }
            let (began, pause) = (Instant::now(), Duration::from_millis(50));
            alarm.sleep(pause).await;
            assert!(began.elapsed() >= pause);
        });
    }
}
