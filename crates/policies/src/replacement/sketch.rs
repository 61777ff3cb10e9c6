//! How often a block was used lately, roughly: a count-min sketch that ages.

use alloc::vec;
use alloc::vec::Vec;

/// Counters of 4 bits, 128 to a group of 64 bytes. A block has one group and in each quarter of it one
/// counter; its count is the least of the four. Only the least are incremented, so that blocks
/// which share counters disturb each other less. All counters are halved once in a while, and so is the number of uses
/// counted, as in the paper: the next halving comes after half as many.
pub(super) struct Sketch {
    groups: Vec<[u64; 8]>,
    additions: u64,
    /// Additions after which all counters are halved.
    sample: u64,
}

/// Where a block's counters are: word and bit.
type Places = [(usize, u32); 4];

impl Sketch {
    pub(super) fn new(counters: u64, sample: u64) -> Self {
        let groups = counters.div_ceil(128).max(1) as usize;
        Self { groups: vec![[0; 8]; groups], additions: 0, sample: sample.max(1) }
    }

    /// Counts one use.
    pub(super) fn add(&mut self, hash: u64) {
        let (group, places) = self.places(hash);
        let words = &mut self.groups[group];
        let least = least(words, places);
        if least < 15 {
            for (word, bit) in places {
                if words[word] >> bit & 15 == least {
                    words[word] += 1 << bit;
                }
            }
        }
        self.additions += 1;
        if self.additions >= self.sample {
            self.additions /= 2;
            self.groups.iter_mut().flatten().for_each(|word| *word = *word >> 1 & 0x7777_7777_7777_7777);
        }
    }

    /// Uses counted, at most 15; rather too many than too few.
    pub(super) fn count(&self, hash: u64) -> u64 {
        let (group, places) = self.places(hash);
        least(&self.groups[group], places)
    }

    pub(super) fn bytes(&self) -> usize {
        self.groups.len() * size_of::<[u64; 8]>()
    }

    fn places(&self, hash: u64) -> (usize, Places) {
        // The group by the upper bits, the counters by 5 of the lower ones each.
        let group = ((u128::from(hash) * self.groups.len() as u128) >> 64) as usize;
        let place = |quarter: usize| {
            let at = (hash >> (5 * quarter)) as u32 & 31;
            (2 * quarter + (at >> 4) as usize, 4 * (at & 15))
        };
        (group, [place(0), place(1), place(2), place(3)])
    }
}

fn least(words: &[u64; 8], places: Places) -> u64 {
    places.into_iter().fold(15, |least, (word, bit)| least.min(words[word] >> bit & 15))
}

#[cfg(test)]
mod tests {
    use cards_core::mix;

    use super::*;

    #[test]
    fn counts_are_never_too_low_and_mostly_right() {
        let mut sketch = Sketch::new(16 * 1000, u64::MAX);
        for block in 0..1000u64 {
            (0..=block % 20).for_each(|_| sketch.add(mix(block)));
        }
        let counts: Vec<(u64, u64)> =
            (0..1000).map(|block| ((block % 20 + 1).min(15), sketch.count(mix(block)))).collect();
        assert!(counts.iter().all(|(true_count, count)| count >= true_count));
        assert!(counts.iter().filter(|(true_count, count)| count == true_count).count() > 900);
    }

    #[test]
    fn counts_are_halved_after_the_sample() {
        let mut sketch = Sketch::new(128, 9);
        (0..8).for_each(|_| sketch.add(mix(1)));
        assert_eq!(sketch.count(mix(1)), 8);
        sketch.add(mix(1));
        assert_eq!(sketch.count(mix(1)), 4);
    }

    /// The paper halves the number of uses with the counters (section 3.3: `W/2`).
    #[test]
    fn counts_are_halved_again_after_half_a_sample() {
        let mut sketch = Sketch::new(128, 10);
        (0..10).for_each(|_| sketch.add(mix(1)));
        assert_eq!(sketch.count(mix(1)), 5);
        (0..4).for_each(|_| sketch.add(mix(1)));
        assert_eq!(sketch.count(mix(1)), 9);
        sketch.add(mix(1));
        assert_eq!(sketch.count(mix(1)), 5);
    }
}
