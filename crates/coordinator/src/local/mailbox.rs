//! What is brought to the thread that has the store.
//!
//! A sender of the standard library wakes the receiver while it holds the lock that the receiver takes next, so a thread that waits
//! changes twice for each message. Here it is woken when the lock is free again: once.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Why nothing was received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Nothing {
    /// Nothing has come so far.
    Yet,
    /// All senders are gone.
    Ever,
}

/// The receiver is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Unread;

struct Content<T> {
    messages: VecDeque<T>,
    senders: usize,
    is_read: bool,
}

struct Shared<T> {
    content: Mutex<Content<T>>,
    arrived: Condvar,
}

impl<T> Shared<T> {
    fn content(&self) -> MutexGuard<'_, Content<T>> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Brings messages.
pub(crate) struct Sender<T>(Arc<Shared<T>>);

/// Has them, in the order in which they came.
pub(crate) struct Receiver<T>(Arc<Shared<T>>);

/// A mailbox without a bound.
pub(crate) fn mailbox<T>() -> (Sender<T>, Receiver<T>) {
    let content = Content { messages: VecDeque::new(), senders: 1, is_read: true };
    let shared = Arc::new(Shared { content: Mutex::new(content), arrived: Condvar::new() });
    (Sender(Arc::clone(&shared)), Receiver(shared))
}

impl<T> Sender<T> {
    /// Brings a message.
    ///
    /// # Errors
    /// The receiver is gone, and with it the message.
    pub(crate) fn send(&self, message: T) -> Result<(), Unread> {
        self.leave(message)?;
        self.0.arrived.notify_one();
        Ok(())
    }

    /// Brings a message that does not wake the receiver: it has it with the next that does, or when its wait is over.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub(crate) fn leave(&self, message: T) -> Result<(), Unread> {
        let mut content = self.0.content();
        if !content.is_read {
            return Err(Unread);
        }
        content.messages.push_back(message);
        Ok(())
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.0.content().senders += 1;
        Self(Arc::clone(&self.0))
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sender")
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut content = self.0.content();
        content.senders -= 1;
        let was_last = content.senders == 0;
        drop(content);
        if was_last {
            self.0.arrived.notify_one();
        }
    }
}

impl<T> Receiver<T> {
    /// The next message, if it is there.
    ///
    /// # Errors
    /// It is not.
    pub(crate) fn try_receive(&self) -> Result<T, Nothing> {
        let mut content = self.0.content();
        let none = if content.senders == 0 { Nothing::Ever } else { Nothing::Yet };
        content.messages.pop_front().ok_or(none)
    }

    /// The next message; waits for it.
    ///
    /// # Errors
    /// None has come within this time, or none can come any more.
    pub(crate) fn receive_within(&self, limit: Duration) -> Result<T, Nothing> {
        let until = Instant::now().checked_add(limit);
        let mut content = self.0.content();
        loop {
            if let Some(message) = content.messages.pop_front() {
                return Ok(message);
            }
            if content.senders == 0 {
                return Err(Nothing::Ever);
            }
            let left = until.map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return Err(Nothing::Yet);
            }
            let waited = self.0.arrived.wait_timeout(content, left);
            content = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The next message, however long it takes.
    ///
    /// # Errors
    /// None can come any more.
    pub(crate) fn receive(&self) -> Result<T, Nothing> {
        self.receive_within(Duration::MAX)
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut content = self.0.content();
        content.is_read = false;
        let left = std::mem::take(&mut content.messages);
        drop(content);
        // Who waits for an answer to one of them hears that there is none.
        drop(left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_in_order_and_then_none() {
        let (sender, receiver) = mailbox();
        let other = sender.clone();
        assert_eq!(receiver.try_receive(), Err(Nothing::Yet));
        sender.send(1).unwrap();
        other.send(2).unwrap();
        assert_eq!(receiver.receive_within(Duration::ZERO), Ok(1));
        drop((sender, other));
        assert_eq!((receiver.receive(), receiver.receive()), (Ok(2), Err(Nothing::Ever)));
        assert_eq!(receiver.try_receive(), Err(Nothing::Ever));
    }

    #[test]
    fn whoever_waits_is_woken_by_a_message_and_by_the_end() {
        let (sender, receiver) = mailbox();
        std::thread::scope(|scope| {
            let waits = scope.spawn(move || (receiver.receive(), receiver.receive()));
            sender.send(7).unwrap();
            drop(sender);
            assert_eq!(waits.join().unwrap(), (Ok(7), Err(Nothing::Ever)));
        });
    }

    #[test]
    fn what_nobody_reads_is_dropped() {
        let (sender, receiver) = mailbox();
        let message = Arc::new(());
        sender.send(Arc::clone(&message)).unwrap();
        drop(receiver);
        assert_eq!(Arc::strong_count(&message), 1);
        assert_eq!(sender.send(Arc::clone(&message)), Err(Unread));
        assert_eq!(Arc::strong_count(&message), 1);
    }

    #[test]
    fn what_was_left_is_there_when_the_wait_is_over() {
        let (sender, receiver) = mailbox();
        std::thread::scope(|scope| {
            let waits = scope.spawn(move || receiver.receive_within(Duration::from_millis(50)));
            sender.leave(7).unwrap();
            assert_eq!(waits.join().unwrap(), Ok(7));
        });
    }

    #[test]
    fn nothing_within_the_time_is_nothing_yet() {
        let (_sender, receiver) = mailbox::<()>();
        assert_eq!(receiver.receive_within(Duration::from_millis(5)), Err(Nothing::Yet));
    }
}
