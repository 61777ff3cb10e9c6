//! Which block leaves when room is needed. Where it goes is the policy's business (see [`crate::policy`]).
//!
//! To add a replacement: one file here, one variant and one line in [`Replacement::ALL`],
//! [`Replacement::entry`] and `build`.

mod arc;
pub(crate) mod ghosts;
mod lru;
mod queue;
mod s3_fifo;
mod sieve;
mod sketch;
mod two_q;
mod unknown;
mod w_tiny_lfu;

use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;
use core::str::FromStr;

pub use unknown::UnknownReplacement;

use crate::cache::Frames;
use crate::policy::Parameter;

/// The replacements on offer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Replacement {
    /// Least recently used: what the papers assume.
    Lru,
    /// SIEVE (Zhang et al., NSDI 2024): cheap hits; not scan resistant, so rarely right for blocks.
    Sieve,
    /// S3-FIFO (Yang et al., SOSP 2023): scan resistant; the default.
    #[default]
    S3Fifo,
    /// 2Q (Johnson and Shasha, VLDB 1994): scan resistant.
    TwoQ,
    /// ARC (Megiddo and Modha, FAST 2003): adapts itself, seldom worse than LRU.
    Arc,
    /// W-TinyLFU (Einziger et al., ACM TOS 2017) with a window of 1 %: for what is popular for long.
    WTinyLfu,
    /// W-TinyLFU with a window of 10 %.
    WTinyLfu10,
}

/// What is known of a replacement.
#[derive(Debug)]
pub struct Entry {
    /// Its name in configurations.
    pub name: &'static str,
    /// Its full name.
    pub title: &'static str,
    /// Where it was published.
    pub paper: &'static str,
    /// Its parameters. None can be set: variants worth having have names of their own.
    pub parameters: &'static [Parameter],
    /// When not to use it.
    pub when_not: &'static str,
}

impl Replacement {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Lru, Self::Sieve, Self::S3Fifo, Self::TwoQ, Self::Arc, Self::WTinyLfu, Self::WTinyLfu10];

    /// What is known of it.
    #[must_use]
    pub const fn entry(self) -> &'static Entry {
        match self {
            Self::Lru => &lru::ENTRY,
            Self::Sieve => &sieve::ENTRY,
            Self::S3Fifo => &s3_fifo::ENTRY,
            Self::TwoQ => &two_q::ENTRY,
            Self::Arc => &arc::ENTRY,
            Self::WTinyLfu => &w_tiny_lfu::ENTRY_1,
            Self::WTinyLfu10 => &w_tiny_lfu::ENTRY_10,
        }
    }

    /// Its name in configurations.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.entry().name
    }

    pub(crate) fn build(self, capacity: u32) -> Box<dyn Replacer> {
        match self {
            Self::Lru => Box::new(lru::Lru::default()),
            Self::Sieve => Box::new(sieve::Sieve::new(capacity)),
            Self::S3Fifo => Box::new(s3_fifo::S3Fifo::new(capacity)),
            Self::TwoQ => Box::new(two_q::TwoQ::new(capacity)),
            Self::Arc => Box::new(arc::Arc::new(capacity)),
            Self::WTinyLfu => Box::new(w_tiny_lfu::WTinyLfu::new(capacity, 1)),
            Self::WTinyLfu10 => Box::new(w_tiny_lfu::WTinyLfu::new(capacity, 10)),
        }
    }
}

impl fmt::Display for Replacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Replacement {
    type Err = UnknownReplacement;

    fn from_str(s: &str) -> Result<Self, UnknownReplacement> {
        let known = Self::ALL.into_iter().find(|r| r.name() == s);
        known.ok_or_else(|| UnknownReplacement { name: String::from(s) })
    }
}

/// A replacement at work on a cache's frames. Each resident frame is inserted once and leaves once, by
/// `remove` or `evict`; the rest may happen between. The cache may hold more than its capacity for a moment: a
/// block comes in first, then another one goes.
pub(crate) trait Replacer: Send {
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

    /// Blocks it knows.
    fn len(&self) -> u32;

    /// Bytes of memory besides the frames.
    fn extra_bytes(&self) -> usize {
        0
    }
}

#[cfg(test)]
mod models;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;
