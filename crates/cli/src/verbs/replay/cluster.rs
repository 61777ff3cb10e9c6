//! The captive cluster of a replay.

use std::time::Duration;

use cards_config::ReadAhead;

use super::Replay;
use super::load::Load;
use crate::captive::{Cluster, DiskFrom, Plan};

/// No node fails in a replay, so patience costs nothing: a machine that is busy with something else must not look
/// like a node that is gone.
const PEER_TIMEOUT: Duration = Duration::from_secs(30);
const LEASE: Duration = Duration::from_secs(300);
const DISK_WAIT: Duration = Duration::from_secs(1200);

impl Replay {
    pub(super) fn plan(&self, load: &Load, verbose: u8) -> Plan {
        Plan {
            cache: self.cache,
            block: self.block.into(),
            policy: self.policy.clone(),
            replacement: self.replacement,
            read_ahead: ReadAhead::Off,
            shards: self.shards,
            peer_timeout: PEER_TIMEOUT,
            disk_wait: DISK_WAIT,
            lease: LEASE,
            verbose,
            ..Plan::new(self.nodes.into(), DiskFrom::Sparse(load.disk_bytes()))
        }
    }
}

/// The shards of each node, and the blocks that each node caches, as its daemon computes them.
pub(super) fn caches(cluster: &Cluster) -> (u16, Vec<u32>) {
    let blocks = |config: &cards_config::Config| {
        let shards = u64::from(config.shards);
        let of_shard = (config.cache / config.block / shards).max(1);
        u32::try_from(of_shard * shards).unwrap_or(u32::MAX)
    };
    let shards = cluster.nodes.first().map_or(1, |node| node.config.shards as u16);
    (shards, cluster.nodes.iter().map(|node| blocks(&node.config)).collect())
}
