//! An array of disks below a volume: the groups of `cards-array` on modelled disks, CPUs and links, without caches above.
//!
//! Where a byte is says `cards_layout`: the layout's geometry and its placement of columns on disks. What is written to which column, and
//! when a client is answered, say the groups' own machines ([`cards_array::group::Group`]), one for each column, which exchange
//! their messages over the modelled links; each has its beacons, leases and repetitions, too. What costs time:
//!
//! - A client copies what it reads or writes between process and network, and sends or receives it; a request, its answer and each message
//!   between columns cost both ends their startups, and bytes their copies and the wire ([`crate::model::Model`]).
//! - The node that orders a group's commands does the machine's `service` for each.
//! - A disk positions and moves the bytes; what is written is durable when it is done. Tables and checksums of the disk cost nothing here, nor does
//!   the register.
//!
//! Of a disk that answers from its memory ([`Array::write_memory`]), a write costs its node a copy, and waits while the memory is full.

mod columns;
mod requests;
#[cfg(test)]
mod tests;
mod volume;

use std::collections::VecDeque;

use cards_array::group::{Command, Message, Op, Output, Token, Work};
use cards_core::{Instant, NodeId};
use cards_trace::Op as Asks;

pub use volume::Array;

use crate::engine::{Counts, Engine};
use crate::kernel::{Io, Kernel};
use crate::model::Access;
use crate::setup::{Setup, SetupError};
use columns::{Bytes, Columns};
use requests::{Kind, Piece, Requests};
use volume::Places;

/// Something that happens to an array.
#[derive(Debug)]
pub struct ArrayEvent(Happens);

#[derive(Debug)]
enum Happens {
    /// A piece has come to the node that orders the commands of its group.
    Asked(usize),
    /// It has been looked at there.
    Begins(usize),
    /// Its answer has come back.
    Answered(usize),
    /// The client has it.
    Ends(usize),
    /// A message has come to a column's node.
    Arrives {
        column: usize,
        from: u16,
        message: Box<Message<Bytes>>,
    },
    /// It has been taken in.
    Received {
        column: usize,
        from: u16,
        message: Box<Message<Bytes>>,
    },
    /// A disk has done something.
    Worked {
        column: usize,
        op: Op,
        read: Option<Bytes>,
    },
    Timer(usize),
}

/// The array at work.
#[derive(Debug)]
pub struct ArrayEngine {
    array: Array,
    block_bytes: u32,
    places: Places,
    columns: Columns,
    requests: Requests,
    memories: Vec<Memory>,
    has_begun: bool,
    counts: Counts,
}

/// Writes of a group that were answered and are not on the disk.
#[derive(Clone, Debug, Default)]
struct Memory {
    bytes: u64,
    /// Pieces that wait for room.
    waiting: VecDeque<usize>,
}

impl ArrayEngine {
    /// The volume on idle disks, its groups serving.
    ///
    /// # Errors
    /// A layout that there is not, or that the disks have no room for.
    pub fn new(setup: &Setup, array: &Array) -> Result<Self, SetupError> {
        let places = Places::new(array, setup)?;
        Ok(Self {
            columns: Columns::new(&places, setup.nodes, array.timing),
            memories: vec![Memory::default(); places.groups.len()],
            array: array.clone(),
            block_bytes: setup.block_bytes,
            places,
            requests: Requests::default(),
            has_begun: false,
            counts: Counts::default(),
        })
    }

    /// The node that orders the commands of a group.
    fn primary_node(&self, group: usize) -> u16 {
        self.columns.all[self.columns.firsts[group]].node
    }

    /// Has as many pieces of a request under way as may be, and ends it after the last one.
    fn go_on(&mut self, kernel: &mut Kernel<ArrayEvent>, request: usize) {
        while let Some(piece) = self.requests.next(request, self.array.depth, &self.places) {
            self.ask(kernel, piece);
        }
        if let Some(token) = self.requests.ended(request) {
            kernel.complete(token, kernel.now());
        }
    }

    /// A piece leaves the client.
    fn ask(&mut self, kernel: &mut Kernel<ArrayEvent>, piece: usize) {
        let Piece { client, kind, group, extent, .. } = *self.requests.piece(piece);
        let to = self.primary_node(group);
        let (now, model) = (kernel.now(), &mut kernel.model);
        let at = match kind {
            Kind::Write if client == to => model.local_copy(now, client, extent.length),
            Kind::Write => {
                let copied = model.local_copy(now, client, extent.length);
                model.send_data(copied, client, to, extent.length)
            }
            _ => model.send(now, client, to),
        };
        kernel.at(at, ArrayEvent(Happens::Asked(piece)));
    }

    fn asked(&mut self, kernel: &mut Kernel<ArrayEvent>, piece: usize) {
        let Piece { client, kind, group, extent, .. } = *self.requests.piece(piece);
        let at = self.primary_node(group);
        let (now, model) = (kernel.now(), &mut kernel.model);
        let taken = match kind {
            _ if client == at => now,
            Kind::Write => model.receive_data(now, at, extent.length),
            _ => model.receive(now, at),
        };
        let service = model.machine().service;
        let served = model.work(taken, at, service);
        kernel.at(served, ArrayEvent(Happens::Begins(piece)));
    }

