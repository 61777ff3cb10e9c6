//! The card of one node: rules R1 to R3, R8 to R12, R16, R21, R23 and R24 where they bind it.

use super::judge::Judge;
use super::message::Granted;
use super::{
    CommandId, Contents, Generation, Instance, Message, Mistake, Network, Node, Outcome, Reply, Stamp,
};

/// One attachment of a node, and what the node keeps from one attachment to the next.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Card {
    /// None while an `Attach` is in flight.
    pub generation: Option<Generation>,
    /// Number of the last `Attach`.
    pub request: u8,
    /// The epoch that the last `Attach` named.
    pub addressed_to: u8,
    /// The lease of the last `Attach` has not ended.
    pub lease: bool,
    /// The highest stamp below which all writes are complete, by the word of the primary.
    pub heard: Stamp,
    /// The card holds the lock.
    pub held: bool,
    /// Contents older than this are stale. Only while the lock is held.
    pub bound: Stamp,
    /// A copy of the block; parked while the lock is not held.
    pub copy: Option<Contents>,
    /// The stamp that a parked copy is good as of.
    pub parked_as_of: Stamp,
    /// The turn of the open acquire.
    pub acquire: Option<u8>,
    /// Counts acquires, commands and releases.
    pub turn: u8,
    /// The command without a reply.
    pub command: Option<Command>,
    /// A read waits for the contents.
    pub fetching: bool,
    /// Commands or reads that the client has begun.
    pub begun: u8,
}

/// A command without a reply.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Command {
    /// Which.
    pub id: CommandId,
    /// The generation that sent it first.
    pub first: Generation,
    /// The generation that sent it last.
    pub last: Generation,
    /// Another write of the block may have begun since it was sent first.
    pub overtaken: bool,
}

/// Whether a copy may be used, or why not.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Freshness {
    /// The card does not hold the lock.
    NotHeld,
    /// The lease has ended, or the card is not attached.
    LeaseExpired,
    /// A command of the node is in flight.
    BeingWritten,
    /// There is no copy.
    Missing,
    /// It may.
    Fresh,
}

/// What a card acts upon.
pub(crate) struct Surroundings<'a> {
    pub(crate) network: &'a mut Network,
    pub(crate) judge: &'a mut Judge,
    pub(crate) instance: &'a Instance,
}

impl Card {
    /// A card of the first epoch that holds nothing.
    pub(crate) fn new(node: Node) -> Self {
        Self {
            generation: Some(Generation { epoch: 1, count: node.index() as u8 + 1 }),
            request: 0,
            addressed_to: 1,
            lease: true,
            heard: Stamp { epoch: 1, count: 0 },
            held: false,
            bound: Stamp::default(),
            copy: None,
            parked_as_of: Stamp::default(),
            acquire: None,
            turn: 0,
            command: None,
            fetching: false,
            begun: 0,
        }
    }

    /// R8: the one question about a copy.
    #[must_use]
    pub fn freshness(&self, instance: &Instance) -> Freshness {
        if !self.held && !instance.makes(Mistake::UseReleased) {
            Freshness::NotHeld
        } else if !self.lease || self.generation.is_none() {
            Freshness::LeaseExpired
        } else if self.command.is_some() {
            Freshness::BeingWritten
        } else if self.copy.is_none() {
            Freshness::Missing
        } else {
            Freshness::Fresh
        }
    }

    /// R1: suspends and asks the primary of `epoch` for a new card.
    pub(crate) fn attach(&mut self, node: Node, epoch: u8, network: &mut Network) {
        self.let_go();
        self.acquire = None;
        self.generation = None;
        self.request += 1;
        self.addressed_to = epoch;
        self.lease = true;
        network.send(Message::Attach { node, epoch, request: self.request });
    }

    /// R2, R23, R24: a new card holds nothing, and sends again what has no reply.
    pub(crate) fn attached(
        &mut self,
        node: Node,
        generation: Generation,
        through: Stamp,
        around: &mut Surroundings<'_>,
    ) {
        self.generation = Some(generation);
        self.heard = self.heard.max(through);
        if let Some(command) = &mut self.command {
            let same_epoch = command.last.epoch == generation.epoch;
            // Between the two cards another node may have written, and this one was not asked.
            command.overtaken |= same_epoch;
            let refused = command.overtaken && !same_epoch && !around.instance.moves;
            if refused && !around.instance.makes(Mistake::RepeatOvertaken) {
                self.command = None;
            } else {
                self.send_command(generation, around.network);
            }
        }
        self.fetch(node, around.network);
    }

    /// R16: hides the copy and sends the command.
    pub(crate) fn write(&mut self, node: Node, generation: Generation, around: &mut Surroundings<'_>) {
        let id = CommandId { node, slot: self.begun };
        self.begun += 1;
        around.judge.write_begins(id);
        self.copy = None;
        self.command = Some(Command { id, first: generation, last: generation, overtaken: false });
        self.send_command(generation, around.network);
    }

