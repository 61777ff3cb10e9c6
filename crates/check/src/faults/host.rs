//! Computers that take their time.

use cards_core::{Duration, Instant, NodeId};
use cards_world::models::Host;

use super::{Fault, Faults};

impl Host for Faults {
    fn clock(&self, node: NodeId, now: Instant) -> Instant {
        let since = now.since(self.clock_began(node));
        self.options.clocks.clock(node, Instant::default() + since)
    }

    fn shows(&self, node: NodeId, shown: Instant) -> Instant {
        let after = self.options.clocks.shows(node, shown).0;
        Instant(self.clock_began(node).0.saturating_add(after))
    }

    fn rebooted(&mut self, node: NodeId, now: Instant) {
        self.count(Fault::ClockRestart);
        self.clocks_began.insert(node, now);
    }

    fn stands_still(&mut self, node: NodeId, time: Duration) {
        if self.options.clocks.stop {
            let began = self.clock_began(node) + time;
            self.clocks_began.insert(node, began);
        }
    }

    fn skipped_lives(&mut self, _node: NodeId) -> u64 {
        if !self.options.clocks.steps || !self.life_rng.chance(500) {
            return 0;
        }
        self.count(Fault::TimeStep);
        let bits = self.life_rng.range(1, 36);
        self.life_rng.range(1, 1 << bits)
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

impl Faults {
    fn clock_began(&self, node: NodeId) -> Instant {
        self.clocks_began.get(&node).copied().unwrap_or_default()
    }
}
