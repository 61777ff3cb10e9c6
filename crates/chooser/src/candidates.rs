//! The policies that are tried, and the blocks that are looked at.

use cards_advise::{Rate, place};
use cards_core::{BlockId, mix};
use cards_policies::policy::START;

/// Asks no other node.
pub(crate) const ALONE: &str = "rd";

/// Has a copy at each reader. Tried only where the disk is fast: on slow ones its shadow looks better than the policy is.
pub(crate) const LOCAL: &str = "local";

/// Policies that are tried: each is the fastest for some load, and no other one is nearly as fast there.
pub const CANDIDATES: [&str; 9] = [
    START,
    "hscc homes=run ask=measured",
    ALONE,
    "greedy",
    "single",
    "single admit=1",
    "nchance",
    "hscc homes=run",
    LOCAL,
];

/// Blocks that a shadow's smallest cache has at least, if it has them.
const SCALED: u64 = 128;
/// One block in so many is looked at, at least.
const SPARSEST: u64 = 64;

/// How many of the blocks are looked at, if the smallest cache has room for so many.
#[must_use]
pub fn rate(cache_blocks: u64) -> Rate {
    let mut rate = Rate::ALL;
    while rate.weight() < SPARSEST && cache_blocks / rate.half().weight() >= SCALED {
        rate = rate.half();
    }
    rate
}

/// Whether a block is looked at. Salts give different samples; zero is the nodes' own.
#[must_use]
pub fn takes(rate: Rate, block: BlockId, salt: u64) -> bool {
    let place = place(block);
    let place = if salt == 0 { place } else { mix(place ^ mix(salt)) };
    place < rate.limit()
}
