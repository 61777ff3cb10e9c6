//! What the service manager (systemd) is told: that the daemon serves, that it ends, and that its data threads turn.
//!
//! The protocol is that of sd_notify(3): lines in a datagram to the socket in `NOTIFY_SOCKET`.

use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::node::{Event, Inbox};

/// The manager that has started this process.
#[derive(Debug)]
pub(crate) struct ServiceManager {
    socket: UnixDatagram,
    address: SocketAddr,
    /// It ends a daemon of which it has not heard for so long.
    watchdog: Option<Duration>,
}

impl ServiceManager {
    /// None if there is none, or it wants to hear nothing.
    pub(crate) fn of_process() -> Option<Self> {
        let name = std::env::var_os("NOTIFY_SOCKET")?;
        let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
        let is_ours = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
        let watchdog = number("WATCHDOG_USEC").filter(|&us| us > 0 && is_ours).map(Duration::from_micros);
        match Self::connect(name.as_bytes(), watchdog) {
            Ok(manager) => Some(manager),
            Err(error) => {
                tracing::warn!(?name, "NOTIFY_SOCKET: the service manager cannot be told anything: {error}");
                None
            }
        }
    }

    fn connect(name: &[u8], watchdog: Option<Duration>) -> io::Result<Self> {
        let address = match name.strip_prefix(b"@") {
            Some(name) => SocketAddr::from_abstract_name(name)?,
            None => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(name))?,
        };
        let socket = UnixDatagram::unbound()?;
        // A manager that stands still holds nothing up.
        socket.set_nonblocking(true)?;
        Ok(Self { socket, address, watchdog })
    }

    /// Tells it something; that it did not hear is its affair.
    fn tell(&self, state: &str) {
        let _ = self.socket.send_to_addr(state.as_bytes(), &self.address);
    }

    /// The daemon does not serve yet, and why.
    pub(crate) fn starting(&self, status: &str) {
        self.tell(&format!("STATUS={status}"));
    }

    /// The daemon serves.
    pub(crate) fn ready(&self) {
        self.tell("READY=1\nSTATUS=serving");
    }

    /// The daemon ends.
    pub(crate) fn stopping(&self) {
        self.tell("STOPPING=1\nSTATUS=draining");
    }

    /// The daemon works.
    pub(crate) fn alive(&self) {
        self.tell("WATCHDOG=1");
    }

    /// How often it is told [`Self::alive`], with some to spare; none if it does not want to hear that.
    pub(crate) fn period(&self) -> Option<Duration> {
        self.watchdog.map(|watchdog| watchdog / 4)
    }
}

/// Whether all data threads turn.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    asked: u64,
    answered: Vec<Arc<AtomicU64>>,
}

impl Turns {
    /// Whether each thread has had a turn since the last time this was asked; asks them again. The first time, all have.
    pub(crate) fn all(&mut self, threads: &[Inbox]) -> bool {
        self.answered.resize_with(threads.len(), Arc::default);
        let all = self.answered.iter().all(|turn| turn.load(Ordering::Relaxed) == self.asked);
        // One question at a time: a thread that stands still collects none.
        if all {
            self.asked += 1;
            for (inbox, turn) in threads.iter().zip(&self.answered) {
                let (turn, asked) = (Arc::clone(turn), self.asked);
                inbox.post(Event::Call(Box::new(move |_| turn.store(asked, Ordering::Relaxed))));
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manager_hears_what_it_has_to() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let hears = UnixDatagram::bind(&path).unwrap();
        let manager = ServiceManager::connect(path.as_os_str().as_bytes(), None).unwrap();
        manager.starting("starting: waits for a disk");
        manager.ready();
        manager.alive();
        manager.stopping();
        let mut heard = Vec::new();
        for _ in 0..4 {
            let mut buffer = [0; 256];
            let length = hears.recv(&mut buffer).unwrap();
            heard.push(String::from_utf8(buffer[..length].to_vec()).unwrap());
        }
        assert_eq!(
            heard,
            [
                "STATUS=starting: waits for a disk",
                "READY=1\nSTATUS=serving",
                "WATCHDOG=1",
                "STOPPING=1\nSTATUS=draining"
            ]
        );
        drop(hears);
        manager.alive();
    }
}
