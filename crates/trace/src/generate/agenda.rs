//! Which process comes next.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use super::moment::Moment;

/// The processes of a workload by the times of their next requests. At equal times they take turns.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    entries: BinaryHeap<Reverse<Entry>>,
    turns: u64,
}

/// The order of the fields is the order of the entries.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Entry {
    time: u64,
    turn: u64,
    process: u32,
    compute: u64,
}

impl Agenda {
    /// Puts a process in. It issues its first request at this time (in ns).
    pub(crate) fn add(&mut self, time: u64, process: u32) {
        self.turns += 1;
        self.entries.push(Reverse(Entry { time, turn: self.turns, process, compute: 0 }));
    }

    /// Who comes next, and when. A process runs on the node of its number until the caller says otherwise.
    pub(crate) fn first(&self) -> Option<Moment> {
        let &Reverse(Entry { time, process, compute, .. }) = self.entries.peek()?;
        Some(Moment { time, compute, process, node: process })
    }

    /// The first one computes, and then issues its next request.
    pub(crate) fn compute_first(&mut self, compute: u64) {
        self.wait_first(0, compute);
    }

    /// The first one is idle for a while, and then computes.
    pub(crate) fn wait_first(&mut self, idle: u64, compute: u64) {
        self.turns += 1;
        if let Some(mut first) = self.entries.peek_mut() {
            let Entry { time, process, .. } = first.0;
            let time = time.saturating_add(idle).saturating_add(compute);
            first.0 = Entry { time, turn: self.turns, process, compute };
        }
    }

    /// The first one is done.
    pub(crate) fn end_first(&mut self) {
        if let Some(first) = self.entries.peek_mut() {
            PeekMut::pop(first);
        }
    }
}
