//! What each step of a read takes, from what nodes measure.

use std::time::Duration;

use cards_core::Origin;
use cards_policies::policy::START;

use crate::candidates::MEASURED;

/// Blocks of a class after which an earlier one counts half.
const HALF_LIFE: f64 = 2_000.0;

/// Mean times of blocks that clients have read, by where they came from. The last ones count most.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Classes {
    own: Mean,
    peer: Mean,
    disk: Mean,
}

/// A mean of which old values fade.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Mean {
    weight: f64,
    sum_ns: f64,
}

impl Mean {
    fn add(&mut self, number: f64, sum_ns: f64) {
        let fade = 0.5_f64.powf(number / HALF_LIFE);
        self.weight = self.weight * fade + number;
        self.sum_ns = self.sum_ns * fade + sum_ns;
    }

    fn get(self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.sum_ns / self.weight)
    }
}

impl Classes {
    /// So many blocks have been read from there, which took so long together.
    pub fn add(&mut self, origin: Origin, blocks: u64, together: Duration) {
        let mean = match origin {
            Origin::Local => &mut self.own,
            Origin::Remote => &mut self.peer,
            Origin::Disk => &mut self.disk,
        };
        if blocks > 0 {
            mean.add(blocks as f64, together.as_nanos() as f64);
        }
    }
}

/// Nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// A block out of the reader's own memory.
    pub own: f64,
    /// A message without data.
    pub hop: f64,
    /// A message with a block.
    pub block: f64,
    /// A read of the disk, without messages.
    pub disk: f64,
}

/// A disk that takes so many times as long as a peer is slow.
const SLOW_DISK: f64 = 4.0;
/// Of the time of a block from a peer, the question's part.
const QUESTION: f64 = 0.3;

impl Default for Costs {
    /// An NVMe disk and a network of 25 Gbit/s.
    fn default() -> Self {
        Self::between(2_000.0, 45_000.0, 130_000.0)
    }
}

impl Costs {
    /// From the mean times of blocks from the own memory, a peer's, and the disk.
    fn between(own: f64, peer: f64, disk: f64) -> Self {
        let message = (peer - own).max(1_000.0);
        Self {
            own,
            hop: message * QUESTION,
            block: message * (1.0 - QUESTION),
            // Most readers have the disk's block sent as well.
            disk: (disk - peer).max(disk / 8.0),
        }
    }

    /// What was measured; of what was not, the nominal cost.
    #[must_use]
    pub fn of(classes: &Classes) -> Self {
        let own = classes.own.get().unwrap_or(2_000.0);
        let peer = classes.peer.get().unwrap_or(45_000.0);
        let disk = classes.disk.get().unwrap_or(130_000.0);
        Self::between(own, peer.max(own), disk)
    }

    /// Nanoseconds of a step.
    pub(crate) fn hop(&self) -> Duration {
        Duration::from_nanos(self.hop as u64)
    }

    pub(crate) fn block(&self) -> Duration {
        Duration::from_nanos(self.block as u64)
    }

    pub(crate) fn disk(&self) -> Duration {
        Duration::from_nanos(self.disk as u64)
    }

    /// What a read of the disk takes more than one from a peer.
    pub(crate) const fn miss(&self) -> f64 {
        self.disk
    }

    /// What is best to begin with, before anything is known of the load: where the disk is not much slower than a peer, a question to a
    /// home that knows nothing is dear.
    pub(crate) fn beginning(&self) -> &'static str {
        match self.disk < SLOW_DISK * (self.hop + self.block) {
            true => MEASURED,
            false => START,
        }
    }
}
