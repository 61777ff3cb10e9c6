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
