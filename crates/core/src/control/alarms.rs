//! When a control wants to be woken: one time for each reason, in order of time.

use alloc::collections::{BTreeMap, BTreeSet};

use super::ControlTimer;
use crate::time::Instant;

/// See the module's head. All is logarithmic in the number of alarms; there is one for each thing that waits.
#[derive(Default)]
pub(super) struct Alarms {
    set: BTreeMap<ControlTimer, Instant>,
    order: BTreeSet<(Instant, ControlTimer)>,
}

impl Alarms {
    /// Sets the alarm, in place of one for the same reason. One that never comes is none.
    pub(super) fn set(&mut self, timer: ControlTimer, at: Instant) {
        self.clear(timer);
        if at != Instant::NEVER {
            self.set.insert(timer, at);
            self.order.insert((at, timer));
        }
    }

    pub(super) fn clear(&mut self, timer: ControlTimer) {
        if let Some(at) = self.set.remove(&timer) {
            self.order.remove(&(at, timer));
        }
    }

    pub(super) fn at(&self, timer: ControlTimer) -> Option<Instant> {
        self.set.get(&timer).copied()
    }

    pub(super) fn next(&self) -> Option<(Instant, ControlTimer)> {
        self.order.first().copied()
    }

    /// The earliest alarm that is due, which is set no more.
    pub(super) fn due(&mut self, now: Instant) -> Option<ControlTimer> {
        let (_, timer) = self.next().filter(|&(at, _)| at <= now)?;
        self.clear(timer);
        Some(timer)
    }
}
