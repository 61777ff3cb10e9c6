//! Messages: from the sender's connection through the network model to where their payload lands.

use cards_array::group::Message as GroupMessage;
use cards_core::{ControlInput, Input, Landing, Message, NodeId, Payload};

use super::{Envelope, EnvelopeBody, Event, World};
use crate::memory::Tags;
use crate::models::{Models, Parcel};

impl<M: Models> World<M> {
    pub(super) fn send(&mut self, from: NodeId, to: NodeId, body: EnvelopeBody) {
        assert_ne!(from, to, "a node sends a message to itself");
        let place = self.place(from);
        let Some(to_life) = place.links[usize::from(to.0)] else {
            trace!(self, "{from:?} has no connection to {to:?}");
            return;
        };
        let from_life = place.life;
        let payload_bytes = |tags: &Tags| tags.len() as u32 * self.sector_bytes();
        let parcel = match &body {
            EnvelopeBody::Shard { message, tags } => {
                Parcel::Shard { message, payload_bytes: payload_bytes(tags) }
            }
            EnvelopeBody::Control(message) => Parcel::Control(message),
            EnvelopeBody::Group { volume, message } => {
                let payload_bytes = match &**message {
                    GroupMessage::Put { payload, .. } | GroupMessage::Got { payload, .. } => {
                        payload_bytes(payload)
                    }
                    _ => 0,
                };
                Parcel::Group { volume: *volume, payload_bytes }
            }
        };
        let mut deliveries = std::mem::take(&mut self.deliveries);
        self.models.deliver(self.now, from, to, parcel, &mut deliveries);
        for arrival in deliveries.drain(..) {
            let envelope = Envelope { from, from_life, to, to_life, body: body.clone(), arrival };
            self.events.push(self.now + arrival.delay, Event::Arrive(Box::new(envelope)));
        }
        self.deliveries = deliveries;
    }

    /// A program that has the node's key sends a block message of its own, which has no payload.
    pub fn forge(&mut self, from: NodeId, to: NodeId, message: Message) {
        trace!(self, "{from:?} forges for {to:?} {message:?}");
        self.send(from, to, EnvelopeBody::Shard { message, tags: Tags::new() });
    }

    /// Whether the connection a message was sent on still exists at its receiver.
    pub(super) fn is_connected(&self, envelope: &Envelope) -> bool {
        self.lives(envelope.to, envelope.to_life)
            && self.place(envelope.to).links[usize::from(envelope.from.0)] == Some(envelope.from_life)
    }

    pub(super) fn arrive(&mut self, envelope: Box<Envelope>) {
        if !self.is_connected(&envelope) {
            return;
        }
        let (from, to) = (envelope.from, envelope.to);
        let message = match envelope.body {
            EnvelopeBody::Control(message) => {
                return self.control_input(to, ControlInput::Message { from, message });
            }
            EnvelopeBody::Group { .. } if envelope.arrival.broken => return,
            EnvelopeBody::Group { volume, message } => return self.group_message(to, from, volume, *message),
            EnvelopeBody::Shard { ref message, .. } => message,
        };
        let shard = message.shard;
        if !message.body.has_payload() {
            let input = Input::Message { from, message: message.clone(), payload: Payload::None };
            return self.shard_input(to, shard, input);
        }
        let this = self.shard(to, shard);
        let landing = this.core.landing(from, message);
        if let Landing::Slot(slot) = landing {
            this.memory.fill(slot);
        }
        trace!(self, "{to:?}.{shard} landing from {from:?} of {message:?}: {landing:?}");
        let at = self.now + envelope.arrival.transfer;
        self.events.push(at, Event::Landed { envelope, landing });
        self.drain_shard(to, shard);
    }

    pub(super) fn landed(&mut self, envelope: Envelope, landing: Landing) {
        if !self.lives(envelope.to, envelope.to_life) {
            return;
        }
        let whole = self.is_connected(&envelope) && !envelope.arrival.broken;
        let Envelope { from, to, body: EnvelopeBody::Shard { message, tags }, .. } = envelope else {
            unreachable!("control messages have no payload")
        };
        let shard = message.shard;
        let payload = match landing {
            Landing::Slot(slot) => {
                let memory = &mut self.shard(to, shard).memory;
                if whole {
                    for (sector, tag) in tags.into_iter().enumerate() {
                        memory.fill_sector(slot, sector, tag);
                    }
                }
                memory.filled(slot);
                if !whole {
                    return self.shard_input(to, shard, Input::LandingAborted { slot });
                }
                Payload::Slot(slot)
            }
            _ if !whole => return,
            Landing::Buffer => Payload::Buffer(self.hold(to, shard, tags)),
            Landing::Discard => Payload::None,
        };
        self.shard_input(to, shard, Input::Message { from, message, payload });
    }
}