    /// Sends the command in hand, for the first time or again.
    pub(crate) fn send_command(&mut self, generation: Generation, network: &mut Network) {
        if let Some(command) = &mut self.command {
            self.turn += 1;
            if !self.held {
                self.acquire = Some(self.turn);
            }
            command.last = generation;
            network.send(Message::Command {
                id: command.id,
                generation,
                turn: self.turn,
                first: command.first,
            });
        }
    }

    /// A client reads: the copy if it is fresh, else it is fetched.
    pub(crate) fn read(&mut self, node: Node, around: &mut Surroundings<'_>) {
        around.judge.read_begins(self.begun);
        self.begun += 1;
        self.fetching = true;
        self.answer_read(around);
        self.fetch(node, around.network);
    }

    /// R9: asks for what the open read lacks.
    fn fetch(&mut self, node: Node, network: &mut Network) {
        if let Some(generation) = self.generation.filter(|_| self.fetching) {
            if !self.held && self.acquire.is_none() {
                self.turn += 1;
                self.acquire = Some(self.turn);
                network.send(Message::Acquire { node, generation, turn: self.turn });
            }
            if self.copy.is_none() {
                network.send(Message::Read { node, generation });
            }
        }
    }

    /// Answers the open read if the copy is fresh.
    pub(crate) fn answer_read(&mut self, around: &mut Surroundings<'_>) {
        if let Some(contents) =
            self.copy.filter(|_| self.fetching && self.freshness(around.instance) == Freshness::Fresh)
        {
            self.fetching = false;
            around.judge.read_ends(self.begun - 1, contents);
        }
    }

    /// R10: a grant counts for the open acquire.
    pub(crate) fn granted(
        &mut self,
        node: Node,
        turn: u8,
        bound: Stamp,
        through: Stamp,
        around: &mut Surroundings<'_>,
    ) {
        self.heard = self.heard.max(through);
        if self.acquire == Some(turn) || around.instance.makes(Mistake::LateGranted) {
            self.acquire = None;
            self.hold(bound, around.instance);
            self.answer_read(around);
            self.fetch(node, around.network);
        }
    }

    /// R11: a delivery is kept if it is as of the bound or later.
    pub(crate) fn delivered(
        &mut self,
        node: Node,
        contents: Contents,
        as_of: Stamp,
        around: &mut Surroundings<'_>,
    ) {
        let judged = as_of >= self.bound || around.instance.makes(Mistake::DataUnjudged);
        if self.held && self.command.is_none() && self.fetching {
            if judged {
                self.copy = Some(contents);
            }
            self.answer_read(around);
            self.fetch(node, around.network);
        }
    }

    /// R12: the copy goes, the command in hand is overtaken, and the lock goes unless a fetch needs it.
    pub(crate) fn invalidate(&mut self, node: Node, stamp: Stamp, network: &mut Network) {
        let Some(generation) = self.generation else { return };
        self.copy = None;
        if let Some(command) = &mut self.command {
            command.overtaken = true;
        }
        let released = !(self.held && self.fetching);
        if released {
            self.let_go();
            self.acquire = None;
            self.turn += 1;
        } else {
            self.bound = self.bound.max(stamp);
        }
        network.send(Message::InvalidateAck { node, generation, stamp, released, turn: self.turn });
        self.fetch(node, network);
    }

    /// R21: the reply ends the command, and is the grant for its turn.
    pub(crate) fn done(
        &mut self,
        id: CommandId,
        generation: Generation,
        turn: u8,
        reply: Reply,
        granted: Option<Granted>,
        around: &mut Surroundings<'_>,
    ) {
        if let Some(granted) = granted.filter(|_| self.generation == Some(generation)) {
            self.heard = self.heard.max(granted.through);
            if self.acquire == Some(turn) {
                self.acquire = None;
                self.hold(granted.bound, around.instance);
            }
        }
        let late = around.instance.makes(Mistake::LateDone);
        let Some(command) =
            self.command.filter(|command| command.id == id && (command.last == generation || late))
        else {
            return;
        };
        self.command = None;
        if reply.outcome == Outcome::Applied {
            around.judge.write_ends(command.id);
            if self.held {
                self.bound = self.bound.max(reply.stamp);
                if reply.stamp >= self.bound && !command.overtaken {
                    self.copy = Some(Some(command.id));
                }
            }
        }
    }

    /// The card holds the lock from now on; a parked copy is judged.
    fn hold(&mut self, bound: Stamp, instance: &Instance) {
        if self.held {
            self.bound = self.bound.max(bound);
            return;
        }
        if self.parked_as_of < bound && !instance.makes(Mistake::ParkedUnjudged) {
            self.copy = None;
        }
        self.held = true;
        self.bound = bound;
        self.parked_as_of = Stamp::default();
    }

    /// The card holds nothing from now on; a copy is parked.
    fn let_go(&mut self) {
        if self.held {
            self.held = false;
            self.bound = Stamp::default();
            self.parked_as_of = self.heard;
        }
        if self.copy.is_none() {
            self.parked_as_of = Stamp::default();
        }
    }
}
