//! The processes of a trace: each does its demands in order.

use std::collections::{BTreeMap, VecDeque};

use cards_core::Instant;
use cards_trace::Request;

/// All processes seen so far, by a dense number.
#[derive(Debug, Default)]
pub(crate) struct Processes {
    numbers: BTreeMap<u32, u32>,
    all: Vec<Process>,
    /// Requests that have been read from the trace and not begun.
    waiting: usize,
}

/// Places that an empty queue keeps.
const KEPT: usize = 16;

/// A request with its place in the trace, from 1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbered {
    pub(crate) number: u64,
    pub(crate) request: Request,
}

/// A process.
#[derive(Debug, Default)]
pub(crate) struct Process {
    /// Demands it has not begun.
    pub(crate) queue: VecDeque<Numbered>,
    /// It is computing, or waits for an answer.
    pub(crate) busy: bool,
    /// When its last demand was done.
    pub(crate) free_at: Instant,
}

impl Processes {
    pub(crate) const fn waiting(&self) -> usize {
        self.waiting
    }

    /// Adds a demand; returns the number of its process.
    pub(crate) fn push(&mut self, number_in_trace: u64, request: Request) -> u32 {
        let all = &mut self.all;
        let number = *self.numbers.entry(request.process).or_insert_with(|| {
            all.push(Process::default());
            (all.len() - 1) as u32
        });
        self.all[number as usize].queue.push_back(Numbered { number: number_in_trace, request });
        self.waiting += 1;
        number
    }

    /// The next demand of a process, if it has one.
    pub(crate) fn pop(&mut self, number: u32) -> Option<Numbered> {
        let queue = &mut self.all[number as usize].queue;
        let request = queue.pop_front()?;
        if queue.is_empty() && queue.capacity() > KEPT {
            // Processes that come and go would keep the memory of all their bursts.
            *queue = VecDeque::new();
        }
        self.waiting -= 1;
        Some(request)
    }

    pub(crate) fn get(&mut self, number: u32) -> &mut Process {
        &mut self.all[number as usize]
    }
}
