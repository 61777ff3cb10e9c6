//! The memory for writes of peers: the [`Budget`] of this node, and the links that hear of it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use cards_core::NodeId;
use cards_wire::peer::{Credit, MAX_BLOCK};

use super::link::credit::{Budget, Connection, KEPT, Overdrawn};
use super::link::{Link, PIECE};

/// Bytes of writes by peers that this node holds at most.
const WRITES_MAX: u64 = 256 << 20;
const _: () = assert!(KEPT * NodeId::MAX_NODES as u64 + MAX_BLOCK as u64 <= WRITES_MAX / 2);

/// See the module's head.
pub(crate) struct Writes(Mutex<Budget>);

impl Writes {
    pub(crate) fn new(block: usize) -> Self {
        Self(Mutex::new(Budget::new(WRITES_MAX, PIECE.max(block) as u64)))
    }

    /// As on a node with less memory.
    #[cfg(test)]
    pub(crate) fn limit(&self, bytes: u64) {
        self.lock().limit(bytes);
    }

    /// What peers were granted and have not given back.
    #[cfg(test)]
    pub(crate) fn promised(&self) -> u64 {
        self.lock().promised()
    }

    fn lock(&self) -> MutexGuard<'_, Budget> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A link begins that has so many lanes for reads.
    pub(crate) fn connected(&self, links: &[Link], peer: NodeId, lanes: u16) -> Connection {
        self.change(links, |budget| {
            let connection = budget.connected(peer);
            // Before it is told anything.
            links[usize::from(peer.0)].open(connection, lanes);
            connection
        })
    }

    /// It has ended.
    pub(crate) fn disconnected(&self, links: &[Link], connection: Connection) {
        self.change(links, |budget| budget.disconnected(connection));
    }

    /// The payload of a write begins to arrive.
    pub(crate) fn arrives(&self, connection: Connection, bytes: u32) -> Result<(), Overdrawn> {
        self.lock().arrives(connection, bytes.into())
    }

    /// Its memory is free again.
    pub(crate) fn released(&self, links: &[Link], connection: Connection, bytes: usize) {
        self.change(links, |budget| budget.released(connection, bytes as u64));
    }

    /// The peer has said what it wants to send.
    pub(crate) fn said(
        &self,
        links: &[Link],
        connection: Connection,
        credit: &Credit,
    ) -> Result<(), Overdrawn> {
        self.change(links, |budget| budget.said(connection, credit.wanted, credit.returned))
    }

    /// Tells in order: under the lock.
    fn change<R>(&self, links: &[Link], how: impl FnOnce(&mut Budget) -> R) -> R {
        let mut budget = self.lock();
        let result = how(&mut budget);
        while let Some((connection, granted)) = budget.news() {
            links[usize::from(connection.peer.0)].grant(connection, granted);
        }
        result
    }
}
