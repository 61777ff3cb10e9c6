//! ARC (the paper is in [`ENTRY`]).
//!
//! Two LRU queues: blocks used once (*T1*) and blocks used more often (*T2*). What is evicted is remembered,
//! by the queue it was in (*B1*, *B2*): a block that comes back says that its queue was too short, and the
//! target for the length of T1 moves.
//!
//! The lists of ghosts of a node are not queues but sets of fingerprints, each of which forgets its own oldest
//! ([`GhostKind::Hashed`]); so ARC costs 2.25 bytes per block of capacity instead of some 20. On many traces its hit ratios
//! are within half a point of the exact algorithm's; where blocks are read in loops of several lengths they are
//! not: on the LIRS authors' trace `ps` with 300 blocks, .49 of the reads hit, and .17 with exact ARC. So it is a good
//! replacement, and in a comparison with ARC the wrong one: [`GhostKind::Exact`] has the paper's queues.

use alloc::vec;
use alloc::vec::Vec;

use cards_core::Frames;
use cards_core::replacement::{Queue, Replacer, next_in};

use super::ghosts::{GhostKind, GhostQueue};
use super::{Entry, GHOSTS, Parameter};

pub(super) const ENTRY: Entry = Entry {
    name: "arc",
    title: "ARC with hashed ghosts: adapts between recency and frequency",
    paper: "N. Megiddo, D. S. Modha: ARC: a self-tuning, low overhead replacement cache, FAST 2003",
    parameters: &[
        Parameter {
            name: "remembers",
            default: "100 %",
            meaning: "blocks remembered, of the capacity; fixed",
        },
        GHOSTS,
    ],
    when_not: "blocks are read in loops longer than the cache: like LRU it then hits nothing",
};

pub(super) struct Arc {
    /// T1.
    once: Queue,
    /// T2.
    often: Queue,
    capacity: u32,
    /// The length that T1 should have, in units of 2^-16 blocks.
    target: u64,
    ghosts: Ghosts,
    /// Where the latest block came from.
    latest: Arrival,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Arrival {
    /// It was not known, and is in T1.
    New,
    /// It was in B1 or B2, and is in T2.
    Ghost(List),
}

impl Arc {
    pub(super) fn new(capacity: u32, ghosts: GhostKind) -> Self {
        Self {
            once: Queue::default(),
            often: Queue::default(),
            capacity,
            target: 0,
            ghosts: Ghosts::new(capacity, ghosts),
            latest: Arrival::New,
        }
    }

    /// Whether T1, of so many blocks, is to lose the next one.
    fn once_is_next(&self, once: u32) -> bool {
        // The algorithm makes room before a block comes in, the cache after.
        let newcomer = self.latest == Arrival::New && self.len() > self.capacity;
        let once = u64::from(once.saturating_sub(u32::from(newcomer))) << 16;
        let tie = self.latest == Arrival::Ghost(List::Often);
        once > self.target || once > 0 && once == self.target && tie || self.often.is_empty()
    }

    /// A ghost of a list, now this long, came back. Was it still needed, its queue was too short.
    fn adapt(&mut self, list: List) {
        let step = |other: u32, this: u32| ((u64::from(other) << 16) / u64::from(this.max(1))).max(1 << 16);
        let [once, often] = self.ghosts.len();
        self.target = match list {
            List::Once => (self.target + step(often, once)).min(u64::from(self.capacity) << 16),
            List::Often => self.target.saturating_sub(step(once, often)),
        };
    }
}

impl Replacer for Arc {
    fn insert(&mut self, frames: &mut Frames, slot: u32) {
        let hash = frames.block(slot).hash();
        let known = self.ghosts.find(hash);
        if let Some(list) = known {
            self.adapt(list);
            self.ghosts.forget(hash, list);
        }
        self.latest = known.map_or(Arrival::New, Arrival::Ghost);
        frames.set_main(slot, known.is_some());
        let queue = if known.is_some() { &mut self.often } else { &mut self.once };
        queue.push(frames, slot);
    }

    fn hit(&mut self, frames: &mut Frames, slot: u32) {
        if frames.is_main(slot) {
            self.often.renew(frames, slot);
        } else {
            self.once.remove(frames, slot);
            frames.set_main(slot, true);
            self.often.push(frames, slot);
        }
    }

    fn cool(&mut self, frames: &mut Frames, slot: u32) {
        self.remove(frames, slot);
        let once = self.once_is_next(self.once.len() + 1);
        frames.set_main(slot, !once);
        let queue = if once { &mut self.once } else { &mut self.often };
        queue.push_oldest(frames, slot);
    }

    fn remove(&mut self, frames: &mut Frames, slot: u32) {
        let queue = if frames.is_main(slot) { &mut self.often } else { &mut self.once };
        queue.remove(frames, slot);
    }

    fn evict(&mut self, frames: &mut Frames, slot: u32) {
        let list = if frames.is_main(slot) { List::Often } else { List::Once };
        self.remove(frames, slot);
        // T1 and B1 together have at most as many blocks as the cache.
        let once = self.once.len() + self.ghosts.len()[List::Once as usize] + u32::from(list == List::Once);
        self.ghosts.put(frames.block(slot).hash(), list, once > self.capacity);
    }

    fn victim(&mut self, frames: &mut Frames) -> Option<u32> {
        let (first, second) = match self.once_is_next(self.once.len()) {
            true => (&self.once, &self.often),
            false => (&self.often, &self.once),
        };
        first.oldest_idle(frames).or_else(|| second.oldest_idle(frames))
    }

