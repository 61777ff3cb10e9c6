//! The local devices of a node, which let a kernel keep pages of volumes ([`cards_admin::Watching`]).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cards_admin::{Device, Notice};
use cards_core::{Instant, PgId, WithdrawalId};
use tokio::sync::mpsc;

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
    pub(crate) notices: mpsc::UnboundedSender<Notice>,
    state: Mutex<WatcherState>,
}

/// What is known of it.
#[derive(Debug, Default)]
pub(crate) struct WatcherState {
    /// The kernel keeps pages.
    pub(crate) pages: bool,
    /// Where the volume is on this machine.
    pub(crate) device: Option<Device>,
    /// Names the last withdrawal.
    last: u64,
    /// What waits for a withdrawal, and since when.
    pub(crate) open: BTreeMap<u64, (Waiter, Instant)>,
}

/// Who waits until pages are gone.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Waiter {
    Shard(u16, WithdrawalId),
    Control(PgId),
}

impl Watcher {
    pub(crate) fn state(&self) -> MutexGuard<'_, WatcherState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the device, if it keeps pages.
    pub(crate) fn ask(&self, now: Instant, waiter: Waiter, ranges: Vec<(u64, u64)>) -> bool {
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

    pub(crate) fn of(&self, volume: PgId) -> Option<Arc<Watcher>> {
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
    pub(crate) fn enter(&self, volume: PgId) -> Option<(Arc<Watcher>, mpsc::UnboundedReceiver<Notice>)> {
        let (notices, notified) = mpsc::unbounded_channel();
        let mut watched = self.lock();
        if watched.contains_key(&volume) {
            return None;
        }
        let watcher = Arc::new(Watcher { notices, state: Mutex::default() });
        watched.insert(volume, Arc::clone(&watcher));
        Some((watcher, notified))
    }

    pub(crate) fn leave(&self, volume: PgId) {
        self.lock().remove(&volume);
    }
}
