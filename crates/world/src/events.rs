//! The event heap: by time, and in order of insertion at equal times.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use cards_core::Instant;

/// Events yet to happen.
#[derive(Debug)]
pub(crate) struct Events<E> {
    heap: BinaryHeap<Entry<E>>,
    sequence: u64,
}

#[derive(Debug)]
struct Entry<E> {
    at: Instant,
    sequence: u64,
    event: E,
}

impl<E> Events<E> {
    pub(crate) fn new() -> Self {
        Self { heap: BinaryHeap::new(), sequence: 0 }
    }

    /// Lets `event` happen at `at`, after all that were put in for the same instant.
    pub(crate) fn push(&mut self, at: Instant, event: E) {
        self.sequence += 1;
        self.heap.push(Entry { at, sequence: self.sequence, event });
    }

    /// When the next event happens.
    pub(crate) fn next_at(&self) -> Option<Instant> {
        self.heap.peek().map(|entry| entry.at)
    }

    /// Takes out the next event.
    pub(crate) fn pop(&mut self) -> Option<(Instant, E)> {
        self.heap.pop().map(|entry| (entry.at, entry.event))
    }
}

impl<E> Ord for Entry<E> {
    // The heap gives out its greatest element: the earliest event must compare greatest.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.sequence).cmp(&(self.at, self.sequence))
    }
}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<E> Eq for Entry<E> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_times_keep_their_order() {
        let mut events = Events::new();
        events.push(Instant(2), 'c');
        events.push(Instant(1), 'a');
        events.push(Instant(2), 'd');
        events.push(Instant(1), 'b');
        assert_eq!(events.next_at(), Some(Instant(1)));
        let order: String = std::iter::from_fn(|| events.pop().map(|(_, event)| event)).collect();
        assert_eq!(order, "abcd");
    }
}
