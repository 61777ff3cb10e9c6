//! Which blocks are in a sample.

use cards_core::BlockId;
use serde::{Deserialize, Serialize};

/// One block in 2^n is in the sample, for n from 0 to [`Rate::SHIFT_MAX`].
///
/// The blocks of a rate are among those of every higher one, so a sample can be made smaller afterwards, and samples
/// that several nodes took of one volume fit together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct Rate(u32);

/// A rate that is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoRate(u32);

impl std::fmt::Display for NoRate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "one block in 2^{}: at most 2^{} make sense", self.0, Rate::SHIFT_MAX)
    }
}

impl TryFrom<u32> for Rate {
    type Error = NoRate;

    fn try_from(shift: u32) -> Result<Self, NoRate> {
        if shift > Self::SHIFT_MAX { Err(NoRate(shift)) } else { Ok(Self(shift)) }
    }
}

impl From<Rate> for u32 {
    fn from(rate: Rate) -> Self {
        rate.0
    }
}

impl Rate {
    /// The largest n: a volume has at most 2^32 blocks.
    pub const SHIFT_MAX: u32 = 32;
    /// Every block.
    pub const ALL: Self = Self(0);

    /// The highest rate at which a cache of `cache_blocks` is scaled to less than twice `scaled_blocks`.
    #[must_use]
    pub const fn scaling(cache_blocks: u64, scaled_blocks: u64) -> Self {
        let mut shift = 0;
        while shift < Self::SHIFT_MAX && cache_blocks >> shift >= scaled_blocks.saturating_mul(2) {
            shift += 1;
        }
        Self(shift)
    }

    /// Half as many blocks.
    #[must_use]
    pub const fn half(self) -> Self {
        Self(if self.0 < Self::SHIFT_MAX { self.0 + 1 } else { self.0 })
    }

    /// Blocks of the volume for which one of the sample stands.
    #[must_use]
    pub const fn weight(self) -> u64 {
        1 << self.0
    }

    /// A block is in the sample if its [`place`] is below.
    #[must_use]
    pub const fn limit(self) -> u64 {
        u64::MAX >> self.0
    }

    /// Whether a block is in the sample.
    #[must_use]
    pub fn takes(self, block: BlockId) -> bool {
        place(block) < self.limit()
    }
}

/// Other bits than those by which blocks find their homes and their places in tables.
const SALT: u64 = 0xd6e8_feb8_6659_fd93;

/// Where a block is in the space of all hashes: the same at every node.
#[inline]
#[must_use]
pub fn place(block: BlockId) -> u64 {
    cards_core::mix((u64::from(block.volume.0) << 32 | u64::from(block.index)) ^ SALT)
}

#[cfg(test)]
mod tests {
    use cards_core::PgId;

    use super::*;

    #[test]
    fn a_cache_is_scaled_to_a_size_that_tells_something() {
        let scaled = |cache: u64| cache / Rate::scaling(cache, 4096).weight();
        assert_eq!([1, 4096, 8191, 8192, 262_144].map(scaled), [1, 4096, 8191, 4096, 4096]);
        assert!((4096..8192).contains(&scaled(123_456_789)));
    }

    #[test]
    fn a_rate_takes_its_share_and_only_from_those_of_higher_rates() {
        let (four, eight) = (Rate(2), Rate(3));
        let blocks = (0..100_000).map(|index| BlockId::new(PgId(3), index));
        let taken: Vec<BlockId> = blocks.clone().filter(|&block| four.takes(block)).collect();
        assert!((24_500..25_500).contains(&taken.len()), "{}", taken.len());
        assert!(blocks.clone().filter(|&block| eight.takes(block)).all(|block| four.takes(block)));
        assert!(blocks.into_iter().all(|block| Rate::ALL.takes(block)));
    }

    #[test]
    fn what_is_no_rate_is_refused() {
        assert_eq!(serde_json::from_str::<Rate>("5").unwrap(), Rate(5));
        assert!(serde_json::from_str::<Rate>("33").unwrap_err().to_string().contains("2^33"));
    }
}
