//! Computers that take their time.

use cards_core::{Duration, Instant, NodeId};
use cards_world::models::Host;

use super::Faults;

impl Host for Faults {
    fn clock(&self, node: NodeId, now: Instant) -> Instant {
        self.options.clocks.clock(node, now)
    }

    fn shows(&self, node: NodeId, shown: Instant) -> Instant {
        self.options.clocks.shows(node, shown)
    }

    fn timer(&mut self, _node: NodeId, due: Instant) -> Instant {
        if self.calm { due } else { due + self.host_rng.skewed(self.options.nodes.timer_late) }
    }

    fn send(&mut self, _now: Instant, _node: NodeId, _bytes: u32) -> Duration {
        self.host_rng.skewed(Duration::from_micros(500))
    }

    fn reply(&mut self, _now: Instant, _node: NodeId, _bytes: u32) -> Duration {
        self.host_rng.skewed(Duration::from_millis(2))
    }
}
