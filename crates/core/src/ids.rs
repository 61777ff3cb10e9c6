//! Identifiers: newtypes, so that a node is never taken for a block.

use core::fmt;

/// A member of the cluster: its position in the member list.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u16);

impl NodeId {
    /// Members a cluster can have: groups of plain disks and index entries have 10 bits for a node, and one value
    /// stands for none.
    pub const MAX_NODES: usize = (1 << 10) - 1;
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "n{}", self.0)
    }
}

/// A placement group: blocks whose writes one primary orders. What people attach is a volume; that of a plain disk is one
/// group.
///
/// CARDs (section 4) identify a device by *(major, minor, physical ID)*: the first two may differ from node to node, the
/// physical ID is the same for all cards of a disk. A plain disk's group has that ID in its number: the node that has the
/// disk, and the disk's number there. On the wire it is the upper half of eight bytes; the lower half is zero (a layer of
/// the group, of which there are none yet).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PgId(pub u32);

impl PgId {
    /// Plain disks one node can contribute.
    pub const MAX_DISKS: u16 = 1 << 6;

    /// The group of the plain disk number `disk` (below [`Self::MAX_DISKS`]) of `node` (below [`NodeId::MAX_NODES`]).
    #[must_use]
    pub const fn plain(node: NodeId, disk: u16) -> Self {
        assert!((node.0 as usize) < NodeId::MAX_NODES && disk < Self::MAX_DISKS);
        Self((node.0 as u32) << 6 | disk as u32)
    }

    /// The number is one that a plain disk can have.
    #[must_use]
    pub const fn is_plain(self) -> bool {
        self.0 < (NodeId::MAX_NODES as u32) << 6
    }

    /// The node that has the plain disk. Who orders the writes is said by [`crate::VolumeSpec::primary`].
    #[must_use]
    pub const fn disk_node(self) -> NodeId {
        NodeId((self.0 >> 6) as u16)
    }

    /// The plain disk's number at its node.
    #[must_use]
    pub const fn disk(self) -> u16 {
        self.0 as u16 & (Self::MAX_DISKS - 1)
    }

    /// As on the wire.
    #[must_use]
    pub const fn to_wire(self) -> u64 {
        (self.0 as u64) << 32
    }

    /// From the wire; none, if it names a layer.
    #[must_use]
    pub const fn from_wire(id: u64) -> Option<Self> {
        if id as u32 == 0 { Some(Self((id >> 32) as u32)) } else { None }
    }
}

impl fmt::Debug for PgId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}.{}", self.disk_node().0, self.disk())
    }
}

/// A block: the unit of caching. `index` counts blocks from the start of the volume.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId {
    /// The volume the block belongs to.
    pub volume: PgId,
    /// Its position, in blocks.
    pub index: u32,
}

impl BlockId {
    /// Block `index` of `volume`.
    #[must_use]
    pub const fn new(volume: PgId, index: u32) -> Self {
        Self { volume, index }
    }

    /// A well-mixed 64-bit hash, the same on every node and in every version of this code.
    #[must_use]
    pub const fn hash(self) -> u64 {
        mix((self.volume.0 as u64) << 32 | self.index as u64)
    }

    /// The shard that owns the block when there are `shards` (a power of two).
    ///
    /// Runs of [`STRIPE_BLOCKS`] blocks share a shard, so that a sequential load fills all shards
    /// evenly and a request of a few blocks takes one lock.
    #[must_use]
    pub const fn shard(self, shards: u16) -> u16 {
        (self.index / STRIPE_BLOCKS) as u16 & (shards - 1)
    }
}

impl fmt::Debug for BlockId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}/{}", self.volume, self.index)
    }
}

/// Consecutive blocks that share a shard.
pub const STRIPE_BLOCKS: u32 = 16;

/// The finalizer of SplitMix64: a bijection on 64 bits in which every input bit reaches every output bit.
#[must_use]
pub const fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A place for one block of data in a shard's part of the cache memory. The core knows its number,
/// the driver its bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Slot(pub u32);

/// Bytes of a write that the driver holds until the core releases them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BufferId(pub u64);

/// What a front end calls its own request; comes back in the answer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Token(pub u64);

/// A request of one shard of one node to another node; comes back in the answer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct RequestId(pub u64);

/// A disk operation of one shard; comes back in its completion.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct OpId(pub u64);

/// A wish of one shard that pages go; comes back when they are gone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WithdrawalId(pub u64);

/// The order of writes to one shard of one volume, as its disk node decides it. Zero is before all writes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Stamp(pub u64);

/// One attachment of a volume at a node, as its disk node counts them. A node that attaches again gets a new one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Generation(pub u64);

impl Generation {
    /// Which life of the disk node has given it out.
    #[must_use]
    pub const fn life(self) -> u64 {
        self.0 >> 20
    }
}
