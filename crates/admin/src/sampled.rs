//! A sample of what clients ask for, and what is needed to simulate it.

use cards_advise::Sample;
use cards_policies::Replacement;
use serde::{Deserialize, Serialize};

use cards_config::replacement;

/// What all nodes know of the references to a volume.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Samples {
    /// The node that was asked first, then the others.
    pub nodes: Vec<Sampled>,
    /// Members that did not answer.
    pub silent: Vec<Silent>,
}

/// A member that did not answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Silent {
    /// Its name.
    pub node: String,
    /// Why not.
    pub reason: String,
}

/// What one node knows of the references of its clients to a volume.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sampled {
    /// Its name.
    pub node: String,
    /// The volume is attached there.
    pub attached: bool,
    /// It has the disk.
    pub disk_node: bool,
    /// The disk node keeps no copies of what others read.
    pub network_attached: bool,
    /// The volume's policy.
    pub policy: String,
    /// Which block leaves this node's cache.
    #[serde(with = "replacement")]
    pub replacement: Replacement,
    /// The unit of caching, in bytes.
    pub block: u32,
    /// Blocks that the cache has room for.
    pub cache_blocks: u64,
    /// Of these, those that other volumes do not use now.
    pub share_blocks: u64,
    /// References that are missing in all samples of this node, since they came faster than they were taken.
    pub lost: u64,
    /// What had been counted at some times, the last of them now.
    #[serde(default)]
    pub marks: Vec<Mark>,
    /// The sample.
    pub sample: Sample,
}

/// What had been counted at a time, in microseconds since 1970 (UTC).
pub type Mark = (u64, Measured);

/// Where the blocks came from that clients of a node had read of the volume. A block that was fetched ahead counts as a local hit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measured {
    /// From the node's own cache.
    pub local_hits: u64,
    /// From another node's cache.
    pub remote_hits: u64,
    /// From the disk.
    pub disk_reads: u64,
}

impl Measured {
    /// All blocks that were read.
    #[must_use]
    pub const fn reads(self) -> u64 {
        self.local_hits.saturating_add(self.remote_hits).saturating_add(self.disk_reads)
    }

    /// The sum of both.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            local_hits: self.local_hits.saturating_add(other.local_hits),
            remote_hits: self.remote_hits.saturating_add(other.remote_hits),
            disk_reads: self.disk_reads.saturating_add(other.disk_reads),
        }
    }

    /// What came after `before`, an earlier measurement.
    #[must_use]
    pub const fn since(self, before: Self) -> Self {
        Self {
            local_hits: self.local_hits.saturating_sub(before.local_hits),
            remote_hits: self.remote_hits.saturating_sub(before.remote_hits),
            disk_reads: self.disk_reads.saturating_sub(before.disk_reads),
        }
    }
}
