//! Lock groups at this node (SIOS-11, SIOS-12): the home of some regions, and the sessions of clients here.
//!
//! The machines are those of [`cards_locks`]; here they are driven. Any thread gives an input, under one
//! mutex: data threads what peers say, the thread of the API what clients ask, the membership its views. What
//! comes of an input goes to the outboxes of the peers' connections; what a home and a session of this node have
//! to say to each other stays here. One timer, on the thread of the API, wakes all of them.
//!
//! | file | noun |
//! |---|---|
//! | `service` | the home, the sessions, and what goes between them: no clock, no sockets |
//! | `info` | what it tells |
//! | `session` | one client: its groups, who waits for them, and its end when it is silent |
//! | `lives` | which members were lost since all records were copied |
//! | `outbox` | what a peer is to be sent |
//! | `limits` | what bounds all that |
//! | `refusal` | why a request is refused |

mod info;
pub(crate) mod limits;
mod lives;
mod outbox;
mod refusal;
mod service;
mod session;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cards_core::rendezvous::Members;
use cards_core::{Instant, NodeId};
use cards_locks::{HomeInput, LockMessage};
use cards_wire::peer;
use tokio::sync::Notify;

use crate::clock::Clock;

pub(crate) use outbox::Mail;
pub(crate) use refusal::{Refusal, group_name, session_name};
pub(crate) use service::Service;
pub(crate) use session::{GroupInfo, SessionInfo};

use outbox::Outbox;

/// The shortest sleep of the timer: it rounds up, so that it never finds itself too early again and again.
const TICK: Duration = Duration::from_millis(1);

/// The members, as the coordinator says.
#[derive(Clone, Debug)]
pub(crate) struct LockView {
    /// The list and its epoch.
    pub(crate) members: Members,
    /// The epoch of the first view with this life of this node.
    pub(crate) joined: u64,
    /// Which life of each member it is.
    pub(crate) lives: Vec<(NodeId, u64)>,
}

/// The lock service of a daemon, reachable from every thread.
pub(crate) struct Locks {
    clock: Clock,
    state: Mutex<State>,
    /// When the timer is due, in nanoseconds.
    wake: AtomicU64,
    rearmed: Notify,
}

struct State {
    service: Service,
    outboxes: BTreeMap<NodeId, Arc<Outbox>>,
    /// The latest time the service has heard of.
    now: Instant,
}

impl Locks {
    /// The service of node `me` in its life `incarnation`; it is no member yet. The `lease` is that of cards.
    pub(crate) fn new(me: NodeId, incarnation: u64, lease: Duration, clock: Clock) -> Self {
        let now = clock.now();
        let service = Service::new(me, incarnation, lease * limits::LEASES, now);
        Self {
            clock,
            state: Mutex::new(State { service, outboxes: BTreeMap::new(), now }),
            wake: AtomicU64::new(u64::MAX),
            rearmed: Notify::new(),
        }
    }

    /// The members have changed.
    pub(crate) fn view(&self, view: LockView) {
        self.with(|service, now| service.view(now, view));
    }

    /// This node is a member until then, on the daemon's clock, if that is not renewed.
    pub(crate) fn member_until(&self, until: Instant) {
        self.with(|service, now| service.home(now, HomeInput::Member { until }));
    }

    /// A message of a peer has arrived.
    pub(crate) fn message(&self, from: NodeId, message: LockMessage) {
        self.with(|service, now| service.message(now, from, message));
    }

    /// What a connection to `peer` sends, while it lasts.
    pub(crate) fn mail(&self, peer: NodeId) -> Mail {
        Mail::new(Arc::clone(self.lock().outboxes.entry(peer).or_default()))
    }

    /// Calls the service and sends what comes of it.
    pub(crate) fn with<R>(&self, call: impl FnOnce(&mut Service, Instant) -> R) -> R {
        let mut state = self.lock();
        // Threads look at the clock before they have the lock: the service's time still never goes back.
        let now = state.now.max(self.clock.now());
        state.now = now;
        let result = call(&mut state.service, now);
        for (to, message) in state.service.take_sends() {
            match peer::encode_locks(&message) {
                Ok(frame) => state.outboxes.entry(to).or_default().push(frame),
                // The limits are such that everything fits.
                Err(error) => tracing::error!(%error, "a lock message cannot be sent"),
            }
        }
        let next = state.service.next_timeout().map_or(u64::MAX, |at| at.0);
        if self.wake.swap(next, Ordering::SeqCst) > next {
            self.rearmed.notify_one();
        }
        result
    }

    /// Wakes the service whenever it asks for it; never ends.
    pub(crate) async fn run_timer(&self) {
        loop {
            let at = self.wake.load(Ordering::SeqCst);
            let now = self.clock.now().0;
            if at <= now {
                self.with(|service, now| service.timeout(now));
            }
            let rest = Duration::from_nanos(self.wake.load(Ordering::SeqCst).saturating_sub(now)).max(TICK);
            // Either end is right: the loop looks for itself.
            let _ = tokio::time::timeout(rest, self.rearmed.notified()).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
