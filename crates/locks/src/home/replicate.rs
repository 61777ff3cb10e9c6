//! What a home has others copy.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use cards_core::rendezvous::RegionId;
use cards_core::{Instant, NodeId};

use super::LockHome;
use crate::message::{Change, GroupKey, LockBody};
use crate::mistakes::{Mistake, makes};

/// Changes on their way to one member's copies.
pub(super) struct Stream {
    /// Those that the member has not confirmed, in order.
    changes: VecDeque<Change>,
    /// The number of the first of them.
    first: u64,
    /// The number of the last one that was sent.
    sent: u64,
    /// When to send them again; none, when there are none.
    pub(super) resend_at: Option<Instant>,
}

/// Changes in one message.
const BATCH: usize = 64;

impl LockHome {
    /// Begins to have everything copied that is held.
    pub(super) fn begin_streams(&mut self) {
        self.complete = false;
        let others = self.members.nodes().iter().filter(|&&node| node != self.config.node);
        self.streams = others
            .map(|&node| (node, Stream { changes: VecDeque::new(), first: 1, sent: 0, resend_at: None }))
            .collect();
        let held: Vec<_> =
            self.tables.iter().flat_map(|(&region, table)| table.parts(region)).map(|(p, _)| p).collect();
        for part in held {
            self.push_change(part.region, Change::Put(part));
        }
        self.check_complete();
    }

    /// When all members have all that the home began with, says so, and has copied what was granted meanwhile.
    fn check_complete(&mut self) {
        if self.complete || !self.is_serving() || self.streams.values().any(|s| !s.changes.is_empty()) {
            return;
        }
        self.complete = true;
        let others: Vec<NodeId> = self.streams.keys().copied().collect();
        for node in others {
            self.push_to(node, Change::Complete);
        }
        let tables = self.tables.iter().flat_map(|(&region, table)| table.parts(region));
        let fresh: Vec<_> = tables.filter(|(_, copied)| !copied).map(|(p, _)| (p.region, p.key)).collect();
        for (region, key) in fresh {
            self.push_put(region, key);
        }
        self.check_settled();
    }

    /// Has a part copied. Until the home is complete a copy would not count, so it waits.
    pub(super) fn push_put(&mut self, region: RegionId, key: GroupKey) {
        if !self.complete {
            return;
        }
        let part = self.tables.get(&region).and_then(|t| t.parts(region).find(|(p, _)| p.key == key));
        match part {
            Some((part, _)) if self.members.successor(region).is_some() => {
                self.push_change(region, Change::Put(part));
                if makes(Mistake::GrantUncopied) {
                    self.part_copied(region, key);
                }
            }
            // Alone: there is nobody to copy it.
            _ => self.part_copied(region, key),
        }
    }

    pub(super) fn push_change(&mut self, region: RegionId, change: Change) {
        if let Some(node) = self.members.successor(region) {
            self.push_to(node, change);
        }
    }

    fn push_to(&mut self, node: NodeId, change: Change) {
        let Some(stream) = self.streams.get_mut(&node) else { return };
        stream.changes.push_back(change);
        let first = stream.first + stream.changes.len() as u64 - 1;
        // The rest follows when this much is confirmed.
        if stream.changes.len() <= BATCH && stream.sent + 1 == first {
            stream.sent = first;
            stream.resend_at.get_or_insert(self.now + self.config.resend);
            let changes = stream.changes.back().cloned().into_iter().collect();
            self.push_send(node, LockBody::Replicate { first, changes });
        }
    }

    pub(super) fn send_changes(&mut self, node: NodeId) {
        let Some(stream) = self.streams.get_mut(&node) else { return };
        if stream.changes.is_empty() {
            stream.resend_at = None;
            return;
        }
        stream.resend_at = Some(self.now + self.config.resend);
        let (first, changes): (u64, Vec<Change>) =
            (stream.first, stream.changes.iter().take(BATCH).cloned().collect());
        stream.sent = stream.sent.max(first + changes.len() as u64 - 1);
        self.push_send(node, LockBody::Replicate { first, changes });
    }

    pub(super) fn replicated(&mut self, from: NodeId, through: u64) {
        let mut confirmed = Vec::new();
        let mut more = false;
        if let Some(stream) = self.streams.get_mut(&from) {
            while stream.first <= through
                && let Some(change) = stream.changes.pop_front()
            {
                stream.first += 1;
                confirmed.push(change);
            }
            more = !stream.changes.is_empty() && stream.first > stream.sent;
            if !confirmed.is_empty() {
                let again = self.now + self.config.resend;
                stream.resend_at = (!stream.changes.is_empty()).then_some(again);
            }
        }
        if more {
            self.send_changes(from);
        }
        if self.complete {
            for change in confirmed {
                if let Change::Put(part) = change {
                    self.part_copied(part.region, part.key);
                }
            }
        }
        self.check_complete();
        self.check_settled();
    }

    /// Changes on their way to the region's successor.
    pub(super) fn backlog(&self, region: RegionId) -> usize {
        let stream = self.members.successor(region).and_then(|node| self.streams.get(&node));
        stream.map_or(0, |stream| stream.changes.len())
    }

    /// Every member knows that this home is complete.
    pub(super) fn is_known_complete(&self) -> bool {
        // The streams begin with what the home began with, then the word that it is complete.
        self.complete && self.streams.values().all(Stream::told_complete)
    }
}

impl Stream {
    fn told_complete(&self) -> bool {
        !self.changes.iter().any(|change| matches!(change, Change::Complete))
    }
}
