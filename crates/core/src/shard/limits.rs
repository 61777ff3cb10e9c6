//! How much a shard remembers. What is beyond is forgotten, or waits; the answers are right with any limit, only later.

/// Limits of a shard's tables, each at least 1; the same at all nodes. The default is for real use. The checker draws small
/// ones, so that its short runs get to what is behind them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Commands that one card has under way at a time, at both ends. More wait at the card.
    pub slots: u16,
    /// Lives of a node of which a disk node remembers the commands. A command is given up by its sender after a while
    /// ([`crate::ShardConfig::disk_wait`]), in which a node does not begin as many.
    pub node_lives: usize,
    /// Lives of a disk node that a card remembers.
    pub disk_node_lives: usize,
    /// Regions of a volume that a card with few slots remembers; others remember one for 8 slots.
    pub card_regions: usize,
    /// Regions of a volume of which a disk node remembers the last writes; fewer where caches are small.
    pub directory_regions: usize,
    /// Locks, each of one card in one region, that a disk node remembers of a volume; fewer where caches are small.
    pub directory_holders: usize,
    /// Segments of a region, at most 64.
    pub region_segments: u32,
    /// Blocks whose last writers a disk node remembers.
    pub writers: u32,
    /// Own writes of a card that it remembers until the disk node says that all before them are complete.
    pub own_writes: usize,
    /// Blocks written in a life of a disk node that it remembers. By then each node that this life's begin has interrupted
    /// has come back.
    pub touched: usize,
}

/// A limit of a shard, by what happens at it: a path that a run takes only if it gets there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Limit {
    /// A command waits, since all [`Limits::slots`] are taken.
    Slots,
    /// A node has lived so often that the commands of its first life are forgotten ([`Limits::node_lives`]).
    NodeLives,
    /// A disk node has lived so often that a card forgets the lowest life ([`Limits::disk_node_lives`]).
    DiskNodeLives,
    /// A card forgets regions, with the copies there ([`Limits::card_regions`]).
    CardRegions,
    /// A disk node forgets the last writes of half of the regions ([`Limits::directory_regions`]).
    DirectoryRegions,
    /// There is no room for a lock ([`Limits::directory_holders`]).
    DirectoryHolders,
    /// So many locks wait for room that one more is told nothing.
    LocksWaiting,
    /// A lock is revoked, since there is little room for more.
    Revocation,
    /// The last writer of some block is forgotten for that of another ([`Limits::writers`]).
    Writers,
    /// A card does not remember its own write ([`Limits::own_writes`]).
    OwnWrites,
    /// A disk node has no room for the block of a write ([`Limits::touched`]).
    Touched,
}

impl Limit {
    /// All of them, in order.
    pub const ALL: [Self; 11] = [
        Self::Slots,
        Self::NodeLives,
        Self::DiskNodeLives,
        Self::CardRegions,
        Self::DirectoryRegions,
        Self::DirectoryHolders,
        Self::LocksWaiting,
        Self::Revocation,
        Self::Writers,
        Self::OwnWrites,
        Self::Touched,
    ];
}

/// How often each limit was reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reached([u64; Limit::ALL.len()]);

impl Reached {
    /// A limit is reached, if `is_so`.
    pub(super) const fn note(&mut self, limit: Limit, is_so: bool) {
        self.0[limit as usize] += is_so as u64;
    }

    /// Adds those of another shard.
    pub fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, more)| *sum += more);
    }

    /// How often it was reached.
    #[must_use]
    pub const fn of(&self, limit: Limit) -> u64 {
        self.0[limit as usize]
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            slots: super::SLOTS_MAX,
            node_lives: 8,
            disk_node_lives: 16,
            card_regions: 64,
            directory_regions: 1 << 16,
            directory_holders: 1 << 20,
            region_segments: 64,
            writers: 1 << 14,
            own_writes: 1 << 10,
            touched: 1 << 14,
        }
    }
}

impl Limits {
    /// Where so many nodes cache so many blocks each. A card remembers a region for 8 slots, so more locks than one for 8 of
    /// all blocks that are cached anywhere are not in use: with 70 bytes for a region and a lock, and trees that
    /// are half empty, a directory takes less than 32 bytes for each of these blocks.
    pub(super) fn with_caches(self, nodes: usize, blocks: u32) -> Self {
        let used = nodes * blocks as usize / 8;
        let regions = self.directory_regions.min(used.max(1 << 10));
        let holders = self.directory_holders.min(used.max(1 << 10).max(4 * nodes));
        Self { directory_regions: regions, directory_holders: holders, ..self }
    }
}
