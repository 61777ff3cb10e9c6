//! Virtual time: what happens next.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use cards_core::Instant;
use cards_trace::Op;

use crate::elevator::Elevator;
use crate::model::{DiskJob, Model};

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
    events: Vec<Option<Due<E>>>,
    free: Vec<u32>,
    completed: Vec<(IoToken, Instant)>,
    /// Of disks that sort their requests, made when the first one comes.
    queues: Vec<DiskQueue>,
    /// By ticket: jobs of the request that are not done, and what happens when they are.
    jobs: Vec<(u32, Option<E>)>,
    free_jobs: Vec<u32>,
}

#[derive(Debug)]
struct DiskQueue {
    /// With tickets.
    waiting: Elevator<u32>,
    /// Requests it works on.
    working: u16,
}

/// What the queue of events holds.
#[derive(Debug)]
enum Due<E> {
    Outside(Scheduled<E>),
    /// A request comes to a disk that sorts.
    DiskAsked {
        job: DiskJob,
        ticket: u32,
    },
    /// Such a disk is done with one.
    DiskDone {
        disk: usize,
        ticket: u32,
    },
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
            queues: Vec::new(),
            jobs: Vec::new(),
            free_jobs: Vec::new(),
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

    /// A disk reads a block, asked at a time that may lie ahead; the event happens when it has.
    pub(crate) fn read_disk(&mut self, at: Instant, volume: u32, block: u64, bytes: u64, event: E) {
        let job = self.model.read_job(volume, block, 1, bytes);
        self.give_to_disks(at, vec![job], event);
    }

    /// Disks write consecutive blocks, asked at a time that may lie ahead; the event happens when all have.
    pub(crate) fn write_disk(
        &mut self,
        at: Instant,
        volume: u32,
        block: u64,
        blocks: u64,
        bytes: u64,
        event: E,
    ) {
        let jobs = self.model.write_jobs(volume, block, blocks, bytes);
        self.give_to_disks(at, jobs, event);
    }

    fn give_to_disks(&mut self, at: Instant, jobs: Vec<DiskJob>, event: E) {
        if self.model.machine().disk.passovers == 0 || jobs.is_empty() {
            let done = jobs.into_iter().fold(at, |done, job| done.max(self.model.begin(at, job)));
            return self.at(done, event);
        }
        let ticket = self.free_jobs.pop().unwrap_or_else(|| {
            self.jobs.push((0, None));
            (self.jobs.len() - 1) as u32
        });
        self.jobs[ticket as usize] = (jobs.len() as u32, Some(event));
        jobs.into_iter().for_each(|job| self.push(at, Due::DiskAsked { job, ticket }));
    }

    fn queue_of(&mut self, disk: usize) -> &mut DiskQueue {
        let passovers = self.model.machine().disk.passovers;
        let new = || DiskQueue { waiting: Elevator::new(passovers), working: 0 };
        if self.queues.len() <= disk {
            self.queues.resize_with(disk + 1, new);
        }
        &mut self.queues[disk]
    }

    /// A disk that sorts begins with the next request, if it has one and can.
    fn go_on(&mut self, disk: usize) {
        let (heads, channels) = (self.model.heads(disk), self.model.machine().disk.channels);
        let queue = self.queue_of(disk);
        if queue.working < channels
            && let Some((job, ticket)) = queue.waiting.take(heads)
        {
            queue.working += 1;
            let done = self.model.begin(self.now, job);
            self.push(done, Due::DiskDone { disk, ticket });
        }
    }

    pub(crate) fn schedule(&mut self, at: Instant, event: Scheduled<E>) {
        self.push(at, Due::Outside(event));
    }

    fn push(&mut self, at: Instant, event: Due<E>) {
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
        loop {
            let Reverse((at, _, place)) = self.queue.pop()?;
            self.now = at;
            self.free.push(place);
            match self.events[place as usize].take()? {
                Due::Outside(event) => return Some(event),
                Due::DiskAsked { job, ticket } => {
                    self.queue_of(job.disk).waiting.push(job, ticket);
                    self.go_on(job.disk);
                }
                Due::DiskDone { disk, ticket } => {
                    self.queue_of(disk).working -= 1;
                    self.go_on(disk);
                    let (jobs, event) = &mut self.jobs[ticket as usize];
                    *jobs -= 1;
                    if *jobs == 0 {
                        self.free_jobs.push(ticket);
                        return event.take().map(Scheduled::Engine);
                    }
                }
            }
        }
    }
}
