//! A client that reads, and now and then does something odd.

use cards_core::{BlockId, Duration, NodeId};
use cards_world::Request;

use super::writer::LOG_BLOCKS;
use super::{Deed, Owner, What, Workload};
use crate::run::{Deed as RunDeed, Run};

/// Sectors that a question about extents is about, at most.
const EXTENTS_MAX: u64 = 1 << 10;

/// A client of one node.
#[derive(Debug)]
pub(super) struct Client {
    node: NodeId,
    /// Requests it waits for.
    waits: u32,
    /// Where its working set begins.
    hot: u32,
}

impl Client {
    pub(super) fn new(node: NodeId) -> Self {
        Self { node, waits: 0, hot: 0 }
    }
}

impl Workload {
    pub(super) fn client_acts(&mut self, run: &mut Run, number: usize) {
        let node = self.clients[number].node;
        if self.stops(run) || run.options.idle.contains(&node) {
            return;
        }
        let volumes = run.options.world.volumes.len() as u64;
        let spec = run.options.world.volumes[self.rng.below(volumes) as usize].clone();
        if !self.is_attached(run, node, spec.id) {
            return run.later(Duration::from_millis(20), RunDeed::Workload(Deed::Client(number)));
        }
        let blocks = run.options.spots(&spec);
        let owner = Owner::Client(number);
        if self.rng.chance(30) {
            self.clients[number].hot = self.rng.below(u64::from(blocks)) as u32;
        }
        let hot = self.clients[number].hot;
        let around = match self.rng.chance(800) {
            true => (hot + self.rng.below(u64::from(run.options.hot_blocks)) as u32) % blocks,
            false => self.rng.below(u64::from(blocks)) as u32,
        };
        let around = match run.options.log {
            // Behind the log.
            Some(_) => around.max(LOG_BLOCKS.min(blocks - 1)),
            None => run.options.spot(around),
        };
        let blocks = spec.blocks() as u32;
        self.clients[number].waits = 1;
        let roll = self.rng.below(1000) as u32;
        if roll < run.options.nodes.detach {
            self.attached.remove(&(node, spec.id));
            run.errors.detached(node, spec.id, run.world.now());
            run.observers.detached(node, spec.id);
            let what = What::Detach { and_back: false };
            self.submit(run, node, spec.id, owner, what, Request::Detach { volume: spec.id });
            return run.later(Duration::from_millis(50), RunDeed::Workload(Deed::Attach(node, spec.id)));
        }
        match roll {
            10..13 => self.submit(run, node, spec.id, owner, What::Other, Request::DropCaches),
            13..18 if run.options.retains => {
                let first = self.rng.below(u64::from(blocks)) as u32;
                let ranges = vec![(first, first + self.rng.below(16) as u32), (around, around)];
                let request = Request::Retain { volume: spec.id, ranges };
                self.submit(run, node, spec.id, owner, What::Other, request);
            }
            20..30 => {
                let count = self.rng.range(1, run.world.media(spec.id).sectors().min(EXTENTS_MAX)) as u32;
                let request = Request::Extents { volume: spec.id, sector: 0, count };
                self.submit(run, node, spec.id, owner, What::Other, request);
            }
            30..40 if !self.may_write(node, spec.id) => self.command(run, node, &spec, around, owner),
            40..150 if run.options.read_ahead => {
                let last = (around + self.rng.range(1, 8) as u32).min(blocks);
                self.clients[number].waits = last - around;
                for index in around..last {
                    let request = Request::ReadAhead { block: BlockId::new(spec.id, index) };
                    self.submit(run, node, spec.id, owner, What::Other, request);
                }
            }
            _ => {
                let most = self.rng.pick(&[1, 1, 4, 24]);
                let last = (around + self.rng.range(1, most) as u32).min(blocks);
                self.clients[number].waits = last - around;
                for index in around..last {
                    let inline = self.reads_inline();
                    self.read(run, node, BlockId::new(spec.id, index), inline, owner);
                }
            }
        }
    }

    pub(super) fn client_answered(&mut self, run: &mut Run, number: usize) {
        self.clients[number].waits -= 1;
        if self.clients[number].waits == 0 {
            self.think(run, Deed::Client(number));
        }
    }
}
