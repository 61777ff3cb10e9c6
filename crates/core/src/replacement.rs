//! Which block leaves when room is needed: what a replacement is told, and asked. Where the block goes is the policy's
//! business (see [`crate::policy`]). Replacements come from outside, by [`crate::Algorithms`]; [`Lru`] stands here because
//! the blocks that a policy has set apart are kept by it, whatever the rest is kept by.

mod lru;
mod queue;

pub use lru::Lru;
pub use queue::{Queue, next_in};

use crate::cache::Frames;

/// A replacement at work on a cache's frames. Each resident frame is inserted once and leaves once, by
/// `remove` or `evict`; the rest may happen between. The cache may hold more than its capacity for a moment: a
/// block comes in first, then another one goes.
pub trait Replacer: Send {
    /// A block has become resident.
    fn insert(&mut self, frames: &mut Frames, slot: u32);

    /// A resident block was used.
    fn hit(&mut self, frames: &mut Frames, slot: u32);

    /// A resident block is of no more use here: if it stays idle and nothing else happens, it is the next
    /// victim.
    fn cool(&mut self, frames: &mut Frames, slot: u32);

    /// A resident block leaves because it is no longer valid or wanted. Nothing is learned from it.
    fn remove(&mut self, frames: &mut Frames, slot: u32);

    /// A victim leaves. It may be remembered.
    fn evict(&mut self, frames: &mut Frames, slot: u32) {
        self.remove(frames, slot);
    }

    /// The block to evict next, among those that are idle. It stays until it leaves.
    fn victim(&mut self, frames: &mut Frames) -> Option<u32>;

    /// The candidate for eviction after this one, or the first: all blocks, idle or not, the likeliest
    /// victims first, as far as that can be told without work.
    fn next_candidate(&self, frames: &Frames, after: Option<u32>) -> Option<u32>;

    /// The block that has had its place for the longest time among those that have been found worth keeping; none if there are
    /// none. Its age says how long such a block stays.
    fn oldest(&self, frames: &Frames) -> Option<u32> {
        self.next_candidate(frames, None)
    }

    /// Blocks it knows.
    fn len(&self) -> u32;

    /// It knows none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory besides the frames.
    fn extra_bytes(&self) -> usize {
        0
    }
}
