//! Errands: what nodes do for a block, one step after the other, on the machine's parts.
//!
//! An engine decides what a request leads to when the request is issued, and writes it down as the steps of an errand.
//! From then on the errand takes its time by itself: each step begins when the one before it is over.

use cards_core::Instant;

use super::key::Key;
use crate::kernel::{IoToken, Kernel};

/// Names an errand. Numbers are used again.
pub(in crate::engine) type ErrandId = u32;

/// Something that an errand waits for is there: a message, a block, a disk's answer.
#[derive(Clone, Copy, Debug)]
pub struct Arrival(ErrandId);

/// One step. Messages of a node to itself take no time: one server does everything at a node.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) enum Step {
    /// A message to a node that has work with it.
    Ask { from: u16, to: u16 },
    /// A message that only tells something.
    Tell { from: u16, to: u16 },
    /// A message with a block.
    Data { from: u16, to: u16 },
    /// A disk reads a block.
    DiskRead { key: Key },
    /// A disk is given a block to write; the errand may wait until it has.
    DiskWrite { key: Key, wait: bool },
    /// The contents of a buffer must have come.
    Await { ticket: Ticket },
    /// The contents of one of this errand's buffers have come.
    Settle { part: Part },
    /// Another errand, which must end too. Those that follow each other begin together.
    Fork { errand: ErrandId },
    /// The process gets its bytes of the block, or gives them.
    Deliver { node: u16, token: IoToken, bytes: u32 },
    /// A request without data is done.
    Done { token: IoToken },
}

/// The buffers that an errand may bring contents to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::engine) enum Part {
    /// For the block it was sent out for.
    Own = 1,
    /// At another node, for the block that had to make room.
    Forwarded = 2,
}

/// Names the contents that an errand brings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::engine) struct Ticket {
    errand: ErrandId,
    serial: u32,
    part: Part,
}

#[derive(Debug, Default)]
struct Errand {
    /// Tells it from others that had the number before.
    serial: u32,
    steps: Vec<Step>,
    next: usize,
    /// Bits of [`Part`].
    settled: u8,
    /// Who waits for the contents of which buffer.
    waiters: Vec<(ErrandId, Part)>,
    /// Whom it is part of.
    parent: Option<ErrandId>,
    /// Forks that have not ended.
    forks: u32,
}

/// The parts of a request that are not done.
#[derive(Clone, Copy, Debug, Default)]
struct Parts {
    left: u32,
    last: Instant,
}

/// All errands under way, and the requests they are for.
#[derive(Debug)]
pub(in crate::engine) struct Errands {
    block_bytes: u64,
    all: Vec<Errand>,
    free: Vec<ErrandId>,
    requests: Vec<Parts>,
}

impl Errands {
    pub(in crate::engine) const fn new(block_bytes: u32) -> Self {
        Self { block_bytes: block_bytes as u64, all: Vec::new(), free: Vec::new(), requests: Vec::new() }
    }

    pub(in crate::engine) const fn is_idle(&self) -> bool {
        self.free.len() == self.all.len()
    }

    /// A request that is done when so many parts are.
    pub(in crate::engine) fn expect(&mut self, token: IoToken, parts: u32, now: Instant) {
        if self.requests.len() <= token as usize {
            self.requests.resize(token as usize + 1, Parts::default());
        }
        self.requests[token as usize] = Parts { left: parts, last: now };
    }

    /// A part of a request is done.
    pub(in crate::engine) fn part_done<E>(&mut self, kernel: &mut Kernel<E>, token: IoToken, at: Instant) {
        let request = &mut self.requests[token as usize];
        request.left -= 1;
        request.last = request.last.max(at);
        if request.left == 0 {
            kernel.complete(token, request.last);
        }
    }

    /// A new errand without steps.
    pub(in crate::engine) fn open(&mut self) -> ErrandId {
        let id = self.free.pop().unwrap_or_else(|| {
            self.all.push(Errand::default());
            (self.all.len() - 1) as ErrandId
        });
        let errand = &mut self.all[id as usize];
        errand.serial = errand.serial.wrapping_add(1);
        errand.next = 0;
        errand.settled = 0;
        id
    }

    /// A new errand that is part of another one, as its next step.
    pub(in crate::engine) fn fork(&mut self, parent: ErrandId) -> ErrandId {
        let errand = self.open();
        self.all[errand as usize].parent = Some(parent);
        self.add(parent, Step::Fork { errand });
        errand
    }

    pub(in crate::engine) fn add(&mut self, id: ErrandId, step: Step) {
        let to_itself = match step {
            Step::Ask { from, to } | Step::Tell { from, to } => from == to,
            _ => false,
        };
        if !to_itself {
            self.all[id as usize].steps.push(step);
        }
    }

    /// Names the contents of a buffer that an errand is going to bring.
    pub(in crate::engine) fn ticket(&self, errand: ErrandId, part: Part) -> Ticket {
        Ticket { errand, serial: self.all[errand as usize].serial, part }
    }

    /// Whether contents have not come yet.
    pub(in crate::engine) fn in_transit(&self, ticket: Ticket) -> bool {
        self.all
            .get(ticket.errand as usize)
            .is_some_and(|errand| errand.serial == ticket.serial && errand.settled & ticket.part as u8 == 0)
    }

