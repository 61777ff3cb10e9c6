//! Messages in flight.

use cards_register::{Reply, Request};

use super::Log;

/// A message between a proposer and a node.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Message {
    /// To the node with the store, or that had it.
    Request {
        /// The proposer.
        proposer: usize,
        /// The request.
        request: Request<Log>,
    },
    /// To the proposer.
    Reply {
        /// The proposer.
        proposer: usize,
        /// The reply.
        reply: Reply<Log>,
    },
}

/// All messages in flight, in no order.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Network(Vec<Message>);

impl Network {
    /// The messages.
    pub fn messages(&self) -> impl Iterator<Item = &Message> {
        self.0.iter()
    }

    pub(crate) fn send(&mut self, message: Message) {
        if let Err(place) = self.0.binary_search(&message) {
            self.0.insert(place, message);
        }
    }

    pub(crate) fn remove(&mut self, message: &Message) {
        self.0.retain(|other| other != message);
    }

    /// Removes messages that would be ignored whenever they came.
    pub(crate) fn retain(&mut self, useful: impl FnMut(&Message) -> bool) {
        self.0.retain(useful);
    }
}
