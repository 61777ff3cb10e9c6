//! Who waits for a fetch.

use alloc::vec::Vec;
use core::mem::take;

use crate::ids::{NodeId, RequestId, Token};

/// A client of this node, or another node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Waiter {
    Client(Token),
    Peer { node: NodeId, request: RequestId, leave_copy: bool },
}

/// In the order in which they came. Most fetches have one waiter, which takes no memory of its own.
#[derive(Default)]
pub(super) struct Waiters {
    first: Option<Waiter>,
    others: Vec<Waiter>,
}

impl Waiter {
    pub(super) const fn is_peer(&self) -> bool {
        matches!(self, Self::Peer { .. })
    }

    /// The same request of the same node, repeated.
    fn is_again(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Peer { node, request, .. }, Self::Peer { node: n, request: r, .. }) => {
                (node, request) == (n, r)
            }
            _ => false,
        }
    }
}

impl Waiters {
    /// Adds one, unless it waits already.
    pub(super) fn push(&mut self, waiter: Waiter) -> bool {
        if self.iter().any(|known| known.is_again(&waiter)) {
            return false;
        }
        match self.first {
            None => self.first = Some(waiter),
            Some(_) => self.others.push(waiter),
        }
        true
    }

    /// Takes the clients among the first few out.
    pub(super) fn take_clients(&mut self, first: usize) -> Vec<Token> {
        let all = self.first.take().into_iter().chain(take(&mut self.others));
        let (mut clients, mut kept) = (Vec::new(), Vec::new());
        for (at, waiter) in all.enumerate() {
            match waiter {
                Waiter::Client(token) if at < first => clients.push(token),
                _ => kept.push(waiter),
            }
        }
        let mut kept = kept.into_iter();
        (self.first, self.others) = (kept.next(), kept.collect());
        clients
    }

    /// The node whose card has asked first; none if that is this node's, or nobody's yet.
    pub(super) fn first_peer(&self) -> Option<NodeId> {
        match self.first {
            Some(Waiter::Peer { node, .. }) => Some(node),
            Some(Waiter::Client(_)) | None => None,
        }
    }

    pub(super) const fn len(&self) -> usize {
        self.first.is_some() as usize + self.others.len()
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Waiter> {
        self.first.iter().chain(&self.others)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    #[test]
    fn a_request_that_is_repeated_waits_once() {
        let peer = |request| Waiter::Peer { node: NodeId(1), request: RequestId(request), leave_copy: true };
        let client = Waiter::Client(Token(7));
        let mut waiters = Waiters::default();
        assert!(waiters.is_empty());
        let added: Vec<bool> =
            [peer(1), client, peer(2), peer(1), client].into_iter().map(|w| waiters.push(w)).collect();
        assert_eq!(added, [true, true, true, false, true]);
        let all: Vec<Waiter> = waiters.iter().copied().collect();
        assert_eq!(all, vec![peer(1), client, peer(2), client]);
        assert_eq!(waiters.first_peer(), Some(NodeId(1)));
        assert_eq!((waiters.take_clients(3), waiters.len()), (vec![Token(7)], 3));
        let left: Vec<Waiter> = waiters.iter().copied().collect();
        assert_eq!(left, vec![peer(1), peer(2), client]);
    }
}
