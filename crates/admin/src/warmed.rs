//! What came of a request to warm.

use serde::{Deserialize, Serialize};

/// Blocks that were to be fetched into a node's cache, by where they were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warmed {
    /// In this node's cache already.
    pub here: u64,
    /// Fetched from other nodes' caches.
    pub from_peers: u64,
    /// Fetched from the disk.
    pub from_disk: u64,
    /// Could not be had.
    pub failed: u64,
}

impl Warmed {
    /// The sum of both.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            here: self.here.saturating_add(other.here),
            from_peers: self.from_peers.saturating_add(other.from_peers),
            from_disk: self.from_disk.saturating_add(other.from_disk),
            failed: self.failed.saturating_add(other.failed),
        }
    }

    /// All blocks.
    #[must_use]
    pub const fn blocks(self) -> u64 {
        self.here + self.from_peers + self.from_disk + self.failed
    }
}
