//! Which block leaves when room is needed. Where it goes is the policy's business (see [`crate::policy`]). What a
//! replacement is, [`cards_core::replacement`] says.
//!
//! To add a replacement: one file here, one variant and one line in [`Replacement::ALL`],
//! [`Replacement::entry`] and `build`.

mod arc;
mod climber;
pub(crate) mod ghosts;
mod lirs;
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

use cards_core::replacement::{Lru, Replacer};

pub use ghosts::GhostKind;
pub use unknown::UnknownReplacement;

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
    /// ARC (Megiddo and Modha, FAST 2003) with hashed ghosts: adapts itself, seldom worse than LRU.
    Arc,
    /// W-TinyLFU (Einziger et al., ACM TOS 2017) with a window of 1 %: for what is popular for long.
    WTinyLfu,
    /// W-TinyLFU with a window of 10 %.
    WTinyLfu10,
    /// W-TinyLFU whose window adapts itself (Einziger et al., Middleware 2018).
    WTinyLfuAdaptive,
    /// LIRS (Jiang and Zhang, SIGMETRICS 2002): for comparisons, for what it remembers takes memory.
    Lirs,
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
    /// Its parameters. None can be set at a node: variants worth having have names of their own.
    pub parameters: &'static [Parameter],
    /// When not to use it.
    pub when_not: &'static str,
}

const LRU: Entry = Entry {
    name: "lru",
    title: "least recently used",
    paper: "R. L. Mattson, J. Gecsei, D. R. Slutz, I. L. Traiger: Evaluation techniques for storage hierarchies, \
            IBM Systems Journal 9(2), 1970",
    parameters: &[],
    when_not: "blocks are read in scans or loops longer than the cache: each is gone before it is wanted again",
};

/// How evicted blocks are remembered: a choice of the simulator's.
const GHOSTS: Parameter = Parameter {
    name: "ghosts",
    default: "hashed",
    meaning: "how they are remembered: hashed (fingerprints in sets) or, in the simulator only, exact (queues, as published)",
};

impl Replacement {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Lru,
        Self::Sieve,
        Self::S3Fifo,
        Self::TwoQ,
        Self::Arc,
        Self::WTinyLfu,
        Self::WTinyLfu10,
        Self::WTinyLfuAdaptive,
        Self::Lirs,
    ];

    /// What is known of it.
    #[must_use]
    pub const fn entry(self) -> &'static Entry {
        match self {
            Self::Lru => &LRU,
            Self::Sieve => &sieve::ENTRY,
            Self::S3Fifo => &s3_fifo::ENTRY,
            Self::TwoQ => &two_q::ENTRY,
            Self::Arc => &arc::ENTRY,
            Self::WTinyLfu => &w_tiny_lfu::ENTRY_1,
            Self::WTinyLfu10 => &w_tiny_lfu::ENTRY_10,
            Self::WTinyLfuAdaptive => &w_tiny_lfu::ENTRY_ADAPTIVE,
            Self::Lirs => &lirs::ENTRY,
        }
    }

    /// Its name in configurations.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.entry().name
    }

    /// Whether it remembers evicted blocks, so that [`GhostKind`] makes a difference.
    #[must_use]
    pub const fn has_ghosts(self) -> bool {
        matches!(self, Self::S3Fifo | Self::TwoQ | Self::Arc)
    }

    /// The replacement for a cache of so many blocks, as nodes have it.
    #[must_use]
    pub fn build(self, capacity: u32) -> Box<dyn Replacer> {
        self.build_with(capacity, GhostKind::Hashed)
    }

    /// The replacement for a cache of so many blocks.
    #[must_use]
    pub fn build_with(self, capacity: u32, ghosts: GhostKind) -> Box<dyn Replacer> {
        match self {
            Self::Lru => Box::new(Lru::default()),
            Self::Sieve => Box::new(sieve::Sieve::new(capacity)),
            Self::S3Fifo => Box::new(s3_fifo::S3Fifo::new(capacity, ghosts)),
            Self::TwoQ => Box::new(two_q::TwoQ::new(capacity, ghosts)),
            Self::Arc => Box::new(arc::Arc::new(capacity, ghosts)),
            Self::WTinyLfu => Box::new(w_tiny_lfu::WTinyLfu::new(capacity, 1)),
            Self::WTinyLfu10 => Box::new(w_tiny_lfu::WTinyLfu::new(capacity, 10)),
            Self::WTinyLfuAdaptive => Box::new(w_tiny_lfu::WTinyLfu::adaptive(capacity)),
            Self::Lirs => Box::new(lirs::Lirs::new(capacity)),
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

#[cfg(test)]
mod models;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;
