//! Counts over positions: adding one and summing a prefix both take logarithmic time (P. Fenwick, "A new data
//! structure for cumulative frequency tables", 1994).

/// Positions 0 to `len - 1`, each set or not.
#[derive(Clone, Debug)]
pub struct Fenwick {
    /// Entry i (from 1) is how many of the positions i - lowest bit of i to i - 1 are set.
    sums: Vec<u32>,
}

impl Fenwick {
    /// The first `set` of `len` positions are set.
    #[must_use]
    pub fn new(len: usize, set: usize) -> Self {
        let ones = |i: usize| i.min(set);
        let sums = (0..=len).map(|i| (ones(i) - ones(i - (i & i.wrapping_neg()))) as u32).collect();
        Self { sums }
    }

    /// How many positions there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.sums.len() - 1
    }

    /// Whether there is no position.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sets a position that is not set.
    pub fn set(&mut self, position: usize) {
        self.update(position, |sum| sum + 1);
    }

    /// Clears a position that is set.
    pub fn clear(&mut self, position: usize) {
        self.update(position, |sum| sum - 1);
    }

    fn update(&mut self, position: usize, change: impl Fn(u32) -> u32) {
        let mut i = position + 1;
        while let Some(sum) = self.sums.get_mut(i) {
            *sum = change(*sum);
            i += i & i.wrapping_neg();
        }
    }

    /// How many of the positions up to and including `position`, one of them, are set.
    #[must_use]
    pub fn up_to(&self, position: usize) -> u32 {
        let mut i = position + 1;
        let mut total = 0;
        while i > 0 {
            total += self.sums[i];
            i &= i - 1;
        }
        total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_summed() {
        let mut counts = Fenwick::new(10, 3);
        counts.set(7);
        counts.clear(1);
        let sums: Vec<u32> = (0..10).map(|i| counts.up_to(i)).collect();
        assert_eq!(sums, [1, 1, 2, 2, 2, 2, 2, 3, 3, 3]);
        assert_eq!((counts.len(), counts.is_empty()), (10, false));
    }
}
