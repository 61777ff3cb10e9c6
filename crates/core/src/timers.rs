//! All timers of a shard.

use alloc::collections::BTreeSet;

use crate::ids::{BlockId, OpId, PgId, RequestId};
use crate::time::Instant;

/// Why a shard wants to be woken.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Timer {
    /// When to ask the disk node for a block whose holder does not answer, or give up.
    Fetch(RequestId),
    /// When to ask for a command the primary has not answered, or give up.
    Command(RequestId),
    /// When to give up a command that has not begun.
    Later,
    /// When to repeat the invalidations a write waits for.
    Invalidate(OpId),
    /// When to ask again for the locks that a directory has no room for.
    Revoke(PgId),
    /// When to forget an evicted block whose new host does not answer.
    Leaving(BlockId),
    /// When to forget what the commands of cards that are gone were answered.
    Answers(PgId),
    /// When the volume's policy wants to be called.
    Policy(PgId),
}

/// The timers that are set, by time. One that never comes, as of drivers with endless patience, costs nothing.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    set: BTreeSet<(Instant, Timer)>,
}

impl Timers {
    pub(crate) fn set(&mut self, at: Instant, timer: Timer) {
        if at != Instant::NEVER {
            self.set.insert((at, timer));
        }
    }

    pub(crate) fn clear(&mut self, at: Instant, timer: Timer) {
        if at != Instant::NEVER {
            self.set.remove(&(at, timer));
        }
    }

    pub(crate) fn next(&self) -> Option<(Instant, Timer)> {
        self.set.first().copied()
    }

    pub(crate) fn due(&mut self, now: Instant) -> Option<Timer> {
        let &(at, timer) = self.set.first()?;
        if at > now {
            return None;
        }
        self.set.pop_first();
        Some(timer)
    }

    pub(crate) fn len(&self) -> usize {
        self.set.len()
    }
}
