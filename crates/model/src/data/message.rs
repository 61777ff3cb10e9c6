//! Messages in flight.

use super::{CommandId, Contents, Generation, Node, Reply, Stamp};

/// A message between a card and a primary. Messages of and to a card carry its generation; the epoch in it names the
/// primary.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Message {
    /// Card to primary: a new card.
    Attach { node: Node, epoch: u8, request: u8 },
    /// Primary to card.
    Attached { node: Node, request: u8, generation: Generation, through: Stamp },
    /// Card to primary: wants the lock.
    Acquire { node: Node, generation: Generation, turn: u8 },
    /// Primary to card: the lock, for the acquire of this turn.
    Granted { node: Node, generation: Generation, turn: u8, bound: Stamp, through: Stamp },
    /// Card to primary: wants the contents.
    Read { node: Node, generation: Generation },
    /// Primary to card.
    Data { node: Node, generation: Generation, contents: Contents, as_of: Stamp, through: Stamp },
    /// Card to primary: the write itself. `first` is the generation that sent it first.
    Command { id: CommandId, generation: Generation, turn: u8, first: Generation },
    /// Primary to card: the reply. `granted` is None for a card that is no longer current.
    Done { id: CommandId, generation: Generation, turn: u8, reply: Reply, granted: Option<Granted> },
    /// Primary to card: a write with this stamp begins.
    Invalidate { node: Node, generation: Generation, stamp: Stamp },
    /// Card to primary: the copy is gone, and the lock too if `released`.
    InvalidateAck { node: Node, generation: Generation, stamp: Stamp, released: bool, turn: u8 },
}

impl Message {
    /// A question that has no effect on writes but by its answer, or the grant of a card.
    pub(crate) const fn is_simple(&self) -> bool {
        matches!(self, Self::Attach { .. } | Self::Attached { .. } | Self::Acquire { .. } | Self::Read { .. })
    }
}

/// What a reply tells a current card beside the result.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Granted {
    /// The bound of the block, for the command's turn.
    pub bound: Stamp,
    /// The highest stamp below which all writes are complete.
    pub through: Stamp,
}

/// All messages in flight, in no order.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Network(Vec<Message>);

impl Network {
    /// The messages.
    pub fn messages(&self) -> impl Iterator<Item = Message> {
        self.0.iter().copied()
    }

    /// A message that is already in flight is not sent twice; see `repeats` of the instance.
    pub(crate) fn send(&mut self, message: Message) {
        if let Err(place) = self.0.binary_search(&message) {
            self.0.insert(place, message);
        }
    }

    pub(crate) fn remove(&mut self, message: Message) {
        self.0.retain(|other| *other != message);
    }

    /// Removes messages that would be ignored whenever they came.
    pub(crate) fn retain(&mut self, useful: impl FnMut(&Message) -> bool) {
        self.0.retain(useful);
    }
}
