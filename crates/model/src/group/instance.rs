//! How large the explored instance is.

use cards_array::group::{Disk, Group, GroupTiming, Member, Message, Size};
use cards_core::{Duration, Instant};

/// The group at a node as its process finds it, or the same with a deliberate mistake.
pub type Make = fn(Member, Disk, Size, GroupTiming, Instant) -> Group<u8>;

/// One unit of one byte.
pub(crate) const SIZE: Size = Size { bytes: 1, copy_bytes: 1, unit_bytes: 1 };

/// A tick of a clock.
pub(crate) const TICK: Duration = Duration::from_secs(1);

/// Limits of what may happen in a run, and how the machines are made.
#[derive(Clone, Copy, Debug)]
pub struct Instance {
    /// Ticks from when the first primary serves to the end of the run.
    pub ticks: u8,
    /// Ticks of a lease. A promise has half as many more; a column that says nothing for more than half as many is dropped.
    pub lease: u8,
    /// How often the clock of each node stands still for a tick. More than one in four of its ticks is more than is allowed.
    pub skips: [u8; 2],
    /// How often links are cut, both ways.
    pub cuts: u8,
    /// How often one of them is cut, one way.
    pub one_way_cuts: u8,
    /// How often a link that was cut is whole again.
    pub heals: u8,
    /// Which messages of those that a cut link has lost may come late.
    pub comes_late: fn(&Message<u8>) -> bool,
    /// How many of them do.
    pub lates: u8,
    /// How often a process ends.
    pub crashes: u8,
    /// How often a process stands still.
    pub pauses: u8,
    /// How often the register's answer to a proposal is lost.
    pub doubts: u8,
    /// How often a client sends its write, for each client.
    pub sends: &'static [u8],
    /// The group at a node.
    pub group: Make,
}

impl Instance {
    /// Two clients write while the nodes are cut off from each other, a write comes late, and the first primary's clock misses a tick.
    #[must_use]
    pub fn cut_off() -> Self {
        Self {
            ticks: 9,
            lease: 4,
            skips: [1, 0],
            cuts: 1,
            one_way_cuts: 0,
            heals: 1,
            comes_late: |message| matches!(message, Message::Put { .. }),
            lates: 1,
            crashes: 0,
            pauses: 0,
            doubts: 0,
            sends: &[2, 1],
            group: Group::new,
        }
    }

    /// A process ends while two clients write.
    #[must_use]
    pub fn ended() -> Self {
        Self { cuts: 0, heals: 0, lates: 0, crashes: 1, ..Self::cut_off() }
    }

    /// A process stands still while two clients write.
    #[must_use]
    pub fn paused() -> Self {
        Self { cuts: 0, heals: 0, lates: 0, pauses: 1, ..Self::cut_off() }
    }

    /// There are no cards, whose grace a new primary would wait for.
    pub(crate) fn timing(&self) -> GroupTiming {
        let lease = TICK * self.lease.into();
        GroupTiming {
            lease,
            resend: TICK,
            put_timeout: lease / 2,
            rank_delay: Duration::ZERO,
            grace: Duration::ZERO,
            // Nothing is put back.
            confirm: Duration::from_secs(3_600),
            // Nor is a disk slow.
            rest: Duration::ZERO,
        }
    }
}
