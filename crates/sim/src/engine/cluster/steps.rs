//! One message at a time.

use std::collections::VecDeque;

use cards_core::{Instant, Message, NodeId, Payload};

/// With [`crate::setup::Timing::Serial`], messages cross one at a time, too: what nodes learn of each other depends on the
/// order in which messages arrive, and with the speeds of parts that would be another one on every machine. Here the order
/// does not depend on them, and a cluster of real nodes can be made to do the same.
///
/// A step is what a message (or a request) leads to at its receiver, disk operations included. What is to be sent then
/// goes to the end of the queue, by receiver.
#[derive(Default)]
pub(super) struct Steps {
    queue: VecDeque<Held>,
    /// Of the step under way.
    fresh: Vec<Held>,
    crossing: bool,
    disks: u32,
}

/// A message that waits for its turn.
pub(super) struct Held {
    pub(super) at: Instant,
    pub(super) shard: u32,
    pub(super) to: NodeId,
    pub(super) message: Message,
    pub(super) payload: Payload,
}

impl Steps {
    /// The step under way has a message sent.
    pub(super) fn hold(&mut self, held: Held) {
        self.fresh.push(held);
    }

    /// The message that crosses now, if all that the last one has led to is done. Each node has so many shards.
    pub(super) fn next(&mut self, shards: u32) -> Option<Held> {
        if self.crossing || self.disks > 0 {
            return None;
        }
        self.fresh.sort_by_key(|held| (held.shard / shards, held.to));
        self.queue.extend(self.fresh.drain(..));
        let held = self.queue.pop_front();
        self.crossing = held.is_some();
        held
    }

    /// The message has arrived.
    pub(super) const fn crossed(&mut self) {
        self.crossing = false;
    }

    /// A disk begins to work for the step.
    pub(super) const fn disk_begins(&mut self) {
        self.disks += 1;
    }

    /// A disk is done.
    pub(super) const fn disk_ends(&mut self) {
        self.disks -= 1;
    }
}
