//! Blocks that stay in a node's cache.

use serde::{Deserialize, Serialize};

/// Ranges of one [`PinOrder`] at most: a request has an end.
pub const PIN_RANGES_MAX: usize = 1000;

/// What is to be done about them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum PinOrder {
    /// Nothing: say what there is.
    List {},
    /// Blocks of a volume that is attached there stay once they are cached, beside those that do already.
    Pin {
        /// The volume's name.
        volume: String,
        /// Offsets and lengths in bytes, at most [`PIN_RANGES_MAX`].
        ranges: Vec<(u64, u64)>,
    },
    /// They need not stay any longer.
    Unpin {
        /// The volume's name.
        volume: String,
        /// Offsets and lengths in bytes, at most [`PIN_RANGES_MAX`]; none: all of the volume.
        ranges: Vec<(u64, u64)>,
    },
}

/// What stays in the cache of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pins {
    /// Name of the node.
    pub node: String,
    /// Bytes that may be pinned.
    pub max: u64,
    /// Bytes of pinned blocks that are cached now.
    pub cached: u64,
    /// By the volumes' names.
    pub volumes: Vec<PinnedVolume>,
}

/// What is pinned of one volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PinnedVolume {
    /// Its name.
    pub volume: String,
    /// Offsets and lengths in bytes, whole blocks, in ascending order.
    pub ranges: Vec<(u64, u64)>,
}

impl Pins {
    /// Bytes that are pinned.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.volumes.iter().map(PinnedVolume::bytes).sum()
    }
}

impl PinnedVolume {
    /// Bytes that are pinned.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.ranges.iter().map(|(_, length)| length).sum()
    }
}