    fn begins(&mut self, kernel: &mut Kernel<ArrayEvent>, piece: usize) {
        let Piece { kind, group, extent, .. } = *self.requests.piece(piece);
        if self.array.write_memory == 0 || kind == Kind::Read {
            return self.command(kernel, piece);
        }
        if kind == Kind::Flush {
            return self.answer(kernel, piece, kernel.now());
        }
        let Memory { bytes, waiting } = &mut self.memories[group];
        // What is larger than the memory waits until that is empty.
        let fits = *bytes == 0 || *bytes + extent.length <= self.array.write_memory;
        if fits && waiting.is_empty() {
            self.remember(kernel, piece);
        } else {
            waiting.push_back(piece);
        }
    }

    /// A write is in memory: it is answered, and goes to the disk.
    fn remember(&mut self, kernel: &mut Kernel<ArrayEvent>, piece: usize) {
        let asked = *self.requests.piece(piece);
        self.memories[asked.group].bytes += asked.extent.length;
        let copied =
            kernel.model.local_copy(kernel.now(), self.primary_node(asked.group), asked.extent.length);
        let drain = self.requests.add(Piece { kind: Kind::Drain, ..asked });
        self.answer(kernel, piece, copied);
        self.command(kernel, drain);
    }

    fn drained(&mut self, kernel: &mut Kernel<ArrayEvent>, drain: usize) {
        let Piece { group, extent, .. } = *self.requests.piece(drain);
        self.requests.drop_piece(drain);
        self.memories[group].bytes -= extent.length;
        while let Some(&piece) = self.memories[group].waiting.front() {
            let (bytes, length) = (self.memories[group].bytes, self.requests.piece(piece).extent.length);
            if bytes > 0 && bytes + length > self.array.write_memory {
                return;
            }
            self.memories[group].waiting.pop_front();
            self.remember(kernel, piece);
        }
    }

    /// A piece goes to its group.
    fn command(&mut self, kernel: &mut Kernel<ArrayEvent>, piece: usize) {
        let Piece { kind, group, extent, .. } = *self.requests.piece(piece);
        let command = match kind {
            Kind::Read => Command::Read { extent },
            Kind::Write | Kind::Drain => {
                Command::Write { extent, payload: extent.length as Bytes, origin: None }
            }
            Kind::Flush => Command::Flush,
        };
        let primary = self.columns.firsts[group];
        let now = self.columns.time(kernel.now());
        self.columns.all[primary].machine.command(now, Token(piece as u64), command);
        self.settle(kernel, primary);
    }

    /// A group has done it.
    fn done(&mut self, kernel: &mut Kernel<ArrayEvent>, piece: usize) {
        let asked = self.requests.piece(piece);
        match asked.kind {
            Kind::Drain => self.drained(kernel, piece),
            Kind::Write if self.array.is_durable => {
                asked.kind = Kind::Flush;
                self.command(kernel, piece);
            }
            _ => self.answer(kernel, piece, kernel.now()),
        }
    }

    fn answer(&mut self, kernel: &mut Kernel<ArrayEvent>, piece: usize, ready: Instant) {
        let Piece { client, kind, group, extent, .. } = *self.requests.piece(piece);
        let from = self.primary_node(group);
        let at = match kind {
            Kind::Read => kernel.model.send_data(ready, from, client, extent.length),
            _ => kernel.model.send(ready, from, client),
        };
        kernel.at(at, ArrayEvent(Happens::Answered(piece)));
    }

    fn answered(&mut self, kernel: &mut Kernel<ArrayEvent>, piece: usize) {
        let Piece { client, kind, group, extent, .. } = *self.requests.piece(piece);
        let is_local = self.primary_node(group) == client;
        let (now, model) = (kernel.now(), &mut kernel.model);
        let at = match kind {
            _ if is_local => now,
            Kind::Read => {
                let taken = model.receive_data(now, client, extent.length);
                model.local_copy(taken, client, extent.length)
            }
            _ => model.receive(now, client),
        };
        kernel.at(at, ArrayEvent(Happens::Ends(piece)));
    }

    /// Does what a column wants done, and sets its timer.
    fn settle(&mut self, kernel: &mut Kernel<ArrayEvent>, column: usize) {
        let now = self.columns.time(kernel.now());
        while let Some(output) = self.columns.settle(column, now) {
            match output {
                Output::Send { to, message } => self.send(kernel, column, to, message),
                Output::Work { op, work } => self.work(kernel, column, op, work),
                Output::Done { token, result } => {
                    assert!(result.is_ok(), "a group that serves, of sound disks: {result:?}");
                    self.done(kernel, token.0 as usize);
                }
                _ => {}
            }
        }
        let found = &mut self.columns.all[column];
        let next = found.machine.next_timeout(now);
        if next < found.timer {
            found.timer = next;
            let at = self.columns.clients_time(next);
            kernel.at(at, ArrayEvent(Happens::Timer(column)));
        }
    }

