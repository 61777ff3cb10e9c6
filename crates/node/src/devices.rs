//! The local devices of a node, which let a kernel keep pages of volumes ([`cards_admin::Watching`]).
//!
//! A shard, or the control, wants pages withdrawn before somebody else's write; here it is found out whose pages these
//! are, and what waits for them. Nobody's are gone already.

mod claims;
mod predecessors;
mod watch;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cards_admin::{Device, Notice};
use cards_core::{ControlInput, Input, Instant, PgId, WithdrawalId};
use tokio::sync::mpsc;

use crate::node::{Call, Event, Local, Node};

pub(crate) use claims::claims;
pub(crate) use predecessors::await_none;
pub(crate) use watch::{Watch, watch};

/// All devices of a node.
#[derive(Debug, Default)]
pub(crate) struct Devices {
    watched: Mutex<BTreeMap<PgId, Arc<Watcher>>>,
}

/// The device that watches a volume.
#[derive(Debug)]
pub(crate) struct Watcher {
    /// Without a bound of its own: of withdrawals there are as many as writes wait for, which their clients' budgets
    /// bound, and a device that leaves notices unread for a lease is given up.
    notices: mpsc::UnboundedSender<Notice>,
    state: Mutex<WatcherState>,
}

#[derive(Debug, Default)]
struct WatcherState {
    /// The kernel keeps pages.
    pages: bool,
    /// Where the volume is on this machine.
    device: Option<Device>,
    /// Names the last withdrawal.
    last: u64,
    /// What waits for a withdrawal, and since when.
    open: BTreeMap<u64, (Waiter, Instant)>,
}

/// Who waits until pages are gone.
#[derive(Clone, Copy, Debug)]
enum Waiter {
    Shard(u16, WithdrawalId),
    Control(PgId),
}

impl Watcher {
    fn state(&self) -> MutexGuard<'_, WatcherState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the device, if it keeps pages.
    fn ask(&self, now: Instant, waiter: Waiter, ranges: Vec<(u64, u64)>) -> bool {
        let mut state = self.state();
        if !state.pages {
            return false;
        }
        state.last += 1;
        let id = state.last;
        state.open.insert(id, (waiter, now));
        self.notices.send(Notice::Withdraw { id, ranges }).is_ok()
    }
}

impl Devices {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<PgId, Arc<Watcher>>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn of(&self, volume: PgId) -> Option<Arc<Watcher>> {
        self.lock().get(&volume).cloned()
    }

    /// Where the volume is on this machine.
    pub(crate) fn device(&self, volume: PgId) -> Option<Device> {
        self.of(volume).and_then(|watcher| watcher.state().device.clone())
    }

    /// Whether a device watches the volume.
    pub(crate) fn has_one(&self, volume: PgId) -> bool {
        self.lock().contains_key(&volume)
    }

    /// The card's lease of this length runs until then. Pages are good for a quarter less: they go on being used while
    /// the device is on its way to withdraw them.
    pub(crate) fn leased(&self, now: Instant, volume: PgId, until: Instant, lease: Duration) {
        if let Some(watcher) = self.of(volume) {
            let left = until.since(now).saturating_sub(lease / 4);
            let for_ms = Some(left.as_millis() as u64);
            // Whoever does not listen any more needs no lease.
            let _ = watcher.notices.send(Notice::Valid { for_ms });
        }
    }

    /// This node is the volume's primary: pages need no lease.
    pub(crate) fn led(&self, volume: PgId) {
        if let Some(watcher) = self.of(volume) {
            let _ = watcher.notices.send(Notice::Valid { for_ms: None });
        }
    }

    /// Takes a device's place; none if the volume has one.
    fn enter(&self, volume: PgId) -> Option<(Arc<Watcher>, mpsc::UnboundedReceiver<Notice>)> {
        let (notices, notified) = mpsc::unbounded_channel();
        let mut watched = self.lock();
        if watched.contains_key(&volume) {
            return None;
        }
        let watcher = Arc::new(Watcher { notices, state: Mutex::default() });
        watched.insert(volume, Arc::clone(&watcher));
        Some((watcher, notified))
    }

    fn leave(&self, volume: PgId) {
        self.lock().remove(&volume);
    }
}

impl Node {
    /// The pages that `waiter` waits for are gone.
    fn withdrawn(&self, waiter: Waiter) {
        let call: Call = match waiter {
            Waiter::Shard(shard, id) => Box::new(move |local| {
                let now = local.node.now();
                local.shard(shard, |state| state.handle(now, Input::Withdrawn { id }));
            }),
            Waiter::Control(volume) => {
                Box::new(move |local| local.control(ControlInput::Withdrawn { volume }))
            }
        };
        let thread = match waiter {
            Waiter::Shard(shard, _) => usize::from(shard) % self.threads.len(),
            Waiter::Control(_) => 0,
        };
        self.threads[thread].post(Event::Call(call));
    }

    /// The socket that devices use.
    pub(crate) fn nbd_socket(&self) -> Option<PathBuf> {
        self.config.nbd.unix.clone()
    }
}

impl Local {
    /// A shard wants pages of these blocks withdrawn.
    pub(crate) fn withdraw(&self, shard: u16, id: WithdrawalId, volume: PgId, blocks: &[Range<u32>]) {
        let block = self.node.arena.block() as u64;
        let bytes = |blocks: &Range<u32>| (u64::from(blocks.start) * block, blocks.len() as u64 * block);
        let ranges = blocks.iter().map(bytes).collect();
        self.withdraw_or_say(volume, Waiter::Shard(shard, id), ranges);
    }

    /// The control wants all pages of a volume withdrawn.
    pub(crate) fn withdraw_all(&self, volume: PgId) {
        self.withdraw_or_say(volume, Waiter::Control(volume), vec![(0, u64::MAX)]);
    }

    fn withdraw_or_say(&self, volume: PgId, waiter: Waiter, ranges: Vec<(u64, u64)>) {
        let now = self.node.now();
        let asked = self.node.devices.of(volume).is_some_and(|watcher| watcher.ask(now, waiter, ranges));
        if !asked {
            self.node.withdrawn(waiter);
        }
    }
}
