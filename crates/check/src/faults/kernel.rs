//! Kernels that take their time to let pages go.

use cards_core::{Duration, NodeId, PgId};
use cards_world::models::{Kernel, Why};

use super::{Fault, Faults};

/// A withdrawal that takes longer has taken long.
const SLOW: Duration = Duration::from_millis(50);

impl Kernel for Faults {
    fn word(&mut self, node: NodeId, volume: PgId) -> Duration {
        let most = self.options.devices.word.min(self.slack(node, volume) / 4);
        self.kernel_rng.skewed(most)
    }

    fn answer(&mut self, _node: NodeId, _volume: PgId) -> Duration {
        let options = self.options.devices.clone();
        let slow = !self.calm && self.kernel_rng.chance(options.slow);
        self.kernel_rng.skewed(if slow { options.withdraw_slow } else { options.word })
    }

    fn withdraw(&mut self, node: NodeId, volume: PgId, why: Why) -> Duration {
        let options = self.options.devices.clone();
        let slow = !self.calm && self.kernel_rng.chance(options.slow);
        let most = if slow { options.withdraw_slow } else { options.withdraw };
        let time = match why {
            Why::Wanted | Why::Orphaned => self.kernel_rng.skewed(most),
            // Until then its disk node waits. A quarter of that went by while it was told of the lease.
            Why::Lapsed => self.kernel_rng.skewed(most.min(self.slack(node, volume) / 2)),
        };
        if time > SLOW {
            self.count(Fault::SlowWithdrawal);
        }
        time
    }

    fn notice(&mut self, _node: NodeId, _volume: PgId) -> Duration {
        self.kernel_rng.skewed(self.options.devices.notice)
    }
}

impl Faults {
    /// By how much the primary waits longer than the lease runs, by the time of the world.
    fn slack(&self, node: NodeId, volume: PgId) -> Duration {
        let (lease, clocks) = (self.options.world.lease, &self.options.clocks);
        let waits = |primary| clocks.lasts(primary, lease + lease / 2);
        let waits = match self.options.world.shared.contains(&volume) {
            true => {
                (0..self.options.world.nodes.len() as u16).map(NodeId).map(waits).min().unwrap_or_default()
            }
            false => waits(volume.disk_node()),
        };
        waits.saturating_sub(clocks.lasts(node, lease))
    }
}