    fn send(&mut self, kernel: &mut Kernel<ArrayEvent>, column: usize, to: NodeId, message: Message<Bytes>) {
        let (group, from) = (self.columns.all[column].group, self.columns.all[column].node);
        let Some(column) = self.columns.at_node(group, to) else { return };
        let at = match message.payload() {
            Some(&bytes) => kernel.model.send_data(kernel.now(), from, to.0, bytes.into()),
            None => kernel.model.send(kernel.now(), from, to.0),
        };
        kernel.at(at, ArrayEvent(Happens::Arrives { column, from, message: Box::new(message) }));
    }

    fn arrives(
        &mut self,
        kernel: &mut Kernel<ArrayEvent>,
        column: usize,
        from: u16,
        message: Box<Message<Bytes>>,
    ) {
        let (now, node) = (kernel.now(), self.columns.all[column].node);
        let at = match message.payload() {
            Some(&bytes) => kernel.model.receive_data(now, node, bytes.into()),
            None => kernel.model.receive(now, node),
        };
        kernel.at(at, ArrayEvent(Happens::Received { column, from, message }));
    }

    /// A column's disk does something.
    fn work(&mut self, kernel: &mut Kernel<ArrayEvent>, column: usize, op: Op, work: Work<Bytes>) {
        let found = &self.columns.all[column];
        let (disk, begin, now) = (found.disk, found.begin, kernel.now());
        let access = |offset, bytes, is_write| Access { offset: begin + offset, bytes, is_write };
        let (at, read) = match work {
            Work::Read { extent } | Work::Verify { extent } => {
                let access = access(extent.offset, extent.length, false);
                self.counts.disk_reads += extent.length.div_ceil(self.block_bytes.into());
                (kernel.model.disk_access(now, disk, access), Some(extent.length as Bytes))
            }
            Work::Write { extent, .. } => {
                (kernel.model.disk_access(now, disk, access(extent.offset, extent.length, true)), None)
            }
            Work::Sync | Work::SetRecord(_) | Work::MarkMissed(_) => (now, None),
        };
        kernel.at(at, ArrayEvent(Happens::Worked { column, op, read }));
    }
}

impl Engine for ArrayEngine {
    type Event = ArrayEvent;

    fn submit(&mut self, kernel: &mut Kernel<ArrayEvent>, io: Io) {
        if !self.has_begun {
            self.has_begun = true;
            (0..self.columns.all.len()).for_each(|column| self.settle(kernel, column));
        }
        let bytes = (io.offset, io.offset + u64::from(io.bytes));
        let (kind, range) = match io.op {
            Asks::Read => (Kind::Read, bytes),
            Asks::Write => (Kind::Write, bytes),
            Asks::Flush => (Kind::Flush, (0, self.places.groups.len() as u64)),
            Asks::Trim | Asks::Open | Asks::Close | Asks::Send { .. } => (Kind::Flush, (0, 0)),
        };
        self.counts.writes += if kind == Kind::Write { u64::from(io.blocks) } else { 0 };
        let request = self.requests.begin(io.token, io.node, kind, range);
        self.go_on(kernel, request);
    }

    fn event(&mut self, kernel: &mut Kernel<ArrayEvent>, ArrayEvent(event): ArrayEvent) {
        match event {
            Happens::Asked(piece) => self.asked(kernel, piece),
            Happens::Begins(piece) => self.begins(kernel, piece),
            Happens::Answered(piece) => self.answered(kernel, piece),
            Happens::Ends(piece) => {
                let request = self.requests.answered(piece);
                self.go_on(kernel, request);
            }
            Happens::Arrives { column, from, message } => self.arrives(kernel, column, from, message),
            Happens::Received { column, from, message } => {
                let now = self.columns.time(kernel.now());
                self.columns.all[column].machine.receive(now, NodeId(from), *message);
                self.settle(kernel, column);
            }
            Happens::Worked { column, op, read } => {
                let now = self.columns.time(kernel.now());
                self.columns.all[column].machine.done(now, op, Ok(read));
                self.settle(kernel, column);
            }
            Happens::Timer(column) => {
                let now = self.columns.time(kernel.now());
                let found = &mut self.columns.all[column];
                found.timer = Instant::NEVER;
                found.machine.timeout(now);
                self.settle(kernel, column);
            }
        }
    }

    fn counts(&self) -> Counts {
        self.counts
    }

    /// Writes that were answered from memory do not keep a run going.
    fn is_idle(&self) -> bool {
        self.requests.are_done()
    }

    fn table_bytes(&self) -> usize {
        0
    }

    fn cached_blocks(&self) -> u64 {
        0
    }

    fn check(&self, now: Instant) {
        self.columns.check(now);
    }
}