    fn next_candidate(&self, frames: &Frames, after: Option<u32>) -> Option<u32> {
        match self.once_is_next(self.once.len()) {
            true => next_in(&[&self.once, &self.often], frames, after),
            false => next_in(&[&self.often, &self.once], frames, after),
        }
    }

    fn len(&self) -> u32 {
        self.once.len() + self.often.len()
    }

    fn extra_bytes(&self) -> usize {
        match &self.ghosts {
            Ghosts::Hashed(lists) => lists.prints.len() * size_of::<u16>(),
            Ghosts::Exact { lists, .. } => lists.iter().map(GhostQueue::bytes).sum(),
        }
    }
}

/// A list of ghosts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum List {
    /// B1: was evicted from T1.
    Once = 0,
    /// B2: was evicted from T2.
    Often = 1,
}

/// Both lists of ghosts.
enum Ghosts {
    Hashed(Hashed),
    /// B1 and B2, and how many ghosts both have at most.
    Exact {
        lists: [GhostQueue; 2],
        capacity: usize,
    },
}

impl Ghosts {
    fn new(capacity: u32, kind: GhostKind) -> Self {
        match kind {
            GhostKind::Hashed => Self::Hashed(Hashed::new(capacity)),
            GhostKind::Exact => Self::Exact { lists: Default::default(), capacity: capacity as usize },
        }
    }

    /// Ghosts in each list.
    fn len(&self) -> [u32; 2] {
        match self {
            Self::Hashed(hashed) => hashed.len,
            Self::Exact { lists: [once, often], .. } => [once.len() as u32, often.len() as u32],
        }
    }

    /// The list that a block is in.
    fn find(&mut self, hash: u64) -> Option<List> {
        [List::Once, List::Often].into_iter().find(|&list| match self {
            Self::Hashed(hashed) => hashed.has(hash, list),
            Self::Exact { lists, .. } => lists[list as usize].contains(hash),
        })
    }

    /// Forgets a block of a list.
    fn forget(&mut self, hash: u64, list: List) {
        match self {
            Self::Hashed(hashed) => hashed.forget(hash, list),
            Self::Exact { lists, .. } => _ = lists[list as usize].remove(hash),
        }
    }

    /// Adds a block to a list, at the cost of the oldest of B1 when that is too long, else of B2 when both lists
    /// together are.
    fn put(&mut self, hash: u64, list: List, shorten_once: bool) {
        let (lists, capacity) = match self {
            Self::Hashed(hashed) => return hashed.put(hash, list, shorten_once),
            Self::Exact { lists, capacity } => (lists, *capacity),
        };
        let [once, often] = lists;
        let shortened = shorten_once && once.pop_oldest();
        if shorten_once && !shortened && list == List::Once {
            return;
        }
        if !shortened && once.len() + often.len() >= capacity && !often.pop_oldest() {
            once.pop_oldest();
        }
        lists[list as usize].push(hash);
    }
}

/// 15-bit fingerprints and a bit for the list, in sets, the latest first. There are more
/// places than ghosts, by an eighth, for some sets have more ghosts than others. A false match (1 in 500) merely
/// counts a block as used before.
struct Hashed {
    prints: Vec<u16>,
    /// Places in a set.
    ways: usize,
    /// Ghosts in each list.
    len: [u32; 2],
    /// Ghosts in both lists at most.
    capacity: u32,
}

/// Ghosts in a set at most, on average.
const WAYS: usize = 64;

impl Hashed {
    fn new(capacity: u32) -> Self {
        let ghosts = (capacity as usize).max(1);
        let sets = ghosts.div_ceil(WAYS);
        let ways = ghosts.div_ceil(sets);
        let ways = if sets == 1 { ways } else { ways + ways / 8 };
        Self { prints: vec![0; sets * ways], ways, len: [0; 2], capacity }
    }

    fn has(&mut self, hash: u64, list: List) -> bool {
        let (set, print) = self.set(hash, list);
        set.contains(&print)
    }

    fn forget(&mut self, hash: u64, list: List) {
        let (set, print) = self.set(hash, list);
        if let Some(at) = set.iter().position(|&p| p == print) {
            self.clear(hash, at);
        }
    }

    /// The oldest of the block's set is forgotten for it.
    fn put(&mut self, hash: u64, list: List, shorten_once: bool) {
        if shorten_once && self.len[List::Once as usize] == 0 && list == List::Once {
            return;
        }
        let full = self.len[0] + self.len[1] >= self.capacity;
        let (set, print) = self.set(hash, list);
        let last_of = |list: List| set.iter().rposition(|&p| p != 0 && p & 1 == list as u16);
        let leaving = if shorten_once { last_of(List::Once) } else { None };
        let leaving = leaving.or_else(|| {
            let full = full || set[set.len() - 1] != 0;
            if full { last_of(List::Often).or(last_of(List::Once)) } else { None }
        });
        if let Some(at) = leaving {
            self.clear(hash, at);
        }
        let (set, _) = self.set(hash, list);
        set.rotate_right(1);
        set[0] = print;
        self.len[list as usize] += 1;
    }

    fn clear(&mut self, hash: u64, at: usize) {
        let (set, _) = self.set(hash, List::Once);
        let (list, last) = (set[at] & 1, set.len() - 1);
        set[at..].rotate_left(1);
        set[last] = 0;
        self.len[usize::from(list)] -= 1;
    }

    /// A block's set, and its fingerprint in a list.
    fn set(&mut self, hash: u64, list: List) -> (&mut [u16], u16) {
        let sets = self.prints.len() / self.ways;
        let set = (hash >> 16) as usize % sets;
        (&mut self.prints[set * self.ways..][..self.ways], (hash as u16 & !1).max(2) | list as u16)
    }
}
