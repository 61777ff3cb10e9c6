//! The captive cluster of a replay.

use std::time::Duration;

use cards_config::{Attached, Delivery, Handover, Mode, ReadAhead};

use super::Replay;
use super::load::Load;
use crate::captive::{Cluster, DiskFrom, Plan};

/// Nobody fails in a replay, so patience costs nothing: a machine that is busy with something else must not look
/// like a node that is gone.
const PEER_TIMEOUT: Duration = Duration::from_secs(30);
const LEASE: Duration = Duration::from_secs(300);
const DISK_WAIT: Duration = Duration::from_secs(1200);

impl Replay {
    pub(super) fn plan(&self, load: &Load, verbose: u8) -> Plan {
        Plan {
            nodes: self.nodes.into(),
            cache: self.cache,
            block: self.block.into(),
            policy: self.policy.clone(),
            replacement: self.replacement,
            disk: DiskFrom::Sparse(load.disk_bytes()),
            read_only: false,
            direct: false,
            disk_delay: Duration::ZERO,
            disk_rate: 0,
            delivery: Delivery::Event,
            attached: Attached::Computer,
            handover: Handover::Cache,
            mode: Mode::Rw,
            read_ahead: ReadAhead::Off,
            shards: self.shards,
            data_threads: 1,
            prefault: false,
            peer_timeout: PEER_TIMEOUT,
            disk_wait: DISK_WAIT,
            lease: LEASE,
            tcp: false,
            insecure: false,
            verbose,
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
