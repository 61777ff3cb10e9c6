//! How much the cores remember: mostly what is real, now and then so little that a short run gets to what is behind it.

use cards_core::Limits;

use super::{Mode, Options};
use crate::rng::Rng;

impl Options {
    /// One run in four has small tables, each of a size of its own.
    pub(super) fn draw_limits(&mut self, rng: &mut Rng) {
        if self.mode == Mode::ColdRead || !rng.chance(250) {
            return;
        }
        let real = Limits::default();
        let most = |real: usize| [1, 2, 8, real];
        self.world.limits = Limits {
            slots: rng.pick(&[1, 2, 8, real.slots]),
            node_lives: rng.pick(&most(real.node_lives)),
            disk_node_lives: rng.pick(&most(real.disk_node_lives)),
            card_regions: rng.pick(&most(real.card_regions)),
            directory_regions: rng.pick(&most(real.directory_regions)),
            writers: rng.pick(&[1, 2, 8, real.writers]),
            own_writes: rng.pick(&most(real.own_writes)),
            touched: rng.pick(&most(real.touched)),
            ..self.world.limits
        };
    }

    /// In one run in seven regions are small, so that volumes have several, and mostly few locks are remembered.
    pub(super) fn draw_regions(&mut self, rng: &mut Rng) {
        if self.mode == Mode::ColdRead || !rng.chance(150) {
            return;
        }
        let real = Limits::default();
        self.world.limits.region_segments = rng.pick(&[1, 1, 2, 8]);
        let holders = rng.pick(&[1, 2, 8, 24, real.directory_holders]);
        // With few locks all nodes wait for each other's at the end, and each asks again after `peer_timeout`.
        let is_short = self.world.disk_wait < self.world.peer_timeout * 60;
        // A card keeps what it is just using: with fewer locks than nodes, others may keep one out for good. There are four
        // for each in real use.
        let least = if is_short { 24 } else { self.world.nodes.len() };
        self.world.limits.directory_holders = holders.max(least);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_runs_have_the_real_limits_and_each_is_small_in_some() {
        let all: Vec<Limits> = (1..=400).map(|seed| Options::draw(seed).world.limits).collect();
        let real = Limits::default();
        assert!(all.iter().filter(|&&limits| limits == real).count() > 200);
        let smallest: [fn(&Limits) -> usize; 10] = [
            |limits| limits.slots.into(),
            |limits| limits.node_lives,
            |limits| limits.disk_node_lives,
            |limits| limits.card_regions,
            |limits| limits.directory_regions,
            |limits| limits.writers as usize,
            |limits| limits.own_writes,
            |limits| limits.touched,
            |limits| limits.directory_holders,
            |limits| limits.region_segments as usize,
        ];
        for of in smallest {
            assert_eq!(all.iter().map(of).min(), Some(1));
        }
        assert!((1..=50).all(|seed| Options::lone(seed).world.limits == real));
    }
}
