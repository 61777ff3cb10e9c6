//! How other threads reach a data thread.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

/// One thread's inbox.
pub(crate) struct Inbox<E> {
    events: Mutex<Vec<E>>,
    posted: Notify,
    /// Until when the thread's timer sleeps, in nanoseconds.
    pub(crate) asleep_until: AtomicU64,
    pub(crate) rearmed: Notify,
}

impl<E> Default for Inbox<E> {
    fn default() -> Self {
        Self {
            events: Mutex::default(),
            posted: Notify::new(),
            asleep_until: AtomicU64::new(0),
            rearmed: Notify::new(),
        }
    }
}

impl<E> Inbox<E> {
    pub(crate) fn post(&self, event: E) {
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
    pub(crate) async fn take(&self, events: &mut Vec<E>) {
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
