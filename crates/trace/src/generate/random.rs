//! Seeded random numbers and the distributions that workloads are made of.
//!
//! xoshiro256++ (Blackman and Vigna), seeded by SplitMix64. One seed gives one sequence, for ever: traces that
//! people compare must not depend on the version of a library.

/// Scrambles a number (the finalizer of SplitMix64): equal in, equal out, else as good as random.
pub(crate) const fn scramble(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A fraction in `[0, 1)` that belongs to a number.
pub(crate) fn fraction_of(number: u64) -> f64 {
    to_unit(scramble(number))
}

fn to_unit(bits: u64) -> f64 {
    // 53 bits: what a double holds exactly.
    (bits >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub(crate) struct Random {
    state: [u64; 4],
}

impl Random {
    /// The stream of a seed.
    pub(crate) fn new(seed: u64) -> Self {
        let mut state = [0; 4];
        let mut next = seed;
        for word in &mut state {
            *word = scramble(next);
            next = next.wrapping_add(0x9e37_79b9_7f4a_7c15);
        }
        Self { state }
    }

    /// One of the many independent streams of a seed, say of one process.
    pub(crate) fn stream(seed: u64, number: u64) -> Self {
        Self::new(scramble(seed) ^ scramble(number.wrapping_add(1)))
    }

    /// Any number.
    pub(crate) fn any(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let (third, fourth) = (c ^ a, d ^ b);
        self.state = [a ^ fourth, b ^ third, third ^ (b << 17), fourth.rotate_left(45)];
        a.wrapping_add(d).rotate_left(23).wrapping_add(a)
    }

    /// A fraction in `[0, 1)`.
    pub(crate) fn unit(&mut self) -> f64 {
        to_unit(self.any())
    }

    /// A number below `bound`; 0 if that is 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        // Lemire's multiplication; its bias is below 2^-32 for every bound that a workload has.
        ((u128::from(self.any()) * u128::from(bound)) >> 64) as u64
    }

    /// True with this probability.
    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// Exponentially distributed: the gaps between independent events.
    pub(crate) fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }

    /// Exponentially distributed, in whole numbers (nanoseconds).
    pub(crate) fn gap(&mut self, mean: u64) -> u64 {
        self.exponential(mean as f64) as u64
    }

    /// Lognormally distributed: `sigma` is the standard deviation of the logarithm.
    pub(crate) fn lognormal(&mut self, median: f64, sigma: f64) -> f64 {
        // Box and Muller; the second value is thrown away to keep one call one draw.
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        let normal = radius * (std::f64::consts::TAU * self.unit()).cos();
        median * (sigma * normal).exp()
    }

    /// Pareto distributed from `least`, cut off at `most`.
    pub(crate) fn pareto(&mut self, least: f64, most: f64, alpha: f64) -> f64 {
        let cut = 1.0 - (least / most).powf(alpha);
        least * (1.0 - cut * self.unit()).powf(-1.0 / alpha)
    }
}

/// Ranks with Zipf's probabilities: rank k (from 0) in proportion to `1 / (k + 1)^exponent`.
///
/// Rejection-inversion (Hörmann and Derflinger, "Rejection-inversion to generate variates from monotone discrete
/// distributions", 1996): no table, so that a billion ranks cost no memory.
#[derive(Clone, Debug)]
pub(crate) struct Zipf {
    ranks: u64,
    exponent: f64,
    low: f64,
    high: f64,
    accept: f64,
}

impl Zipf {
    /// Over this many ranks (at least one).
    pub(crate) fn new(ranks: u64, exponent: f64) -> Self {
        let ranks = ranks.max(1);
        Self {
            ranks,
            exponent,
            low: integral(1.5, exponent) - 1.0,
            high: integral(ranks as f64 + 0.5, exponent),
            accept: 2.0 - inverse(integral(2.5, exponent) - 2f64.powf(-exponent), exponent),
        }
    }

    /// Draws a rank, from 0.
    pub(crate) fn draw(&self, random: &mut Random) -> u64 {
        loop {
            let u = self.high + random.unit() * (self.low - self.high);
            let x = inverse(u, self.exponent);
            let rank = (x + 0.5).floor().clamp(1.0, self.ranks as f64);
            if rank - x <= self.accept || u >= integral(rank + 0.5, self.exponent) - rank.powf(-self.exponent)
            {
                return rank as u64 - 1;
            }
        }
    }
}

/// The integral of `x^-exponent`, up to a constant.
fn integral(x: f64, exponent: f64) -> f64 {
    let power = 1.0 - exponent;
    if power.abs() > NEAR_ONE {
        return (x.powf(power) - 1.0) / power;
    }
    // Close to exponent 1 the difference above would cancel; the series does not.
    let ln = x.ln();
    ln + power * ln * ln / 2.0
}

fn inverse(area: f64, exponent: f64) -> f64 {
    let power = 1.0 - exponent;
    if power.abs() > NEAR_ONE {
        return (area * power + 1.0).max(0.0).powf(power.recip());
    }
    (area - power * area * area / 2.0).exp()
}

/// Where the two formulas are equally exact.
const NEAR_ONE: f64 = 1e-6;

/// A random order of `0..count` that takes no memory: a Feistel network over the next power of two, walked until
/// it comes back into the range (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Permutation {
    count: u64,
    /// Bits of the right half; the left one has as many or one less.
    right: u32,
    left: u32,
    key: u64,
}

