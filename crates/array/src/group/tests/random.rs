//! Random numbers of a seed (SplitMix64).

#[derive(Clone)]
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub(super) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low)
    }

    /// True so many times in a thousand.
    pub(super) fn chance(&mut self, permille: u64) -> bool {
        self.below(1000) < permille
    }
}
