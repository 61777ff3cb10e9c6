//! Credit for the payloads of writes: who may send how much to this node, and how much this node may send to others.
//!
//! A payload that arrives needs memory that lasts until the disk has taken it, so a node promises its peers no more of it
//! than it has, and they send no more than they were promised. Beyond that a write waits at its sender, which costs
//! nobody anything. [`Budget`] is the receiving end, one for all connections of a node; [`Purse`] is the sending end of
//! one connection. Neither knows sockets or clocks. What they tell each other ([`cards_wire::peer::Credit`]) are counts
//! that begin at zero with the connection and only grow.
//!
//! **Never more than there is.** What a connection was granted and has not given back, as used memory or unused credit,
//! is *promised*; the sum of that, connections that have ended included, is at most the budget.
//!
//! **Nobody waits for ever.** Credit is given out in steps of the longest payload (or all that is wanted, if that is
//! less), so each step lets at least one write leave. Used credit comes back when the disk has taken what was sent for
//! it, unused credit when its sender has not needed it for a while: all but [`KEPT`] of an idle one, all of one whose
//! next write is longer. What is given unasked, so that who goes on writing need not ask again, is at most half of the
//! budget: whoever asks gets something at once, or when the disk has done something.
//!
//! **Shares are max-min fair.** While anybody waits, all that comes back goes to whoever has least and waits.

use std::collections::{BTreeMap, BTreeSet};

use cards_core::NodeId;

/// Unused credit that a sender keeps however long it has not needed it: so that all peers there may be hold less than a
/// half of [`super::WRITES_MAX`].
pub(crate) const KEPT: u64 = 64 << 10;

/// A connection of this process: no two have the same number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Connection {
    pub(crate) peer: NodeId,
    pub(crate) number: u64,
}

/// A peer has sent more than it was granted, or given back more than it had.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{bytes} bytes of writes over a credit of {left}: it has sent more than it was granted")]
pub(crate) struct Overdrawn {
    bytes: u64,
    left: u64,
}

/// The receiving end, see the module's head.
#[derive(Debug)]
pub(crate) struct Budget {
    max: u64,
    /// The longest payload.
    step: u64,
    /// Granted and not given back, all together.
    promised: u64,
    grants: BTreeMap<Connection, Grant>,
    /// Those that want more than they were granted, by what they have.
    waiting: BTreeSet<(u64, Connection)>,
    last: u64,
    /// Connections whose peer is to be told.
    due: BTreeSet<Connection>,
}

/// What one connection was granted. All counts grow only.
#[derive(Clone, Copy, Debug, Default)]
struct Grant {
    granted: u64,
    /// As the peer was told.
    told: u64,
    /// Sent or returned by the peer.
    used: u64,
    /// Of these, bytes whose memory is free again, and all that was returned.
    released: u64,
    returned: u64,
    wanted: u64,
}

impl Grant {
    const fn held(&self) -> u64 {
        self.granted - self.released
    }

    const fn waits(&self) -> bool {
        self.wanted > self.granted
    }

    /// A peer that waits is told at once, others when it is worth a frame.
    const fn is_due(&self) -> bool {
        let more = self.granted - self.told;
        more > 0 && (self.wanted > self.told || more >= self.held() / 4)
    }
}

impl Budget {
    pub(crate) fn new(max: u64, step: u64) -> Self {
        let (grants, waiting, due) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
        Self { max, step, promised: 0, grants, waiting, last: 0, due }
    }

    /// A connection begins.
    pub(crate) fn connected(&mut self, peer: NodeId) -> Connection {
        self.last += 1;
        let connection = Connection { peer, number: self.last };
        self.grants.insert(connection, Grant::default());
        self.give_unasked(connection, self.step);
        connection
    }

    /// It has ended. What it has sent is still to be released.
    pub(crate) fn disconnected(&mut self, connection: Connection) {
        let Some(grant) = self.grants.remove(&connection) else { return };
        self.waiting.remove(&(grant.held(), connection));
        self.due.remove(&connection);
        self.promised -= grant.granted - grant.used;
        self.give_out();
    }

    /// A payload begins to arrive.
    pub(crate) fn arrives(&mut self, connection: Connection, bytes: u64) -> Result<(), Overdrawn> {
        let left = self.grants.get(&connection).map_or(0, |grant| grant.granted - grant.used);
        if bytes > left {
            return Err(Overdrawn { bytes, left });
        }
        self.change(connection, |grant| grant.used += bytes);
        Ok(())
    }

