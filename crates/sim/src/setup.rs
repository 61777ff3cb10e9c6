//! One combination to simulate.

use std::time::Duration;

use cards_core::{Coherence, Handover, NodeId, PlacementKind};
use cards_policies::read_ahead::Window;
use cards_policies::replacement::GhostKind;
use cards_policies::{Replacement, policy};
use cards_user_policy::Module;

use crate::engine::{Array, RemoteDisk};
use crate::machine::{Machine, MachineError};

/// Everything about a run but the trace.
#[derive(Clone, PartialEq, Debug)]
pub struct Setup {
    /// The hardware.
    pub machine: Machine,
    /// Members of the cluster.
    pub nodes: u16,
    /// Cache of each node in blocks: one figure for all, or one for each.
    pub cache_blocks: Vec<u32>,
    /// The unit of caching in bytes.
    pub block_bytes: u32,
    /// The policy with its parameters, as in a configuration.
    pub policy: String,
    /// The module that is the policy; [`Self::policy`] is then its name in reports.
    pub module: Option<Module>,
    /// The volume that the nodes read and write past all caches, if it is an array of the machine's disks; the policy is then
    /// a name in reports only.
    pub array: Option<Array>,
    /// What the nodes read, if it is documents of web servers; likewise.
    pub remote: Option<RemoteDisk>,
    /// Which block leaves.
    pub replacement: Replacement,
    /// How it remembers evicted blocks.
    pub ghosts: GhostKind,
    /// Nodes with disks: volume `v` is on node `v` modulo this.
    pub disk_nodes: u16,
    /// How copies are kept coherent, by policies of the production core.
    pub coherence: Coherence,
    /// Where readers get what others have written, with [`Coherence::Confirmed`].
    pub handover: Handover,
    /// How far each process's sequential reads run ahead, with policies of the production core.
    pub read_ahead: Window,
    /// The disk node keeps no copies of what others read.
    pub network_attached: bool,
    /// How blocks get their homes.
    pub placement: PlacementKind,
    /// Shards of each node. One for studies; as many as a daemon has to predict it exactly.
    pub shards: u16,
    /// When requests are issued.
    pub timing: Timing,
    /// What comes before the measurement.
    pub warm_up: WarmUp,
    /// Seed of whatever is drawn at random.
    pub seed: u64,
    /// Check all invariants often: slow, for tests.
    pub check: bool,
}

/// When the requests of a trace are issued.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Timing {
    /// A request is issued when the trace says so, or when the one before it of the same process has been answered and the process
    /// has done its computing, whichever is later.
    #[default]
    Trace,
    /// The times of the trace mean nothing: each process issues its requests as fast as they are answered.
    Fast,
    /// One request at a time in the whole cluster, each when nothing is under way any more. With policies of the production
    /// core, messages cross one at a time, too: counts do not depend on how fast anything is.
    Serial,
}

/// What is simulated but not measured.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum WarmUp {
    /// So much time of the trace.
    Time(Duration),
    /// So many requests.
    Requests(u64),
    /// A share of the source, 0 to 1.
    Share(f64),
}

/// Why a combination cannot be simulated.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum SetupError {
    /// The policy.
    #[error(transparent)]
    Policy(#[from] policy::PolicyError),
    /// The machine.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// A value makes no sense.
    #[error("{parameter}: {value}: want {want}")]
    Bad {
        /// Which.
        parameter: &'static str,
        /// As given.
        value: String,
        /// What it may be.
        want: &'static str,
    },
}

/// Blocks that all caches have together at most: their tables take about 70 GB.
const BLOCKS_MAX: u64 = 1 << 31;

