//! How far apart two references to the same block are.

/// Reuse distances of the references of a trace: how many other blocks were referenced between two references
/// of a block (the LRU stack distance of R. Mattson and others, "Evaluation techniques for storage
/// hierarchies", 1970). A shared LRU cache of more than that many blocks has the block at the second
/// reference.
///
/// Memory grows with the largest distance: 8 bytes for each block of it (of the sample).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reuse {
    /// References by distance; distances are those of the sample.
    distances: Vec<u64>,
    /// Blocks that one of the sample stands for.
    scale: Scale,
    firsts: u64,
    agains: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Scale(u64);

impl Default for Scale {
    fn default() -> Self {
        Self(1)
    }
}

impl Reuse {
    /// References to blocks that were not referenced before.
    #[must_use]
    pub fn firsts(&self) -> u64 {
        self.firsts
    }

    /// All references.
    #[must_use]
    pub fn references(&self) -> u64 {
        self.firsts + self.agains
    }

    /// The share of all references that hit in one LRU cache of so many blocks, shared by all nodes.
    #[must_use]
    pub fn lru_hit_ratio(&self, cache_blocks: u64) -> f64 {
        let below = usize::try_from(cache_blocks.div_ceil(self.scale.0)).unwrap_or(usize::MAX);
        let hits: u64 = self.distances.iter().take(below).sum();
        match self.references() {
            0 => 0.0,
            references => hits as f64 / references as f64,
        }
    }

    /// The distance that `percent` of the repeated references do not exceed; none if no block is referenced
    /// twice.
    #[must_use]
    pub fn percentile(&self, percent: f64) -> Option<u64> {
        let wanted = (self.agains as f64 * percent / 100.0).ceil().max(1.0);
        let mut sum = 0u64;
        let found = self.distances.iter().position(|&count| {
            sum += count;
            sum as f64 >= wanted
        })?;
        Some(found as u64 * self.scale.0)
    }

    pub(super) fn first(&mut self, weight: u64) {
        self.firsts += weight;
    }

    /// A distance of the sample.
    pub(super) fn again(&mut self, distance: u64, weight: u64) {
        // Less than the number of blocks that are kept, so in range and bounded.
        let distance = distance as usize;
        if distance >= self.distances.len() {
            self.distances.resize(distance + 1, 0);
        }
        self.distances[distance] += weight;
        self.agains += weight;
    }

    /// The sample becomes half of what it was: so do the distances in it.
    pub(super) fn halve(&mut self) {
        self.scale.0 *= 2;
        for i in 0..self.distances.len() {
            let count = std::mem::take(&mut self.distances[i]);
            self.distances[i / 2] += count;
        }
        self.distances.truncate(self.distances.len().div_ceil(2));
    }
}
