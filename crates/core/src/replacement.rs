//! Which block leaves when room is needed. Where it goes is the policy's business (see [`crate::policy`]).

mod lru;
mod queue;
mod s3_fifo;
mod sieve;

use alloc::boxed::Box;
use core::fmt;
use core::str::FromStr;

use crate::cache::Frames;

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
}

impl Replacement {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Lru, Self::Sieve, Self::S3Fifo];

    /// Its name in configurations.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lru => "lru",
            Self::Sieve => "sieve",
            Self::S3Fifo => "s3-fifo",
        }
    }

    pub(crate) fn build(self, capacity: u32) -> Box<dyn Replacer> {
        match self {
            Self::Lru => Box::new(lru::Lru::default()),
            Self::Sieve => Box::new(sieve::Sieve::default()),
            Self::S3Fifo => Box::new(s3_fifo::S3Fifo::new(capacity)),
        }
    }
}

impl fmt::Display for Replacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Replacement {
    type Err = ();

    fn from_str(s: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|r| r.name() == s).ok_or(())
    }
}

/// A replacement at work on a cache's frames. Each resident frame is inserted once and removed once;
/// hits may happen between.
pub(crate) trait Replacer: Send {
    /// A block has become resident.
    fn insert(&mut self, frames: &mut Frames, slot: u32);

    /// A resident block was used.
    fn hit(&mut self, frames: &mut Frames, slot: u32);

    /// A resident block leaves, as victim or otherwise.
    fn remove(&mut self, frames: &mut Frames, slot: u32);

    /// The block to evict next, among those that are idle. It stays until it is removed.
    fn victim(&mut self, frames: &mut Frames) -> Option<u32>;

    /// Where a search for old blocks may start; `newer` leads on.
    fn oldest(&self) -> Option<u32>;

    /// Blocks it knows.
    fn len(&self) -> u32;

    /// Bytes of memory besides the frames.
    fn extra_bytes(&self) -> usize {
        0
    }
}
