//! Names of blocks, and how they are hashed: the same way in every run.

use cards_core::mix;

/// A block of a volume.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(in crate::engine) struct Key {
    pub(in crate::engine) volume: u16,
    pub(in crate::engine) index: u32,
}

impl Key {
    pub(in crate::engine) const fn new(volume: u16, index: u64) -> Self {
        Self { volume, index: index as u32 }
    }

    const fn bits(self) -> u64 {
        (self.volume as u64) << 32 | self.index as u64
    }

    pub(in crate::engine) const fn hash(self) -> u64 {
        mix(self.bits())
    }

    /// The hash of this block's copy at a node.
    pub(in crate::engine) const fn hash_at(self, node: u16) -> u64 {
        mix((node as u64) << 48 | self.bits())
    }

    /// The node that manages the run of blocks which this one is in.
    pub(in crate::engine) const fn manager(self, run: u32, nodes: u16) -> u16 {
        (mix((self.volume as u64) << 32 | (self.index / run) as u64) % nodes as u64) as u16
    }
}

/// Numbers drawn from a seed.
#[derive(Debug)]
pub(super) struct Draw(u64);

impl Draw {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `limit`, which is small: no value is noticeably more probable than another.
    pub(super) const fn below(&mut self, limit: u16) -> u16 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        (mix(self.0) % limit as u64) as u16
    }
}
