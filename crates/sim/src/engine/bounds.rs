//! Yardsticks: what the memory of all nodes together could do if it were one cache.
//!
//! `glru` is one LRU list, `opt` knows the future. Neither can be built. Their hits are what matters; their times take a
//! block from the memory it is in as if everybody knew where that is, and nothing is ever written back.
//! See `docs/internals/bounds.md`.

mod foresight;
mod global_lru;
mod min;
#[cfg(test)]
mod tests;

use cards_core::Instant;
use cards_trace::Op;

pub use self::foresight::Foresight;
use self::global_lru::GlobalLru;
use super::xfs::errands::{Errands, Step};
use super::xfs::key::Key;
use super::xfs::{Arrival, disk_node, require_lru, require_numbers};
use super::{Counts, Engine};
use crate::kernel::{Io, Kernel};
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

    fn refer(&mut self, io: &Io, key: Key) -> Found {
        match &mut self.memory {
            Memory::Lru(lru) => lru.refer(io.node, key),
            Memory::Future(foresight) => {
                let fate = foresight.next(io.node, io.process);
                self.counts.opt_local_hits += u64::from(fate.local && io.op == Op::Read);
                match fate.loaded_by {
                    Some(node) if node == io.node => Found::Local,
                    Some(node) => Found::Remote(node),
                    None => Found::Nowhere,
                }
            }
        }
    }

    fn read(&mut self, kernel: &mut Kernel<Arrival>, io: &Io, key: Key) {
        let found = self.refer(io, key);
        let count = match found {
            Found::Local => &mut self.counts.local_hits,
            Found::Remote(_) => &mut self.counts.remote_hits,
            Found::Nowhere => &mut self.counts.disk_reads,
        };
        *count += 1;
        let errand = self.errands.open();
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
        let found = self.refer(io, key);
        self.counts.writes += 1;
        self.counts.write_hits += u64::from(found != Found::Nowhere);
        let errand = self.errands.open();
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
            Memory::Future(foresight) => foresight.table_bytes(),
        }
    }

    fn cached_blocks(&self) -> u64 {
        match &self.memory {
            Memory::Lru(lru) => lru.resident(),
            Memory::Future(foresight) => foresight.resident(),
        }
    }

    fn check(&self, _now: Instant) {
        if let Memory::Lru(lru) = &self.memory {
            lru.check();
        }
    }
}
