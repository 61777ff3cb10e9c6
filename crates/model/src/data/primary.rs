//! The primary of one epoch: rules R1 to R6, R9, R13, R17 and R18.

use super::judge::Judge;
use super::message::Granted;
use super::{
    CommandId, Generation, Instance, Medium, Message, Mistake, Network, Node, Nodes, OpenWrite, QueuedWrite,
    Stamp,
};

/// A primary's process. It remembers nothing of earlier epochs but what the journal says.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Primary {
    /// Its number, higher than those of all earlier primaries.
    pub epoch: u8,
    /// The medium's promise to it is not over: it may answer and grant.
    pub right: bool,
    /// Generations that it has given.
    pub generations: u8,
    /// The current card of each node.
    pub cards: [Option<Generation>; 3],
    /// The highest `Attach` of each node that it has answered.
    pub requests: [u8; 3],
    /// Nodes whose earlier cards may still be used: no write begins before they have attached, or their lease is over.
    pub awaited: Nodes,
    /// Writes begun.
    pub count: u8,
    /// The bound of the block.
    pub bound: Stamp,
    /// The epoch of the last write before this epoch.
    pub prior_epoch: u8,
    /// Nodes that wrote in this epoch.
    pub writers: Nodes,
    /// The directory: nodes that may hold the lock.
    pub holders: Nodes,
    /// The turn of each node's last entry in the directory.
    pub turns: [u8; 3],
    /// What it knows of each command.
    pub window: [Slot; 4],
    /// Writes that have not begun, in the order of their arrival.
    pub queue: Vec<QueuedWrite>,
    /// The write that has begun.
    pub open: Option<OpenWrite>,
}

/// What a primary knows of a command.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Slot {
    /// Nothing.
    #[default]
    Unknown,
    /// It is queued or open.
    InHand,
    /// It has a reply.
    Replied(Reply),
}

/// The reply to a command.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Reply {
    /// What became of it.
    pub outcome: super::Outcome,
    /// Its place in the order; zero if it was not applied.
    pub stamp: Stamp,
}

/// What a primary acts upon.
pub(crate) struct Surroundings<'a> {
    pub(crate) medium: &'a mut Medium,
    pub(crate) network: &'a mut Network,
    pub(crate) judge: &'a mut Judge,
    pub(crate) instance: &'a Instance,
}

impl Primary {
    /// The first primary, which has attached all nodes.
    pub(crate) fn first() -> Self {
        let mut primary = Self::new(1, Stamp::default(), Nodes::default());
        primary.generations = 3;
        primary.cards = [1, 2, 3].map(|count| Some(Generation { epoch: 1, count }));
        primary
    }

    /// R6, R28: a primary that knows the journal only.
    pub(crate) fn new(epoch: u8, mark: Stamp, awaited: Nodes) -> Self {
        Self {
            epoch,
            right: true,
            generations: 0,
            cards: [None; 3],
            requests: [0; 3],
            awaited,
            count: 0,
            bound: mark,
            prior_epoch: mark.epoch,
            writers: Nodes::default(),
            holders: Nodes::default(),
            turns: [0; 3],
            window: [Slot::Unknown; 4],
            queue: Vec::new(),
            open: None,
        }
    }

    /// The highest stamp below which all writes are complete.
    #[must_use]
    pub fn through(&self) -> Stamp {
        Stamp { epoch: self.epoch, count: self.count - u8::from(self.open.is_some()) }
    }

    /// Whether this is the card that the primary knows for `node`.
    #[must_use]
    pub fn is_current(&self, node: Node, generation: Generation) -> bool {
        self.cards[node.index()] == Some(generation)
    }

    /// R1: answers a repeated request again, ignores an older one, else replaces the card.
    pub(crate) fn attach(&mut self, node: Node, request: u8, around: &mut Surroundings<'_>) {
        if !self.right || around.medium.epoch != self.epoch {
            return;
        }
        let known = self.requests[node.index()];
        if request > known {
            self.drop_card(node, around);
            self.requests[node.index()] = request;
            self.generations += 1;
            self.cards[node.index()] = Some(Generation { epoch: self.epoch, count: self.generations });
            around.medium.holders.insert(node);
            self.awaited.remove(node);
        }
        if let Some(generation) = self.cards[node.index()].filter(|_| request >= known) {
            around.network.send(Message::Attached { node, request, generation, through: self.through() });
        }
        self.begin_writes(around);
    }

    /// R5: goes on without the card, durably.
    pub(crate) fn drop_card(&mut self, node: Node, around: &mut Surroundings<'_>) {
        if let Some(generation) = self.cards[node.index()].take() {
            around.medium.dropped[node.index()] = Some(generation);
            around.medium.holders.remove(node);
            self.holders.remove(node);
            self.turns[node.index()] = 0;
            if let Some(open) = &mut self.open {
                open.unconfirmed.remove(node);
            }
        }
    }

    /// R6: the lease of an earlier card of `node` is over.
    pub(crate) fn end_grace(&mut self, node: Node, around: &mut Surroundings<'_>) {
        self.awaited.remove(node);
        around.medium.holders.remove(node);
        self.begin_writes(around);
    }

    /// R9: granted at once; the next write asks the card.
    pub(crate) fn acquire(&mut self, node: Node, generation: Generation, turn: u8, network: &mut Network) {
        self.enter(node, turn);
        let (bound, through) = (self.bound, self.through());
        network.send(Message::Granted { node, generation, turn, bound, through });
    }

    /// R20: reads wait while a write is open.
    pub(crate) fn can_read(&self, medium: &Medium) -> bool {
        self.open.is_none() && self.right && medium.epoch == self.epoch
    }

    pub(crate) fn read(&self, node: Node, generation: Generation, medium: &Medium, network: &mut Network) {
        let (contents, through) = (medium.contents, self.through());
        let as_of = Stamp { epoch: self.epoch, count: self.count };
        network.send(Message::Data { node, generation, contents, as_of, through });
    }

    /// R13: a release counts unless the card has acquired again since.
    pub(crate) fn acknowledge(
        &mut self,
        node: Node,
        stamp: Stamp,
        released: Option<u8>,
        instance: &Instance,
    ) {
        if let Some(open) = self.open.as_mut().filter(|open| open.stamp == stamp) {
            open.unconfirmed.remove(node);
        }
        let unordered = instance.makes(Mistake::ReleaseUnordered);
        if released.is_some_and(|turn| turn > self.turns[node.index()] || unordered) {
            self.holders.remove(node);
        }
    }

    /// The directory names the card from now on.
    pub(crate) fn enter(&mut self, node: Node, turn: u8) {
        self.holders.insert(node);
        let known = &mut self.turns[node.index()];
        *known = turn.max(*known);
    }

    /// R4: sends the reply that the window has; what only a current card may hear goes to no other.
    pub(crate) fn reply(
        &self,
        id: CommandId,
        generation: Generation,
        turn: u8,
        around: &mut Surroundings<'_>,
    ) {
        let Slot::Replied(reply) = self.window[id.index()] else { return };
        if !self.right {
            return;
        }
        around.judge.replied(id, self.epoch, reply);
        let locks = self.is_current(id.node, generation) && !around.instance.makes(Mistake::NoCommandLock);
        let granted = locks.then(|| Granted { bound: self.bound, through: self.through() });
        around.network.send(Message::Done { id, generation, turn, reply, granted });
    }
}
