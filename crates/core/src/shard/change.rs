//! What a command does to a volume.

use core::ops::Range;

use crate::ids::{BlockId, STRIPE_BLOCKS};
use crate::message::CommandKind;
use crate::volume::VolumeSpec;

/// What a command does to a volume.
#[derive(Clone, Copy)]
pub(super) struct Change {
    pub(super) kind: CommandKind,
    pub(super) offset: u64,
    pub(super) length: u32,
}

impl Change {
    pub(super) const fn new(kind: CommandKind, offset: u64, length: u32) -> Self {
        Self { kind, offset, length }
    }

    /// The blocks it changes, of a volume with blocks of this size.
    pub(super) fn blocks(&self, block_bytes: u32) -> Range<u32> {
        if self.kind.is_flush() || self.length == 0 {
            return 0..0;
        }
        let size = u64::from(block_bytes);
        let end = self.offset.saturating_add(u64::from(self.length));
        (self.offset / size) as u32..end.div_ceil(size) as u32
    }

    /// The bytes it changes.
    pub(super) fn bytes(&self) -> Range<u64> {
        match self.kind {
            CommandKind::Flush { .. } => 0..0,
            _ => self.offset..self.offset.saturating_add(u64::from(self.length)),
        }
    }

    /// It leaves nothing of the block as it was.
    pub(super) fn is_whole(&self, block: u32, block_bytes: u32) -> bool {
        let size = u64::from(block_bytes);
        let start = u64::from(block) * size;
        self.offset <= start && start + size <= self.offset + u64::from(self.length)
    }

    /// Within the volume and within one stripe.
    pub(super) fn is_valid(&self, spec: &VolumeSpec, shard: u16, shards: u16) -> bool {
        if self.kind.is_flush() {
            return true;
        }
        let inside =
            self.offset.checked_add(u64::from(self.length)).is_some_and(|end| end <= spec.size_bytes);
        if !inside || self.length == 0 {
            return false;
        }
        let blocks = self.blocks(spec.block_bytes);
        blocks.start / STRIPE_BLOCKS == (blocks.end - 1) / STRIPE_BLOCKS
            && BlockId::new(spec.id, blocks.start).shard(shards) == shard
    }
}

pub(super) fn overlap<N: PartialOrd>(one: &Range<N>, other: &Range<N>) -> bool {
    one.start < other.end && other.start < one.end
}
