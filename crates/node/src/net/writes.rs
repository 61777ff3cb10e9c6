//! The memory for writes of peers: the [`Budget`] of this node, and the links that hear of it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use cards_core::NodeId;
use cards_wire::peer::{Credit, MAX_BLOCK};

use super::PIECE;
use super::credit::{Budget, Connection, KEPT, Overdrawn};
use crate::node::Node;

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
    pub(super) fn connected(&self, node: &Node, peer: NodeId, lanes: u16) -> Connection {
        self.change(node, |budget| {
            let connection = budget.connected(peer);
            // Before it is told anything.
            node.links[usize::from(peer.0)].open(connection, lanes);
            connection
        })
    }

    /// It has ended.
    pub(super) fn disconnected(&self, node: &Node, connection: Connection) {
        self.change(node, |budget| budget.disconnected(connection));
    }

    /// The payload of a write begins to arrive.
    pub(super) fn arrives(&self, connection: Connection, bytes: u32) -> Result<(), Overdrawn> {
        self.lock().arrives(connection, bytes.into())
    }

    /// Its memory is free again.
    pub(crate) fn released(&self, node: &Node, connection: Connection, bytes: usize) {
        self.change(node, |budget| budget.released(connection, bytes as u64));
    }

    /// The peer has said what it wants to send.
    pub(super) fn said(&self, node: &Node, connection: Connection, credit: &Credit) -> Result<(), Overdrawn> {
        self.change(node, |budget| budget.said(connection, credit.wanted, credit.returned))
    }

    /// Tells in order: under the lock.
    fn change<R>(&self, node: &Node, how: impl FnOnce(&mut Budget) -> R) -> R {
        let mut budget = self.lock();
        let result = how(&mut budget);
        while let Some((connection, granted)) = budget.news() {
            node.links[usize::from(connection.peer.0)].grant(connection, granted);
        }
        result
    }
}
