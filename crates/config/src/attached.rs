//! Where a disk keeps copies of what it reads for others.

use serde::{Deserialize, Serialize};

/// Exclusive caching (remote disk drivers, section 4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Attached {
    /// Computer-attached: the disk node keeps a copy of what it reads for others.
    #[default]
    Computer,
    /// Network-attached: the requester has the single copy.
    Network,
}

impl Attached {
    /// Its name in `node.toml`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Computer => "computer",
            Self::Network => "network",
        }
    }
}
