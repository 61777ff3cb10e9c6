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

/// A process.
#[derive(Debug, Default)]
pub(crate) struct Process {
    /// Demands it has not begun.
    pub(crate) queue: VecDeque<Request>,
    /// It is computing, or waits for an answer.
    pub(crate) busy: bool,
    /// When its last demand was done.
    pub(crate) free_at: Instant,
    /// When it has issued the request that it waits for.
    pub(crate) issued_at: Instant,
}

impl Processes {
    pub(crate) const fn waiting(&self) -> usize {
        self.waiting
    }

    /// Adds a demand; returns the number of its process.
    pub(crate) fn push(&mut self, request: Request) -> u32 {
        let all = &mut self.all;
        let number = *self.numbers.entry(request.process).or_insert_with(|| {
            all.push(Process::default());
            (all.len() - 1) as u32
        });
        self.all[number as usize].queue.push_back(request);
        self.waiting += 1;
        number
    }

    /// The next demand of a process, if it has one.
    pub(crate) fn pop(&mut self, number: u32) -> Option<Request> {
        let request = self.all[number as usize].queue.pop_front()?;
        self.waiting -= 1;
        Some(request)
    }

    pub(crate) fn get(&mut self, number: u32) -> &mut Process {
        &mut self.all[number as usize]
    }
}