    /// The memory of a payload is free again. If nobody waits, its sender may send as much again.
    pub(crate) fn released(&mut self, connection: Connection, bytes: u64) {
        self.promised -= bytes;
        self.change(connection, |grant| grant.released += bytes);
        if self.waiting.is_empty() {
            self.give_unasked(connection, bytes);
        }
        self.give_out();
    }

    /// The peer says what it wants, and what it will not use, all in all.
    pub(crate) fn said(
        &mut self,
        connection: Connection,
        wanted: u64,
        returned: u64,
    ) -> Result<(), Overdrawn> {
        let Some(grant) = self.grants.get(&connection) else { return Ok(()) };
        let (left, back) = (grant.granted - grant.used, returned.saturating_sub(grant.returned));
        if back > left {
            return Err(Overdrawn { bytes: back, left });
        }
        self.promised -= back;
        self.change(connection, |grant| {
            grant.wanted = grant.wanted.max(wanted);
            grant.used += back;
            grant.released += back;
            grant.returned += back;
        });
        self.give_out();
        Ok(())
    }

    /// Whom to tell what was granted, once.
    pub(crate) fn news(&mut self) -> Option<(Connection, u64)> {
        let connection = self.due.pop_first()?;
        let grant = self.grants.get_mut(&connection)?;
        grant.told = grant.granted;
        Some((connection, grant.told))
    }

    /// Credit for a connection that has not asked: of the first half of the budget.
    fn give_unasked(&mut self, connection: Connection, bytes: u64) {
        if self.promised + bytes <= self.max / 2 && self.grants.contains_key(&connection) {
            self.give(connection, bytes);
        }
    }

    /// Steps for those who wait, the one with the least first, as far as the budget goes.
    fn give_out(&mut self) {
        while let Some(&(_, connection)) = self.waiting.first()
            && let Some(grant) = self.grants.get(&connection)
        {
            let bytes = self.step.min(grant.wanted - grant.granted);
            if self.promised + bytes > self.max {
                break;
            }
            self.give(connection, bytes);
        }
    }

    fn give(&mut self, connection: Connection, bytes: u64) {
        self.promised += bytes;
        self.change(connection, |grant| grant.granted += bytes);
    }

    /// Changes a grant, and where it is listed.
    fn change(&mut self, connection: Connection, how: impl FnOnce(&mut Grant)) {
        let Some(grant) = self.grants.get_mut(&connection) else { return };
        let before = *grant;
        how(grant);
        if before.waits() {
            self.waiting.remove(&(before.held(), connection));
        }
        if grant.waits() {
            self.waiting.insert((grant.held(), connection));
        }
        if grant.is_due() {
            self.due.insert(connection);
        }
    }
}

/// The sending end, see the module's head.
#[derive(Debug, Default)]
pub(crate) struct Purse {
    granted: u64,
    /// Sent or returned.
    used: u64,
    returned: u64,
    /// What the peer was told that is wanted, at most.
    asked: u64,
    /// The least that was unused since [`Self::rest`] looked last.
    least: u64,
}

impl Purse {
    /// The peer has granted so many bytes, all in all.
    pub(crate) fn grant(&mut self, granted: u64) {
        self.granted = self.granted.max(granted);
    }

    /// Whether a payload may leave; if so, it has.
    pub(crate) fn take(&mut self, bytes: u64) -> bool {
        let may = bytes <= self.unused();
        if may {
            self.used += bytes;
        }
        self.least = self.least.min(self.unused());
        may
    }

    /// Payloads of so many bytes are to leave: whether the peer must be asked for credit, and does not know yet.
    pub(crate) fn ask(&mut self, waiting: u64) -> bool {
        let before = self.asked;
        if waiting > self.unused() {
            self.asked = before.max(self.used.saturating_add(waiting));
        }
        self.asked > before
    }

    pub(crate) const fn unused(&self) -> u64 {
        self.granted - self.used
    }

    /// Gives back what was not needed since the last time; whether there was any. Something is kept for `next` if that
    /// is not too long.
    pub(crate) fn rest(&mut self, next: Option<u64>) -> bool {
        let kept = if next.is_some_and(|bytes| bytes > self.unused()) { 0 } else { KEPT };
        let spare = self.least.saturating_sub(kept);
        self.used += spare;
        self.returned += spare;
        self.least = self.unused();
        spare > 0
    }

    /// All in all: what is wanted, and what was returned.
    pub(crate) const fn says(&self) -> (u64, u64) {
        (self.asked, self.returned)
    }
}

#[cfg(test)]
mod tests;