    /// An errand begins. (Forks begin by themselves.)
    pub(in crate::engine) fn start<E: From<Arrival>>(
        &mut self,
        kernel: &mut Kernel<E>,
        id: ErrandId,
        at: Instant,
    ) {
        self.go_on(kernel, id, at);
    }

    /// What an errand waits for is there.
    pub(in crate::engine) fn arrive<E: From<Arrival>>(&mut self, kernel: &mut Kernel<E>, arrival: Arrival) {
        let Arrival(id) = arrival;
        let now = kernel.now();
        let errand = &self.all[id as usize];
        let at = match errand.steps[errand.next - 1] {
            Step::Ask { to, .. } => {
                let ready = kernel.model.receive(now, to);
                let service = kernel.model.machine().service;
                kernel.model.work(ready, to, service)
            }
            Step::Tell { to, .. } => kernel.model.receive(now, to),
            Step::Data { from, to } if from != to => kernel.model.receive_data(now, to, self.block_bytes),
            _ => now,
        };
        self.go_on(kernel, id, at);
    }

    fn go_on<E: From<Arrival>>(&mut self, kernel: &mut Kernel<E>, id: ErrandId, mut at: Instant) {
        loop {
            let errand = &mut self.all[id as usize];
            let Some(&step) = errand.steps.get(errand.next) else { return self.end(kernel, id, at) };
            errand.next += 1;
            let arrives = match step {
                Step::Ask { from, to } | Step::Tell { from, to } => kernel.model.send(at, from, to),
                Step::Data { from, to } => kernel.model.send_data(at, from, to, self.block_bytes),
                Step::DiskRead { key } => {
                    kernel.model.disk_read(at, key.volume.into(), key.index.into(), 1, self.block_bytes)
                }
                Step::DiskWrite { key, wait } => {
                    let written =
                        kernel.model.disk_write(at, key.volume.into(), key.index.into(), 1, self.block_bytes);
                    if !wait {
                        // Nobody waits, but a run is not over before the disk has written.
                        let aside = self.open();
                        self.all[aside as usize].steps.push(step);
                        self.all[aside as usize].next = 1;
                        kernel.at(written, Arrival(aside).into());
                        continue;
                    }
                    written
                }
                Step::Await { ticket } => {
                    if self.in_transit(ticket) {
                        self.all[ticket.errand as usize].waiters.push((id, ticket.part));
                        return;
                    }
                    continue;
                }
                Step::Settle { part } => {
                    self.settle(kernel, id, part, at);
                    continue;
                }
                Step::Fork { errand } => {
                    self.begin_forks(kernel, id, errand, at);
                    return;
                }
                Step::Deliver { node, token, bytes } => {
                    at = kernel.model.local_copy(at, node, bytes.into());
                    self.part_done(kernel, token, at);
                    continue;
                }
                Step::Done { token } => {
                    self.part_done(kernel, token, at);
                    continue;
                }
            };
            kernel.at(arrives, Arrival(id).into());
            return;
        }
    }

    /// Those who wait go on, after this errand has done what it can now.
    fn settle<E: From<Arrival>>(&mut self, kernel: &mut Kernel<E>, id: ErrandId, part: Part, at: Instant) {
        let errand = &mut self.all[id as usize];
        errand.settled |= part as u8;
        errand.waiters.retain(|&(waiter, wanted)| {
            if wanted == part {
                kernel.at(at, Arrival(waiter).into());
            }
            wanted != part
        });
    }

    fn begin_forks<E: From<Arrival>>(
        &mut self,
        kernel: &mut Kernel<E>,
        id: ErrandId,
        first: ErrandId,
        at: Instant,
    ) {
        // One more than there are, so that it does not go on before all have begun.
        self.all[id as usize].forks = 1;
        let mut fork = Some(first);
        while let Some(child) = fork {
            self.all[id as usize].forks += 1;
            self.go_on(kernel, child, at);
            let errand = &mut self.all[id as usize];
            fork = match errand.steps.get(errand.next) {
                Some(&Step::Fork { errand: child }) => {
                    errand.next += 1;
                    Some(child)
                }
                _ => None,
            };
        }
        self.fork_ended(kernel, id, at);
    }

    fn fork_ended<E: From<Arrival>>(&mut self, kernel: &mut Kernel<E>, id: ErrandId, at: Instant) {
        let errand = &mut self.all[id as usize];
        errand.forks -= 1;
        if errand.forks == 0 {
            self.go_on(kernel, id, at);
        }
    }

    fn end<E: From<Arrival>>(&mut self, kernel: &mut Kernel<E>, id: ErrandId, at: Instant) {
        let errand = &mut self.all[id as usize];
        debug_assert!(errand.waiters.is_empty(), "an errand ends before it has brought what others wait for");
        errand.steps.clear();
        // Whatever still holds a ticket of it finds another serial number.
        errand.serial = errand.serial.wrapping_add(1);
        let parent = errand.parent.take();
        self.free.push(id);
        if let Some(parent) = parent {
            self.fork_ended(kernel, parent, at);
        }
    }
}
