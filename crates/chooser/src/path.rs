//! What a read had to wait for.

use std::ops::{Add, Sub};

/// Steps one after the other; or all steps that a reference has led to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Path {
    /// Messages without data.
    pub hops: u32,
    /// Messages with a block.
    pub blocks: u32,
    /// Reads of the disk.
    pub disks: u32,
}

impl Add for Path {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            hops: self.hops + other.hops,
            blocks: self.blocks + other.blocks,
            disks: self.disks + other.disks,
        }
    }
}

impl Sub for Path {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self {
            hops: self.hops.saturating_sub(other.hops),
            blocks: self.blocks.saturating_sub(other.blocks),
            disks: self.disks.saturating_sub(other.disks),
        }
    }
}
