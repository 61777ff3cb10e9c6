//! Lock messages on their way to a peer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use cards_wire::peer::MAX_LOCKS_BODY;

/// Bytes that may wait for a peer; more are dropped, and sent again by who wants an answer.
const QUEUE_BYTES: usize = 2 * MAX_LOCKS_BODY as usize;

/// What one peer is to be sent. While there is no connection it takes nothing.
#[derive(Default)]
pub(super) struct Outbox {
    filled: AtomicBool,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    /// The connection's task.
    waker: Option<Waker>,
    frames: Vec<Vec<u8>>,
    bytes: usize,
}

impl Outbox {
    pub(super) fn push(&self, frame: Vec<u8>) {
        let mut queue = self.queue();
        let Some(waker) = queue.waker.clone().filter(|_| queue.bytes + frame.len() <= QUEUE_BYTES) else {
            return;
        };
        queue.bytes += frame.len();
        queue.frames.push(frame);
        self.filled.store(true, Ordering::SeqCst);
        drop(queue);
        waker.wake();
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection's hold on the outbox of its peer.
pub(crate) struct Mail {
    outbox: Arc<Outbox>,
    open: bool,
}

impl Mail {
    pub(super) fn new(outbox: Arc<Outbox>) -> Self {
        Self { outbox, open: false }
    }

    /// The frames to be sent. The task of `waker` is woken when there are more; it must be the same at each call.
    pub(crate) fn take(&mut self, waker: &Waker) -> Vec<Vec<u8>> {
        if !self.open {
            self.open = true;
            *self.outbox.queue() = Queue { waker: Some(waker.clone()), ..Queue::default() };
        }
        if !self.outbox.filled.load(Ordering::SeqCst) {
            return Vec::new();
        }
        let mut queue = self.outbox.queue();
        self.outbox.filled.store(false, Ordering::SeqCst);
        queue.bytes = 0;
        std::mem::take(&mut queue.frames)
    }
}

impl Drop for Mail {
    fn drop(&mut self) {
        if self.open {
            *self.outbox.queue() = Queue::default();
            self.outbox.filled.store(false, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_connection_is_sent_anything() {
        let outbox = Arc::new(Outbox::default());
        outbox.push(vec![1]);
        let mut mail = Mail::new(Arc::clone(&outbox));
        assert!(mail.take(Waker::noop()).is_empty());
        outbox.push(vec![2]);
        outbox.push(vec![3]);
        assert_eq!(mail.take(Waker::noop()), [[2], [3]]);
        assert!(mail.take(Waker::noop()).is_empty());
        outbox.push(vec![4]);
        drop(mail);
        let mut mail = Mail::new(Arc::clone(&outbox));
        assert!(mail.take(Waker::noop()).is_empty(), "what an earlier connection was to be sent");
    }

    #[test]
    fn what_waits_is_bounded() {
        let outbox = Arc::new(Outbox::default());
        let mut mail = Mail::new(Arc::clone(&outbox));
        mail.take(Waker::noop());
        (0..5).for_each(|_| outbox.push(vec![0; QUEUE_BYTES / 4]));
        assert_eq!(mail.take(Waker::noop()).len(), 4);
        outbox.push(vec![0]);
        assert_eq!(mail.take(Waker::noop()).len(), 1);
    }
}
