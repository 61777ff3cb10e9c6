//! Blocks that were evicted lately, as far as a replacement must know them again.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

/// How replacements remember evicted blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum GhostKind {
    /// Fingerprints in sets, two bytes a block: what nodes have. Each set forgets its own oldest, which is nearly the order of
    /// eviction. In loops longer than the ghosts this is *better* than the papers' algorithms, or worse, by many points.
    #[default]
    Hashed,
    /// The papers' queues, some 100 bytes a block: for the simulator.
    Exact,
}

impl GhostKind {
    /// Its name in specifications.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hashed => "hashed",
            Self::Exact => "exact",
        }
    }
}

/// Blocks that were evicted lately: so many at most, the oldest is forgotten.
pub(crate) enum Ghosts {
    Hashed(Hashed),
    Exact { queue: GhostQueue, capacity: usize },
}

impl Ghosts {
    /// Room for so many ghosts, at least one.
    pub(crate) fn new(ghosts: u64, kind: GhostKind) -> Self {
        let capacity = (ghosts as usize).max(1);
        match kind {
            GhostKind::Hashed => Self::Hashed(Hashed::new(capacity)),
            GhostKind::Exact => Self::Exact { queue: GhostQueue::default(), capacity },
        }
    }

    pub(crate) fn put(&mut self, hash: u64) {
        match self {
            Self::Hashed(hashed) => hashed.put(hash),
            Self::Exact { queue, capacity } => {
                queue.push(hash);
                if queue.len() > *capacity {
                    queue.pop_oldest();
                }
            }
        }
    }

    /// Whether the block was among them. It no longer is.
    pub(crate) fn take(&mut self, hash: u64) -> bool {
        match self {
            Self::Hashed(hashed) => hashed.take(hash),
            Self::Exact { queue, .. } => queue.remove(hash),
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Hashed(hashed) => hashed.prints.len() * size_of::<u16>(),
            Self::Exact { queue, .. } => queue.bytes(),
        }
    }
}

/// 16-bit fingerprints in sets, the latest first. A set forgets its oldest when it is full, so the whole forgets
/// nearly in the order of eviction; the larger the sets, the nearer. A false match (1 in 1,000) merely spares a
/// block too early.
pub(crate) struct Hashed {
    prints: Vec<u16>,
    /// Ghosts in a set.
    ways: usize,
}

/// Ghosts in a set at most: two cache lines of the processor.
const WAYS: usize = 64;

impl Hashed {
    fn new(ghosts: usize) -> Self {
        let sets = ghosts.div_ceil(WAYS);
        let ways = ghosts.div_ceil(sets);
        Self { prints: vec![0; sets * ways], ways }
    }

    fn put(&mut self, hash: u64) {
        let (set, print) = self.set(hash);
        set.rotate_right(1);
        set[0] = print;
    }

    fn take(&mut self, hash: u64) -> bool {
        let (set, print) = self.set(hash);
        let Some(at) = set.iter().position(|&p| p == print) else { return false };
        let last = set.len() - 1;
        set[at..].rotate_left(1);
        set[last] = 0;
        true
    }

    fn set(&mut self, hash: u64) -> (&mut [u16], u16) {
        let sets = self.prints.len() / self.ways;
        let set = (hash >> 16) as usize % sets;
        (&mut self.prints[set * self.ways..][..self.ways], (hash as u16).max(1))
    }
}

/// Hashes of blocks (different blocks have different hashes) in the order in which they came.
#[derive(Default)]
pub(crate) struct GhostQueue {
    by_arrival: BTreeMap<u64, u64>,
    arrivals: BTreeMap<u64, u64>,
    next: u64,
}

impl GhostQueue {
    pub(super) fn len(&self) -> usize {
        self.arrivals.len()
    }

    pub(super) fn contains(&self, hash: u64) -> bool {
        self.arrivals.contains_key(&hash)
    }

    /// Adds a block; one that was in the queue becomes its newest.
    pub(super) fn push(&mut self, hash: u64) {
        self.remove(hash);
        self.by_arrival.insert(self.next, hash);
        self.arrivals.insert(hash, self.next);
        self.next += 1;
    }

    /// Whether the block was in the queue.
    pub(super) fn remove(&mut self, hash: u64) -> bool {
        let arrival = self.arrivals.remove(&hash);
        arrival.is_some_and(|arrival| self.by_arrival.remove(&arrival).is_some())
    }

    /// Whether there was one.
    pub(super) fn pop_oldest(&mut self) -> bool {
        let oldest = self.by_arrival.pop_first();
        oldest.is_some_and(|(_, hash)| self.arrivals.remove(&hash).is_some())
    }

    /// Of the entries; what the trees need besides is not counted.
    pub(super) fn bytes(&self) -> usize {
        self.len() * 4 * size_of::<u64>()
    }
}
