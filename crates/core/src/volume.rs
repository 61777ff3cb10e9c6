//! What a volume is, as its disk node announces it.

use alloc::string::String;

use crate::ids::{NodeId, PgId, Stamp};

/// How readers of a volume are kept from stale copies when it is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Coherence {
    /// The disk node has every copy invalidated, and confirmed, before a write reaches the disk.
    #[default]
    Confirmed,
    /// The policy's `keep_consistency` alone (HSCC, section 3): no promise for concurrent writes.
    Policy,
}

/// Where a reader gets a block from that another node has written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Handover {
    /// Out of the writer's memory, if it is there: writers keep the blocks they have written whole. (GAP-4)
    #[default]
    Cache,
    /// From the disk, unless the disk node has a copy. (SIOS-10)
    Disk,
}

/// What a card may do with its volume, from little to much.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Access {
    /// Read.
    Read,
    /// Read and write, like any number of other cards.
    #[default]
    Write,
    /// Read and write while no other node has a card.
    Exclusive,
}

impl Access {
    /// Whether a card with it may change the volume.
    #[must_use]
    pub const fn may_write(self) -> bool {
        !matches!(self, Self::Read)
    }

    /// Whether a card with it may do all that one with `other` may.
    #[must_use]
    pub const fn covers(self, other: Self) -> bool {
        self as u8 >= other as u8
    }
}

/// The description of a volume, the same at every node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VolumeSpec {
    /// Its number; that of a plain disk is its physical ID.
    pub id: PgId,
    /// The node that orders its writes. A plain disk's is the node that has it.
    pub primary: NodeId,
    /// Which term of a primary this is: higher than those of all earlier ones, at whatever node. A plain disk's counts the
    /// lives of its node. Stamps and generations begin with it, and go on into the numbers that follow: a term takes 2^20
    /// of either for each number that it leaves to itself before the next.
    pub epoch: u64,
    /// Its name, unique in the cluster.
    pub name: String,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// The unit of caching in bytes: a power of two from 4 KiB to 1 MiB.
    pub block_bytes: u32,
    /// The policy all its cards use, with parameters: `hscc depth=2 load=free`.
    pub policy: String,
    /// Nobody can write it: no leases, no invalidation.
    pub read_only: bool,
    /// Of a volume that nobody can write: by this number other contents under the same name are told apart, after
    /// a restart of the primary as well. Else zero.
    pub content: u64,
    /// The disk node keeps no copies of what others read (network-attached; remote disk drivers, section 4).
    pub network_attached: bool,
    /// How copies are kept coherent.
    pub coherence: Coherence,
    /// How a block gets from its writer to its readers. Without [`Coherence::Confirmed`] it is always the disk.
    pub handover: Handover,
}

impl VolumeSpec {
    /// Number of blocks; the last one may be short.
    #[must_use]
    pub const fn blocks(&self) -> u64 {
        self.size_bytes.div_ceil(self.block_bytes as u64)
    }

    /// Before all writes of this term of the primary, and after all of earlier ones.
    #[must_use]
    pub const fn first_stamp(&self) -> Stamp {
        Stamp(self.epoch << 20)
    }

    /// The same volume as in another description: its primary may have changed, and it may have grown.
    #[must_use]
    pub fn continues(&self, before: &Self) -> bool {
        let Self { primary, epoch, size_bytes, .. } = *before;
        self.size_bytes >= size_bytes && Self { primary, epoch, size_bytes, ..self.clone() } == *before
    }
}
