//! What nodes say to each other, and what it costs.

use cards_core::{Body, BufferId, Input, Instant, Landing, Message, NodeId, Payload};

use super::steps::Held;
use super::{Cluster, ClusterEvent};
use crate::kernel::Kernel;
use crate::setup::Timing;

impl Cluster {
    pub(super) fn send(
        &mut self,
        kernel: &mut Kernel<ClusterEvent>,
        now: Instant,
        shard: u32,
        to: NodeId,
        message: Message,
        payload: Payload,
    ) {
        self.under_way += 1;
        let held = Held { at: now, shard, to, message, payload };
        match self.setup.timing {
            Timing::Serial => self.steps.hold(held),
            Timing::Trace | Timing::Fast => self.cross(kernel, held),
        }
    }

    /// A message leaves.
    fn cross(&mut self, kernel: &mut Kernel<ClusterEvent>, held: Held) {
        let Held { at: now, shard, to, message, payload } = held;
        let from = self.node_of(shard);
        let bytes = match (&message.body, payload) {
            (Body::Command { length, .. }, Payload::Buffer(_)) => u64::from(*length),
            (_, Payload::None) => 0,
            _ => u64::from(self.setup.block_bytes),
        };
        // One at a time, each has crossed before the next leaves.
        let most = if self.setup.timing == Timing::Serial { 0 } else { kernel.model.machine().message_bytes };
        let follows = self.runs[usize::from(from)].adds(kernel.now(), to, &message, bytes, most.into());
        let at = match (follows, bytes) {
            (true, bytes) => kernel.model.send_more(now, from, to.0, bytes),
            (false, 0) => kernel.model.send(now, from, to.0),
            (false, bytes) => kernel.model.send_data(now, from, to.0, bytes),
        };
        kernel.at(at, ClusterEvent::Arrive { to: to.0, from, message, follows });
        // There are no bytes, so they need not wait for the link.
        if let Payload::Slot(slot) = payload {
            self.shards[shard as usize].unpin(slot);
        }
    }

    /// The next message crosses, if all that the last one has led to is done.
    pub(super) fn step(&mut self, kernel: &mut Kernel<ClusterEvent>) {
        if self.setup.timing != Timing::Serial {
            return;
        }
        if let Some(mut held) = self.steps.next(u32::from(self.setup.shards)) {
            held.at = held.at.max(kernel.now());
            let (at, shard) = (held.at, held.shard);
            self.cross(kernel, held);
            self.drain(kernel, at, shard);
        }
    }

    pub(super) fn arrive(
        &mut self,
        kernel: &mut Kernel<ClusterEvent>,
        (from, to): (u16, u16),
        message: Message,
        follows: bool,
    ) {
        let shard = u32::from(to) * u32::from(self.setup.shards) + u32::from(message.shard);
        let now = kernel.now();
        let payload = if message.body.has_payload() {
            match self.shards[shard as usize].landing(NodeId(from), &message) {
                Landing::Slot(slot) => Payload::Slot(slot),
                Landing::Buffer => Payload::Buffer(BufferId(0)),
                Landing::Discard => Payload::None,
            }
        } else {
            Payload::None
        };
        let bytes = match (&message.body, payload) {
            (_, Payload::None) => 0,
            (Body::Command { length, .. }, _) => u64::from(*length),
            _ => u64::from(self.setup.block_bytes),
        };
        let serves = matches!(message.body, Body::Read { .. } | Body::Command { .. });
        let mut ready = match (follows, bytes) {
            (true, bytes) => kernel.model.receive_more(now, to, bytes),
            (false, 0) => kernel.model.receive(now, to),
            (false, bytes) => kernel.model.receive_data(now, to, bytes),
        };
        if serves {
            let service = kernel.model.machine().service;
            ready = kernel.model.work(ready, to, service);
        }
        let input = Input::Message { from: NodeId(from), message, payload };
        self.shards[shard as usize].handle(now, input);
        self.drain(kernel, ready, shard);
    }
}
