//! What finds the best size of a part of the cache while it works: hill climbing (Einziger et al., *Adaptive software cache management*,
//! Middleware 2018, section 4.2, with the constants of its authors' cache).

/// The size goes on in a direction as long as more requests hit than before, and turns when fewer do. Its steps get smaller, until
/// the hits change so much that something else must be the matter.
pub(super) struct Climber {
    /// The next step, in units of 2^-16 blocks.
    step: i64,
    first_step: i64,
    /// The size is at most so many blocks.
    most: u32,
    /// Uses after which the size changes.
    sample: u64,
    uses: u64,
    hits: u64,
    /// Hits of the sample before.
    hits_before: u64,
}

impl Climber {
    /// For a cache of so many blocks.
    pub(super) fn new(capacity: u32) -> Self {
        let first_step = (i64::from(capacity) << 16) / 16;
        Self {
            step: first_step,
            first_step,
            most: (u64::from(capacity) * 4 / 5) as u32,
            sample: 10 * u64::from(capacity.max(1)),
            uses: 0,
            hits: 0,
            hits_before: 0,
        }
    }

    /// A block was used, and was there or not: the size from now on, if it changes.
    pub(super) fn used(&mut self, hit: bool, size: u32) -> Option<u32> {
        self.uses += 1;
        self.hits += u64::from(hit);
        if self.uses < self.sample {
            return None;
        }
        if self.hits < self.hits_before {
            self.step = -self.step;
        }
        let change = self.hits.abs_diff(self.hits_before);
        let size = i64::from(size) + (self.step >> 16);
        // The hits of a twentieth of all uses: begin anew, in the direction that was found.
        self.step = match change * 20 >= self.sample {
            true => self.first_step * self.step.signum(),
            false => self.step - self.step / 50,
        };
        (self.hits_before, self.hits, self.uses) = (self.hits, 0, 0);
        Some(size.clamp(1, i64::from(self.most.max(1))) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each size has its share of hits, in thousandths; where it ends after so many samples.
    fn climbs(hits: impl Fn(u32) -> u32, samples: usize) -> u32 {
        let mut climber = Climber::new(1000);
        let mut size = 10;
        for _ in 0..samples {
            let hits = u64::from(hits(size)) * 10;
            size = (0..10_000).find_map(|use_| climber.used(use_ < hits, size)).unwrap();
        }
        size
    }

    #[test]
    fn it_goes_where_more_requests_hit_and_stays_there() {
        assert!((350..=450).contains(&climbs(|size| 500 - size.abs_diff(400) / 4, 200)));
        assert!(climbs(|size| 500 - size / 4, 200) < 60);
        assert_eq!(climbs(|size| size / 2, 200), 800, "never all of the cache");
    }

    #[test]
    fn a_cache_of_one_block_has_a_window_of_one() {
        let mut climber = Climber::new(1);
        assert_eq!((0..10).find_map(|_| climber.used(true, 1)), Some(1));
    }
}
