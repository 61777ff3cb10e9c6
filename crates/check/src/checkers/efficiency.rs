//! What a run has cost: it follows commands, reads of disks, and what clients are answered.

use std::collections::BTreeMap;

use cards_core::{
    BlockId, Body, Coherence, DiskWork, Instant, IoError, Message, NodeId, RequestId, VolumeSpec,
};
use cards_world::{Outcome, World, WorldConfig};

use crate::efficiency::Figures;
use crate::faults::{Faults, Seen, Word};
use crate::workload::{Ticket, What};

/// Counts.
#[derive(Debug, Default)]
pub(super) struct Efficiency {
    operations: u64,
    bytes: u64,
    reads_in_vain: u64,
    /// Copies that writes may have made stale, at most: for each block written, one at each node. (Of writes that a disk node
    /// has forgotten, nobody knows: [`World::outdated`].)
    stale_at_most: u64,
    /// When each command was sent last, and on which connection, by sender, shard and number.
    commands: BTreeMap<(NodeId, u16, RequestId), (Instant, NodeId, u64)>,
    commands_sent: u64,
    hasty: u64,
}

impl Efficiency {
    pub(super) fn saw(&mut self, world: &World<Faults>, seen: &Seen) {
        match seen {
            Seen::Disk { volume, work: DiskWork::Read { block, .. }, .. } => {
                self.reads_in_vain += u64::from(is_held(world, BlockId::new(*volume, *block)));
            }
            Seen::Disk { work: DiskWork::Command { offset, length, .. }, .. } => {
                let config = world.config();
                self.stale_at_most += blocks(config, *offset, *length) * config.nodes.len() as u64;
            }
            Seen::Sent { at, from, to, word: Word::Shard(Message { shard, body, .. }), .. } => {
                // Who is told to come again does so soon.
                if let Body::CommandDone { request, result: Err(IoError::Busy), .. } = *body
                    && let Some((sent, ..)) = self.commands.get_mut(&(*to, *shard, request))
                {
                    *sent = Instant(0);
                }
                if let Body::Command { request, .. } = *body {
                    let connection = world.connections(*from, *to);
                    let before = self.commands.insert((*from, *shard, request), (*at, *to, connection));
                    let soon = world.config().peer_timeout / 2;
                    self.commands_sent += 1;
                    // What was under way on a connection is lost with it: on the next one it is sent at once.
                    let is_hasty = |(before, to_whom, on): (Instant, NodeId, u64)| {
                        at.since(before) < soon && (to_whom, on) == (*to, connection)
                    };
                    self.hasty += u64::from(before.is_some_and(is_hasty));
                }
            }
            Seen::Sent { .. } | Seen::Ended { .. } | Seen::Wrote { .. } | Seen::Doubtful { .. } => {}
        }
    }

    pub(super) fn answered(&mut self, config: &WorldConfig, ticket: &Ticket, outcome: &Outcome) {
        match outcome {
            Outcome::Read { .. } => self.bytes += u64::from(config.block_bytes),
            Outcome::Done => match &ticket.what {
                What::Write { range: (_, length), .. } => self.bytes += u64::from(*length),
                What::Flush => {}
                // Done at once, whatever comes of it.
                _ => return,
            },
            Outcome::Attached(_) | Outcome::Extents(_) => {}
            Outcome::Failed(_) | Outcome::Refused(_) | Outcome::Lost => return,
        }
        self.operations += 1;
    }

    pub(super) fn figures(&self, world: &mut World<Faults>) -> Figures {
        let disk_reads = world.models().disk_reads.values().sum();
        let traffic = world.models().traffic;
        let stats = world.stats();
        Figures {
            operations: self.operations,
            bytes: self.bytes,
            traffic,
            refused: stats.refused_as_stale,
            disk_reads,
            reads_in_vain: self.reads_in_vain,
            dropped: stats.invalidations + stats.copies_outdated,
            stale_at_most: self.stale_at_most + world.outdated(),
            commands: self.commands.len() as u64,
            commands_sent: self.commands_sent,
            hasty: self.hasty,
        }
    }
}

/// Whether a node that does not have the disk could have served the block from its memory.
fn is_held(world: &World<Faults>, block: BlockId) -> bool {
    let config = world.config();
    let shard = usize::from(block.shard(config.shards));
    let has_locks = |spec: &VolumeSpec| {
        spec.id == block.volume && !spec.read_only && spec.coherence == Coherence::Confirmed
    };
    let others =
        (0..config.nodes.len() as u16).map(NodeId).filter(|&node| node != world.primary(block.volume));
    config.volumes.iter().any(has_locks)
        && others.into_iter().any(|node| {
            let shard = world.shards(node).nth(shard);
            shard.is_some_and(|shard| shard.contains(block) && shard.holds(block))
        })
}

fn blocks(config: &WorldConfig, offset: u64, length: u32) -> u64 {
    let block_bytes = u64::from(config.block_bytes);
    match length {
        0 => 0,
        _ => (offset + u64::from(length)).div_ceil(block_bytes) - offset / block_bytes,
    }
}