impl Permutation {
    /// One of the orders, chosen by the key.
    pub(crate) fn new(count: u64, key: u64) -> Self {
        let bits = (u64::BITS - count.saturating_sub(1).leading_zeros()).max(2);
        Self { count, right: bits.div_ceil(2), left: bits / 2, key: scramble(key) }
    }

    /// Where `index` goes. An index beyond the range stays where it is.
    pub(crate) fn at(&self, index: u64) -> u64 {
        if index >= self.count {
            return index;
        }
        let mut at = index;
        loop {
            at = self.shuffle(at);
            // The walk is a cycle through `index` itself, which is in the range: it ends.
            if at < self.count {
                return at;
            }
        }
    }

    fn shuffle(&self, value: u64) -> u64 {
        let (mut left, mut right) = (value >> self.right, value & ((1 << self.right) - 1));
        let mut key = self.key;
        for _ in 0..4 {
            left ^= top_bits(right ^ key, self.left);
            key = key.rotate_left(23);
            right ^= top_bits(left ^ key, self.right);
            key = key.rotate_left(18);
        }
        left << self.right | right
    }
}

/// Multiplication carries every bit to the top ones; these are taken.
const fn top_bits(value: u64, bits: u32) -> u64 {
    let mixed = (value ^ (value >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> (u64::BITS - bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: u64 = 200_000;

    fn mean(draw: impl FnMut(u64) -> f64) -> f64 {
        (0..DRAWS).map(draw).sum::<f64>() / DRAWS as f64
    }

    #[test]
    fn the_generator_gives_the_published_sequence() {
        // The first outputs of xoshiro256++ from the state 1, 2, 3, 4.
        let mut random = Random { state: [1, 2, 3, 4] };
        let first = [random.any(), random.any(), random.any(), random.any()];
        assert_eq!(first, [41_943_041, 58_720_359, 3_588_806_011_781_223, 3_591_011_842_654_386]);
    }

    #[test]
    fn the_samplers_have_the_right_means() {
        let mut random = Random::new(1);
        assert!((mean(|_| random.unit()) - 0.5).abs() < 0.005);
        assert!((mean(|_| random.below(10) as f64) - 4.5).abs() < 0.05);
        assert!((mean(|_| random.exponential(3.0)) - 3.0).abs() < 0.05);
        let lognormal = mean(|_| random.lognormal(2.0, 0.5));
        assert!((lognormal - 2.0 * (0.125f64).exp()).abs() < 0.02, "{lognormal}");
        // Pareto with alpha 2, cut at 100 times the least: 2 (1 - 1/100) / (1 - 1/10000).
        let pareto = mean(|_| random.pareto(1.0, 100.0, 2.0));
        assert!((pareto - 1.98).abs() < 0.05, "{pareto}");
    }

    #[test]
    fn zipf_draws_each_rank_as_often_as_its_formula_says() {
        for exponent in [0.0, 0.5, 0.9, 1.0, 1.3, 2.5] {
            for ranks in [1, 2, 10, 1000] {
                let zipf = Zipf::new(ranks, exponent);
                let mut random = Random::new(7);
                let mut counts = vec![0u64; ranks as usize];
                for _ in 0..DRAWS / 2 {
                    counts[zipf.draw(&mut random) as usize] += 1;
                }
                let weight = |rank: usize| (rank as f64 + 1.0).powf(-exponent);
                let total: f64 = (0..ranks as usize).map(weight).sum();
                for (rank, &count) in counts.iter().enumerate().take(3) {
                    let expected = weight(rank) / total * (DRAWS / 2) as f64;
                    let tolerance = 5.0 * expected.sqrt() + 1.0;
                    assert!(
                        (count as f64 - expected).abs() < tolerance,
                        "{exponent} {ranks} {rank}: {count}"
                    );
                }
            }
        }
    }

    #[test]
    fn zipf_over_a_huge_range_stays_in_it() {
        let zipf = Zipf::new(u64::MAX >> 12, 0.9);
        let mut random = Random::new(3);
        assert!((0..1000).all(|_| zipf.draw(&mut random) < u64::MAX >> 12));
    }

    #[test]
    fn a_permutation_hits_every_place_once_and_depends_on_its_key() {
        for count in [1, 2, 3, 17, 64, 1000] {
            let order = |key| {
                let permutation = Permutation::new(count, key);
                (0..count).map(|index| permutation.at(index)).collect::<Vec<_>>()
            };
            let mut sorted = order(5);
            sorted.sort_unstable();
            assert_eq!(sorted, (0..count).collect::<Vec<_>>());
            assert!(count < 17 || order(5) != order(6));
        }
        assert_eq!(Permutation::new(0, 1).at(3), 3);
    }

    #[test]
    fn a_permutation_leaves_no_trace_of_the_order() {
        let permutation = Permutation::new(10_000, 9);
        let order: Vec<u64> = (0..10_000).map(|index| permutation.at(index)).collect();
        let forward = order.windows(2).filter(|pair| pair[0] < pair[1]).count();
        let near = order.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) < 100).count();
        // By chance: a half, and 2 % (neighbours within 100 of 10,000, on both sides).
        assert!((4800..5200).contains(&forward) && (140..260).contains(&near), "{forward} {near}");
        // Each tenth of the places gets a tenth of any tenth.
        let tenth = order.iter().take(1000).filter(|&&at| at < 1000).count();
        assert!((60..140).contains(&tenth), "{tenth}");
    }
}
