//! Yardsticks: what the memory of all nodes together could do if it were one cache.
//!
//! `glru` is one LRU list, `opt` knows the future, and `wlru` is memories of their own that know each other. None can be built. Their hits are what matters; their times take a
//! block from the memory it is in as if everybody knew where that is, and nothing is ever written back.
//! See `docs/internals/bounds.md`.

mod foresight;
mod global_lru;
mod min;
#[cfg(test)]
mod tests;
mod weighted_lru;

use std::time::Duration;

use cards_core::Instant;
use cards_trace::Op;

pub use self::foresight::Foresight;
use self::global_lru::GlobalLru;
use self::weighted_lru::{Costs, Forward, WeightedLru};
use super::xfs::errands::{ErrandId, Errands, Step};
use super::xfs::key::Key;
use super::xfs::{Arrival, disk_node, require_lru, require_numbers};
use super::{Counts, Engine};
use crate::kernel::{Io, Kernel};
use crate::machine::Machine;
use crate::setup::{Setup, SetupError};

/// The memory of all nodes as one cache.
pub struct Bound {
    memory: Memory,
    block_bytes: u32,
    errands: Errands,
    counts: Counts,
}

enum Memory {
    Lru(GlobalLru),
    Weighted(Box<WeightedLru>),
    Future(Foresight),
}

/// Where a block is when it is referred to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Found {
    /// In the memory of the node that refers to it: that node has loaded it.
    Local,
    /// Another node has loaded it.
    Remote(u16),
    /// In no memory.
    Nowhere,
}

impl Bound {
    /// One LRU list.
    ///
    /// # Errors
    /// Another replacement is asked for, or there are more buffers than can be numbered.
    pub fn lru(setup: &Setup) -> Result<Self, SetupError> {
        require_lru(setup, "lru: glru is the global LRU")?;
        require_numbers(setup)?;
        Ok(Self::new(setup, Memory::Lru(GlobalLru::new(setup.cache_of_all()))))
    }

    /// Weighted LRU, with the costs of the machine.
    ///
    /// # Errors
    /// Another replacement is asked for.
    pub fn weighted(setup: &Setup) -> Result<Self, SetupError> {
        require_lru(setup, "lru: wlru weighs an LRU")?;
        let (machine, bytes) = (&setup.machine, u64::from(setup.block_bytes));
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX / 4);
        let staged = Machine::transfer(bytes * u64::from(machine.staging_copies), machine.staging_bandwidth);
        let wires = machine.network_latency * 2;
        let memory = machine.remote_port + machine.remote_copy_of(bytes) + wires + staged + machine.service;
        let disk = machine.disk.read_seek + Machine::transfer(bytes, machine.disk.bandwidth);
        let costs = Costs { memory: nanos(memory).max(1), disk: nanos(memory + disk) };
        let capacities = (0..setup.nodes).map(|node| setup.cache_of(node));
        Ok(Self::new(setup, Memory::Weighted(Box::new(WeightedLru::new(capacities, costs)))))
    }

    /// A cache that knows the future.
    #[must_use]
    pub fn opt(setup: &Setup, foresight: Foresight) -> Self {
        Self::new(setup, Memory::Future(foresight))
    }

    fn new(setup: &Setup, memory: Memory) -> Self {
        Self {
            memory,
            block_bytes: setup.block_bytes,
            errands: Errands::new(setup.block_bytes),
            counts: Counts::default(),
        }
    }

    /// Where a block is that is referred to, and the node that another one was sent to for it.
    fn refer(&mut self, io: &Io, key: Key) -> (Found, Option<Forward>) {
        match &mut self.memory {
            Memory::Lru(lru) => (lru.refer(io.node, key), None),
            Memory::Weighted(weighted) if io.op == Op::Read => weighted.read(io.node, key),
            Memory::Weighted(weighted) => {
                let (found, forward, lost) = weighted.write(io.node, key);
                self.counts.invalidations += lost.len() as u64;
                (found, forward)
            }
            Memory::Future(foresight) => {
                let fate = foresight.next(io.node, io.process);
                self.counts.opt_local_hits += u64::from(fate.local && io.op == Op::Read);
                let found = match fate.loaded_by {
                    Some(node) if node == io.node => Found::Local,
                    Some(node) => Found::Remote(node),
                    None => Found::Nowhere,
                };
                (found, None)
            }
        }
    }

    /// A block that has to go makes room before another one comes.
    fn forward(&mut self, errand: ErrandId, from: u16, forward: Option<Forward>) {
        if let Some(Forward { to }) = forward {
            self.counts.forwarded += 1;
            self.counts.stored_for_others += 1;
            self.errands.add(errand, Step::Data { from, to });
        }
    }

    fn read(&mut self, kernel: &mut Kernel<Arrival>, io: &Io, key: Key) {
        let (found, forward) = self.refer(io, key);
        let count = match found {
            Found::Local => &mut self.counts.local_hits,
            Found::Remote(_) => &mut self.counts.remote_hits,
            Found::Nowhere => &mut self.counts.disk_reads,
        };
        *count += 1;
        let errand = self.errands.open();
        self.forward(errand, io.node, forward);
        match found {
            Found::Local => {}
            Found::Remote(node) => {
                self.errands.add(errand, Step::Ask { from: io.node, to: node });
                self.errands.add(errand, Step::Data { from: node, to: io.node });
            }
            Found::Nowhere => {
                let disk = disk_node(kernel, key);
                self.errands.add(errand, Step::Ask { from: io.node, to: disk });
                self.errands.add(errand, Step::DiskRead { key });
                self.errands.add(errand, Step::Data { from: disk, to: io.node });
            }
        }
        self.errands.add(errand, self.deliver(io, key));
        self.errands.start(kernel, errand, kernel.now());
    }

    fn write(&mut self, kernel: &mut Kernel<Arrival>, io: &Io, key: Key) {
        let (found, forward) = self.refer(io, key);
        self.counts.writes += 1;
        self.counts.write_hits += u64::from(found != Found::Nowhere);
        let errand = self.errands.open();
        self.forward(errand, io.node, forward);
        self.errands.add(errand, self.deliver(io, key));
        if let Found::Remote(node) = found {
            self.errands.add(errand, Step::Data { from: io.node, to: node });
        }
        self.errands.start(kernel, errand, kernel.now());
    }

    fn deliver(&self, io: &Io, key: Key) -> Step {
        let bytes = io.bytes_in(key.index.into(), self.block_bytes) as u32;
        Step::Deliver { node: io.node, token: io.token, bytes }
    }
}

