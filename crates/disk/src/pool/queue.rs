//! What waits for a thread of the pool, and what is next.
//!
//! To zero or trim a range takes a piece of metadata where the disk can, and as long as writing the range where it cannot. A
//! client zeroes gigabytes with one request, which arrive as dozens of jobs: in one queue, every write behind them would wait
//! for all. So they have a queue of their own and a share of the threads, and no queue has two turns while the other waits.

use std::collections::VecDeque;

#[derive(Debug)]
pub(super) struct Queue<T> {
    /// Zeroes and trims.
    clears: VecDeque<T>,
    others: VecDeque<T>,
    /// Threads that zero or trim now.
    clearing: usize,
    /// Most of them.
    clearing_max: usize,
    /// Whether the last item was from `clears`.
    was_clear: bool,
}

impl<T> Queue<T> {
    /// `clearing_max`, at least 1, is the most threads that zero or trim at a time.
    pub(super) fn new(clearing_max: usize) -> Self {
        let (clears, others) = (VecDeque::new(), VecDeque::new());
        Self { clears, others, clearing: 0, clearing_max, was_clear: false }
    }

    pub(super) fn push(&mut self, item: T, clears: bool) {
        if clears { &mut self.clears } else { &mut self.others }.push_back(item);
    }

    /// Threads that would find something to do.
    pub(super) fn takers(&self) -> usize {
        self.others.len() + self.clears.len().min(self.clearing_max - self.clearing)
    }

    /// The next item, and whether it zeroes or trims; [`Self::done`] follows.
    pub(super) fn take(&mut self) -> Option<(T, bool)> {
        let may_clear = self.clearing < self.clearing_max && !self.clears.is_empty();
        self.was_clear = may_clear && (!self.was_clear || self.others.is_empty());
        self.clearing += usize::from(self.was_clear);
        let queue = if self.was_clear { &mut self.clears } else { &mut self.others };
        Some((queue.pop_front()?, self.was_clear))
    }

    /// A thread has done an item that zeroed or trimmed, or another one.
    pub(super) fn done(&mut self, cleared: bool) {
        self.clearing -= usize::from(cleared);
    }

    /// Takes out all items that `is_wanted`.
    pub(super) fn remove(&mut self, is_wanted: impl Fn(&T) -> bool) -> Vec<T> {
        let mut removed = Vec::new();
        for queue in [&mut self.clears, &mut self.others] {
            let (wanted, kept): (Vec<T>, Vec<T>) = queue.drain(..).partition(&is_wanted);
            removed.extend(wanted);
            *queue = kept.into();
        }
        removed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A queue of `clears` zeroes and, behind them, some other items.
    fn queue(clearing_max: usize, clears: usize, others: usize) -> Queue<usize> {
        let mut queue = Queue::new(clearing_max);
        (0..clears + others).for_each(|number| queue.push(number, number < clears));
        queue
    }

    #[test]
    fn zeroes_have_a_share_of_the_threads_and_nothing_waits_behind_them() {
        let mut queue = queue(2, 30, 3);
        assert_eq!(queue.takers(), 5);
        let taken: Vec<usize> = std::iter::from_fn(|| queue.take()).map(|(number, _)| number).collect();
        assert_eq!(taken, [0, 30, 1, 31, 32]);
        assert_eq!(queue.takers(), 0, "two threads zero");
        queue.done(true);
        assert_eq!((queue.takers(), queue.take()), (1, Some((2, true))));
    }

    #[test]
    fn a_single_thread_takes_turns() {
        let mut queue = queue(1, 3, 3);
        let taken: Vec<usize> = std::iter::from_fn(|| {
            let (number, clears) = queue.take()?;
            queue.done(clears);
            Some(number)
        })
        .collect();
        assert_eq!(taken, [0, 3, 1, 4, 2, 5]);
    }

    #[test]
    fn what_is_removed_is_not_taken() {
        let mut queue = queue(2, 2, 2);
        assert_eq!(queue.remove(|number| number % 2 == 0), [0, 2]);
        assert_eq!((queue.take(), queue.take(), queue.take()), (Some((1, true)), Some((3, false)), None));
    }
}
