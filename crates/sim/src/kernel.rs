//! Virtual time: what happens next.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use cards_core::Instant;
use cards_trace::Op;

use crate::model::Model;

/// Names a request of a process to the engine.
pub type IoToken = u32;

/// A request of a process, in blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Io {
    /// To be told when it is done, see [`Kernel::complete`].
    pub token: IoToken,
    /// Where the process runs.
    pub node: u16,
    /// The process.
    pub process: u32,
    /// The volume.
    pub volume: u16,
    /// What it wants.
    pub op: Op,
    /// In bytes.
    pub offset: u64,
    /// In bytes.
    pub bytes: u32,
    /// The first block it touches.
    pub first: u64,
    /// How many blocks it touches: none if it moves no data.
    pub blocks: u32,
}

impl Io {
    /// Bytes of it that lie in a block.
    #[must_use]
    pub fn bytes_in(&self, block: u64, block_bytes: u32) -> u64 {
        let size = u64::from(block_bytes);
        let begin = self.offset.max(block * size);
        let end = (self.offset + u64::from(self.bytes)).min((block + 1) * size);
        end.saturating_sub(begin)
    }

    /// Whether it covers all of a block.
    #[must_use]
    pub fn covers(&self, block: u64, block_bytes: u32) -> bool {
        self.bytes_in(block, block_bytes) == u64::from(block_bytes)
    }
}

/// The clock, the machine, and everything that is going to happen.
#[derive(Debug)]
pub struct Kernel<E> {
    /// The machine's queues.
    pub model: Model,
    now: Instant,
    /// By time, then by the order of scheduling.
    queue: BinaryHeap<Reverse<(Instant, u64, u32)>>,
    scheduled: u64,
    events: Vec<Option<Scheduled<E>>>,
    free: Vec<u32>,
    completed: Vec<(IoToken, Instant)>,
}

/// What is going to happen.
#[derive(Debug)]
pub(crate) enum Scheduled<E> {
    /// To the engine.
    Engine(E),
    /// A process goes on.
    Process(u32),
}

impl<E> Kernel<E> {
    pub(crate) const fn new(model: Model) -> Self {
        Self {
            model,
            now: Instant(0),
            queue: BinaryHeap::new(),
            scheduled: 0,
            events: Vec::new(),
            free: Vec::new(),
            completed: Vec::new(),
        }
    }

    /// The time.
    #[must_use]
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// Has an event given to the engine at a time (now, if that is past).
    pub fn at(&mut self, at: Instant, event: E) {
        self.schedule(at, Scheduled::Engine(event));
    }

    /// A request is done, at a time that may lie ahead.
    pub fn complete(&mut self, token: IoToken, at: Instant) {
        self.completed.push((token, at));
    }

    pub(crate) fn take_completed(&mut self) -> Option<(IoToken, Instant)> {
        self.completed.pop()
    }

    pub(crate) fn schedule(&mut self, at: Instant, event: Scheduled<E>) {
        let place = match self.free.pop() {
            Some(place) => place,
            None => {
                self.events.push(None);
                (self.events.len() - 1) as u32
            }
        };
        self.events[place as usize] = Some(event);
        self.queue.push(Reverse((at.max(self.now), self.scheduled, place)));
        self.scheduled += 1;
    }

    /// The next event: time moves on to it.
    pub(crate) fn next(&mut self) -> Option<Scheduled<E>> {
        let Reverse((at, _, place)) = self.queue.pop()?;
        self.now = at;
        self.free.push(place);
        self.events[place as usize].take()
    }
}
