//! Units that a request has for itself: the store takes no two requests for one unit at a time, unless both read.

use std::cell::RefCell;
use std::ops::Range;

use cards_array::store::ColumnKey;
use tokio::sync::oneshot;

/// What is had and waited for, in the order in which it was asked for.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    state: RefCell<State>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    number: u64,
    key: ColumnKey,
    bytes: Range<u64>,
    exclusive: bool,
    /// None: it has the range.
    waits: Option<oneshot::Sender<()>>,
}

impl Entry {
    fn excludes(&self, other: &Self) -> bool {
        self.key == other.key
            && (self.exclusive || other.exclusive)
            && self.bytes.start < other.bytes.end
            && other.bytes.start < self.bytes.end
    }
}

/// A range of a column, until it is dropped.
#[derive(Debug)]
pub(super) struct Held<'a> {
    ranges: &'a Ranges,
    number: u64,
}

impl Ranges {
    /// Waits for everybody who asked before for what overlaps; readers share.
    pub(super) async fn take(&self, key: ColumnKey, bytes: Range<u64>, exclusive: bool) -> Held<'_> {
        let (number, wait) = {
            let mut state = self.state.borrow_mut();
            let number = state.next;
            state.next += 1;
            let mut entry = Entry { number, key, bytes, exclusive, waits: None };
            let is_free = !state.entries.iter().any(|other| other.excludes(&entry));
            let wait = (!is_free).then(|| {
                let (turn, wait) = oneshot::channel();
                entry.waits = Some(turn);
                wait
            });
            state.entries.push(entry);
            (number, wait)
        };
        let held = Held { ranges: self, number };
        if let Some(wait) = wait {
            // The sender is in the list until the entry has its range.
            let _ = wait.await;
        }
        held
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let mut state = self.ranges.state.borrow_mut();
        state.entries.retain(|entry| entry.number != self.number);
        for at in 0..state.entries.len() {
            let (before, rest) = state.entries.split_at_mut(at);
            let entry = &mut rest[0];
            if entry.waits.is_some() && !before.iter().any(|other| other.excludes(entry)) {
                // Who waits no longer has dropped its entry.
                entry.waits.take().map(|turn| turn.send(()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    const KEY: ColumnKey = ColumnKey { volume: 1, group: 0, column: 0 };

    fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn readers_share_and_a_writer_waits_for_those_before() {
        let ranges = Ranges::default();
        let (mut a, mut b) = (pin!(ranges.take(KEY, 0..8, false)), pin!(ranges.take(KEY, 4..12, false)));
        let (Poll::Ready(a), Poll::Ready(b)) = (poll(a.as_mut()), poll(b.as_mut())) else {
            panic!("readers share")
        };
        let mut writer = pin!(ranges.take(KEY, 6..7, true));
        assert!(poll(writer.as_mut()).is_pending());
        // A reader that comes later waits behind the writer; one elsewhere, or of another volume, does not.
        let mut later = pin!(ranges.take(KEY, 0..7, false));
        assert!(poll(later.as_mut()).is_pending());
        assert!(poll(pin!(ranges.take(KEY, 12..20, true))).is_ready());
        let other = ColumnKey { volume: 2, ..KEY };
        assert!(poll(pin!(ranges.take(other, 0..20, true))).is_ready());
        drop(a);
        assert!(poll(writer.as_mut()).is_pending());
        drop(b);
        let Poll::Ready(writer) = poll(writer.as_mut()) else { panic!("readers are gone") };
        assert!(poll(later.as_mut()).is_pending());
        drop(writer);
        assert!(poll(later.as_mut()).is_ready());
    }

    #[test]
    fn who_gives_up_is_in_nobodys_way() {
        let ranges = Ranges::default();
        let Poll::Ready(first) = poll(pin!(ranges.take(KEY, 0..8, true))) else { panic!("it is free") };
        {
            let mut gives_up = pin!(ranges.take(KEY, 0..8, true));
            assert!(poll(gives_up.as_mut()).is_pending());
        }
        drop(first);
        assert!(poll(pin!(ranges.take(KEY, 0..8, true))).is_ready());
    }
}
