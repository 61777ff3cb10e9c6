//! Whether a run with small limits gets to what is behind them. Nothing is judged: a limit that was never reached proves nothing.

use std::collections::{BTreeMap, BTreeSet};

use cards_core::{BlockId, Body, DiskWork, Limits, Message, NodeId, PgId};
use cards_world::World;

use crate::faults::{Fault, Faults, Seen, Word};

/// What the tables of the run had to remember.
#[derive(Debug, Default)]
pub(super) struct Remembered {
    /// Commands that took the last slot.
    last_slots: u64,
    /// Revocations that were sent.
    revoked: usize,
    /// Blocks that a life of a disk node has written, by shard.
    written: BTreeMap<(PgId, u64, u16), BTreeSet<u32>>,
}

/// The table of last writers has no fewer places.
const WRITERS_MIN: usize = 8;

impl Remembered {
    pub(super) fn saw(&mut self, world: &World<Faults>, seen: &Seen) {
        let config = world.config();
        match seen {
            Seen::Sent { word: Word::Shard(Message { body: Body::Command { slot, .. }, .. }), .. } => {
                self.last_slots += u64::from(slot + 1 == config.limits.slots);
            }
            Seen::Sent { word: Word::Shard(Message { body: Body::Invalidate { .. }, .. }), .. } => {
                self.revoked += 1;
            }
            Seen::Disk { volume, work: DiskWork::Command { offset, length, .. }, .. } => {
                let (first, end) = (*offset, offset + u64::from(*length));
                let block_bytes = u64::from(config.block_bytes);
                let life = world.life(volume.disk_node());
                for index in first / block_bytes..end.div_ceil(block_bytes) {
                    let block = BlockId::new(*volume, index as u32);
                    let shard = block.shard(config.shards);
                    self.written.entry((*volume, life, shard)).or_default().insert(block.index);
                }
            }
            Seen::Sent { .. } | Seen::Disk { .. } | Seen::Wrote { .. } => {}
        }
    }

    /// Counts the limits that were reached and are not the real ones.
    pub(super) fn count(&self, world: &mut World<Faults>) {
        let (limits, real) = (world.config().limits, Limits::default());
        let disk_nodes: BTreeSet<NodeId> = world.config().volumes.iter().map(|v| v.id.disk_node()).collect();
        let nodes = (0..world.config().nodes.len() as u16).map(NodeId);
        let lives = |node| world.life(node) as usize;
        let lived: Vec<usize> = nodes.map(lives).collect();
        let disk_lived = disk_nodes.into_iter().map(lives).filter(|&lives| lives > limits.disk_node_lives);
        let written = |more_than: usize| self.written.values().filter(move |b| b.len() > more_than).count();
        let counts = [
            (Fault::SlotsFull, limits.slots < real.slots, self.last_slots as usize),
            (
                Fault::NodeLivesForgotten,
                limits.node_lives < real.node_lives,
                lived.iter().filter(|&&lives| lives > limits.node_lives).count(),
            ),
            (
                Fault::DiskNodeLivesForgotten,
                limits.disk_node_lives < real.disk_node_lives,
                disk_lived.count(),
            ),
            (
                Fault::WritersForgotten,
                limits.writers < real.writers,
                written(WRITERS_MIN.max(limits.writers as usize)),
            ),
            (Fault::TouchedForgotten, limits.touched < real.touched, written(limits.touched)),
            (Fault::LockRevoked, limits.directory_holders < real.directory_holders, self.revoked),
        ];
        for (fault, small, reached) in counts {
            (0..if small { reached } else { 0 }).for_each(|_| world.models().count(fault));
        }
    }
}
