//! What each step of a read takes, from what nodes measure.

use std::time::Duration;

use cards_core::Origin;
use cards_policies::policy::START;

use crate::candidates::{ALONE, LOCAL};
use crate::times::{Nominal, Times};

/// Times of blocks that clients have read, by where they came from. The last ones count most.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Classes {
    own: Times,
    peer: Times,
    disk: Times,
}

impl Classes {
    /// So many blocks have been read from there, which took so long together.
    pub fn add(&mut self, origin: Origin, blocks: u64, together: Duration) {
        if blocks == 0 {
            return;
        }
        let (number, sum_ns) = (blocks as f64, together.as_nanos() as f64);
        match origin {
            Origin::Local => self.own.add(number, sum_ns),
            Origin::Remote => self.peer.add(number, sum_ns),
            Origin::Disk => self.disk.add(number, sum_ns),
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
    /// A block from the disk that has waited for no others, messages included.
    idle_disk: f64,
}

/// An NVMe disk and a network of 25 Gbit/s. The first blocks from peers have often waited for the disk: they have to outnumber the nominal one.
const NOMINAL_OWN: Nominal = Nominal { ns: 2_000.0, blocks: 50.0, fast: 0.1 };
const NOMINAL_PEER: Nominal = Nominal { ns: 45_000.0, blocks: 50.0, fast: 0.1 };
const NOMINAL_DISK: Nominal = Nominal { ns: 130_000.0, blocks: 0.0, fast: 0.1 };
/// Beside a slow disk that sorts its queue nine of ten blocks from peers may have waited for it.
const PEER_OF_SPINDLE: Nominal = Nominal { blocks: 10.0, fast: 0.02, ..NOMINAL_PEER };
/// A disk that takes so many times as long as a peer is slow.
const SLOW_DISK: f64 = 4.0;
/// Nanoseconds in which flash memory answers, and no spindle: where peers wait for a spindle, it is not slow beside them.
const FLASH: f64 = 500_000.0;
/// Of the time of a block from a peer, the question's part.
const QUESTION: f64 = 0.3;

impl Default for Costs {
    /// An NVMe disk and a network of 25 Gbit/s.
    fn default() -> Self {
        Self::between(NOMINAL_OWN.ns, NOMINAL_PEER.ns, NOMINAL_DISK.ns)
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
            idle_disk: disk,
        }
    }

    /// What was measured; of what was not, the nominal cost.
    #[must_use]
    pub fn of(classes: &Classes) -> Self {
        let own = classes.own.typical(NOMINAL_OWN);
        let disk = classes.disk.mean().unwrap_or(NOMINAL_DISK.ns);
        let idle_disk = classes.disk.typical(NOMINAL_DISK);
        let peer = classes.peer.typical(if idle_disk < FLASH { NOMINAL_PEER } else { PEER_OF_SPINDLE });
        Self { idle_disk, ..Self::between(own, peer.max(own), disk) }
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
    /// home that knows nothing is dear. Trials of homes (`ask=measured`) are dear there, too, in ways that shadows do not see, which do one
    /// thing at a time: so a policy with trials would not be left for one without.
    pub(crate) fn beginning(&self) -> &'static str {
        match self.has_fast_disk() {
            true => ALONE,
            false => START,
        }
    }

    /// Whether a policy may be chosen.
    pub(crate) fn suits(&self, policy: &str) -> bool {
        policy != LOCAL || self.has_fast_disk() && self.idle_disk < FLASH
    }

    /// An idle disk is not much slower than a peer.
    fn has_fast_disk(&self) -> bool {
        self.idle_disk < SLOW_DISK * (self.own + self.hop + self.block)
    }
}
