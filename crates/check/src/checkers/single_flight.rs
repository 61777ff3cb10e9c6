//! Many readers of a cold block: one fetch at each node, and one read of the disk for all.

use std::collections::BTreeMap;

use cards_core::{BlockId, Body, Message, NodeId, RequestId};

use crate::faults::{Seen, Word};
use crate::run::Run;

/// What each node has asked others for.
#[derive(Debug, Default)]
pub(crate) struct Fetches {
    asked: BTreeMap<(NodeId, BlockId), RequestId>,
    doubled: Option<(NodeId, BlockId)>,
}

impl Fetches {
    /// In a run without faults, with caches in which all fits, a node asks for a block once (and again, when it takes
    /// long, by the same number).
    pub(super) fn saw(&mut self, seen: &Seen) {
        let Seen::Sent { from, word: Word::Shard(Message { volume, body, .. }), .. } = seen else { return };
        if let Body::Read { request, block, requester, .. } = *body
            && requester == *from
        {
            let block = BlockId::new(*volume, block);
            let first = *self.asked.entry((*from, block)).or_insert(request);
            if first != request {
                self.doubled = Some((*from, block));
            }
        }
    }
}

/// Judges a cold read. Returns the number of blocks that were read by all.
pub(crate) fn single_flight(run: &mut Run) -> Result<u64, String> {
    if let Some((node, block)) = run.observers.fetches().doubled {
        return Err(format!("{node:?} has fetched {block:?} twice, though it fits in its cache"));
    }
    let mut judged = 0;
    for spec in run.options.world.volumes.clone() {
        // A network-attached disk's node keeps nothing. Then a node must remember the requester.
        if spec.network_attached && !spec.policy.starts_with("hscc") {
            continue;
        }
        judged += spec.blocks();
        let reads = run.world.models().disk_reads.get(&spec.id).copied().unwrap_or(0);
        if reads != spec.blocks() {
            return Err(format!(
                "all nodes together read {} blocks of {:?} ({}) once each, the disk was asked {reads} times",
                spec.blocks(),
                spec.id,
                spec.policy
            ));
        }
    }
    Ok(judged)
}
