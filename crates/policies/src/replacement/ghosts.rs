//! Blocks that were evicted lately, as far as a replacement must know them again.

use alloc::vec;
use alloc::vec::Vec;

/// 16-bit fingerprints in sets, the latest first. A set forgets its oldest when it is full, so the whole forgets
/// nearly in the order of eviction; the larger the sets, the nearer. A false match (1 in 1,000) merely spares a
/// block too early.
pub(crate) struct Ghosts {
    prints: Vec<u16>,
    /// Ghosts in a set.
    ways: usize,
}

/// Ghosts in a set at most: two cache lines of the processor.
const WAYS: usize = 64;

impl Ghosts {
    /// Room for so many ghosts, at least one.
    pub(crate) fn new(ghosts: u64) -> Self {
        let ghosts = (ghosts as usize).max(1);
        let sets = ghosts.div_ceil(WAYS);
        let ways = ghosts.div_ceil(sets);
        Self { prints: vec![0; sets * ways], ways }
    }

    pub(crate) fn put(&mut self, hash: u64) {
        let (set, print) = self.set(hash);
        set.rotate_right(1);
        set[0] = print;
    }

    /// Whether the block was among them. It no longer is.
    pub(crate) fn take(&mut self, hash: u64) -> bool {
        let (set, print) = self.set(hash);
        let Some(at) = set.iter().position(|&p| p == print) else { return false };
        let last = set.len() - 1;
        set[at..].rotate_left(1);
        set[last] = 0;
        true
    }

    pub(crate) fn bytes(&self) -> usize {
        self.prints.len() * size_of::<u16>()
    }

    fn set(&mut self, hash: u64) -> (&mut [u16], u16) {
        let sets = self.prints.len() / self.ways;
        let set = (hash >> 16) as usize % sets;
        (&mut self.prints[set * self.ways..][..self.ways], (hash as u16).max(1))
    }
}
