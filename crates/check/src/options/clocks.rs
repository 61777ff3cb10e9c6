//! The clocks of the nodes, each of which runs at a rate of its own.

use cards_core::{Duration, Instant, NodeId};

use crate::rng::Rng;

/// The rate of a clock that shows the time of the world, in thousandths of it.
const TRUE: u32 = 1_000;

/// The highest rate of a clock beside one that is true: just below the promised third.
const FASTEST: u32 = 1_333;

/// Far beyond what is promised: a disk node's patience, one and a half leases, is half a lease of a true clock.
const BEYOND: u32 = 3_000;

/// The clocks of all nodes: how fast each is, in thousandths of the time of the world.
#[derive(Clone, Debug, Default)]
pub struct Clocks {
    pub(crate) rates: Vec<u32>,
    /// The time of day, of which the numbers of lives are made, is set forward between two lives.
    pub(crate) steps: bool,
    /// The clock of a node that stands still does so, too, which no promise covers.
    pub(crate) stop: bool,
}

impl Clocks {
    /// Clocks of which none is more than a third faster than another; often one is nearly that.
    pub(crate) fn within(rng: &mut Rng, nodes: usize) -> Self {
        let any = |rng: &mut Rng| rng.range(u64::from(TRUE), u64::from(FASTEST)) as u32;
        let extreme = |rng: &mut Rng| rng.pick(&[TRUE, FASTEST]);
        let extremes = rng.chance(500);
        let rates = (0..nodes).map(|_| if extremes { extreme(rng) } else { any(rng) }).collect();
        Self { rates, ..Self::default() }
    }

    /// Clocks of which some are far too fast.
    pub(crate) fn beyond(rng: &mut Rng, nodes: usize) -> Self {
        Self { rates: (0..nodes).map(|_| rng.pick(&[TRUE, BEYOND])).collect(), ..Self::default() }
    }

    /// Clocks that are not true.
    pub(crate) fn drifting(&self) -> usize {
        self.rates.iter().filter(|&&rate| rate != TRUE).count()
    }

    fn rate(&self, node: NodeId) -> u128 {
        u128::from(self.rates.get(usize::from(node.0)).copied().unwrap_or(TRUE))
    }

    /// What the node's clock shows at `now`.
    pub(crate) fn clock(&self, node: NodeId, now: Instant) -> Instant {
        instant(u128::from(now.0) * self.rate(node) / u128::from(TRUE))
    }

    /// How long it is until the node's clock has gone on by `time`, in the time of the world.
    pub(crate) fn lasts(&self, node: NodeId, time: Duration) -> Duration {
        Duration::from_nanos((time.as_nanos() * u128::from(TRUE) / self.rate(node)) as u64)
    }

    /// The first instant at which the node's clock shows `shown`, or more.
    pub(crate) fn shows(&self, node: NodeId, shown: Instant) -> Instant {
        instant((u128::from(shown.0) * u128::from(TRUE)).div_ceil(self.rate(node)))
    }
}

fn instant(nanos: u128) -> Instant {
    Instant(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_shows_a_time_when_it_is_said_to_and_not_before() {
        let mut rng = Rng::new(1, 1);
        let clocks = Clocks::within(&mut rng, 9);
        for node in (0..10).map(NodeId) {
            for _ in 0..1_000 {
                let shown = Instant(1 + rng.below(1 << 40));
                let at = clocks.shows(node, shown);
                assert!(clocks.clock(node, at) >= shown);
                assert!(clocks.clock(node, Instant(at.0 - 1)) < shown);
            }
        }
    }

    #[test]
    fn no_clock_is_a_third_faster_than_another_unless_it_is_meant_to() {
        let ratio = |clocks: &Clocks| {
            let rates = || (0..9).map(|node| clocks.rate(NodeId(node)));
            rates().max().unwrap_or(1) as f64 / rates().min().unwrap_or(1) as f64
        };
        let all =
            |draw: fn(&mut Rng, usize) -> Clocks| (0..200).map(move |seed| draw(&mut Rng::new(seed, 1), 9));
        assert!(all(Clocks::within).all(|clocks| ratio(&clocks) < 4.0 / 3.0));
        assert!(all(Clocks::within).any(|clocks| ratio(&clocks) > 1.33));
        assert!(all(Clocks::beyond).any(|clocks| ratio(&clocks) > 2.9));
    }
}
