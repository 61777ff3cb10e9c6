//! What a primary knows of writes, for its next life: so that a restart empties no cache.
//!
//! The next life's stamps come after all of this one's. Cards park their copies with the stamp that they are good as of, and
//! the next life, which is told when each region was written last, grants the locks under which they are judged.

use alloc::vec::Vec;

use crate::ids::{PgId, Stamp};
use crate::shard::Shard;
use crate::shard::regions::Bounds;

/// The last writes to a volume in one shard; see the module's head.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Marks {
    /// The limit in regions that are not listed.
    pub default: Stamp,
    /// The limits in the others, by number.
    pub regions: Vec<(u32, Bounds)>,
}

impl Marks {
    /// All writes come before this stamp.
    pub(in crate::shard) fn are_before(&self, first: Stamp) -> bool {
        let last = |bounds: &Bounds| bounds.base.max(bounds.version);
        self.default < first && self.regions.iter().all(|(_, bounds)| last(bounds) < first)
    }
}

impl Shard {
    /// What the next life of this node may go by, if nobody but this shard writes the volume's disk until then and no
    /// contents are lost. None for a volume of another node's disk, or one whose copies are not confirmed.
    #[must_use]
    pub fn marks(&self, volume: PgId) -> Option<Marks> {
        let volume = self.volumes.get(&volume).filter(|v| !v.needs_no_lease())?;
        Some(volume.primary.as_ref()?.directory.marks())
    }
}
