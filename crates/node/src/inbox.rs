//! How other threads reach a data thread.

use std::net::{IpAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use cards_core::{ControlInput, Extent, IoError, Output, Token};
use tokio::sync::Notify;

use crate::front::Permit;
use crate::local::Local;

/// What one thread asks of another.
pub(crate) enum Event {
    /// An output for a request of this thread.
    Output {
        /// The shard it comes from.
        shard: u16,
        /// `Ready`, `Failed` or `Done`.
        output: Output,
    },
    /// The extents a request of this thread waits for.
    Extents {
        /// The request.
        token: Token,
        /// What the disk node answered.
        result: Result<Vec<Extent>, IoError>,
    },
    /// A client to serve.
    Client(Accepted, Permit),
    /// Something for the control state machine.
    Control(Box<ControlInput>),
    /// Something to be done on this thread.
    Call(Call),
    /// There may be new members to connect to.
    Members,
    /// Attach what can be attached by now.
    ResolveCards,
    /// Finish what is under way.
    Drain,
    /// Leave at once.
    Stop,
}

/// Something to be done on a data thread.
pub(crate) type Call = Box<dyn FnOnce(&Rc<Local>) + Send>;

/// A client's connection, between two threads.
pub(crate) enum Accepted {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Accepted {
    /// Where the client is; none if it is here.
    pub(crate) fn address(&self) -> Option<IpAddr> {
        match self {
            Self::Tcp(stream) => stream.peer_addr().ok().map(|address| address.ip()),
            Self::Unix(_) => None,
        }
    }
}

/// One thread's inbox.
#[derive(Default)]
pub(crate) struct Inbox {
    events: Mutex<Vec<Event>>,
    posted: Notify,
    /// Until when the thread's timer sleeps, in nanoseconds.
    pub(crate) asleep_until: AtomicU64,
    pub(crate) rearmed: Notify,
}

impl Inbox {
    pub(crate) fn post(&self, event: Event) {
        let first = {
            let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
            events.push(event);
            events.len() == 1
        };
        if first {
            self.posted.notify_one();
        }
    }

    /// Swaps what is there with `events`, which is empty; waits until there is something.
    pub(crate) async fn take(&self, events: &mut Vec<Event>) {
        loop {
            std::mem::swap(&mut *self.events.lock().unwrap_or_else(PoisonError::into_inner), events);
            if !events.is_empty() {
                return;
            }
            self.posted.notified().await;
        }
    }

    /// Something this thread has to wake is due at `at`.
    pub(crate) fn armed(&self, at: u64) {
        if at < self.asleep_until.load(Ordering::SeqCst) {
            self.rearmed.notify_one();
        }
    }
}