impl Engine for Bound {
    type Event = Arrival;

    fn submit(&mut self, kernel: &mut Kernel<Arrival>, io: Io) {
        if io.op.is_data() && io.blocks > 0 {
            self.errands.expect(io.token, io.blocks, kernel.now());
        } else {
            kernel.complete(io.token, kernel.now());
        }
        // A block belongs to the file that its first byte belongs to.
        let deleted = io.offset.div_ceil(self.block_bytes.into());
        let first = if io.op == Op::Trim { deleted } else { io.first };
        for index in first..io.first + u64::from(io.blocks) {
            let key = Key::new(io.volume, index);
            match (io.op, &mut self.memory) {
                (Op::Read, _) => self.read(kernel, &io, key),
                (Op::Write, _) => self.write(kernel, &io, key),
                (_, Memory::Lru(lru)) => lru.forget(key),
                (_, Memory::Weighted(weighted)) => weighted.forget(key),
                // It knows whether anybody asks for the block again.
                (_, Memory::Future(_)) => {}
            }
        }
    }

    fn event(&mut self, kernel: &mut Kernel<Arrival>, event: Arrival) {
        self.errands.arrive(kernel, event);
    }

    fn counts(&self) -> Counts {
        let evictions = match &self.memory {
            Memory::Lru(lru) => lru.evictions(),
            Memory::Weighted(weighted) => weighted.evictions(),
            Memory::Future(_) => 0,
        };
        Counts { evictions, ..self.counts }
    }

    fn is_idle(&self) -> bool {
        self.errands.is_idle()
    }

    fn table_bytes(&self) -> usize {
        match &self.memory {
            Memory::Lru(lru) => lru.table_bytes(),
            Memory::Weighted(weighted) => weighted.table_bytes(),
            Memory::Future(foresight) => foresight.table_bytes(),
        }
    }

    fn cached_blocks(&self) -> u64 {
        match &self.memory {
            Memory::Lru(lru) => lru.resident(),
            Memory::Weighted(weighted) => weighted.resident(),
            Memory::Future(foresight) => foresight.resident(),
        }
    }

    fn check(&self, _now: Instant) {
        match &self.memory {
            Memory::Lru(lru) => lru.check(),
            Memory::Weighted(weighted) => weighted.check(),
            Memory::Future(_) => {}
        }
    }
}
