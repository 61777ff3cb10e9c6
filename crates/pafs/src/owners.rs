//! Which cache server a block belongs to.

use cards_core::mix;

/// The cache server of each block, the same at every node, by a hash: nobody is asked (PAFS-2).
///
/// The paper hashes files. A block device has none, so the unit is an extent of a volume: large, so that nearly every
/// request meets one server, but not so large that the blocks in use belong to a few servers only.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Owners {
    servers: u16,
    extent_blocks: u64,
}

impl Owners {
    /// So many servers (at least one), and extents of so many blocks (at least one).
    #[must_use]
    pub fn new(servers: u16, extent_blocks: u64) -> Self {
        Self { servers: servers.max(1), extent_blocks: extent_blocks.max(1) }
    }

    /// Blocks of an extent.
    #[must_use]
    pub const fn extent_blocks(&self) -> u64 {
        self.extent_blocks
    }

    /// The server of a block of a volume, counted from 0.
    #[must_use]
    pub const fn owner(&self, volume: u32, block: u64) -> u16 {
        let extent = block / self.extent_blocks;
        (mix((volume as u64) << 48 ^ extent) % self.servers as u64) as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;

    #[test]
    fn an_extent_belongs_to_one_server() {
        let owners = Owners::new(7, 8192);
        for extent in 0..20 {
            let owner = owners.owner(3, extent * 8192);
            assert!((0..8192).all(|i| owners.owner(3, extent * 8192 + i) == owner));
        }
    }

    #[test]
    fn extents_spread_evenly_over_the_servers() {
        let owners = Owners::new(16, 128);
        let mut count = vec![0; 16];
        for volume in 0..10 {
            for extent in 0..1000 {
                count[usize::from(owners.owner(volume, extent * owners.extent_blocks()))] += 1;
            }
        }
        assert!(count.iter().all(|n| (500..750).contains(n)), "{count:?}");
    }
}