impl Setup {
    /// A machine with its own number of nodes, cache and block sizes.
    #[must_use]
    pub fn new(machine: Machine, policy: &str) -> Self {
        Self {
            nodes: machine.nodes,
            cache_blocks: machine.cache_blocks(machine.block_bytes),
            block_bytes: machine.block_bytes,
            policy: policy.into(),
            module: None,
            array: None,
            remote: None,
            replacement: Replacement::Lru,
            ghosts: GhostKind::Hashed,
            disk_nodes: 1,
            coherence: Coherence::Policy,
            handover: Handover::Cache,
            read_ahead: Window::Off,
            network_attached: false,
            placement: PlacementKind::Rendezvous,
            shards: 1,
            timing: Timing::Trace,
            warm_up: WarmUp::Requests(0),
            seed: 1,
            check: false,
            machine,
        }
    }

    /// The replacement, and what is unusual about it: `arc ghosts=exact`.
    #[must_use]
    pub fn replacement_spec(&self) -> String {
        match self.ghosts {
            GhostKind::Hashed => self.replacement.name().into(),
            GhostKind::Exact => format!("{} ghosts=exact", self.replacement),
        }
    }

    /// Blocks that a node caches.
    #[must_use]
    pub fn cache_of(&self, node: u16) -> u32 {
        let per_node = &self.cache_blocks;
        per_node.get(usize::from(node)).or(per_node.last()).copied().unwrap_or(0)
    }

    /// Blocks that all nodes cache together.
    #[must_use]
    pub fn cache_of_all(&self) -> u64 {
        (0..self.nodes).map(|node| u64::from(self.cache_of(node))).sum()
    }

    /// The node with a volume's disk.
    #[must_use]
    pub const fn disk_node(&self, volume: u16) -> u16 {
        volume % self.disk_nodes
    }

    /// Checks that it can be run.
    ///
    /// # Errors
    /// The first thing that makes no sense.
    pub fn check(&self) -> Result<(), SetupError> {
        self.machine.check()?;
        if self.module.is_none() {
            policy::normalize(&self.policy)?;
        }
        let bad = |parameter, value: String, want| Err(SetupError::Bad { parameter, value, want });
        if self.nodes == 0 || usize::from(self.nodes) > NodeId::MAX_NODES {
            return bad("nodes", self.nodes.to_string(), "1 to 1023");
        }
        if self.disk_nodes == 0 || self.disk_nodes > self.nodes {
            return bad("disk nodes", self.disk_nodes.to_string(), "at least 1 and at most the nodes");
        }
        if !self.block_bytes.is_power_of_two() || !(512..=1 << 20).contains(&self.block_bytes) {
            return bad("block", self.block_bytes.to_string(), "a power of two from 512 B to 1 MiB");
        }
        if self.cache_blocks.contains(&0) || self.cache_blocks.is_empty() {
            return bad("cache", "less than one block".into(), "at least one block per node");
        }
        if self.cache_blocks.len() > usize::from(self.nodes) {
            let value = format!("{} sizes for {} nodes", self.cache_blocks.len(), self.nodes);
            return bad("cache", value, "one size for all nodes, or one for each");
        }
        if !self.shards.is_power_of_two() || self.shards > 256 {
            return bad("shards", self.shards.to_string(), "a power of two up to 256");
        }
        if self.cache_blocks.iter().any(|&blocks| blocks < u32::from(self.shards)) {
            let value = format!("fewer blocks than the {} shards", self.shards);
            return bad("cache", value, "at least one block for each shard of a node");
        }
        if self.cache_of_all() > BLOCKS_MAX {
            let value = format!("{} blocks at all nodes", self.cache_of_all());
            return bad("cache", value, "at most 2^31 blocks: take larger blocks");
        }
        if let Some(array) = &self.array {
            array.check(self)?;
        }
        if let Some(remote) = &self.remote {
            remote.check(self)?;
        }
        if let WarmUp::Share(share) = self.warm_up
            && !(0.0..=1.0).contains(&share)
        {
            return bad("warm-up", share.to_string(), "a share of the trace from 0 to 1");
        }
        Ok(())
    }
}
