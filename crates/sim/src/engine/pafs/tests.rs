//! PAFS and PACA on small machines.

mod costs;
mod random;
mod repartition;

use std::time::Duration;

use cards_core::Instant;
use cards_trace::Op;

use super::{Pafs, PafsEvent};
use crate::engine::Engine;
use crate::kernel::{Io, IoToken, Kernel, Scheduled};
use crate::machine::{Library, Machine};
use crate::model::Model;
use crate::setup::Setup;

/// The parallel machine of the paper, smaller.
fn setup(policy: &str, nodes: u16, cache_blocks: u32) -> Setup {
    let machine = Library::default().find("pm").expect("a preset").clone();
    Setup { nodes, cache_blocks: vec![cache_blocks], check: true, ..Setup::new(machine, policy) }
}

/// An engine with its kernel, driven by hand.
struct Bench {
    kernel: Kernel<PafsEvent>,
    engine: Pafs,
    block_bytes: u32,
    under_way: Vec<IoToken>,
    next: IoToken,
    /// When the requests were done, by token.
    done: Vec<Option<Instant>>,
}

impl Bench {
    fn new(setup: &Setup) -> Self {
        Self {
            kernel: Kernel::new(Model::new(setup.machine.clone(), setup.nodes)),
            engine: Pafs::new(setup).unwrap_or_else(|error| panic!("{error}")),
            block_bytes: setup.block_bytes,
            under_way: Vec::new(),
            next: 0,
            done: Vec::new(),
        }
    }

    fn machine(&self) -> &Machine {
        self.kernel.model.machine()
    }

    fn submit(&mut self, node: u16, op: Op, offset: u64, bytes: u32) -> IoToken {
        let size = u64::from(self.block_bytes);
        let first = offset / size;
        let blocks = match op {
            Op::Read | Op::Write | Op::Trim if bytes > 0 => {
                ((offset + u64::from(bytes)).div_ceil(size) - first) as u32
            }
            _ => 0,
        };
        let token = self.next;
        self.next += 1;
        self.done.push(None);
        self.under_way.push(token);
        let io = Io { token, node, process: node.into(), volume: 0, op, offset, bytes, first, blocks };
        self.engine.submit(&mut self.kernel, io);
        self.collect();
        token
    }

    fn collect(&mut self) {
        while let Some((token, at)) = self.kernel.take_completed() {
            let done = self.done[token as usize].replace(at);
            assert!(done.is_none(), "a request is done once");
            self.under_way.retain(|&other| other != token);
        }
    }

    fn step(&mut self) {
        match self.kernel.next() {
            Some(Scheduled::Engine(event)) => self.engine.event(&mut self.kernel, event),
            // Nothing but time has passed.
            Some(Scheduled::Process(_)) => {}
            None => panic!("nothing will happen"),
        }
        self.collect();
    }

    /// Until nothing is under way.
    fn settle(&mut self) {
        while !self.engine.is_idle() {
            self.step();
        }
        assert!(self.under_way.is_empty());
        self.engine.check(self.kernel.now());
    }

    /// Lets time pass.
    fn run_until(&mut self, at: Instant) {
        self.kernel.schedule(at, Scheduled::Process(0));
        while self.kernel.now() < at {
            self.step();
        }
    }

    /// A request alone: how long it takes.
    fn time(&mut self, node: u16, op: Op, offset: u64, bytes: u32) -> Duration {
        self.settle();
        // Links and CPUs may still be busy with what nobody waits for.
        self.run_until(self.kernel.now() + Duration::from_millis(100));
        self.settle();
        let begin = self.kernel.now();
        let token = self.submit(node, op, offset, bytes);
        self.settle();
        self.done[token as usize].unwrap_or_default().since(begin)
    }

    /// A block whose owner is this server.
    fn block_of(&self, server: u16) -> u64 {
        let extents = self.engine.owners.extent_blocks();
        let first = |extent: u64| extent * extents;
        (0..).map(first).find(|&block| self.engine.owners.owner(0, block) == server).unwrap_or(0)
    }

    /// Where a block lies.
    fn node_with(&self, block: u64) -> Option<u16> {
        let all = self.engine.servers.iter().flat_map(|server| server.blocks());
        all.filter(|(b, _)| u64::from(b.index) == block).map(|(_, frame)| frame.node.0).next()
    }
}
