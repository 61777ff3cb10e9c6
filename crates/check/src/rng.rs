//! SplitMix64: small, seeded, the same everywhere. One stream for each concern, so that a change in one
//! does not reshuffle the others.

use cards_core::{Duration, mix};

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Rng {
    state: u64,
}

impl Rng {
    /// The stream number `stream` of `seed`.
    #[must_use]
    pub fn new(seed: u64, stream: u64) -> Self {
        Self { state: mix(seed ^ mix(stream)) }
    }

    /// Any number.
    pub fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// A number below `bound`, which is not zero. (The bias is below 2^-32 for the bounds used here.)
    pub fn below(&mut self, bound: u64) -> u64 {
        self.draw() % bound
    }

    /// A number from `low` to `high`, both included.
    pub fn range(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// True with a probability of `per_mille` in 1000.
    pub fn chance(&mut self, per_mille: u32) -> bool {
        self.below(1000) < u64::from(per_mille)
    }

    /// One of `items`, which are not empty.
    pub fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len() as u64) as usize]
    }

    /// A duration below `bound`, mostly much shorter: the product of two uniform draws.
    pub fn skewed(&mut self, bound: Duration) -> Duration {
        let bound = bound.as_nanos() as u64;
        let fraction = (self.below(1 << 16) * self.below(1 << 16)) >> 16;
        Duration::from_nanos(((u128::from(bound) * u128::from(fraction)) >> 16) as u64)
    }
}
